"""Tables of every maker come in; what does not fit is refused whole, with column, row and what to do."""

import datetime as dt
import decimal
import re

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.running import start
from support.tables import Array, Stream, read_back

import tidemill as tm
from tidemill.boundary.rows import checked_batch
from tidemill.boundary.tables import checked_table
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema

DAY = dt.date(2024, 2, 29)
MOMENT = dt.datetime(2024, 2, 29, 12, 30)
CENT = decimal.Decimal("0.01")
HALF = decimal.Decimal("1844674407370955161.5")  # with 15 places, Arrow says of it that fewer lose something

FITS = [
    ("int64", pa.array([1, None], pa.uint64()), [1, None]),
    ("int64", pa.array([1, -2], pa.int8()), [1, -2]),
    ("int64", pa.array([7, None], pa.decimal128(38, 0)), [7, None]),  # what DuckDB's sums of integers are
    ("int64", pa.array([decimal.Decimal("7.0")]), [7]),
    ("int64", pa.array([1.0, None, -0.0]), [1, None, 0]),
    ("int32", pa.array([1.0, 1.0]).dictionary_encode(), [1, 1]),
    ("int64", pa.array([7, 7]).dictionary_encode(), [7, 7]),
    ("int64", pa.nulls(2), [None, None]),
    ("int32", pa.array([2**31 - 1, None]), [2**31 - 1, None]),
    ("float64", pa.array([0.5, None], pa.float32()), [0.5, None]),
    ("float64", pa.array([0.5], pa.float16()), [0.5]),
    ("float64", pa.array([2**53, -3]), [2.0**53, -3.0]),
    ("float64", pa.array([-0.0, float("nan"), None]), [0.0, float("nan"), None]),
    ("string", pa.array(["a", None], pa.large_string()), ["a", None]),
    ("string", pa.array(["a", None], pa.string_view()), ["a", None]),
    ("string", pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["a", None])), ["a", None, "a"]),
    ("string", pa.DictionaryArray.from_arrays([0, None], pa.array(["a"], pa.string_view())), ["a", None]),
    ("string", pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), ["a", "a", "b"]),
    ("binary", pa.array([b"ab", None], pa.binary(2)), [b"ab", None]),
    ("binary", pa.array([b"ab", None], pa.large_binary()), [b"ab", None]),
    ("date", pa.array([DAY, None], pa.date64()), [DAY, None]),
    *(("timestamp", pa.array([MOMENT, None], pa.timestamp(u)), [MOMENT, None]) for u in ("s", "ms", "us", "ns")),
    ("decimal(5,2)", pa.array([CENT, None], pa.decimal256(60, 4)), [CENT, None]),
    ("decimal(38,1)", pa.array([HALF, None], pa.decimal256(50, 15)), [HALF, None]),
    ("decimal(5,2)", pa.array([3, None], pa.int64()), [decimal.Decimal("3.00"), None]),
    ("decimal(38,30)", pa.array([3], pa.uint8()), [decimal.Decimal("3." + "0" * 30)]),
]
REFUSED = [
    (
        "int64",
        pa.array([1, 2**63], pa.uint64()),
        "row 1: column c: int64: Integer value 9223372036854775808 not in range",
    ),
    (
        "int64",
        pa.array([1, 2, -(2**63)]),
        "row 2: column c: int64: -9223372036854775808 is not a valid int64 here: overflow",
    ),
    ("int64", pa.array([1.0, 1.5]), "row 1: column c: int64: Float value 1.500000 was truncated converting to int64"),
    (
        "int64",
        pa.array([1.0, float("nan")]),
        "row 1: column c: int64: NaN: NaN is a value of float64 alone, and no NULL",
    ),
    ("int64", pa.array([2.0**53 + 2]), "column c: int64: 9007199254740994.0 is beyond 2**53, where floats do not hold"),
    ("int64", pa.array([True]), "column 'c' has Arrow type bool, expected int64"),
    ("int64", pa.array([decimal.Decimal("1.5")]), "row 0: column c: int64: Rescaling Decimal value would cause data"),
    ("int64", pa.array([[1]]), "has Arrow type list<"),
    ("int32", pa.array([0, 0, 2**31]), "row 2: column c: int32: Integer value 2147483648 not in range"),
    ("float64", pa.array([2**53 + 1]), "row 0: column c: float64: Integer value 9007199254740993 not in range"),
    (
        "float64 not null",
        pa.array([1.5, None]),
        "row 1: column c: float64 not null is NULL: nulls are not allowed here",
    ),
    ("string", pa.array([b"a"]), "column 'c' has Arrow type binary, expected string"),
    ("string", pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers()), "row 1: column c: string: "),
    (
        "string not null",
        pa.DictionaryArray.from_arrays([0, 0, 1], pa.array(["a", None])),
        "row 2: column c: string not",
    ),
    ("date", pa.array([0, 86_400_001], pa.date64()), "row 1: column c: date: date64[ms] 86400001 does not represent"),
    (
        "date",
        pa.array([0, 10**7], pa.date32()),
        "row 1: column c: date: 29349-01-26 is not a valid date here: overflow (the years",
    ),
    ("timestamp", pa.array([0, None, 1], pa.timestamp("ns")), "row 2: column c: timestamp: Casting from timestamp[ns]"),
    ("timestamp", pa.array([2**62], pa.timestamp("s")), "row 0: column c: timestamp: Casting from timestamp[s]"),
    (
        "timestamp",
        pa.array([2**62], pa.timestamp("us")),
        "is not a valid timestamp here: overflow (the years are 1 to 9999)",
    ),
    ("timestamp", pa.array([0], pa.timestamp("us", "UTC")), "expected timestamp[us]; convert it to naive UTC first"),
    ("decimal(5,2)", pa.array([CENT, CENT / 10]), "row 1: column c: decimal(5,2): Rescaling Decimal value would cause"),
    ("decimal(5,2)", pa.array([CENT, 100000 * CENT]), "row 1: column c: decimal(5,2): Decimal value does not fit"),
    ("decimal(5,2)", pa.array([1, 1000]), "row 1: column c: decimal(5,2): Decimal value does not fit"),
]


