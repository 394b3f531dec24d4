"""Graph algorithms on Spark: what they find at every time, whether all times come at once or one after another."""

import random

import pytest
from support.graph_oracles import ALGORITHMS, EDGES, ROOTS, built
from support.running import at, grid, many_examples, new_flow, start

from tidemill.testing.spark_engines import SparkHistories

ON_SPARK = ["bfs", "connected_components", "k_core", "triangle_count", "stable_matching"]


def flow_of(names, coordinates=1):
    flow = new_flow(coordinates)
    edges, nodes = flow.input("edges", EDGES), flow.input("nodes", ROOTS)
    for name in names:
        flow.output(name, built(name, edges, nodes))
    return flow


def story(coordinates):
    dice, found = random.Random(7), []
    for _ in range(14):
        row, time = (dice.randrange(6), dice.randrange(6), dice.randrange(3)), [dice.randrange(2)] * coordinates
        later = [c + dice.randrange(2) for c in time]
        as_user = (lambda t: t[0]) if coordinates == 1 else tuple
        found += [(row, as_user(time), 1)] + ([(row, as_user(later), -1)] if dice.random() < 0.4 else [])
    return found


ON_EXECUTORS = [1, 2][not many_examples() :]  # coordinates: each round of a loop is several jobs
CASES = [
    *((0, ON_SPARK, coordinates) for coordinates in ON_EXECUTORS),
    *((1000, list(ALGORITHMS), coordinates) for coordinates in (1, 2)),
]


@pytest.mark.parametrize(("in_driver", "names", "coordinates"), CASES)
def test_at_every_time_they_are_what_the_oracles_find(spark, in_driver, names, coordinates):  # noqa: ARG001 - the session
    edges, nodes = story(coordinates), [((0,), 0 if coordinates == 1 else (0, 0), 1)]
    with start(flow_of(names, coordinates), SparkHistories(in_driver)) as run:
        run.update("edges", edges)
        run.update("nodes", nodes)
        run.close_inputs()
        changes = {name: list(run.changes(name)) for name in names}
    for t in grid(edges, nodes):
        for name in names:
            wanted = ALGORITHMS[name].oracle(list(at(edges, t)), list(at(nodes, t)))
            assert at(changes[name], t) == dict.fromkeys(wanted, 1), (name, t)
