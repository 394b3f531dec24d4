"""Window calls have the values that SQLite and DuckDB give them, where these have the call at all."""

import datetime as dt
import sqlite3
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples
from support.windowing import values

import tidemill as tm
from tidemill.expressions.windows.frames import UNBOUNDED, Frame
from tidemill.expressions.windows.functions import (
    cume_dist,
    dense_rank,
    first_value,
    lag,
    last_value,
    lead,
    nth_value,
    ntile,
    percent_rank,
    rank,
    row_number,
)
from tidemill.expressions.windows.specification import Window

SCHEMA = {"id": "int64", "k": "int64", "t": "int64", "x": "int64"}
SMALL = st.none() | st.integers(0, 4)
ROWS = st.lists(st.tuples(st.integers(0, 1), SMALL, SMALL), max_size=10).map(
    lambda some: [(i, *r) for i, r in enumerate(some)]
)

# What is called, and how SQL calls it.
BY_PEERS = [
    (rank(), "rank()"), (dense_rank(), "dense_rank()"), (percent_rank(), "percent_rank()"), (cume_dist(), "cume_dist()"),
    (tm.count(), "count(*)"), (tm.count("x"), "count(x)"), (tm.sum("x"), "sum(x)"), (tm.avg("x"), "avg(x)"),
    (tm.min("x"), "min(x)"), (tm.max("x"), "max(x)"), (tm.sum("x").filter("x > 1"), "sum(x) filter (where x > 1)"),
    (tm.count().filter("x <> 2"), "count(*) filter (where x <> 2)"),
]  # fmt: skip
BY_ROW = [
    (row_number(), "row_number()"), (ntile(3), "ntile(3)"), (lag("x"), "lag(x)"), (lead("x", 2), "lead(x, 2)"),
    (lag("x", 1, -1), "lag(x, 1, -1)"), (first_value("x"), "first_value(x)"), (last_value("x"), "last_value(x)"),
    (nth_value("x", 2), "nth_value(x, 2)"),
]  # fmt: skip
IGNORING = [
    (lag("x", 2, ignore_nulls=True), "lag(x, 2 ignore nulls)"), (lead("x", ignore_nulls=True), "lead(x ignore nulls)"),
    (first_value("x", ignore_nulls=True), "first_value(x ignore nulls)"),
    (last_value("x", ignore_nulls=True), "last_value(x ignore nulls)"),
    (nth_value("x", 2, ignore_nulls=True), "nth_value(x, 2 ignore nulls)"),
]  # fmt: skip
DISTINCT = ["count", "sum", "avg", "min"]


def call_over(function, window):
    return function.over(window) if isinstance(function, type(tm.count())) else function.over(window)


@st.composite
def framed(draw, *, unique, sides=(-3, 3)):
    """A window, and SQL's text for it. Databases give peers some order of their own, which ``unique`` leaves no room."""
    descending, nulls_first = draw(st.booleans()), draw(st.booleans())
    mode = draw(st.sampled_from(["rows", "groups"] if unique else ["groups", "range"]))
    bound = st.integers(*sides)
    start, end = draw(st.just(UNBOUNDED) | bound), draw(st.just(UNBOUNDED) | bound)
    if _side(start, -9) > _side(end, 9):  # which SQL has not
        start, end = end, start
    exclusion = draw(st.sampled_from(["no others", "current row", "group", "ties"]))
    key = (tm.desc if descending else tm.asc)("t", nulls="first" if nulls_first else "last")
    window = Window.partition_by("k").order_by(*([key, "id"] if unique else [key])).exclude(exclusion)
    window = getattr(window, mode + "_between")(start, end)
    order = f"t {'desc' if descending else 'asc'} nulls {'first' if nulls_first else 'last'}" + ", id" * unique
    return window, f"(partition by k order by {order} {window.frame})"


def _side(bound, unbounded):
    """Before, at or after the current row."""
    n = unbounded if bound is UNBOUNDED else bound
    return (n > 0) - (n < 0)


