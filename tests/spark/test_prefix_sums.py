"""Sums over an order on Spark: rendered at once, and live, as on the reference engine."""

import random

import pytest
from support.windows import PLACED, combinations

import tidemill as tm
from tidemill.algorithms import BlockShape, combine, interval_sum, offset_search, order_sums, prefix_sum, unique_index
from tidemill.testing import check_equivalent


def updates(seed, count):
    dice, found, there = random.Random(seed), [], []
    for n in range(count):
        if there and dice.random() < 0.3:
            found.append((there.pop(dice.randrange(len(there))), n // 10, -1))
        else:
            row = (dice.choice([0, 1, None]), dice.choice([None, *range(12)]), dice.choice([None, *range(-3, 4)]))
            there.append(row)
            found.append((row, n // 10, 1))
    return found


@pytest.mark.parametrize("loop", [False, True])
def test_sums_and_searches(spark, loop):
    flow = tm.Dataflow("sums")
    rows = flow.input("rows", PLACED)
    shape = BlockShape(1, 1 if loop else 2, loop)
    order = order_sums(
        rows, index="i", partition_by="p", shape=shape, **{n: c for n, c in combinations().items() if n != "gcd"}
    )
    flow.output("prefix", prefix_sum(order))
    flow.output("search", offset_search(order, offset=-2))
    if not loop:
        flow.output("sums", interval_sum(order, rows.select("p", low="i", high="i + 4")))
    check_equivalent(flow, {"rows": updates(7, 40)}, engines=["reference", "spark"])


def test_lag_and_exact_sums(spark):
    flow = tm.Dataflow("lag")
    rows = flow.input("rows", {"p": "string", "t": "timestamp", "x": "float64"})
    unique = unique_index(rows, order_by=[tm.desc("t"), "x"], partition_by="p")
    before = prefix_sum(
        unique, index="index", partition_by="p", unique=True, copies="copy", shape=BlockShape(1, 2),
        lag=combine.last("x"), some=combine.list("x", last=2), total=combine.sum("x"),
    )  # fmt: skip
    flow.output("before", unique.distinct().join(before, on=["p", "index"], nulls_equal=True))
    import datetime as dt

    made = [
        ((p, dt.datetime(2024, 1, day), x), time, 1)
        for time, (p, day, x) in enumerate(
            [("a", 1, 1e20), ("a", 2, 1.0), ("b", 1, None), ("a", 3, -1e20), ("a", 3, -1e20)]
        )
    ]
    check_equivalent(flow, {"rows": [*made, (made[0][0], 5, -1)]}, engines=["reference", "embedded", "spark"])