@pytest.mark.parametrize(("dtype", "column", "values"), FITS, ids=lambda v: str(getattr(v, "type", v)))
def test_types_that_lose_nothing(dtype, column, values):
    schema = Schema.of({"c": dtype})
    assert repr(read_back(schema, pa.table({"c": column}))) == repr([(v,) for v in values])
    chunks = pa.chunked_array([column.slice(i, 1) for i in range(len(column))])
    assert repr(read_back(schema, pa.table({"c": chunks}))) == repr([(v,) for v in values])
    assert read_back(schema, pa.table({"c": column.slice(0, 0)})) == []


@pytest.mark.parametrize(("dtype", "column", "text"), REFUSED, ids=lambda v: str(getattr(v, "type", v))[:30])
def test_types_and_values_that_do_not_fit(dtype, column, text):
    with pytest.raises(RowError, match=r"input 'x'.*" + re.escape(text)):
        read_back(Schema.of({"c": dtype}), pa.table({"c": column}))


AB = Schema.of({"a": "int64", "b": "string"})
ONE = pa.table({"b": ["x", None], "a": [1, 2]})


@pytest.mark.parametrize(
    "data",
    [
        ONE, ONE.to_batches()[0], ONE.to_reader(), Stream(ONE), Array(ONE), ONE.to_struct_array(), pl.from_arrow(ONE),
        ONE.to_pandas(), ONE.to_pandas().set_index("a", drop=False), [(1, "x"), {"b": None, "a": 2}],
        ((1, "x"), (2, None)), iter(ONE.to_pylist()), {(1, "x"): 1, (2, None): 1}.keys(),
    ],
    ids=lambda d: type(d).__name__,
)  # fmt: skip
def test_all_that_is_a_batch_of_rows(data):
    assert read_back(AB, data) == [(1, "x"), (2, None)]


