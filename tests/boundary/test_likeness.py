"""Inputs with the schema of what is at hand, and rows that have more columns than that."""

import dataclasses
import datetime as dt
from typing import NamedTuple

import attrs
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import RowError, SchemaError

ROWS = [(1, "a", 0.5, dt.date(2026, 3, 1), dt.datetime(2026, 3, 1, 12)), (2, None, None, None, None)]
TABLE = pa.table(
    list(zip(*ROWS, strict=True)),
    schema=pa.schema(
        {"i": pa.int64(), "s": pa.string(), "f": pa.float64(), "d": pa.date32(), "t": pa.timestamp("us")}.items()
    ),
)
SAME = "(i: int64, s: string, f: float64, d: date, t: timestamp)"


@dataclasses.dataclass
class Data:
    i: int
    s: str | None
    f: float | None
    d: dt.date | None
    t: dt.datetime | None


@attrs.frozen
class Attrs:
    i: int
    s: str | None
    f: float | None
    d: dt.date | None
    t: dt.datetime | None


class Named(NamedTuple):
    i: int
    s: str | None
    f: float | None
    d: dt.date | None
    t: dt.datetime | None


CLASSES = [Data, Attrs, Named]


def loaded(like, rows, **options):
    flow = tm.Dataflow()
    found = flow.input("x", like=like, **options)
    flow.output("x", found)
    with flow.start() as run:
        run.insert("x", rows)
        run.advance()
        return str(found.schema), list(run.snapshot("x"))


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t, pl.from_arrow, lambda t: t.schema, lambda t: t.to_batches()[0], ds.dataset,
        lambda t: duckdb.from_arrow(t), lambda t: t.to_pandas(),
        lambda t: t.set_column(1, "s", pa.array(["a", None], pa.large_string()).dictionary_encode()),
        lambda t: t.set_column(4, "t", t.column("t").cast(pa.timestamp("ns"))),
    ],
    ids=["arrow", "polars", "schema", "batch", "dataset", "duckdb", "pandas", "dictionary", "nanoseconds"],
)  # fmt: skip
def test_a_table(make):
    like = make(TABLE)
    assert loaded(like, TABLE) == (SAME, ROWS)
    if not isinstance(like, (pa.Schema, ds.Dataset)):
        assert loaded(like, make(TABLE))[1] == ROWS


@pytest.mark.parametrize("kind", CLASSES)
def test_a_class(kind):
    assert loaded(kind, [kind(*row) for row in ROWS]) == (SAME.replace("i: int64", "i: int64 not null"), ROWS)


def test_a_pydantic_model():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", i=(int, ...), s=(str | None, None), many=(list[int], ...))
    schema, rows = loaded(model, [model(i=1, many=[2])])
    assert (schema, rows) == ("(i: int64 not null, s: string, many: list<int64> not null)", [(1, None, (2,))])


def test_files_and_other_collections(tmp_path):
    pq.write_table(TABLE, tmp_path / "1.parquet")
    pq.write_table(TABLE.slice(1), tmp_path / "2.parquet")
    files = tm.read_parquet(tmp_path / "*.parquet")
    assert loaded(files, files) == (SAME, [*ROWS, ROWS[1]])
    renamed = tm.read_parquet(tmp_path / "1.parquet", columns={"number": "i"})
    assert loaded(renamed, renamed)[0] == SAME.replace("i:", "number:")
    flow = tm.Dataflow()
    first = flow.input("x", {"a": "decimal(10,2) not null"}).select("a", b="a * 2")
    assert str(flow.input("y", like=first).schema) == str(first.schema)


class Odd:
    pass


@dataclasses.dataclass
class Either:
    a: int | str


@dataclasses.dataclass
class Unknown:
    a: Odd


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected a schema or like=, neither is given"),
        ({"schema": {"a": "int64"}, "like": TABLE}, "both are given"),
        ({"like": [(1,)]}, "expected a table, a schema of Arrow's"),
        ({"like": Odd}, "expected a dataclass"),
        ({"like": Either}, "field 'a' is int | str: expected one type"),
        ({"like": Unknown}, "field 'a': .* is not a column type"),
        ({"like": pd.DataFrame({"a": [{}]})}, "give the schema itself"),
        ({"like": tm.read_parquet("nowhere.parquet")}, "nowhere.parquet"),
        ({"schema": {"a": "int64"}, "extra": "drop"}, "expected 'refuse' or 'ignore'"),
    ],
)
def test_what_is_like_nothing(options, message):
    flow = tm.Dataflow()
    with pytest.raises((SchemaError, RowError), match=message.replace("|", r"\|")):
        flow.input("x", **options)
    assert not flow.graph.inputs


