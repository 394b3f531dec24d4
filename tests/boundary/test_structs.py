"""Columns of structs at the boundaries: types, rows in by position and by name, what is refused, and how they print."""

import dataclasses
import datetime as dt
import json
import typing

import attrs
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.running import new_flow
from support.tables import read_back

import tidemill as tm
from tidemill.errors import RowError, SchemaError
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import dtype

S = "struct<a: int64, b: string>"
SCHEMA = Schema.of({"k": "int64", "s": S})


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("STRUCT<a:bigint,b STRING>", S), (" struct < a : int64 , b : string > ", S),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), S), ("struct<A: int64>", "struct<A: int64>"),
        ("struct<`a b`: int64, `c``:,`: bool>", "struct<`a b`: int64, `c``:,`: bool>"),
        ("struct<a: decimal(5, 2), b: list<struct<c: array<date>>>>",
         "struct<a: decimal(5,2), b: list<struct<c: list<date>>>>"),
        (pa.list_(pa.struct([("a", pa.large_string())])), "list<struct<a: string>>"),
    ],
)  # fmt: skip
def test_types(spec, name):
    found = dtype(spec)
    assert str(found) == name
    assert dtype(found.arrow) == dtype(name) == found
    assert found.is_nested and not found.is_numeric


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("struct<>", "'' is no field"), ("struct<a>", "'a' is no field, such as 'name: int64'"),
        ("struct<a: int64, a: string>", "each of a name of its own"), ("struct<a: itn64>", "did you mean 'int64'"),
        ("struct", "did you mean 'struct<a: T>'"), (pa.struct([]), "a struct of nothing"),
        ("struct<a: " * 200 + "int64" + ">" * 200, "nested at most 100 deep"),
        ("struct<a: int64", "is not a column type"), ("struct<a: int64>>", "is not a column type"),
    ],
)  # fmt: skip
def test_no_types(spec, message):
    with pytest.raises(SchemaError, match=message):
        dtype(spec)


@dataclasses.dataclass
class Plain:
    b: str | None
    a: int | None


@attrs.frozen
class Attrs:
    a: int | None
    b: str | None


class Named(typing.NamedTuple):
    b: str | None
    a: int | None


VALUES = [(1, "x"), (2, None), None, (None, None)]
ROWS = list(enumerate(VALUES))
TABLE = pa.table({
    "k": range(4),
    "s": pa.array([None if v is None else {"a": v[0], "b": v[1]} for v in VALUES], dtype(S).arrow),
})  # fmt: skip
SWAPPED = pa.struct([("b", pa.large_string()), ("a", pa.int8())])


def each(make):
    return [(k, None if v is None else make(*v)) for k, v in ROWS]


