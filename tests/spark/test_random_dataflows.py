"""Three engines agree on random dataflows of all operators: reference, embedded, and Spark, for histories and live."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from support.agreement import Agreement, Agreement2D, agree
from support.equivalences import DATAFLOWS, all_operators, some_updates
from support.running import examples, many_examples

from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time
from tidemill.testing.spark_engines import SparkHistories, SparkLive

# Shrinking would run hundreds of jobs: what fails is shrunk on the embedded engine, or by hand.
SETTINGS: dict[str, Any] = {
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
}
LIVE = SparkLive(in_driver=2)
"""Its steps are taken on executors, but for the smallest."""


def compare(flow, updates):
    engines: list[Any] = ["reference", "embedded", "spark", LIVE]
    check_equivalent(flow, updates, engines=engines, batchings=[all_at_once, time_by_time])


@pytest.mark.parametrize(("kind", "count"), [("epochs", 8), ("planes", 5), ("cubes", 2), ("large", 6)])
def test_random_dataflows(spark, kind, count):
    @settings(examples(count, least=(count + 1) // 2), **SETTINGS)
    @given(case=DATAFLOWS[kind])
    def agreement(case):
        note(case.flow.explain())
        compare(case.flow, case.updates)

    agreement()


def test_all_operators_with_loops_in_the_driver(spark):
    flow = all_operators(2, loops=True)
    updates = some_updates(2, 1, size=10, latest=2)
    check_equivalent(flow, updates, engines=["embedded", SparkHistories(in_driver=1000)], batchings=[all_at_once])


@pytest.mark.parametrize(("coordinates", "batching"), [(1, time_by_time), (2, shuffled(1))][not many_examples() :])
def test_all_operators(spark, coordinates, batching):
    """With more updates than random dataflows come with, so that much meets beyond the frontier; rendered they are elsewhere."""
    flow = all_operators(coordinates, loops=coordinates == 2)
    updates = some_updates(coordinates, 1, size=10, latest=coordinates)
    check_equivalent(flow, updates, engines=["reference", "embedded", LIVE], batchings=[batching])
    with flow.start() as run:  # nothing of it is an error, on which engines might agree, too
        for name, triples in updates.items():
            run.update(name, triples)
        run.close_inputs()
        assert all(list(run.changes(output)) for output in run.graph.outputs)


@pytest.mark.parametrize("machine", [Agreement, Agreement2D])
def test_engines_agree_after_every_action(spark, machine):
    engines = ["reference", "embedded", SparkLive(in_driver=0)]
    agree(machine, engines, parent=examples(15, least=6), stateful_step_count=20, **SETTINGS)
