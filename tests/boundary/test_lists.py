"""Columns of lists, and of structs in them, at the boundaries: types, rows in and out, what is refused, and prints."""

import datetime as dt
import decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.running import new_flow, start
from support.tables import read_back

import tidemill as tm
from tidemill.boundary.values import NAN
from tidemill.errors import RowError, SchemaError
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import dtype

INTS = Schema.of({"k": "int64", "l": "list<int64>"})


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (list[int], "list<int64>"), (list[list[str]], "list<list<string>>"), ("array<bigint>", "list<int64>"),
        ("list< decimal(6, 2) >", "list<decimal(6,2)>"), (pa.list_(pa.int32()), "list<int32>"),
        (pa.large_list(pa.large_string()), "list<string>"), (pa.list_(pa.float32(), 2), "list<float64>"),
        (pa.list_view(pa.date32()), "list<date>"), (list[dt.date], "list<date>"),
    ],
)  # fmt: skip
def test_types(spec, name):
    found = dtype(spec)
    assert str(found) == name
    assert dtype(found.arrow) == dtype(name) == found
    assert found.is_list and not found.is_numeric and found.element is not None


@pytest.mark.parametrize(
    ("spec", "message"),
    [(list, r"say of what, as in list\[int\]"), ("list<itn64>", "did you mean 'int64'"), ("list", "did you mean 'list<T>'"),
     (pa.list_(pa.struct([])), "a struct of nothing"), (pa.map_(pa.string(), pa.int8()), "lists or structs of these")],
)  # fmt: skip
def test_no_types(spec, message):
    with pytest.raises(SchemaError, match=message):
        dtype(spec)


ROWS = [(1, (1, None)), (2, ()), (3, None), (4, (5,))]
TABLE = pa.table({"k": [1, 2, 3, 4], "l": pa.array([[1, None], [], None, [5]], pa.list_(pa.int64()))})
IN = {
    "tuples": ROWS,
    "lists": [(k, l if l is None else list(l)) for k, l in ROWS],
    "dicts": [{"k": k, "l": l} for k, l in ROWS],
    "arrays": [(k, l if l is None or None in l else np.array(l, np.int64)) for k, l in ROWS],
    "arrow": TABLE,
    "narrow": TABLE.cast(pa.schema([("k", pa.int8()), ("l", pa.large_list(pa.int16()))])),
    "views": TABLE.set_column(1, "l", pa.array([[1, None], [], None, [5]], pa.list_view(pa.int64()))),
    "chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 2), TABLE.slice(3)]),
    "pandas": pd.DataFrame({"k": [1, 2, 3, 4], "l": [[1, None], [], None, np.array([5])]}),
    "polars": pl.from_arrow(TABLE),
    "duckdb": lambda: duckdb.sql("SELECT * FROM (VALUES (1, [1, NULL]), (2, []), (3, NULL), (4, [5])) t(k, l)"),
}


@pytest.mark.parametrize("name", IN)
def test_in(name):
    given = IN[name]
    assert read_back(INTS, given() if callable(given) else given) == ROWS


def test_no_list_at_all_is_null():
    assert read_back(INTS, pa.table({"k": [1], "l": pa.nulls(1)})) == [(1, None)]


OF_KINDS: dict[str, list[Any]] = {
    "list<float64>": [(0.0, NAN, None), (float("inf"),)], "list<string>": [("", "ä", None)], "list<bool>": [(True, None)],
    "list<binary>": [(b"\x00", b"")], "list<date>": [(dt.date(2024, 2, 29), None)],
    "list<timestamp>": [(dt.datetime(1969, 12, 31, 23, 59, 59, 999999),)], "list<int32>": [(-1, None)],
    "list<decimal(6,2)>": [(decimal.Decimal("1.50"), None)], "list<decimal(30,2)>": [(decimal.Decimal("1.50"), None)],
    "list<list<int64>>": [((1, None), None, ())], "list<list<list<string>>>": [((("a",), None), ())],
    "struct<a: int64, b: string>": [(1, "x"), (1, None), (None, None)],
    "struct<a: float64>": [(0.0,), (NAN,), (None,)],
    "struct<l: list<int64>, m: list<int64>>": [((1, 2), (3, 4)), ((), None)],
    "struct<`a b`: struct<a: date, d: decimal(30,2)>, c: bool>": [((dt.date(2024, 2, 29), decimal.Decimal("1.50")), True),
                                                                  ((None, None), None), (None, False)],
    "list<struct<a: int32, b: binary>>": [((1, b"x"), None, (None, None))],
    "list<list<struct<t: timestamp>>>": [(((dt.datetime(2024, 2, 29),),), None, ())],
}  # fmt: skip