IN = {
    "tuples": ROWS,
    "lists": each(lambda a, b: [a, b]),
    "dicts": each(lambda a, b: {"b": b, "a": a}),
    "dataclasses": each(lambda a, b: Plain(b, a)),
    "attrs": each(Attrs),
    "named tuples go by name": each(lambda a, b: Named(b, a)),
    "json": [json.loads(line) for line in ('{"k": 0, "s": {"a": 1, "b": "x"}}', '{"s": {"b": null, "a": 2}, "k": 1}',
                                           '{"k": 2, "s": null}', '{"k": 3, "s": {"a": null, "b": null}}')],
    "arrow": TABLE,
    "other order, other types": TABLE.set_column(1, "s", pa.array(
        [None if v is None else {"a": v[0], "b": v[1]} for v in VALUES], SWAPPED)),
    "chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 2), TABLE.slice(3)]),
    "pandas": pd.DataFrame({"k": range(4), "s": [None if v is None else {"a": v[0], "b": v[1]} for v in VALUES]}),
    "polars": pl.from_arrow(TABLE),
    "duckdb": lambda: duckdb.sql("FROM (VALUES (0, {'a': 1, 'b': 'x'}), (1, {'a': 2, 'b': NULL}), (2, NULL), "
                                 "(3, {'a': NULL, 'b': NULL})) t(k, s)"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN)
def test_in(name):
    given = IN[name]
    assert read_back(SCHEMA, given() if callable(given) else given) == ROWS


def test_parquet(tmp_path):
    pa.parquet.write_table(TABLE, tmp_path / "x.parquet")
    assert read_back(SCHEMA, tm.read_parquet(tmp_path / "x.parquet")) == ROWS
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", like=tm.read_parquet(tmp_path / "x.parquet")))
    assert flow.graph.inputs["x"].schema.dtypes == SCHEMA.dtypes


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, r"5 \(int\) is not a valid struct<a: int64, b: string>"), ("ab", r"\(str\) is not a valid struct"),
        ((1,), "it has 1 values"), ((1, "x", 2), "it has 3 values"), ({"a": 1}, r"its fields are \['a'\]"),
        ({"a": 1, "b": "x", "c": 2}, "its fields are"), ((1, 2), r"field 'b', 2 \(int\), is not a valid string"),
        ((2**63, "x"), "field 'a', 9223372036854775808 .*: overflow"),
        ({"a": float("nan"), "b": "x"}, "field 'a', nan .*NaN is a value of float64 alone"),
    ],
)  # fmt: skip
def test_what_is_no_such_struct_is_refused(value, message):
    with pytest.raises(RowError, match=message):
        read_back(SCHEMA, [(1, value)])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([{"a": 1}]), "expected struct<a: int64, b: string>"),
        (pa.array([{"a": 1, "b": "x", "c": 1}]), "expected struct"),
        (pa.array([{"a": "x", "b": "x"}]), "expected struct"),
        (pa.array([None, {"a": 1.5, "b": "x"}]), "row 1: column s"),
        (pa.array([None, {"a": -(2**63), "b": "x"}]), "row 1: column s: .* is not a valid int64 here"),
    ],
)
def test_columns_that_are_no_such_structs_are_refused(column, message):
    with pytest.raises(RowError, match=message):
        read_back(SCHEMA, pa.table({"k": range(len(column)), "s": column}))


def test_out_and_printed():
    flow = new_flow()
    flow.output("out", flow.input("x", SCHEMA))
    with flow.start() as run:
        run.insert("x", ROWS)
        run.advance()
        found = run.snapshot("out")
        assert list(found) == ROWS
        assert found.counts() == dict.fromkeys(ROWS, 1)
        assert found.to_arrow().equals(TABLE)
        assert found.to_polars()["s"].to_list()[0] == {"a": 1, "b": "x"}
        assert found.to_pandas()["s"].tolist() == TABLE.column("s").to_pylist()
        assert duckdb.sql("SELECT k, s.b FROM found").fetchall() == [(0, "x"), (1, None), (2, None), (3, None)]
        assert str(found).splitlines()[2:] == ["0  [1, x]", "1  [2, NULL]", "2  NULL", "3  [NULL, NULL]"]


def test_they_sort_by_their_values():
    ordered = [None, (None, None), (None, "a"), (-1, "z"), (1, None), (1, ""), (2, "a")]
    assert [s for _, s in read_back(SCHEMA, [(0, v) for v in ordered[::-1]])] == ordered[::-1]
    flow = new_flow()
    flow.output("out", flow.input("x", {"s": S}))
    for copies in (1, 40):  # few rows and many are sorted by different ways
        with flow.start() as run:
            run.insert("x", [(v,) for v in ordered[::-1]] * copies)
            run.advance()
            assert list(run.changes("out"))[: len(ordered)] == [((v,), 0, copies) for v in ordered]


def test_a_key_of_upserts_and_feeds():
    flow = new_flow()
    flow.output("out", flow.input("x", SCHEMA, key="s"))
    with flow.start() as run:
        run.upsert("x", [(1, (1, "x")), (2, {"a": 2, "b": None})])
        run.advance()
        run.upsert("x", [(3, {"b": "x", "a": 1})])
        run.delete("x", [((2, None),)])
        run.advance()
        assert list(run.snapshot("out")) == [(3, (1, "x"))]
        feed = run.changes("out").to_feed("s")
        assert feed.column("op").to_pylist() == ["insert", "insert", "delete", "update"]


