"""Delta joins on Spark, where they are chains of joins of two: against the reference and the embedded engine."""

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


@pytest.mark.parametrize("coordinates", [1, 2])
def test_engines_agree(spark, coordinates):
    @settings(examples(4, least=2), **SETTINGS)
    @given(data=st.data())
    def check(data):
        flow = new_flow(coordinates)
        a, b = flow.input("a", KV), flow.input("b", KV)
        ab, bc, ac = a.rename(k="a", v="b"), b.rename(k="b", v="c"), a.rename(k="a", v="c")
        flow.output("triangles", tm.join_all([ab, bc, ac], on=["a", "b", "c"]))
        flow.output("path", tm.join_all([ab, bc, a.rename(k="c", v="d")], on=["b", "c"], nulls_equal=True))
        found = {n: data.draw(updates(KV, coordinates, max_size=10)) for n in "ab"}
        engines: list[Any] = ["reference", "embedded", "spark", SparkLive(in_driver=0)]
        check_equivalent(flow, found, engines=engines, batchings=[all_at_once, time_by_time])

    check()
