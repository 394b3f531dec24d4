"""Window calls on Spark, rendered and live: the kernels, run on whole partitions in executors, say what the others do."""

import datetime as dt
from typing import Any

import pytest

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, time_by_time
from tidemill.testing.livespark import SparkLive

TXY = {"k": "int64", "t": "timestamp", "x": "float64"}
W = tm.Window.partition_by("k").order_by("t")
AT = [dt.datetime(2024, 3, day, 12) for day in (1, 2, 3)]
CHANGES = [(1, AT[0], 0.1, 1), (1, AT[1], 1e20, 2), (2, None, None, 1), (1, AT[1], 1e20, -1), (2, AT[2], -0.5, 1)]
TIMES: dict[int, list[Any]] = {1: [0, 1, 0, 2, 1], 2: [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]}


@pytest.mark.parametrize("coordinates", [1, 2])
def test_engines_agree(spark, coordinates):
    flow = tm.Dataflow(time="epoch" if coordinates == 1 else ("event", "correction"))
    x = flow.input("x", TXY)
    flow.output(
        "calls",
        x.with_columns(
            change=tm.col("x") - tm.lag("x").over(W),
            near=tm.sum("x").over(W.range_between(tm.interval(days=-1), 0)),
            place=tm.row_number().over(tm.Window.order_by(tm.desc("x"))),
        ),
    )
    flow.output(
        "loop",
        x.distinct().iterate(
            lambda c: c.with_columns(x=tm.min("x").over(W.rows_between(-1, 0))).concat(x).distinct(), return_at=3
        ),
    )
    updates = [(tuple(row), time, count) for (*row, count), time in zip(CHANGES, TIMES[coordinates])]
    engines: list[Any] = ["reference", "embedded", "spark"]
    if coordinates == 1:
        engines.append(SparkLive(in_driver=0))
    check_equivalent(flow, {"x": updates}, engines=engines, batchings=[all_at_once, time_by_time])


def test_engines_agree_on_sums_over_the_order(spark):
    """The other rendering: joins, groups and table functions, with no task that sees a whole partition."""
    flow = tm.Dataflow()
    x = flow.input("x", TXY)
    flow.output("calls", x.with_columns(before=tm.lag("x").over(W, strategy="prefix_sum")))
    updates = [(tuple(row), time, count) for (*row, count), time in zip(CHANGES, TIMES[1])]
    check_equivalent(flow, {"x": updates}, engines=["reference", "embedded", "spark"], batchings=[all_at_once])
