"""What engines are to agree on: random dataflows, and single operators with more updates."""

import random

from support.running import KV, new_flow, parity, two_hops

import tidemill as tm
from tidemill.testing import dataflows

DATAFLOWS = {
    "epochs": dataflows(),
    "planes": dataflows(2),
    "cubes": dataflows(3, max_operators=4),
    "large": dataflows(max_operators=12, loops=False),
}
SHOWN = {"k": "int64", "s": "string"}


def _to_even(time):
    return time + time % 2 if isinstance(time, int) else (time[0] + time[0] % 2, time[1])


def _shown(key, rows):
    return [((*key, repr(rows)), 1)]


# One operator at a time, with more updates: what random dataflows meet only now and then.
OPERATORS = {
    "distinct": lambda a, b: a.concat(b.negate()).distinct(),
    "count": lambda a, b: a.concat(b.negate()).count("n"),
    "join": lambda a, b: a.join(b, on="k"),
    "full join": lambda a, b: a.join(b, on="k", how="full"),
    "anti join": lambda a, b: a.antijoin(b, on="k"),
    "join where": lambda a, b: a.join(b, on="k", how="left", where="v < v_right"),
    "range join": lambda a, b: a.cross_join(b).filter("v >= v_right AND k IS NOT NULL").select("k", v="k_right"),
    "range join by key": lambda a, b: a.join(b, on={"k": "v"}, where="v > k_right", nulls_equal=True),
    "comparison with one row": lambda a, b: (
        a.cross_join(b.agg(top=tm.max("v"))).filter("v < top").select("k", "v")
    ),
    "sums": lambda a, b: a.concat(b.negate()).group_by("k").agg(n=tm.count(), s=tm.sum("v"), x=tm.avg("v")),
    "total": lambda a, b: a.concat(b.negate()).agg(n=tm.count("v"), s=tm.sum("v"), x=tm.avg("v / 3")),
    "extremes": lambda a, b: a.distinct().concat(b.distinct()).group_by("k").agg(l=tm.min("v"), h=tm.max("v")),
    "made aggregates": lambda a, b: a.distinct().concat(b.distinct()).group_by("k").agg(
        m=tm.percentile_disc("v", 0.5), d=tm.sum("v", distinct=True), c=tm.count_distinct("k", "v"), r=tm.regr_r2("k", "v")
    ),
    "reduce": lambda a, b: a.distinct().concat(b.distinct()).group_by("k").reduce(_shown, SHOWN),
    "threshold": lambda a, b: a.concat(b).threshold(lambda row, n: n // 2),
    "reach": lambda a, b: a.distinct().iterate(lambda here: two_hops(here, b).concat(a).distinct(), error_at=12),
    "parity": parity,
    "least labels": lambda a, b: a.distinct().iterate(
        lambda here: two_hops(here, b.distinct()).concat(a.distinct()).group_by("k").agg(v=tm.min("v")), return_at=4
    ),
    "halves in a loop": lambda a, b: a.iterate(
        lambda here: here.concat(b.negate()).threshold(lambda row, n: n // 2), return_at=3
    ),
    "loops in a loop": lambda a, b: a.distinct().iterate(
        lambda here: here.iterate(lambda inner: two_hops(inner, b).concat(here).distinct(), error_at=12)
        .filter("k <> 1").concat(a).distinct(), error_at=12
    ),
    "delay": lambda a, b: a.delay(_to_even).concat(b).distinct(),
    "delay in a loop": lambda a, b: a.iterate(
        lambda here: two_hops(here.delay(_to_even), b).distinct(), return_at=3
    ),
}  # fmt: skip
LOOPS = {"reach", "parity", "least labels", "halves in a loop", "loops in a loop", "delay in a loop"}


def one_operator(operator, coordinates):
    """A dataflow of one of these operators."""
    flow = new_flow(coordinates)
    flow.output("out", OPERATORS[operator](*(flow.input(n, KV) for n in "ab")))
    return flow


def all_operators(coordinates, *, loops):
    """A dataflow of them all, so that engines whose steps are slow take few; without the loops if they take too long."""
    flow = new_flow(coordinates)
    a, b = (flow.input(n, KV) for n in "ab")
    for name, build in OPERATORS.items():
        if loops or name not in LOOPS:
            flow.output(name, build(a, b))
    return flow


def some_updates(coordinates, seed, size, latest):
    """Updates of inputs a and b, always the same: without Hypothesis, whose first examples are next to empty."""
    rng = random.Random(seed)
    values = [None, 0, 1, 2, 3]

    def update(diffs):
        time = tuple(rng.randint(0, latest) for _ in range(coordinates))
        return (rng.choice(values), rng.choice(values)), time if coordinates > 1 else time[0], rng.choice(diffs)

    # No loop goes round for ever by edges of which there are fewer than none.
    return {"a": [update([1, 1, 2, -1]) for _ in range(size)], "b": [update([1, 2]) for _ in range(size)]}
