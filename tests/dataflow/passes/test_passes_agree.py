"""What passes make of a dataflow gives the same, on random dataflows: all of them together, and each alone."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.equivalences import OPERATORS, one_operator
from support.running import KV, examples, new_flow

from tidemill.dataflow.passes.pipeline import PASSES
from tidemill.testing import all_at_once, check_equivalent, dataflows, shuffled, time_by_time, updates

NAMES = [p.__name__ for p in PASSES]


def compare(case, passes, seed):
    note(case.flow.explain(passes=passes))
    batchings = [all_at_once, time_by_time, shuffled(seed)]
    check_equivalent(case.flow, case.updates, batchings=batchings, passes=passes)


@pytest.mark.slow
@pytest.mark.law("Passes change nothing that comes out.")
@examples(70)
@given(case=dataflows(max_operators=9), seed=st.integers(0, 1000))
def test_all_passes(case, seed):
    compare(case, True, seed)


@examples(40)
@given(case=dataflows(2), seed=st.integers(0, 1000))
def test_all_passes_with_two_coordinates(case, seed):
    compare(case, True, seed)


@pytest.mark.slow
@pytest.mark.law("Passes change nothing that comes out.")
@pytest.mark.parametrize("name", NAMES)
@examples(15)
@given(case=st.integers(1, 2).flatmap(dataflows), seed=st.integers(0, 1000))
def test_each_pass_alone(name, case, seed):
    compare(case, [name], seed)


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize(
    "operator", [name for name in OPERATORS if "range" in name or "where" in name or "one row" in name]
)
@examples(15)
@given(data=st.data())
def test_joins_that_compare(operator, coordinates, data):
    """With more updates: what random dataflows meet only now and then."""
    found = {n: data.draw(updates(KV, coordinates, max_size=24, latest=4), label=n) for n in "ab"}
    seed = data.draw(st.integers(0, 1000), label="seed")
    batchings = [all_at_once, time_by_time, shuffled(seed)]
    check_equivalent(one_operator(operator, coordinates), found, batchings=batchings, passes=True)


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


def test_passes_leave_a_consolidation_that_several_read():
    """Doubling a collection and consolidating it, again and again, is as much work as without passes."""
    flow = new_flow()
    c = flow.input("x", {"k": "int64"})
    for _ in range(20):
        c = c.concat(c).consolidate()
    flow.output("out", c)
    with flow.start() as run:
        run.insert("x", [(1,)])
        run.advance()
        assert run.snapshot("out").counts() == {(1,): 2**20}
        assert sum(o.records_out for o in run.metrics()) < 100


def test_passes_drop_consolidations_that_one_operator_reads_and_repeats():
    flow = new_flow()
    a, b = flow.input("a", {"k": "int64"}), flow.input("b", {"k": "int64"})
    flow.output("out", a.consolidate().concat(b.negate().consolidate()).distinct())
    assert "Consolidate" not in flow.explain(passes=True).partition("after ")[2]


def test_a_collection_with_itself_is_consolidated_before_it_doubles_on():
    """Whatever is between the unions: without it, 2**20 updates."""
    flow = new_flow()
    c = flow.input("x", {"k": "int64"})
    for i in range(20):
        c = c.concat([c, c.filter("k > 0"), c.select("k"), c.negate().negate()][i % 4])
    flow.output("out", c)
    with flow.start() as run:
        run.insert("x", [(1,)])
        run.advance()
        assert run.snapshot("out").counts() == {(1,): 2**20}
        assert sum(o.records_out for o in run.metrics()) < 1000


def test_a_union_that_a_loop_joins_and_others_read():
    """Its arrangement, which all of them read then, is entered by the loop."""
    flow = new_flow()
    x, y, z = (flow.input(name, {"a": "int64", "b": "int64"}) for name in "xyz")
    union = x.concat(y.negate())
    flow.output("plain", union)
    joined = z.iterate(lambda v: v.join(union, on="a").select("a", b="b_right").concat(v).distinct())
    flow.output("loop", joined)
    changes = {"x": [((1, 1), 0, 1), ((1, 2), 0, 1)], "y": [((1, 2), 0, 1), ((1, 2), 1, -1)], "z": [((1, 0), 0, 1)]}
    check_equivalent(flow, changes, engines=["reference", "embedded"], passes=True)


class Times:  # noqa: PLW1641 - as said
    """A function that says of itself that it is equal to others, and has no hash."""

    def __init__(self, by):
        self.by = by

    def __eq__(self, other):
        return isinstance(other, Times)

    def __call__(self, row):
        return [(row.k * self.by, row.v)]


def test_functions_are_the_same_if_they_are_the_same_object():
    flow = new_flow()
    rows = flow.input("rows", KV)
    twice = Times(2)
    flow.output("out", rows.flat_map(twice, KV).concat(rows.flat_map(Times(3), KV), rows.flat_map(twice, KV)))
    with flow.start() as run:
        run.insert("rows", [(1, 1)])
        run.advance()
        assert sorted(run.snapshot("out")) == [(2, 1), (2, 1), (3, 1)]
        assert sum(node.kind == "FlatMap" for node in run.graph.nodes) == 2
