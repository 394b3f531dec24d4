"""A value is taken or refused alike, whatever it comes in: tuples, dicts, pandas, Polars, Arrow, DuckDB."""

import datetime as dt
import decimal
import re
import uuid

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.running import start
from support.tables import read_back

import tidemill as tm
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema

NAN = float("nan")
D = decimal.Decimal
DAY = dt.date(2024, 2, 29)
MIDNIGHT = dt.datetime(2024, 2, 29)
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 0, 5)
ZONED = MOMENT.replace(tzinfo=dt.UTC)
EAST = MOMENT.replace(hour=14, tzinfo=dt.timezone(dt.timedelta(hours=2)))
CLOCK = dt.time(23, 59, 59, 999999)
LONG = dt.timedelta(days=400, microseconds=-1)
ID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
REFUSED = "refused"

TIMES = ("timestamptz", "time", "interval", "uuid")

# type, value, its Arrow type, what comes of it.
VALUES = [
    ("int64", 1, pa.int64(), 1),
    ("int64", 1.0, pa.float64(), 1),
    ("int64", -0.0, pa.float64(), 0),
    ("int64", 1.5, pa.float64(), REFUSED),
    ("int64", 2.0**53, pa.float64(), 2**53),
    ("int64", 2.0**53 + 2, pa.float64(), REFUSED),
    ("int64", float("inf"), pa.float64(), REFUSED),
    ("int64", D(7), pa.decimal128(5, 0), 7),
    ("int64", D("7.0"), pa.decimal128(5, 1), 7),
    ("int64", D("7.5"), pa.decimal128(5, 1), REFUSED),
    ("int64", True, pa.bool_(), REFUSED),
    ("int64", "1", pa.string(), REFUSED),
    ("int64", 2**63, pa.uint64(), REFUSED),
    ("int64", -(2**63), pa.int64(), REFUSED),
    ("int64", DAY, pa.date32(), REFUSED),
    ("int32", 2**31 - 1, pa.int64(), 2**31 - 1),
    ("int32", 2**31, pa.int64(), REFUSED),
    ("int32", 2.0**31, pa.float64(), REFUSED),
    ("float64", 1, pa.int64(), 1.0),
    ("float64", 2**53 + 1, pa.int64(), REFUSED),
    ("float64", -0.0, pa.float64(), 0.0),
    ("float64", float("inf"), pa.float64(), float("inf")),
    ("float64", D("0.5"), pa.decimal128(5, 1), REFUSED),
    ("float64", "0.5", pa.string(), REFUSED),
    ("float64", True, pa.bool_(), REFUSED),
    ("bool", True, pa.bool_(), True),
    ("bool", 1, pa.int64(), REFUSED),
    ("bool", 1.0, pa.float64(), REFUSED),
    ("string", "a", pa.string(), "a"),
    ("string", b"a", pa.binary(), REFUSED),
    ("string", 1, pa.int64(), REFUSED),
    ("binary", b"a", pa.binary(), b"a"),
    ("binary", "a", pa.string(), REFUSED),
    ("date", DAY, pa.date32(), DAY),
    ("date", MIDNIGHT, pa.timestamp("us"), REFUSED),
    ("date", "2024-02-29", pa.string(), REFUSED),
    ("timestamp", MOMENT, pa.timestamp("us"), MOMENT),
    ("timestamp", DAY, pa.date32(), REFUSED),
    ("timestamp", ZONED, pa.timestamp("us", "UTC"), REFUSED),
    ("timestamp", "2024-02-29 12:30:00", pa.string(), REFUSED),
    ("timestamp", 5, pa.int64(), REFUSED),
    ("decimal(5,2)", D("1.25"), pa.decimal128(5, 2), D("1.25")),
    ("decimal(5,2)", D("1.250"), pa.decimal128(5, 3), D("1.25")),
    ("decimal(5,2)", D("1.255"), pa.decimal128(5, 3), REFUSED),
    ("decimal(5,2)", 3, pa.int64(), D("3.00")),
    ("decimal(5,2)", 1000, pa.int64(), REFUSED),
    ("decimal(5,2)", 1.25, pa.float64(), D("1.25")),
    ("decimal(5,2)", 1.5, pa.float32(), D("1.50")),
    ("decimal(5,2)", 0.1, pa.float64(), REFUSED),
    ("decimal(5,2)", 1000.0, pa.float64(), REFUSED),
    ("decimal(38,0)", 2.0**100, pa.float64(), D(2**100)),
    ("decimal(38,0)", 1e300, pa.float64(), REFUSED),
    ("decimal(5,2)", float("inf"), pa.float64(), REFUSED),
    ("list<decimal(5,2)>", [0.5], pa.list_(pa.float64()), (D("0.50"),)),
    ("timestamptz", ZONED, pa.timestamp("us", "UTC"), ZONED),
    ("timestamptz", ZONED, pa.timestamp("us", "America/New_York"), ZONED),
    ("timestamptz", EAST, pa.timestamp("us", "+02:00"), ZONED),
    ("timestamptz", MOMENT, pa.timestamp("us"), REFUSED),
    ("timestamptz", DAY, pa.date32(), REFUSED),
    ("timestamptz", "2024-02-29T12:30:00Z", pa.string(), REFUSED),
    ("time", CLOCK, pa.time64("us"), CLOCK),
    ("time", dt.time(10, 30), pa.time32("s"), dt.time(10, 30)),
    ("time", MOMENT, pa.timestamp("us"), REFUSED),
    ("time", "10:30:00", pa.string(), REFUSED),
    ("time", 5, pa.int64(), REFUSED),
    ("interval", LONG, pa.duration("us"), LONG),
    ("interval", dt.timedelta(days=-1), pa.duration("s"), dt.timedelta(days=-1)),
    ("interval", 5, pa.int64(), REFUSED),
    ("interval", CLOCK, pa.time64("us"), REFUSED),
    ("uuid", ID, pa.string(), ID),
    ("uuid", ID.upper(), pa.large_string(), ID),
    ("uuid", ID.replace("-", ""), pa.string(), REFUSED),
    ("uuid", "{" + ID + "}", pa.string(), REFUSED),
    ("uuid", 5, pa.int64(), REFUSED),
    ("string", CLOCK, pa.time64("us"), REFUSED),
    ("int64", LONG, pa.duration("us"), REFUSED),
    ("list<time>", [CLOCK, None], pa.list_(pa.time64("us")), (CLOCK, None)),
    ("list<timestamptz>", [EAST], pa.list_(pa.timestamp("us", "+02:00")), (ZONED,)),
    ("struct<a: interval>", {"a": LONG}, pa.struct([("a", pa.duration("us"))]), (LONG,)),
    ("list<int64>", [1, None], pa.list_(pa.int64()), (1, None)),
    ("list<int64>", [1.5], pa.list_(pa.float64()), REFUSED),
    ("list<int64>", 1, pa.int64(), REFUSED),
    *(
        (t, None, pa.null(), None)
        for t in ("int64", "float64", "bool", "string", "date", "timestamp", "decimal(5,2)", *TIMES)
    ),
]