def test_duckdb_results():
    with duckdb.connect() as connection:
        query = "select 2 as a, null as b union all select 1, 'x' order by a"
        for data in (connection.sql(query), connection.from_arrow(ONE), connection.sql("from ONE where a > 0")):
            assert read_back(AB, data) == [(1, "x"), (2, None)]
        sums = connection.sql("select sum(a) as a, 'ab'::enum('x', 'ab') as b from ONE")
        assert read_back(AB, sums) == [(3, "ab")]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (pl.LazyFrame({"a": [1], "b": ["x"]}), "is not a batch of rows: expected .*; collect\\(\\) it first"),
        (pl.Series([1]), "Series is not a table of rows: Cannot import schema"),
        (pa.chunked_array([[1]]), "ChunkedArray is not a table of rows"),
        (pd.DataFrame([[1, "x", 2]], columns=["a", "b", "a"]), "'a' is there 2 times"),
        (ONE.drop_columns("b"), r"has columns \['a'\], expected \['a', 'b'\]: 'b' is missing: add it"),
        (ONE.append_column("c", ONE["a"]), "too many: 'c': drop or rename"),
        (ONE.rename_columns(["B", "a"]), "'b' is missing: did you mean 'B'"),
        ([{"a": 1, "c": 2}], "row 0: the keys are .*'b' is missing: add it; too many: 'c'"),
        (pa.table({}), "'a' is missing: add it; 'b' is missing: add it"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_batch_of_these_rows(data, text):
    with pytest.raises(RowError, match=text):
        read_back(AB, data)


def test_what_pandas_calls_missing_is_null():
    nan = float("nan")
    cases: list[tuple[str, pd.Series, list[object]]] = [
        ("float64", pd.Series([1.5, nan]), [1.5, None]),
        ("float64", pd.Series([1.5, None], dtype="Float64"), [1.5, None]),
        ("float64", pd.Series(pd.arrays.ArrowExtensionArray(pa.array([nan, None]))), [nan, None]),  # Arrow has both
        ("int64", pd.Series([1, None], dtype="Int64"), [1, None]),
        ("int64", pd.Series([1, None], dtype=object), [1, None]),
        ("int64", pd.Series([1.0, nan]), [1, None]),  # pandas' way to hold integers with one missing
        ("int32", pd.Series([1.0, 2.0]), [1, 2]),
        ("int64", pd.Series([nan, nan]), [None, None]),
        ("int32", pd.Series([1, 2], dtype="int8"), [1, 2]),
        ("string", pd.Series(["a", None]), ["a", None]),
        ("string", pd.Series(["a", nan, None], dtype=object), ["a", None, None]),
        ("string", pd.Series(["a", None], dtype="category"), ["a", None]),
        ("bool", pd.Series([True, None], dtype="boolean"), [True, None]),
        ("timestamp", pd.Series([MOMENT, None]), [MOMENT, None]),
        ("timestamp", pd.Series([MOMENT, pd.NaT], dtype="datetime64[ns]"), [MOMENT, None]),
        ("date", pd.Series([DAY, None]), [DAY, None]),
        ("decimal(5,2)", pd.Series([CENT, None]), [CENT, None]),
        ("decimal(38,0)", pd.Series([1, decimal.Decimal(10**37)]), [decimal.Decimal(1), decimal.Decimal(10**37)]),
    ]
    for dtype, series, values in cases:
        found = read_back(Schema.of({"c": dtype}), pd.DataFrame({"c": series}))
        assert repr(found) == repr([(v,) for v in values]), (dtype, series)


@pytest.mark.parametrize(
    ("dtype", "values", "text"),
    [
        ("int64", [1, "a"], "row 1: column c: int64: 'a' (str) is not a valid int64"),
        ("int64", [1.5, np.nan], "row 0: column c: int64: Float value 1.500000 was truncated converting to int64"),
        ("int64", [2.0**53 + 2, np.nan], "row 0: column c: int64: 9007199254740994.0 is beyond 2**53"),
        ("string", ["a", 1], "row 1: column c: string: 1 (int) is not a valid string"),
        ("int64", [1, 2**70], f"row 1: column c: int64: {2**70} (int) is not a valid int64"),
        (
            "float64 not null",
            [1.0, np.nan],
            "row 1: column c: float64 not null is NULL: nulls are not allowed here (and wh",
        ),
        (
            "timestamp",
            [pd.Timestamp(5)],
            "row 0: column c: timestamp: Casting from timestamp[ns] to timestamp[us] would",
        ),
        ("timestamp", [pd.Timestamp(0, tz="UTC")], "convert it to naive UTC first"),
    ],
)
def test_pandas_columns_that_do_not_fit(dtype, values, text):
    with pytest.raises(RowError, match=re.escape(text)):
        read_back(Schema.of({"c": dtype}), pd.DataFrame({"c": values}))


NUMBERS = Schema.of({"i": "int64", "f": "float64"})
PLAIN = pa.table({"i": np.arange(1000), "f": np.arange(1000) / 2})


def addresses(table):
    return [table.column(n).chunk(0).buffers()[1].address for n in ("i", "f")]


@pytest.mark.parametrize("make", [lambda t: t, Stream, Array, lambda t: t.to_reader(), pl.from_arrow])
def test_numbers_without_nulls_come_in_without_a_copy(make):
    given = make(PLAIN)
    want = addresses(pa.table(given) if isinstance(given, pl.DataFrame) else PLAIN)
    assert addresses(checked_batch(NUMBERS, given, "x")) == want


def test_pandas_numbers_come_in_without_a_copy():
    frame = pd.DataFrame({"i": np.arange(1000), "f": np.arange(1000) / 2})
    want = [frame[n].to_numpy().__array_interface__["data"][0] for n in ("i", "f")]
    assert addresses(checked_batch(NUMBERS, frame, "x")) == want


def test_large_chunks_come_in_without_a_copy():
    many = pa.table({"i": np.arange(100_000), "f": np.arange(100_000) / 2})
    halves = pa.concat_tables([many.slice(0, 60_000), many.slice(60_000)])
    found = checked_table(NUMBERS, halves, "x").column("i")
    assert [len(chunk) for chunk in found.chunks] == [60_000, 40_000]
    assert found.chunk(0).buffers()[1].address == many["i"].chunk(0).buffers()[1].address
    assert checked_table(NUMBERS, halves.slice(0, 0), "x").num_rows == 0
    assert sorted(read_back(NUMBERS, halves)) == list(zip(range(100_000), np.arange(100_000) / 2, strict=True))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "row 70000: column i: int64 not null is NULL"),
        (-(2**63), "row 70000: column i: int64 not null: -9223372036854775808 is"),
    ],
)
def test_the_row_is_named_in_whatever_chunk_it_is(value, message):
    chunks = pa.chunked_array([pa.array(range(60_000)), pa.array([*range(10_000), value, *range(30_000)], pa.int64())])
    with pytest.raises(RowError, match=re.escape(message)):
        checked_table(Schema.of({"i": "int64 not null"}), pa.table({"i": chunks}), "x")