MORE = {"i": [1, 2], "more": ["x", "y"], "s": ["a", None]}


@pytest.mark.parametrize(
    "rows",
    [
        pa.table(MORE), pd.DataFrame(MORE), pl.DataFrame(MORE), pa.table(MORE).to_pylist(),
        [(1, "a"), {"i": 2, "s": None, "more": "y"}],
    ],
    ids=["arrow", "pandas", "polars", "dicts", "mixed"],
)  # fmt: skip
def test_columns_that_nobody_asked_for_are_left_out(engine, rows):
    flow = tm.Dataflow()
    for extra in ("ignore", "refuse"):
        flow.output(extra, flow.input(extra, {"i": "int64", "s": "string"}, extra=extra))
        flow.output(
            f"{extra} by key", flow.input(f"{extra} by key", {"i": "int64", "s": "string"}, key="i", extra=extra)
        )
    with start(flow, engine) as run:
        for name in ("refuse", "refuse by key"):
            with pytest.raises(RowError, match="more"):
                run.insert(name, rows)
        run.insert("ignore", rows)
        run.upsert("ignore by key", rows)
        run.apply("ignore by key", [{"op": "d", "i": 2, "more": 1}, {"op": "u", "i": 1, "s": "b", "more": 2}])
        run.advance()
        assert list(run.snapshot("ignore")) == [(1, "a"), (2, None)]
        assert list(run.snapshot("ignore by key")) == [(1, "b")]
        with pytest.raises(RowError):
            run.insert("ignore", [{"i": 1, "more": 2}])  # what lacks is no extra


def test_state_does_not_depend_on_it(tmp_path):
    for extra in ("refuse", "ignore"):
        flow = tm.Dataflow("x")
        flow.output("n", flow.input("x", {"i": "int64"}, extra=extra).count("n"))
        with flow.start(tm.Embedded(state=tmp_path)) as run:
            run.insert("x", [(1,)])
            run.advance()
            assert len(run.snapshot("n")) == 1


def test_the_moments_of_a_pydantic_model():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", t=(pydantic.AwareDatetime, ...), n=(pydantic.NaiveDatetime | None, None))
    flow = tm.Dataflow()
    assert str(flow.input("x", like=model).schema) == "(t: timestamptz not null, n: timestamp)"


@pytest.mark.parametrize("partitions", [[], ["s"]])
def test_folders_and_urls_of_parquet_files(tmp_path, partitions):
    """What `tm.read_parquet` reads, it has the schema of."""
    fsspec = pytest.importorskip("fsspec")
    table = TABLE.select(["i", "s"]).slice(0, 1)
    ds.write_dataset(table, tmp_path / "in", format="parquet", partitioning=partitions, partitioning_flavor="hive")
    there = tm.read_parquet(tmp_path / "in")
    assert loaded(there, there) == ("(i: int64, s: string)", [(1, "a")])
    with pytest.raises(RowError, match=r"like=, folder '.*': there are no Parquet files in it"):
        (tmp_path / "none").mkdir()
        loaded(tm.read_parquet(tmp_path / "none"), [])
    with fsspec.open("memory://likeness/1.parquet", "wb") as file:
        pq.write_table(table, file)
    url = tm.read_parquet("memory://likeness/1.parquet")
    assert loaded(url, url)[1] == [(1, "a")]


def test_a_scanner():
    scanner = ds.dataset(TABLE).scanner(columns=["i", "s"])
    assert loaded(scanner, ds.dataset(TABLE).scanner(columns=["i", "s"]))[1] == [(1, "a"), (2, None)]
    with pytest.raises(RowError, match="the table has columns"):
        loaded(TABLE, ds.dataset(TABLE).scanner(columns=["i", "s"]))


def test_a_lazy_frame_is_to_be_collected():
    with pytest.raises(SchemaError, match="like= is a LazyFrame, which has no rows yet"):
        loaded(pl.LazyFrame({"i": [1]}), [])
