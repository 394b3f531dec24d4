"""Dynamic filters on Spark, which runs their lowering: the embedded engine's updates, and the same errors."""

import random

import pytest
from running import KV, new_flow

import tidemill as tm


@pytest.mark.parametrize("coordinates", [1, 2])
def test_updates_are_those_of_the_embedded_engine(spark, coordinates):
    rng = random.Random(coordinates)
    times = [(t,) * coordinates for t in range(4)]
    left_rows = [((rng.randrange(3), rng.choice([None, 0, 1, 2, 3])), *rng.choice(times), 1) for _ in range(40)]
    right_rows = [((1,), *times[0], 1), ((1,), *times[1], -1), ((2,), *times[1], 1), ((2,), *times[3], -1)]
    flow = new_flow(coordinates)
    left, right = flow.input("left", KV), flow.input("right", {"x": "int64"})
    for i, comparison in enumerate(["=", "<>", "<", ">="]):
        flow.output(f"out{i}", left.dynamic_filter("v", comparison, right))
    mean = left.agg(m=tm.avg("v"))
    pairs = left.cross_join(right).filter("v < x").select("k", "x")
    flow.output("pairs", pairs)
    flow.output("mean", left.cross_join(mean).filter("v > m").select("k", "v"))
    names = ["epoch"] if coordinates == 1 else ["event", "correction"]
    columns = ["time"] if coordinates == 1 else names
    types = ", ".join(f"{c} long" for c in columns)
    frames = {
        "left": spark.createDataFrame(
            [(*row, *rest) for row, *rest in left_rows], f"k long, v long, {types}, diff long"
        ),
        "right": spark.createDataFrame([(*row, *rest) for row, *rest in right_rows], f"x long, {types}, diff long"),
    }
    found = {name: frame.collect() for name, frame in tm.render(flow, spark, frames).items()}
    with flow.start() as run:
        for name, rows in (("left", left_rows), ("right", right_rows)):
            run.update(name, [(row, t[0] if coordinates == 1 else tuple(t), d) for row, *t, d in rows])
        run.close_inputs()
        for name, rows in found.items():
            expected = [(*row, *(t if coordinates > 1 else [t]), d) for row, t, d in run.changes(name)]
            assert sorted(map(repr, map(tuple, rows))) == sorted(map(repr, expected))


def test_a_join_by_range_of_nothing_else_is_lowered(spark):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.cross_join(b).filter("v < v_right").select("k", v="v_right"))
    frames = {name: spark.createDataFrame([(1, 1), (2, 2)], "k long, v long") for name in "ab"}
    assert tm.render(flow, spark, frames)["out"].collect() == [(1, 2, 0, 1)]


def test_two_right_rows_are_refused(spark):
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"x": "int64"})
    flow.output("out", left.dynamic_filter("v", ">", right))
    frames = {
        "left": spark.createDataFrame([(1, 1)], "k long, v long"),
        "right": spark.createDataFrame([(1,), (2,)], "x long"),
    }
    with pytest.raises(tm.errors.StepError, match=r"more than one row, \(1,\) and \(2,\)"):
        tm.render(flow, spark, frames)