def test_the_row_of_a_lists_value_is_named_in_whatever_chunk_it_is():
    lists = [pa.array([[1], [2, 3]] * 15_000), pa.array([[4]] * 20_000 + [[5, -(2**63)]])]
    with pytest.raises(RowError, match=r"row 50000: column l: list<int64>: -9223372036854775808 is"):
        checked_table(Schema.of({"l": "list<int64>"}), pa.table({"l": pa.chunked_array(lists)}), "x")


def test_small_chunks_are_joined_and_other_types_cast_once():
    halves = pa.concat_tables([PLAIN.slice(0, 500), PLAIN.slice(500)])
    assert checked_table(NUMBERS, halves, "x").column("i").num_chunks == 1
    small = checked_table(NUMBERS, PLAIN.set_column(0, "i", PLAIN["i"].cast(pa.int16())), "x")
    assert addresses(small)[0] != addresses(PLAIN)[0]
    assert addresses(small)[1] == addresses(PLAIN)[1]


def test_who_inserted_may_change_its_memory(engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64"}))
    numbers = np.arange(100)
    with start(flow, engine) as run:
        run.insert("x", pa.table({"i": pa.array(numbers)}))
        numbers[:] = -1
        run.advance()
        assert sum(i for (i,) in run.snapshot("x")) == 4950


@pytest.mark.parametrize("make", [pa.Table.to_pylist, pa.Table.to_pandas, pl.from_arrow, Stream, lambda t: t])
def test_constants_are_of_tables_too(engine, make):
    flow = tm.Dataflow()
    flow.output("x", flow.constant({"a": "int64", "b": "string"}, make(ONE)))
    with start(flow, engine) as run:
        assert list(run.snapshot("x")) == [(1, "x"), (2, None)]


def test_a_refused_table_leaves_no_trace(engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64 not null", "s": "string"}))
    with start(flow, engine) as run:
        with pytest.raises(
            RowError, match=r"Input 'x' \(.*test_tables_in.py:\d+\), row 1: column i: int64 not null is NULL"
        ):
            run.insert("x", pl.DataFrame({"i": [1, None], "s": ["a", "b"]}))
        run.insert("x", pl.DataFrame({"s": ["a"], "i": [1]}))
        run.insert("x", pl.DataFrame({"s": [], "i": []}))
        run.advance()
        assert list(run.snapshot("x")) == [(1, "a")]


def test_a_producer_that_fails_is_not_hidden():
    def batches():
        yield PLAIN.to_batches()[0]
        msg = "the wire was cut"
        raise OSError(msg)

    reader = pa.RecordBatchReader.from_batches(PLAIN.schema, batches())
    with pytest.raises((OSError, RowError), match="the wire was cut"):
        read_back(NUMBERS, reader)
