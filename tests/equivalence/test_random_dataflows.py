"""Engines agree on random dataflows of all operators, however their updates are batched."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from running import KV, examples, new_flow, parity, two_hops

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, dataflows, shuffled, time_by_time, updates


def compare(case, engines, seed):
    note(case.flow.explain())
    batchings = [all_at_once, time_by_time, shuffled(seed), shuffled(seed + 1)]
    check_equivalent(case.flow, case.updates, engines=engines, batchings=batchings)


@examples(120)
@given(case=dataflows(), seed=st.integers(0, 1000))
def test_epochs(engines, case, seed):
    compare(case, engines, seed)


@examples(120)
@given(case=dataflows(2), seed=st.integers(0, 1000))
def test_two_coordinates(engines, case, seed):
    compare(case, engines, seed)


@examples(30)
@given(case=dataflows(3, max_operators=4), seed=st.integers(0, 1000))
def test_three_coordinates(engines, case, seed):
    compare(case, engines, seed)


@examples(60)
@given(case=dataflows(max_operators=12, loops=False), seed=st.integers(0, 1000))
def test_larger_dataflows_without_loops(engines, case, seed):
    compare(case, engines, seed)


SHOWN = {"k": "int64", "s": "string"}


def _to_even(time):
    return time + time % 2 if isinstance(time, int) else (time[0] + time[0] % 2, time[1])


# One operator at a time, with more updates: what random dataflows meet only now and then.
OPERATORS = {
    "distinct": lambda a, b: a.concat(b.negate()).distinct(),
    "count": lambda a, b: a.concat(b.negate()).count("n"),
    "join": lambda a, b: a.join(b, on="k"),
    "full join": lambda a, b: a.join(b, on="k", how="full"),
    "anti join": lambda a, b: a.antijoin(b, on="k"),
    "join where": lambda a, b: a.join(b, on="k", how="left", where="v < v_right"),
    "sums": lambda a, b: a.concat(b.negate()).group_by("k").agg(n=tm.count(), s=tm.sum("v"), x=tm.avg("v")),
    "total": lambda a, b: a.concat(b.negate()).agg(n=tm.count("v"), s=tm.sum("v"), x=tm.avg("v / 3")),
    "extremes": lambda a, b: a.distinct().concat(b.distinct()).group_by("k").agg(l=tm.min("v"), h=tm.max("v")),
    "reduce": lambda a, b: a.distinct().concat(b.distinct()).group_by("k").reduce(_shown, SHOWN),
    "threshold": lambda a, b: a.concat(b).threshold(lambda row, n: n // 2),
    "reach": lambda a, b: a.distinct().iterate(lambda here: two_hops(here, b).concat(a).distinct(), error_at=50),
    "parity": parity,
    "least labels": lambda a, b: a.distinct().iterate(
        lambda here: two_hops(here, b.distinct()).concat(a.distinct()).group_by("k").agg(v=tm.min("v")), return_at=4
    ),
    "halves in a loop": lambda a, b: a.iterate(
        lambda here: here.concat(b.negate()).threshold(lambda row, n: n // 2), return_at=3
    ),
    "loops in a loop": lambda a, b: a.distinct().iterate(
        lambda here: here.iterate(lambda inner: two_hops(inner, b).concat(here).distinct(), error_at=50)
        .filter("k <> 1").concat(a).distinct(), error_at=50
    ),
    "delay": lambda a, b: a.delay(_to_even).concat(b).distinct(),
    "delay in a loop": lambda a, b: a.iterate(
        lambda here: two_hops(here.delay(_to_even), b).distinct(), return_at=3
    ),
}  # fmt: skip


def _shown(key, rows):
    return [((*key, repr(rows)), 1)]


@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("operator", OPERATORS)
@examples(15)
@given(data=st.data())
def test_each_operator(engines, operator, coordinates, data):
    found = {n: data.draw(updates(KV, coordinates, max_size=24, latest=4), label=n) for n in "ab"}
    seed = data.draw(st.integers(0, 1000), label="seed")
    flow = new_flow(coordinates)
    flow.output("out", OPERATORS[operator](*(flow.input(n, KV) for n in "ab")))
    batchings = [all_at_once, time_by_time, *(shuffled(seed + i) for i in range(4))]
    check_equivalent(flow, found, engines=engines, batchings=batchings)


@examples(30)
@given(found=updates(KV, 1, max_size=20), seed=st.integers(0, 1000))
def test_upserts(engines, found, seed):
    flow = new_flow()
    keyed = flow.input("keyed", KV, key="k")
    flow.output("out", keyed)
    flow.output("total", keyed.agg(n=tm.count(), s=tm.sum("v")))
    whole = [((k or 0, v), t, d) for (k, v), t, d in found]
    check_equivalent(flow, {"keyed": whole}, engines=engines, batchings=[all_at_once, time_by_time, shuffled(seed)])


@examples(30)
@given(found=updates(KV, 2, non_negative=True), seed=st.integers(0, 1000))
def test_unique_inputs(engines, found, seed):
    """Valid or not: engines agree on whether each count is 0 or 1 at every time."""
    flow = new_flow(2)
    flow.output("out", flow.input("a", KV, unique=True).distinct())
    check_equivalent(flow, {"a": found}, engines=engines, batchings=[all_at_once, time_by_time, shuffled(seed)])
