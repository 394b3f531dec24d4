"""What waits for a watermark on Spark: whole histories as DataFrames, and live runs, in the driver and from executors."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.closing_windows import ALL, ROW, V, W, calls, told, updates
from support.running import examples

import tidemill as tm
from tidemill.errors import StepError
from tidemill.testing import all_at_once, check_equivalent, time_by_time
from tidemill.testing.spark_engines import SparkLive

SETTINGS: dict[str, Any] = {
    "phases": [Phase.explicit, Phase.generate],
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
}
pytestmark = pytest.mark.usefixtures("spark")


def flow_of(named, delay=2):
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", delay))
    flow.output("sorted", x.sort_buffer("ts"))
    flow.output("late", x.late_rows("ts"))
    in_time = x.on_time("ts")
    flow.output("on time", in_time)
    flow.output("by time", in_time.group_by("k", bucket="ts div 2").agg(n=tm.count(), most=tm.max("v")))
    flow.output("closed", x.with_columns(**named, emit="on_close"))
    flow.output("sessions", x.with_columns(start=tm.session("ts", 1).over(W), emit="on_close"))
    return flow


@settings(examples(4, least=2), **SETTINGS)
@given(data=st.data(), found=updates(), marks=told(), window=st.sampled_from([W, V, ALL]))
def test_whole_histories(data, found, marks, window):
    flow = flow_of(data.draw(calls((window,))))
    check_equivalent(flow, {"x": found, "x.watermark": marks}, engines=["reference", "spark"], batchings=[all_at_once])


@pytest.mark.parametrize("live", ["spark-live", SparkLive(in_driver=0)])
@settings(examples(4, least=2), **SETTINGS)
@given(data=st.data(), found=updates(), marks=told(), window=st.sampled_from([W, V]))
def test_live(live, data, found, marks, window):
    flow = flow_of(data.draw(calls((window,))))
    check_equivalent(flow, {"x": found, "x.watermark": marks}, engines=["reference", live], batchings=[time_by_time])


def test_several_epochs_of_timestamps_and_no_word_of_the_watermark(spark):
    """Frames of what is told are empty unless they are given."""
    flow = tm.Dataflow()
    x = flow.input("x", {"t": "timestamp", "d": "date", "v": "int64"}, watermark=("t", dt.timedelta(minutes=5)))
    flow.output("sorted", x.sort_buffer("t"))
    rows = [
        (dt.datetime(2024, 1, 1, 0, m), dt.date(2024, 1, 1), m, time) for m, time in [(9, 0), (3, 0), (8, 1), (14, 1)]
    ]
    schema = "t timestamp_ntz, d date, v bigint, time bigint"
    frames = tm.render(flow, spark, {"x": spark.createDataFrame(rows, schema)}, time="time")
    assert sorted((r.v, r.time, r.diff) for r in frames["sorted"].collect()) == [(3, 0, 1), (8, 1, 1)]


def test_a_watermark_that_goes_back(spark):
    flow = tm.Dataflow()
    flow.output("sorted", flow.input("x", {"i": "int64"}, watermark="i").sort_buffer("i"))
    marks = spark.createDataFrame([(5, 0), (4, 1)], "watermark bigint, time bigint")
    rows = spark.createDataFrame([(1,)], "i bigint")
    with pytest.raises(StepError, match="a watermark of 4 was told for time 1, after 5"):
        tm.render(flow, spark, {"x": rows, "x.watermark": marks}, time="time")
