"""Every function over every kind of frame and exclusion: both renderings, and the reference engine."""

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import pytest

import tidemill as tm
from tidemill.expressions.windows.calls import holds_its_frame
from tidemill.testing import all_at_once, check_equivalent

SCHEMA = {"k": "int64", "t": "int64", "x": "int64", "b": "bool"}
BY_T = tm.Window.partition_by("k").order_by("t")
FRAMES = {
    "none": BY_T,
    "no order": tm.Window.partition_by("k"),
    "rows to here": BY_T.rows_between(tm.UNBOUNDED, 0),
    "rows around": BY_T.rows_between(-2, 1),
    "rows before": BY_T.rows_between(-3, -2),
    "rows from here": BY_T.rows_between(0, tm.UNBOUNDED),
    "rows turned round": BY_T.rows_between(1, -1),
    "groups around": BY_T.groups_between(-1, 1),
    "groups after": BY_T.groups_between(1, tm.UNBOUNDED),
    "range around": BY_T.range_between(-1, 2),
    "range before": BY_T.range_between(tm.UNBOUNDED, -1),
    "whole": BY_T.rows_between(tm.UNBOUNDED, tm.UNBOUNDED),
}
EXCLUSIONS = ("no others", "current row", "group", "ties")
PLACES = {
    "row_number": tm.row_number(), "rank": tm.rank(), "dense_rank": tm.dense_rank(), "percent_rank": tm.percent_rank(),
    "cume_dist": tm.cume_dist(), "ntile": tm.ntile(2), "lag": tm.lag("x"), "lead": tm.lead("x", 2, 0),
    "lag_known": tm.lag("x", "k", ignore_nulls=True), "lead_known": tm.lead("x", ignore_nulls=True),
}  # fmt: skip
FRAMED: dict[str, Any] = {
    "first": tm.first_value("x"), "last": tm.last_value("x", ignore_nulls=True), "nth": tm.nth_value("x", 2),
    "count": tm.count(), "known": tm.count("x"), "sum": tm.sum("x").filter("b"), "avg": tm.avg("x"), "min": tm.min("x"),
    "max": tm.max("x"), "bool_and": tm.bool_and("b"), "bool_or": tm.bool_or("b"), "variance": tm.variance("x"),
    "stddev": tm.stddev("x"), "list": tm.list("x"), "kinds": tm.count_distinct("x"),
}  # fmt: skip
ROWS = [(1, 1, 5, True), (1, 2, 7, False), (1, 2, None, None), (1, 4, 1, True), (1, None, 2, True), (2, 1, 5, False)]
UPDATES = [(row, time, 1 + (row[1] == 2)) for time, row in zip(itertools.cycle([0, 1]), ROWS)] + [(ROWS[0], 2, -1)]


def compare(calls):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", SCHEMA).with_columns(**calls))
    check_equivalent(flow, {"x": UPDATES}, batchings=[all_at_once])


@pytest.mark.parametrize("exclusion", EXCLUSIONS)
@pytest.mark.parametrize("frame", FRAMES)
def test_over_frames(frame, exclusion):
    window = FRAMES[frame].exclude(exclusion)
    calls = {name: call.over(window, strategy="recompute") for name, call in FRAMED.items()}
    in_order = tm.list("t", order_by=[tm.desc("b", nulls="first"), tm.asc("x", nulls="last")]).filter("k + t > 2")
    calls |= {f"in order, {s}": in_order.over(window, strategy=s) for s in ("auto", "recompute")}
    compare({**calls, "total": tm.sum("x").over(window, distinct=True, strategy="recompute")})


@pytest.mark.parametrize("frame", FRAMES)
def test_sums_over_frames(frame):
    calls = {name: call.over(FRAMES[frame], strategy="prefix_sum") for name, call in FRAMED.items()}
    compare({name: call for name, call in calls.items() if not holds_its_frame(call)})


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["recompute", "prefix_sum"])
@pytest.mark.parametrize("window", [BY_T, tm.Window.partition_by("k"), tm.Window.order_by(tm.desc("t"))], ids=str)
def test_places(window, strategy):
    compare({name: call.over(window, strategy=strategy) for name, call in PLACES.items()})


def ends_of(frames, column, strategy):
    """What tells where frames of different values begin and end."""
    made: dict[str, Any] = {"n": tm.count(), "first": tm.first_value(column), "last": tm.last_value(column)}
    return {n + i: call.over(frame, strategy=strategy) for n, call in made.items() for i, frame in frames.items()}


H = dt.timedelta(hours=1)
BETWEEN_VALUES: dict[str, tuple[list[Any], Any]] = {
    "date": ([dt.date(2024, 1, d) for d in (1, 2, 3, 5)], 36 * H),
    "decimal(6, 2)": ([Decimal(f"1.0{c}") for c in (1, 2, 3, 5)], Decimal("0.015")),
    "timestamp": ([dt.datetime(2024, 1, 1, h) for h in (1, 2, 3, 5)], H),
}
"""For a type some values, and an offset that leads from one of them to no other; rounded the wrong way, it would."""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["recompute", "prefix_sum"])
@pytest.mark.parametrize("order", [tm.asc, tm.desc])
@pytest.mark.parametrize("dtype", BETWEEN_VALUES)
def test_range_bounds_between_the_values_of_a_type(dtype, order, strategy):
    values, offset = BETWEEN_VALUES[dtype]
    window = tm.Window.order_by(order("t"))
    bounds = [(-offset, 0), (0, offset), (-offset, -offset), (offset, offset), (-offset, offset)]
    frames = {f"{i}": window.range_between(*b) for i, b in enumerate(bounds)}
    calls = ends_of(frames, "t", strategy)
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"t": dtype}).with_columns(**calls))
    check_equivalent(flow, {"x": [((t,), 0, 1) for t in values]}, batchings=[all_at_once])


MOST = 2**63 - 1
FARTHER: list[tuple[int, int]] = [
    (-(2**63), 0), (-(2**64), 5), (0, 2**63), (-(2**70), 2**70), (2**63, 2**64), (-(2**64), -(2**63)), (MOST, 2**64),
]  # fmt: skip
"""Offsets of which some are farther than any int64, but not than two of them are apart."""


@pytest.mark.parametrize("strategy", ["recompute", "prefix_sum"])
@pytest.mark.parametrize("order", [tm.asc, tm.desc])
def test_range_bounds_farther_away_than_any_number(order, strategy):
    window = tm.Window.order_by(order("t"))
    calls = ends_of({f"{i}": window.range_between(*b) for i, b in enumerate(FARTHER)}, "t", strategy)
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"t": "int64"}).with_columns(**calls))
    values = [None, -MOST, 2 - MOST, -5, 5, MOST - 2, MOST]
    check_equivalent(flow, {"x": [((t,), 0, 1) for t in values]}, batchings=[all_at_once])
