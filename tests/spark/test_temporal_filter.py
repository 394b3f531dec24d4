"""Temporal filters on Spark, for whole histories and live: against the reference and the embedded engine."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, time_by_time, updates
from tidemill.testing.spark_engines import SparkLive

SETTINGS: dict[str, Any] = {
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would run hundreds of jobs
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
}
LIVE = SparkLive(in_driver=0)


@pytest.mark.parametrize("coordinates", [1, 2])
def test_engines_agree(spark, coordinates):
    @settings(examples(6, least=3), **SETTINGS)
    @given(data=st.data())
    def check(data):
        flow = new_flow(coordinates)
        a, b = flow.input("a", KV), flow.input("b", KV)
        name = flow.graph.coordinates[-1]
        valid = a.temporal_filter("v - 1", "v + 2", coordinate=name)
        flow.output("valid", valid)
        flow.output("joined", valid.join(b.temporal_filter(None, "k + v", coordinate=name), on="k"))
        flow.output("counted", valid.group_by("k").agg(n=tm.count()))
        found = {n: data.draw(updates(KV, coordinates, max_size=10)) for n in "ab"}
        check_equivalent(
            flow, found, engines=["reference", "embedded", "spark", LIVE], batchings=[all_at_once, time_by_time]
        )

    check()


def test_a_row_that_ends_before_it_begins_is_named(spark):
    flow = new_flow()
    flow.output("valid", flow.input("rows", KV).temporal_filter("k", "v"))
    rows = spark.createDataFrame([(1, 5), (3, 1)], "k long, v long")
    message = r"row \(3, 1\): valid_to 1 is before valid_from 3; filter out"
    with pytest.raises(tm.errors.ExpressionError, match=message):
        tm.render(flow, spark, {"rows": rows})["valid"].collect()
    with flow.start(LIVE) as run:
        run.insert("rows", [(1, 5), (3, 1)])
        with pytest.raises(tm.errors.ExpressionError, match=message):
            run.advance_to(1)
