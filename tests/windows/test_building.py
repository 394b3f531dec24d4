"""Windows are built in any order and reused; what no rows can make right is an error when it is built."""

import datetime as dt
import re

import pytest
from support.windowing import by_kernel, by_reference, outcome, wide_rows

import tidemill as tm
from tidemill.errors import SchemaError, UnknownColumnError
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.binding import bind_windows
from tidemill.expressions.windows.bound import CallError, value_fields
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.functions import (
    WindowFunction,
    first_value,
    lag,
    nth_value,
    ntile,
    percent_rank,
    rank,
    row_number,
)
from tidemill.expressions.windows.specification import Window

SCHEMA = Schema.of(
    {
        "k": "string",
        "t": "int64",
        "x": "float64",
        "n": "int64",
        "d": "date",
        "at": "timestamp",
        "b": "bool",
        "price": "decimal(9,2)",
    }
)
BY_T = Window.order_by("t")


def bound(**calls):
    return bind_windows(calls.items(), SCHEMA)


def refused(text, kind=SchemaError):
    return pytest.raises(kind, match=re.escape(text))


def test_methods_come_in_any_order_on_the_class_and_on_windows():
    one = Window.partition_by("k").order_by("t", tm.desc("x")).rows_between(-4, 0).exclude("ties")
    other = Window.exclude("TIES").rows_between(-4, 0).order_by("t", tm.desc("x")).partition_by("k")
    text = "Window(PARTITION BY k ORDER BY t, x DESC ROWS BETWEEN 4 PRECEDING AND CURRENT ROW EXCLUDE TIES)"
    assert repr(one) == repr(other) == text
    assert (
        repr(one.exclude("no others").partition_by())
        == "Window(ORDER BY t, x DESC ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)"
    )
    assert repr(Window()) == "Window()"
    assert Window.rows_between.__doc__ == one.rows_between.__doc__
    assert Window.rows_between.__doc__.startswith("Return the window with a frame")


def test_a_window_is_not_changed_by_what_is_made_of_it():
    w = Window.partition_by("k")
    w.order_by("t").rows_between(0, 0)
    assert repr(w) == "Window(PARTITION BY k)"


