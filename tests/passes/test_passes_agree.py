"""What passes make of a dataflow gives the same, on random dataflows: all of them together, and each alone."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from running import examples

from tidemill.dataflow.passes.pipeline import PASSES
from tidemill.testing import all_at_once, check_equivalent, dataflows, shuffled, time_by_time

NAMES = [p.__name__ for p in PASSES]


def compare(case, passes, seed):
    note(case.flow.explain(passes=passes))
    batchings = [all_at_once, time_by_time, shuffled(seed)]
    check_equivalent(case.flow, case.updates, batchings=batchings, passes=passes)


@pytest.mark.law("Passes change nothing that comes out.")
@examples(70)
@given(case=dataflows(max_operators=9), seed=st.integers(0, 1000))
def test_all_passes(case, seed):
    compare(case, True, seed)


@examples(40)
@given(case=dataflows(2), seed=st.integers(0, 1000))
def test_all_passes_with_two_coordinates(case, seed):
    compare(case, True, seed)


@pytest.mark.law("Passes change nothing that comes out.")
@pytest.mark.parametrize("name", NAMES)
@examples(15)
@given(case=st.integers(1, 2).flatmap(dataflows), seed=st.integers(0, 1000))
def test_each_pass_alone(name, case, seed):
    compare(case, [name], seed)


@examples(30)
@given(case=dataflows(), passes=st.permutations(PASSES), seed=st.integers(0, 1000))
def test_passes_in_any_order_and_twice(case, passes, seed):
    """Whatever came before a pass, it gives a graph that is right, and that can go through all of them again."""
    case.flow.graph.freeze()
    graph = case.flow.graph
    for one in [*passes, *PASSES]:
        graph = one(graph)
        graph.check()
    assert list(graph.inputs) == list(case.flow.graph.inputs)
    assert list(graph.outputs) == list(case.flow.graph.outputs)
