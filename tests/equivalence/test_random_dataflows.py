"""Engines agree on random dataflows of all operators, however their updates are batched."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.equivalences import DATAFLOWS, OPERATORS, one_operator
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates


@pytest.mark.law("Engines agree exactly: their consolidated updates are equal as sets.")
@pytest.mark.parametrize(("kind", "count"), [("epochs", 120), ("planes", 120), ("cubes", 30), ("large", 60)])
def test_random_dataflows(engines, kind, count):
    @examples(count)
    @given(case=DATAFLOWS[kind], seed=st.integers(0, 1000))
    def agreement(case, seed):
        note(case.flow.explain())
        batchings = [all_at_once, time_by_time, shuffled(seed), shuffled(seed + 1)]
        check_equivalent(case.flow, case.updates, engines=engines, batchings=batchings)

    agreement()


@pytest.mark.law("Engines agree exactly: their consolidated updates are equal as sets.")
@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("operator", OPERATORS)
@examples(15)
@given(data=st.data())
def test_each_operator(engines, operator, coordinates, data):
    found = {n: data.draw(updates(KV, coordinates, max_size=24, latest=4), label=n) for n in "ab"}
    seed = data.draw(st.integers(0, 1000), label="seed")
    batchings = [all_at_once, time_by_time, *(shuffled(seed + i) for i in range(4))]
    check_equivalent(one_operator(operator, coordinates), found, engines=engines, batchings=batchings)


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