@pytest.mark.parametrize(
    ("window", "frame"),
    [
        (Window(), "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"),
        (BY_T, "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        (BY_T.rows_between(UNBOUNDED, -1), "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"),
        (BY_T.groups_between(0, 2), "GROUPS BETWEEN CURRENT ROW AND 2 FOLLOWING"),
        (BY_T.range_between(tm.interval(months=-14), dt.timedelta(0)), "RANGE BETWEEN INTERVAL '14' MONTH PRECEDING AND CURRENT ROW"),
        (BY_T.exclude("current  row"), "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW"),
    ],
)  # fmt: skip
def test_frames(window, frame):
    assert str(window.frame) == frame


def test_calls_of_one_partitioning_and_order_are_bound_together():
    w = Window.partition_by("k").order_by("t")
    groups = bound(
        a=lag("x").over(w),
        s=tm.sum("x").over(w.rows_between(-1, 0)),
        c=rank().over(Window.order_by("t")),
        r=row_number().over(w),
    )
    assert [g.windows.names for g in groups] == [("a", "s", "r"), ("c",)]
    assert groups[0].keys == 1
    assert [n for n, _ in groups[0].columns] == ["key 0", *(f"row {n}" for n in SCHEMA.names[1:]), "hash"]
    assert groups[0].windows.describe() == (
        "lag(#2, 1) AS a, sum(#2) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW AS s, row_number() AS r by #1"
    )


def test_where_no_call_depends_on_the_order_of_peers_nothing_breaks_ties():
    (group,) = bound(
        a=rank().over(BY_T), b=tm.sum("x").over(BY_T), c=tm.count().over(BY_T.groups_between(-1, 1).exclude("ties"))
    )
    assert group.windows.ties == ()
    assert "hash" not in [n for n, _ in group.columns]
    for call in (lag("x").over(BY_T), tm.list("x").over(BY_T), tm.sum("x").over(BY_T.rows_between(-1, 0))):
        (group,) = bound(a=call)
        assert len(group.windows.ties) > 1


def test_types_of_what_calls_give():
    calls = {
        "a": row_number(), "b": percent_rank(), "c": ntile(3), "d": lag("price", 1, 0), "e": first_value("d"),
        "f": tm.sum("price").over(BY_T), "g": tm.count().over(BY_T), "h": tm.list("k").over(BY_T),
    }  # fmt: skip
    (group,) = bound(**{n: c.over(BY_T) if isinstance(c, WindowFunction) else c for n, c in calls.items()})
    assert [str(f) for f in value_fields(group.windows)] == [
        "a: int64 not null", "b: float64 not null", "c: int64", "d: decimal(9,2)", "e: date", "f: decimal(19,2)",
        "g: int64 not null", "h: list<string> not null",
    ]  # fmt: skip


WRONG = [
    (lambda: ntile(0).over(BY_T), "ntile(0): expected a number of at least 1"),
    (lambda: ntile(tm.lit(-3)).over(BY_T), "ntile(-3): expected a number of at least 1"),
    (lambda: nth_value("x", 0).over(BY_T), "nth_value(0): expected a number of at least 1"),
    (lambda: rank().over("k"),  # type: ignore[arg-type]
     "rank: over('k'): expected a window"),
    (lambda: rank().over(Window),  # type: ignore[arg-type]
     "expected a window, as in over(tm.Window.partition_by('k'))"),
    (lambda: rank().filter("x > 1"), "rank with FILTER (WHERE x > 1): only aggregates have one"),
    (lambda: lag("x").filter("x > 1"), "lag with FILTER"),
    (lambda: WindowFunction("rank", ignore_nulls=True).over(BY_T), "rank IGNORE NULLS: it looks at no values"),
    (lambda: tm.sum("x").over(Window.groups_between(-1, 0)), "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW without ORDER BY"),
    (lambda: tm.sum("x").over(Window.range_between(-1, 0)), "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW with no ORDER BY"),
    (lambda: tm.sum("x").over(BY_T.order_by("t", "x").range_between(-1, 0)), "with 2 columns to order by: an offset is a difference"),
    (lambda: BY_T.rows_between(-1.5, 0), "rows_between: -1.5 is no bound of a frame: expected a number of rows"),
    (lambda: BY_T.rows_between(True, 0), "rows_between: True is no bound"),
    (lambda: BY_T.rows_between(-(2**63), 0), "is no bound of a frame"),
    (lambda: BY_T.groups_between(0, dt.timedelta(1)), "groups_between: datetime.timedelta(days=1) is no bound"),
    (lambda: BY_T.range_between("1", 0), "range_between: '1' is no bound of a frame: expected a number or an interval"),
    (lambda: BY_T.range_between(float("nan"), 0), "range_between: nan is no bound"),
    (lambda: BY_T.range_between(tm.col("n"), 0), "is no bound of a frame"),
    (lambda: BY_T.rows_between(None, 0), "or tm.UNBOUNDED"),
    (lambda: BY_T.exclude("tie"), "exclude('tie'): did you mean 'ties'?"),
    (lambda: tm.list("x").over(BY_T, distinct=True), "list DISTINCT over a window"),
    (lambda: tm.count().over(BY_T, distinct=True), "count DISTINCT over a window: it needs an argument"),
    (lambda: tm.first("x", order_by=["t", "x"]).over(BY_T), "use tm.first_value(...)"),
    (
        lambda: tm.list("x", order_by="t desc").over(BY_T),
        "list with order_by= over a window: the window has the order; for another one write tm.asc or tm.desc",
    ),
    (lambda: tm.sum(lag("x").over(BY_T)).over(BY_T), "sum: a window call inside a window call"),
    (lambda: lag(tm.col("x") - lag("x").over(BY_T)).over(BY_T), "lag: a window call inside a window call"),
    (lambda: rank().over(Window.order_by(tm.when(row_number().over(BY_T) > 1, 1))), "a window call inside a window call"),
    (lambda: rank().over(Window.partition_by(row_number().over(BY_T).cast("int32"))), "a window call inside a window call"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "text"), WRONG)
def test_what_no_schema_can_make_right(build, text):
    with refused(text):
        build()


MISFITS = [
    (lag("x", "k"), "a: lag takes a whole number of rows: `k` is of type string: expected int64"),
    (lag("x", 1.5), "a: lag takes a whole number of rows: `CAST(1.5 AS DOUBLE)` is of type float64"),
    (ntile("x"), "ntile takes a whole number of rows"),
    (lag("t", 1, "none"), "`'none'` is of type string: expected int64"),
    (tm.sum("k"), "a: sum of k is of type string: expected a number"),
    (tm.bool_and("x"), "expected bool"),
]


@pytest.mark.parametrize(("function", "text"), MISFITS)
def test_arguments_of_other_types(function, text):
    call = function.over(BY_T) if isinstance(function, WindowFunction) else function.over(BY_T)
    with refused(text):
        bound(a=call)


@pytest.mark.parametrize(
    ("by", "offset", "text"),
    [
        ("k", 1, "RANGE with 1 FOLLOWING over ORDER BY k of type string: expected ROWS or GROUPS"),
        ("b", 1, "over ORDER BY b of type bool"),
        (
            "t",
            1.5,
            "RANGE with 1.5 FOLLOWING over ORDER BY t of type int64: expected a whole number, as in RANGE BETWEEN 5 PREC",
        ),
        (
            "t",
            dt.timedelta(days=1),
            "RANGE with INTERVAL '1' DAY FOLLOWING over ORDER BY t of type int64: expected a whole number",
        ),
        ("t", dt.timedelta(minutes=5), "or ORDER BY a date or timestamp for an interval"),
        ("at", 1, "over ORDER BY at of type timestamp: expected an interval (tm.interval, timedelta)"),
        ("d", 1.0, "over ORDER BY d of type date: expected an interval (tm.interval, timedelta) or a number of days"),
        ("price", 1.5, "over ORDER BY price of type decimal(9,2): expected a whole number or a decimal.Decimal"),
    ],
)
def test_offsets_that_the_order_has_not(by, offset, text):
    with refused(text):
        bound(a=tm.count().over(Window.order_by(by).range_between(UNBOUNDED, offset)))


def test_unknown_columns():
    for call in (lag("y").over(BY_T), rank().over(Window.order_by("y")), rank().over(Window.partition_by("y"))):
        with refused("no column `y`", UnknownColumnError):
            bound(a=call)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (ntile("n").over(BY_T), "0: expected a number of at least 1"),
        (nth_value("t", "n").over(BY_T), "0: expected a number of at least 1"),
        (tm.sum("t").over(Window.rows_between(UNBOUNDED, UNBOUNDED)), "overflow"),
    ],
)
def test_values_that_no_row_may_have_name_the_row(call, reason):
    schema, rows = {"t": "int64", "n": "int64"}, [(1, 2), (2, 0), (3, -1), (2**63 - 1, None)]
    wide, windows = wide_rows(schema, rows, {"a": rank().over(call.window), "b": call})
    assert outcome(by_kernel, wide, windows) == outcome(by_reference, wide, windows) == (1, reason)
    with pytest.raises(CallError) as failed:
        by_reference(wide, windows)
    row = failed.value.row
    with pytest.raises(CallError) as failed:
        by_kernel(wide, windows)
    assert list(wide[1])[failed.value.row] == row
    assert reason == "overflow" or row[:2] == (2, 0)


def test_a_row_that_is_there_too_often():
    wide, windows = wide_rows({"t": "int64"}, {(1,): 2**24 + 1, (2,): 1}, {"a": row_number().over(BY_T)})
    found = outcome(by_kernel, wide, windows)
    assert found == outcome(by_reference, wide, windows)
    assert found == (
        0,
        "the row is there 16777217 times, each of them a row of its own: at most 16777216 are supported",
    )