@pytest.mark.parametrize("kind", OF_KINDS)
def test_through_a_run(engine, kind):
    """Few rows go one way into the engine and many another; both as keys of groups and of joins."""
    flow = new_flow()
    x = flow.input("x", {"l": kind})
    flow.output("n", x.count("n").filter("n > 1"))
    flow.output("pairs", x.distinct().join(x.select("l", m="l"), on="l", nulls_equal=True).distinct())
    lists = [*[()] * (dtype(kind).element is not None), None, *OF_KINDS[kind]]
    with start(flow, engine) as run:
        run.insert("x", [(l,) for l in lists])
        run.insert("x", [(l,) for l in lists for _ in range(20)])
        run.advance()
        found = run.snapshot("n")
        assert found.counts() == {(l, 21): 1 for l in lists}
        assert len(run.snapshot("pairs")) == len(lists)
        table = found.to_arrow()
        assert table.schema.field("l").type == dtype(kind).arrow
        assert repr(read_back(Schema.of({"l": kind, "n": "int64"}), table)) == repr(list(found))


def test_equal_inside(engine):
    """NULL equals NULL, NaN equals NaN and -0.0 equals 0.0, inside of lists too."""
    flow = new_flow()
    x = flow.input("x", {"l": "list<float64>"})
    flow.output("n", x.count("n"))
    flow.output(
        "equal", x.select("l", m="l").distinct().filter("l = m AND l <=> m AND l IN (m) AND NOT l < m").count("n")
    )
    with start(flow, engine) as run:
        run.insert("x", [((0.0, float("nan"), None),), ((-0.0, -float("nan"), None),), ((None, 0.0),)])
        run.insert("x", pa.table({"l": pa.array([[-0.0, float("nan"), None]])}))
        run.advance()
        assert repr(run.snapshot("n").counts()) == "{((None, 0.0), 1): 1, ((0.0, nan, None), 3): 1}"
        assert len(run.snapshot("equal")) == 2


def test_out_and_printed():
    flow = new_flow()
    flow.output("out", flow.input("x", INTS))
    with flow.start() as run:
        run.insert("x", ROWS)
        run.advance()
        found = run.snapshot("out")
        assert list(found) == ROWS
        assert found.counts() == dict.fromkeys(ROWS, 1)
        assert found.to_arrow().equals(TABLE)
        assert found.to_polars().rows() == [(k, None if l is None else list(l)) for k, l in ROWS]
        assert duckdb.sql("SELECT k, len(l) FROM found").fetchall() == [(1, 2), (2, 0), (3, None), (4, 1)]
        assert [None if l is None else len(l) for l in found.to_pandas()["l"]] == [2, 0, None, 1]
        assert str(found).splitlines()[2:] == ["1  [1, NULL]", "2  []", "3  NULL", "4  [5]"]
        assert '<td style="text-align: left">[1, NULL]</td>' in found.to_html()
        assert str(run.changes("out")).splitlines()[2] == "1  [1, NULL]  0     +1"


def test_times_are_no_lists():
    """Times of several coordinates print as they are given. (Like lists they are tuples.)"""
    flow = new_flow(2)
    flow.output("out", flow.input("x", {"l": "list<int64>"}))
    with flow.start() as run:
        run.update("x", [(((1, 2),), (0, 1), 1)])
        run.close_inputs()
        assert str(run.changes("out")).splitlines()[2] == "[1, 2]  (0, 1)  +1"


def test_lists_sort_by_their_values():
    flow = new_flow()
    flow.output("out", flow.input("x", {"l": "list<int64>"}))
    ordered = [(None,), ((),), ((None, 9),), ((-1,),), ((1,),), ((1, None),), ((1, 0),), ((2,),)]
    with flow.start() as run:
        run.insert("x", ordered[::-1])
        run.advance()
        assert list(run.snapshot("out")) == ordered


def test_a_key_of_upserts_and_feeds():
    flow = new_flow()
    x = flow.input("x", INTS, key="l")
    flow.output("out", x)
    with flow.start() as run:
        run.upsert("x", [(1, [1, 2]), (2, [])])
        run.upsert("x", [(3, [1, 2])])
        run.advance()
        run.upsert("x", [(4, [1, 2])])
        run.delete("x", [([],)])
        run.advance()
        assert list(run.snapshot("out")) == [(4, (1, 2))]
        feed = run.changes("out").to_feed("l")
        assert feed.column("op").to_pylist() == ["insert", "insert", "delete", "update"]


