"""A change of a row touches a few blocks, and few rows of each: the logarithm of the partition, not its size."""

import random
from statistics import fmean

import pytest

import tidemill as tm
from tidemill.algorithms import BlockShape, combine, interval_sum, offset_search, order_sums, prefix_sum
from tidemill.algorithms.prefix_sums.blocks import Fold

SHAPE = BlockShape(bits=4, levels=4)
EPOCHS = 60


def lag(rows):
    return prefix_sum(rows, index="i", unique=True, shape=SHAPE, x=combine.last("x"))


def frame(rows):
    order = order_sums(rows, index="i", unique=True, shape=SHAPE, n=combine.rows(), x=combine.sum("x"))
    frames = offset_search(order, offset=-4, count="n", found="low").with_columns(high="i + 1")
    return interval_sum(order, frames)


def touched(build, n, seed):
    """Run and move one row at a time; return by epoch the updates that operators were given, and those of blocks."""
    dice = random.Random(seed)
    flow = tm.Dataflow("touched")
    flow.output("out", build(flow.input("rows", {"i": "int64", "x": "int64"})), changes=False)
    places = dice.sample(range(10**12), n + EPOCHS)
    found = []
    with flow.start() as run:
        blocks = {node.id for node in run.graph.nodes if node.describe() == Fold.__name__}
        run.insert("rows", [(i, i % 100) for i in places[:n]])
        run.advance_to(1)
        before = run.metrics()
        for epoch in range(EPOCHS):
            i = places[epoch]
            run.update("rows", [((i, i % 100), epoch + 1, -1), ((places[n + epoch], 7), epoch + 1, 1)])
            run.advance_to(epoch + 2)
            after = run.metrics()
            given = [(m.id, m.records_in - b.records_in) for m, b in zip(after, before)]
            found.append((sum(r for _, r in given), sum(r for m, r in given if m in blocks)))
            before = after
    return found


@pytest.mark.slow
@pytest.mark.parametrize("build", [lag, frame])
def test_records_touched_grow_as_the_logarithm(build):
    sizes = [10**3, 10**4, 10**5]
    every = {n: touched(build, n, seed=1) for n in sizes}
    for n in sizes:
        # Each of two changes takes out and puts in a block of each level, and now and then cuts one in two.
        assert fmean(b for _, b in every[n]) <= 2 * 2 * SHAPE.levels + 4, every[n]
    median = {n: sorted(r for r, _ in every[n])[EPOCHS // 2] for n in sizes}
    assert median[10**5] <= 3 * median[10**3], median  # a hundredfold partition: log 10**5 is 5/3 of log 10**3