def in_sqlite(rows, call):
    connection = sqlite3.connect(":memory:")
    connection.execute("create table s (id, k, t, x)")
    connection.executemany("insert into s values (?, ?, ?, ?)", rows)
    found = dict(connection.execute(f"select id, {call} from s"))
    connection.close()
    return found


def in_duckdb(rows, call, types="id bigint, k bigint, t bigint, x bigint"):
    with duckdb.connect() as connection:
        connection.execute(f"create table s ({types})")
        if rows:
            connection.executemany("insert into s values (?, ?, ?, ?)", rows)
        return dict(connection.execute(f"select id, {call} from s").fetchall())


def ours(rows, call, schema=SCHEMA):
    return {row[0]: v for row, (v,) in values(schema, rows, v=call)}


def test_frames_print_as_sql():
    frame = Frame.of("range", dt.timedelta(days=-1, hours=-2), UNBOUNDED)
    assert str(frame) == "RANGE BETWEEN INTERVAL '26' HOUR PRECEDING AND UNBOUNDED FOLLOWING"
    assert repr(
        Window.partition_by("k").order_by(tm.desc("t", nulls="first")).groups_between(-1, 2).exclude("ties")
    ) == ("Window(PARTITION BY k ORDER BY t DESC NULLS FIRST GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING EXCLUDE TIES)")


@given(ROWS, st.data())
@examples(150)
def test_as_sqlite(rows, data):
    unique = data.draw(st.booleans())
    window, sql = data.draw(framed(unique=unique))
    function, call = data.draw(st.sampled_from(BY_PEERS + BY_ROW * unique))
    assert ours(rows, call_over(function, window)) == in_sqlite(rows, f"{call} over {sql}")


@given(ROWS, st.data())
@examples(50)
def test_ignoring_nulls_as_duckdb(rows, data):
    window, sql = data.draw(framed(unique=True))
    function, call = data.draw(st.sampled_from(IGNORING))
    assert ours(rows, function.over(window)) == in_duckdb(rows, f"{call} over {sql}")


@given(ROWS, st.data())
@examples(50)
def test_distinct_as_duckdb(rows, data):
    window, sql = data.draw(framed(unique=data.draw(st.booleans())))
    name = data.draw(st.sampled_from(DISTINCT))
    call = getattr(tm, name)("x").over(window, distinct=True)
    assert ours(rows, call) == in_duckdb(rows, f"{name}(distinct x) over {sql}")


INTERVALS: dict[str, Any] = {
    "INTERVAL 1 DAY": dt.timedelta(days=1), "INTERVAL 40 HOUR": dt.timedelta(hours=40),
    "INTERVAL 1 MONTH": tm.interval(months=1), "INTERVAL 1 YEAR": tm.interval(years=1),
}  # fmt: skip
DAYS = st.none() | st.dates(dt.date(2023, 12, 28), dt.date(2024, 3, 31)) | st.just(dt.date(2023, 2, 28))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["date", "timestamp"])
@given(st.lists(st.tuples(st.integers(0, 1), DAYS, SMALL), max_size=8), st.data())
@examples(50)
def test_intervals_as_duckdb(kind, some, data):
    rows = [
        (i, k, dt.datetime.combine(d, dt.time(3)) if d and kind == "timestamp" else d, x)
        for i, (k, d, x) in enumerate(some)
    ]
    back, on = data.draw(st.sampled_from(list(INTERVALS))), data.draw(st.sampled_from(list(INTERVALS)))
    descending = data.draw(st.booleans())
    key = (tm.desc if descending else tm.asc)("t", nulls="first")
    minus = -INTERVALS[back] if isinstance(INTERVALS[back], dt.timedelta) else tm.lit(-INTERVALS[back].value)
    call = tm.sum("x").over(Window.partition_by("k").order_by(key).range_between(minus, INTERVALS[on]))
    sql = f"(partition by k order by t {'desc' if descending else 'asc'} nulls first range between {back} preceding and {on} following)"
    types = f"id bigint, k bigint, t {kind}, x bigint"
    assert ours(rows, call, SCHEMA | {"t": kind}) == in_duckdb(rows, f"sum(x) over {sql}", types)