def by_duckdb(value, arrow):
    given = pa.table({"c": pa.array([value], arrow)})  # noqa: F841 - DuckDB finds it by its name
    return duckdb.sql("from given").to_arrow_table()


DOORS = {
    "tuple": lambda value, arrow: [(value,)],
    "dict": lambda value, arrow: [{"c": value}],
    "arrow": lambda value, arrow: pa.table({"c": pa.array([value], arrow)}),
    "polars": lambda value, arrow: pl.from_arrow(pa.table({"c": pa.array([value], arrow)})),
    "duckdb": by_duckdb,
    "pandas": lambda value, arrow: pd.DataFrame({"c": [value]}),
    "pandas, objects": lambda value, arrow: pd.DataFrame({"c": pd.Series([value], dtype=object)}),
}


def outcome(dtype, given):
    try:
        ((value,),) = read_back(Schema.of({"c": dtype}), given)
    except RowError as error:
        assert "column" in str(error)
        return REFUSED
    return value


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("dtype", "value", "arrow", "expected"), VALUES, ids=str)
def test_the_same_comes_of_it(dtype, value, arrow, expected, door):
    found = outcome(dtype, DOORS[door](value, arrow))
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("door", ["tuple", "dict", "pandas", "pandas, objects"])
@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("timestamp", pd.Timestamp(MOMENT), MOMENT),
        ("timestamp", pd.Timestamp(5), REFUSED),
        ("timestamp", np.datetime64(MOMENT, "us"), MOMENT),
        ("timestamp", np.datetime64(5, "ns"), REFUSED),
        ("date", pd.Timestamp(MIDNIGHT), REFUSED),
        ("int64", np.int32(7), 7),
        ("int64", np.float64(7.0), 7),
        ("int64", np.bool_(True), REFUSED),
        ("float64", np.float32(0.5), 0.5),
        ("float64", np.bool_(True), REFUSED),
        ("bool", np.bool_(True), True),
        ("decimal(5,2)", np.int64(3), D("3.00")),
        *((t, v, None) for t in ("int64", "string", "date", "timestamp", "bool") for v in (pd.NaT, pd.NA)),
        ("float64", pd.NA, None),
        ("timestamp", np.datetime64("NaT"), None),
        ("interval", np.timedelta64("NaT"), None),
        ("interval", np.timedelta64(5, "us"), dt.timedelta(microseconds=5)),
        ("interval", np.timedelta64(5, "ns"), REFUSED),
        ("interval", pd.Timedelta(1, "D"), dt.timedelta(days=1)),
        ("interval", pd.Timedelta(1, "ns"), REFUSED),
        ("interval", dt.timedelta.max, REFUSED),
        ("timestamptz", pd.Timestamp(ZONED), ZONED),
        ("timestamptz", pd.Timestamp(EAST), ZONED),
        ("timestamptz", pd.Timestamp(MOMENT), REFUSED),
        ("timestamptz", np.datetime64(MOMENT, "us"), REFUSED),
        ("time", CLOCK.replace(tzinfo=dt.UTC), REFUSED),
        ("uuid", uuid.UUID(ID), ID),
        *((t, v, None) for t in TIMES for v in (pd.NaT, pd.NA)),
    ],
    ids=str,
)
def test_the_same_comes_of_values_of_numpy_and_pandas(dtype, value, expected, door):
    assert repr(outcome(dtype, DOORS[door](value, None))) == repr(expected)


