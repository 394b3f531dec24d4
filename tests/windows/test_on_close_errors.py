"""What cannot wait for a watermark, and what is said then, when the dataflow is built."""

from datetime import timedelta
from typing import Any, cast

import pytest

import tidemill as tm
from tidemill.collections.building import constant
from tidemill.errors import GraphError, TimeError

ROW = {"k": "string", "ts": "int64", "v": "int64"}
W = tm.Window.partition_by("k").order_by("ts")


def rows(**options):
    return tm.Dataflow().input("x", ROW, **({"watermark": ("ts", 5)} | options))


def refused(message, build):
    with pytest.raises(GraphError, match=message):
        build()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("ts",), "expected a column and a delay, as in .*, or a column alone"),
        (7, "expected a column and a delay"),
        (("k", 1), "a column of type string: expected one of int64, int32, date, timestamp"),
        (("ts", -1), "-1 is no distance for a column of type int64: expected a whole number, 0 or more"),
        (("ts", timedelta(1)), "is no distance for a column of type int64"),
        ("tz", "tz"),
    ],
)
def test_what_is_no_watermark(given, message):
    refused(message, lambda: rows(watermark=given))


@pytest.mark.parametrize("delay", [5, tm.interval(months=1), timedelta(hours=-1)])
def test_what_is_no_delay_of_a_timestamp(delay):
    flow = tm.Dataflow()
    refused("expected a timedelta, or", lambda: flow.input("x", {"t": "timestamp"}, watermark=("t", delay)))
    refused("a timedelta of whole days", lambda: flow.input("x", {"t": "date"}, watermark=("t", timedelta(hours=1))))


def test_times_of_two_coordinates():
    flow = tm.Dataflow(time=("event", "correction"))
    refused("watermarks are for times of one coordinate", lambda: flow.input("x", ROW, watermark=("ts", 5)))
    x = flow.input("y", ROW)
    refused("watermarks are for times of one coordinate", lambda: x.sort_buffer("ts"))
    refused("watermarks are for times", lambda: x.with_columns(n=tm.row_number().over(W), emit="on_close"))


def test_inside_a_loop():
    x = rows()
    body = lambda here: here.with_columns(n=tm.row_number().over(W), emit="on_close").drop("n")  # noqa: E731
    refused("is inside the loop .*: sort rows before the loop", lambda: x.iterate(body))
    refused("is inside the loop", lambda: x.iterate(lambda here: here.sort_buffer("ts")))


def test_without_a_watermark():
    refused("input 'x' has no watermark: open it with", lambda: rows(watermark=None).sort_buffer("ts"))
    both = rows()
    rows_given = constant(both.builder, ROW, [("a", 1, 2)])
    refused("the constant has no watermark", lambda: both.concat(rows_given).sort_buffer("ts"))


def test_behind_what_leaves_no_watermark():
    x = rows()
    reason = "may give rows below its inputs' watermark at any time.*use it before"
    refused("Threshold.*" + reason, lambda: x.distinct().sort_buffer("ts"))
    refused("map_rows.*" + reason, lambda: x.map_rows(lambda row: row, ROW).late_rows("ts"))
    refused("SortBuffer.*" + reason, lambda: x.sort_buffer("ts").sort_buffer("ts"))
    refused("'ts' is computed by", lambda: x.with_columns(ts="ts + 1").sort_buffer("ts"))
    refused("the watermark of input 'x' is of 'ts', not of 'v'", lambda: x.sort_buffer("v"))


def test_what_is_no_name_of_a_column():
    wanted = r"\(ts\): expected the name of the column that the watermark is of"
    refused("sort_buffer" + wanted, lambda: rows().sort_buffer(cast("Any", tm.col("ts"))))
    refused("late_rows" + wanted, lambda: rows().late_rows(cast("Any", tm.col("ts"))))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (tm.rank().over(W.order_by("v")), "the watermark of input 'x' is of 'ts', not of 'v'"),
        (tm.rank().over(W.order_by(tm.desc("ts"))), "ordered by ts DESC first: .* ascending and nulls first"),
        (tm.rank().over(W.order_by(tm.asc("ts", nulls="last"))), "ascending and nulls first"),
        (tm.rank().over(W.order_by("v", "ts")), "of 'ts', not of 'v'"),
        (tm.rank().over(W.order_by("ts + 1")), "order the window by it"),
        (tm.count().over(tm.Window.partition_by("k")), "has no order, so its frames never close"),
        (tm.sum("v").over(W.rows_between(0, tm.UNBOUNDED)), "its frame reaches to the partition's end"),
        (tm.ntile(4).over(W), "depends on how many rows the partition has in the end"),
        (tm.cume_dist().over(W), "depends on how many rows"),
        (tm.lead("v", tm.col("v")).over(W), "its offset is not one number for all rows"),
    ],
)
def test_windows_that_never_close(call, message):
    refused(message, lambda: rows().with_columns(c=call, emit="on_close"))


def test_months_differ():
    flow = tm.Dataflow()
    t = flow.input("x", {"t": "timestamp"}, watermark=("t", timedelta(1)))
    frame = tm.Window.order_by("t").range_between(0, tm.interval(months=1))
    refused("months differ in their length", lambda: t.with_columns(n=tm.count().over(frame), emit="on_close"))


def test_windows_of_two_orders_and_none():
    x = rows()
    calls = {"a": tm.rank().over(W), "b": tm.rank().over(W.order_by("v"))}
    refused(
        "ordered by ts and by v first: expected one column for all", lambda: x.with_columns(**calls, emit="on_close")
    )
    refused("without a window call: .* sort_buffer", lambda: x.with_columns(y="v + 1", emit="on_close"))
    refused("did you mean 'on_close'", lambda: x.with_columns(y=tm.rank().over(W), emit="onclose"))


def test_a_run_of_an_input_without_a_watermark_is_told_none():
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", ROW))
    with flow.start() as run, pytest.raises(TimeError, match="has no watermark: open it with"):
        run.watermark("x", 5)


def test_what_is_no_session():
    by_v, down = W.order_by("v"), W.order_by(tm.desc("ts"))
    session = tm.session("ts", 5)
    refused("order the window by it, ascending", lambda: rows().with_columns(s=session.over(by_v)))
    refused("order the window by it, ascending", lambda: rows().with_columns(s=session.over(down)))
    refused("order the window by it", lambda: rows().with_columns(s=session.over(tm.Window.partition_by("k"))))
    refused("a column of type string: expected one of", lambda: rows().with_columns(s=tm.session("k", 5).over(W)))
    refused("is no distance", lambda: rows().with_columns(s=tm.session("ts", timedelta(1)).over(W)))
    refused("expected the name of the column", lambda: tm.session(cast("Any", 5), 5))
    refused("expected a window", lambda: session.over(cast("Any", "ts")))
    refused("is not supported here: a window call looks at other rows", lambda: rows().filter(session.over(W) > 3))
    refused("of 'ts', not of 'v'", lambda: rows().with_columns(s=tm.session("v", 5).over(by_v), emit="on_close"))