def test_feeds_of_other_systems():
    flow = new_flow()
    flow.output(
        "out", flow.input("x", {"k": "int64", "s": "struct<a: date, l: list<struct<d: decimal(5,2)>>>"}, key="k")
    )
    with flow.start() as run:
        run.apply("x", [{"op": "c", "before": None, "after": {"k": 1, "s": {"a": "2024-02-29", "l": [{"d": "1.5"}]}}}],
                  format="debezium")  # fmt: skip
        run.advance()
        ((_, (day, ((number,),))),) = run.snapshot("out")
    assert (str(day), str(number)) == ("2024-02-29", "1.50")


def test_a_struct_of_a_class():
    @dataclasses.dataclass
    class Order:
        id: int
        of: Attrs | None
        lines: list[Named | None]

    flow = tm.Dataflow()
    flow.output("x", flow.input("x", like=Order))
    of = "struct<a: int64, b: string>"
    assert [str(f) for f in flow.graph.inputs["x"].schema] == [
        "id: int64 not null", f"of: {of}", "lines: list<struct<b: string, a: int64>> not null"
    ]  # fmt: skip
    with flow.start() as run:
        run.insert("x", [Order(1, Attrs(2, "x"), [Named("y", 3)])])
        run.advance()
        assert list(run.snapshot("x")) == [(1, (2, "x"), (("y", 3),))]


@dataclasses.dataclass
class Node:
    inner: "Node | None"


def test_a_class_that_holds_itself_is_no_struct():
    with pytest.raises(SchemaError, match="like=Node: its fields hold values of its own class"):
        tm.Dataflow().input("x", like=Node)


def test_uuids_within_are_checked_and_written_in_one_way_from_tables_too():
    flow = tm.Dataflow()
    a, b = (flow.input(name, {"s": "struct<u: uuid>"}) for name in "ab")
    flow.output("both", a.join(b, on="s"))
    upper = "ABCDEFAB-0000-0000-0000-000000000001"
    with flow.start() as run:
        run.insert("a", [{"s": {"u": upper}}])
        run.insert("b", pa.table({"s": pa.array([{"u": upper}])}))
        run.advance()
        assert len(list(run.snapshot("both"))) == 1
        with pytest.raises(RowError, match="uuid"):
            run.insert("b", pa.table({"s": pa.array([{"u": "junk"}])}))


def test_a_struct_of_nulls_alone_has_no_type():
    flow = tm.Dataflow()
    rows = flow.input("x", {"i": "int64"}).select(n=tm.lit(None)).select(k="named_struct('p', n)")
    with pytest.raises(SchemaError, match="struct of NULLs alone"):
        flow.output("o", rows)


@pytest.mark.parametrize("text", ["1 day", "1", "1-2", "10:00:00", "2020-01-01"])
def test_texts_that_are_no_intervals_are_null_when_tried(text):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"s": "string"}).select(r="try_cast(s as interval)"))
    with flow.start() as run:
        run.insert("x", [(text,)])
        run.advance()
        assert list(run.snapshot("o")) == [(None,)]


def test_literals_of_intervals_are_hashed_and_put_into_structs_as_columns_are():
    flow = tm.Dataflow()
    rows = flow.input("x", {"i": "int64", "d": "interval"})
    flow.output("o", rows.select(same="xxhash64(i, d) = xxhash64(i, INTERVAL 1 DAY)", s="struct(INTERVAL 1 DAY AS d)"))
    with flow.start(tm.Reference()) as reference, flow.start() as run:
        for one in (reference, run):
            one.insert("x", [(1, dt.timedelta(days=1))])
            one.advance()
            assert list(one.snapshot("o")) == [(True, (dt.timedelta(days=1),))]
    for text in ("xxhash64(INTERVAL 1 MONTH)", "struct(INTERVAL 1 MONTH AS m)"):
        with pytest.raises(SchemaError, match="interval of months"):
            rows.select(r=text)