@pytest.mark.parametrize("door", DOORS)
def test_nan_is_a_value_of_floats_but_in_frames_of_pandas(door):
    expected = None if door.startswith("pandas") else NAN
    assert repr(outcome("float64", DOORS[door](NAN, pa.float64()))) == repr(expected)
    if expected is None:
        with pytest.raises(RowError, match="what pandas calls missing is one: NaN too"):
            read_back(Schema.of({"c": "float64 not null"}), DOORS[door](NAN, None))


NO_FLOATS = ["int64", "int32", "bool", "string", "binary", "date", "timestamp", "decimal(5,2)", *TIMES]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("nan", [NAN, -NAN, np.float64("nan"), np.float32("nan")], ids=repr)
def test_nan_is_no_null_in_columns_without_it(door, nan):
    """A value that a column cannot have is not taken for another one, such as NULL, without a word.

    Of NaN only pandas' frames say so, which have no other way to say that a number is missing.
    """
    arrow = pa.float32() if isinstance(nan, np.float32) else pa.float64()
    for dtype in NO_FLOATS:
        found = outcome(dtype, DOORS[door](nan, arrow))
        assert repr(found) == ("None" if door.startswith("pandas") else repr(REFUSED)), dtype
    found = outcome("list<int64>", DOORS[door]([1.0, nan], pa.list_(pa.float64())))
    assert repr(found) == ("(1, None)" if door.startswith("pandas") else repr(REFUSED))
    found = outcome("list<list<int64>>", DOORS[door]([None, [nan]], pa.list_(pa.list_(pa.float64()))))
    assert repr(found) == ("(None, (None,))" if door.startswith("pandas") else repr(REFUSED))


