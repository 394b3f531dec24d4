"""Spark agrees with the embedded engine on random dataflows of all operators."""

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from running import examples

from tidemill.testing import all_at_once, check_equivalent, dataflows

# Shrinking would run hundreds of jobs: what fails is shrunk on the embedded engine, or by hand.
SETTINGS = {
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
}


def compare(case):
    note(case.flow.explain())
    check_equivalent(case.flow, case.updates, engines=["embedded", "spark"], batchings=[all_at_once])


@pytest.mark.parametrize(("coordinates", "count"), [(1, 10), (2, 8), (3, 2)])
def test_without_loops(spark, coordinates, count):
    @settings(examples(count), **SETTINGS)
    @given(case=dataflows(coordinates, max_operators=8, loops=False))
    def agreement(case):
        compare(case)

    agreement()


@pytest.mark.parametrize(("coordinates", "count"), [(1, 12), (2, 8)])
def test_with_loops(spark, coordinates, count):
    @settings(examples(count), **SETTINGS)
    @given(case=dataflows(coordinates, max_operators=3))
    def agreement(case):
        compare(case)

    agreement()