WRONG = {
    "no list": ([(1, 5)], r"row 0 \(1, 5\): column l: list<int64>: 5 \(int\) is not a valid list<int64>"),
    "text": ([(1, "ab")], r"'ab' \(str\) is not a valid list<int64>"),
    "a wrong value": ([(1, [1, "a"])], r"value 1, 'a' \(str\), is not a valid int64"),
    "too large": ([(1, [2**63])], r"value 0, 9223372036854775808 \(int\), is not a valid int64: overflow"),
    "arrow of others": (
        pa.table({"k": [1], "l": [["a"]]}),
        "Arrow type list<item: string>, expected list<item: int64>",
    ),
    "the pattern of NULL": (
        pa.table({"k": [1, 2], "l": [[], [1, -(2**63)]]}),
        "row 1: column l: .* is not a valid int64 here",
    ),
    "of lists": (pa.table({"k": [1], "l": [[[1]]]}), "expected list"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_list_of_these_is_refused(name):
    data, message = WRONG[name]
    with pytest.raises(RowError, match=message):
        read_back(INTS, data)


def test_lossy_values_are_refused_with_their_row():
    table = pa.table({"l": pa.array([[1.0], [1.5, None]], pa.list_(pa.float64()))})
    with pytest.raises(RowError, match="row 1: column l: list<int32>: Float value 1.500000 was truncated"):
        read_back(Schema.of({"l": "list<int32>"}), table)
    wide = pa.table({"l": [[1], [2, 2**40]]})
    with pytest.raises(RowError, match="row 1: column l"):
        read_back(Schema.of({"l": "list<int32>"}), wide)


def test_csv_has_no_lists(tmp_path):
    (tmp_path / "x.csv").write_text("k,l\n1,2\n")
    with pytest.raises(RowError, match="CSV has no lists and structs"):
        read_back(INTS, tm.read_csv(tmp_path / "x.csv"))


BIG = 2**53 + 1
WITH_NULLS: dict[str, list[Any]] = {
    "list<int64>": [(BIG, None), (BIG,), (), None, (-BIG, 2**63 - 1)],
    "list<int32>": [(2**31 - 1, None), (1,)],
    "list<bool>": [(True, None), (False,)],
    "list<list<int64>>": [((BIG, None), None, (1,), ()), ((BIG,),), (), None],
    "list<list<list<int64>>>": [(((None, BIG),), None), (((BIG,),),), ((), (None, ()))],
    "list<decimal(38,0)>": [(decimal.Decimal(BIG), None)],
    "list<timestamp>": [(dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None), (dt.datetime(1, 1, 1),)],
    "list<date>": [(dt.date(9999, 12, 31), None), (dt.date(1, 1, 1),)],
    "struct<a: int64, b: bool, c: date>": [(BIG, None, None), (None, True, dt.date(9999, 12, 31)), None],
    "struct<a: list<int64>, b: struct<c: int64>>": [((BIG, None), (None,)), (None, (BIG,))],
    "list<struct<a: int64>>": [((BIG,), (None,), None), ()],
}


@pytest.mark.parametrize("reading", ["snapshot", "changes"])
@pytest.mark.parametrize("kind", WITH_NULLS)
def test_a_null_among_values_changes_none_of_them_in_frames_of_pandas(engine, kind, reading):
    """Where pandas has no NULL for a type, no value becomes one of another type that holds less: in lists as in columns.

    And the frame comes in again as what it was.
    """
    flow = new_flow()
    flow.output("x", flow.input("x", {"k": "int64", "l": kind}))
    with start(flow, engine) as run:
        rows = list(enumerate(WITH_NULLS[kind]))
        run.insert("x", rows)
        run.advance()
        frame = getattr(run, reading)("x").to_pandas()
    found = frame["l"].map(plain).tolist()
    assert repr(found) == repr(WITH_NULLS[kind])
    assert read_back(Schema.of({"k": "int64", "l": kind}), frame[["k", "l"]]) == rows


def test_lists_of_numbers_without_null_are_arrays_of_these():
    given = pa.table({"l": pa.array([[1, 2], [3], []]), "m": pa.array([[1.0, None], None, []], pa.list_(pa.float64()))})
    flow = new_flow()
    flow.output("x", flow.constant({"l": "list<int64>", "m": "list<float64>"}, given))
    frame = flow.start().snapshot("x").to_pandas()
    assert {v.dtype for v in frame["l"]} == {np.dtype("int64")}
    assert {v.dtype for v in frame["m"] if v is not None} == {np.dtype("float64")}


def plain(value: Any) -> Any:
    """Return what is in an array of pandas as Python's values, numbers as they are."""
    if isinstance(value, dict):
        return tuple(map(plain, value.values()))
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, np.ndarray):
        return tuple(plain(v) for v in (value if value.dtype == object else value.tolist()))
    return value