@pytest.mark.parametrize("door", ["pandas", "pandas, objects"])
def test_nan_among_objects_of_frames_is_null_however_mixed_these_are(door):
    """Where each object is looked at on its own, too: numbers of several types, and moments."""
    mixed = [1, D(2), NAN, np.float32("nan"), None, pd.NA]
    kind = {"dtype": object} if door == "pandas, objects" else {}
    assert read_back(Schema.of({"c": "int64"}), pd.DataFrame({"c": pd.Series(mixed, **kind)})) == [
        (1,), (2,), (None,), (None,), (None,), (None,)
    ]  # fmt: skip
    lists = pd.Series([[1, D(2), NAN], np.array([3.0, NAN]), [np.float32("nan")], NAN], dtype=object)
    found = read_back(Schema.of({"c": "list<int64>"}), pd.DataFrame({"c": lists}))
    assert found == [((1, 2, None),), ((3, None),), ((None,),), (None,)]
    days = pd.Series([DAY, NAN], dtype=object)
    assert read_back(Schema.of({"c": "date"}), pd.DataFrame({"c": days})) == [(DAY,), (None,)]


def test_no_door_of_a_run_takes_nan_for_null(engine):
    """Rows, changes, upserts, feeds, constants and what user functions return, on runs."""
    flow = tm.Dataflow()
    keyed = flow.input("keyed", {"k": "int64", "v": "int64"}, key=["k"])
    rows = flow.input("rows", {"v": "int64"})
    flow.output("made", rows.map_rows(lambda _row: (NAN,), {"v": "int64"}))
    flow.output("keyed", keyed)
    with start(flow, engine) as run:
        for write in (
            lambda: run.insert("rows", [(NAN,)]),
            lambda: run.delete("rows", [{"v": NAN}]),
            lambda: run.update("rows", [((NAN,), 0, 1)]),
            lambda: run.upsert("keyed", [(1, NAN)]),
            lambda: run.apply("keyed", [{"k": 1, "v": NAN, "op": "i"}]),
            lambda: tm.Dataflow().constant({"v": "int64"}, [(NAN,)]),
        ):
            with pytest.raises(tm.TidemillError, match="NaN is a value of float64 alone, and no NULL; None is NULL"):
                write()
        run.insert("rows", [(1,)])
        with pytest.raises(tm.errors.UserFunctionError, match="None is NULL"):
            run.advance()


MOMENTS: dict[str, list[tuple[object, object]]] = {
    "timestamp": [
        (ZONED, dt.datetime(2024, 2, 29, 12, 30, 0, 5)),
        (MOMENT.replace(tzinfo=dt.timezone(dt.timedelta(hours=-5))), dt.datetime(2024, 2, 29, 17, 30, 0, 5)),
        (pd.Timestamp(MOMENT, tz="Asia/Kolkata"), dt.datetime(2024, 2, 29, 7, 0, 0, 5)),
        (pd.Timestamp(5001), dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
        (np.datetime64(5001, "ns"), dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
        (np.datetime64("2024-02-29"), MIDNIGHT),
        (DAY, MIDNIGHT),
        ("2024-02-29 12:30:00.000005", MOMENT),
    ],
    "date": [
        (ZONED, DAY),
        (MOMENT, DAY),
        (pd.Timestamp(MOMENT), DAY),
        (np.datetime64("2024-02-29T12:30"), DAY),
        (np.datetime64("2024-02-29T12:30:00.000000005"), DAY),
        (np.datetime64("2024-02"), dt.date(2024, 2, 1)),
        (np.datetime64("2024"), dt.date(2024, 1, 1)),
        ("2024-02-29", DAY),
    ],
}


@pytest.mark.parametrize(("dtype", "value", "meant"), [(t, *case) for t in MOMENTS for case in MOMENTS[t]], ids=str)
def test_the_advice_on_moments_can_be_followed_and_loses_nothing(dtype, value, meant):
    """What a message says makes a value of the type does, and of a moment it is the same moment."""
    for given in (value, [value]):
        with pytest.raises(RowError) as refused:
            read_back(Schema.of({"c": f"list<{dtype}>" if isinstance(given, list) else dtype}), [(given,)])
        advice = re.search(r"; (?:a date [^:;]*: )?([^;]+) makes one$", str(refused.value))
        assert advice is not None, refused.value
        names = {"value": value, "datetime": dt.datetime, "date": dt.date, "time": dt.time}
        text = advice[1].replace("datetime.UTC", "UTC")
        assert outcome(dtype, [(eval(text, {**names, "UTC": dt.UTC}),)]) == meant  # noqa: S307 - a text of ours


@pytest.mark.parametrize("dtype", ["int64", "int32", "float64", "bool", "binary", "decimal(5,2)"])
@pytest.mark.parametrize("value", [np.datetime64("2024-02-29"), np.datetime64("NaT"), np.datetime64(5, "ns"), MOMENT])
def test_moments_in_columns_of_other_types_are_refused_with_advice(dtype, value):
    """NumPy's NaT is NULL among moments alone."""
    with pytest.raises(RowError, match="a moment is for a column of type timestamp, a day for one of type date"):
        read_back(Schema.of({"c": dtype}), [(value,)])
    for moments in ("timestamp", "date", "list<date>"):
        nat = np.datetime64("NaT")
        found = outcome(moments, [([nat] if moments.startswith("list") else nat,)])
        assert found == ((None,) if moments.startswith("list") else None)


@pytest.mark.parametrize("value", [None, pd.NaT, pd.NA], ids=repr)
@pytest.mark.parametrize("door", ["tuple", "dict", "pandas", "pandas, objects"])
def test_what_is_missing_is_refused_where_nulls_are(door, value):
    with pytest.raises(RowError, match="column c: int64 not null is NULL: nulls are not allowed here"):
        read_back(Schema.of({"c": "int64 not null"}), DOORS[door](value, None))


@pytest.mark.parametrize("dtype", ["int64", "float64", "bool", "string", "date", "timestamp", "decimal(5,2)"])
def test_tables_without_values_fit_whatever_the_types_of_their_columns(dtype):
    schema = Schema.of({"c": dtype})
    empty = [
        pd.DataFrame(columns=["c"]),
        pd.DataFrame({"c": pd.Series([], dtype="float64")}),
        pd.DataFrame({"c": pd.Series([], dtype="datetime64[ns, UTC]")}),
        pd.DataFrame({"c": ["x"]}).head(0),
        pl.DataFrame({"c": []}),
        pl.DataFrame(schema={"c": pl.String}),
        pa.table({"c": pa.array([], pa.duration("s"))}),
        duckdb.sql("select 'x' as c limit 0"),
    ]
    assert [read_back(schema, table) for table in empty] == [[]] * len(empty)
    for table in (pl.DataFrame({"c": [None]}, schema={"c": pl.String}), pa.table({"c": pa.nulls(1, pa.int8())})):
        assert read_back(schema, table) == [(None,)]
    with pytest.raises(RowError, match="'c' is missing"):
        read_back(schema, pd.DataFrame(columns=["d"]))


@pytest.mark.parametrize("dtype", ["int64", "float64", "list<float64>"])
def test_what_a_type_cannot_hold_overflows(dtype):
    value = [10**400] if dtype.startswith("list") else 10**400
    with pytest.raises(RowError, match=r"is not a valid (float|int)64: overflow"):
        read_back(Schema.of({"c": dtype}), [(value,)])


def test_moments_with_nanoseconds_and_without_a_zone_are_told_what_to_do():
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"at": "timestamptz"}))
    zoned, plain = pd.Timestamp("2026-03-01 12:00:00.123456789", tz="Europe/Berlin"), np.datetime64("2026-03-01T12:00")
    with flow.start() as run:
        with pytest.raises(RowError, match=r"microseconds; value.floor\('us'\) makes one"):
            run.insert("x", [(zoned,)])
        with pytest.raises(RowError, match=r"it has no zone: value.astype\('datetime64\[us\]'\).item\(\).replace"):
            run.insert("x", [(plain,)])
        run.insert("x", [(zoned.floor("us"),)])
        run.insert("x", [(plain.astype("datetime64[us]").item().replace(tzinfo=dt.UTC),)])
