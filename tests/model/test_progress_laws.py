"""Path summaries compose, and the frontiers that follow from them are lower envelopes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import KV, examples, new_flow

import tidemill as tm
from tidemill.dataflow.lattice import Antichain, less_equal
from tidemill.dataflow.nodes import Feedback, Variable
from tidemill.dataflow.progress import Progress
from tidemill.dataflow.summaries import PathSummary, minimal_summaries
from tidemill.errors import GraphError


@st.composite
def paths(draw, coordinates=None):
    """A walk through scopes, as a list of elementary summaries that fit each other."""
    at = draw(st.integers(1, 2)) if coordinates is None else coordinates
    steps = []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["enter", "delay", "back"] + ["leave"] * (at > 1)))
        if kind == "enter" and at < 4:
            steps.append(PathSummary.enter(at))
            at += 1
        elif kind == "leave":
            steps.append(PathSummary.leave(at))
            at -= 1
        elif kind == "delay":
            steps.append(PathSummary.delay((draw(st.integers(0, 2)),) + (0,) * (at - 1)))
        else:
            steps.append(PathSummary.delay((0,) * (at - 1) + (1,)))
    return steps


def composed(steps, coordinates):
    path = PathSummary.identity(coordinates)
    for step in steps:
        path = path.then(step)
    return path


@examples(100)
@given(paths(2), st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_a_path_is_the_composition_of_its_steps(steps, t):
    expected = t
    for step in steps:
        expected = step.apply(expected)
    assert composed(steps, 2).apply(t) == expected


@examples(100)
@given(paths(1), paths(1), st.integers(0, 5))
def test_summaries_are_monotone_and_ordered_as_their_results(first, second, c):
    a, b = composed(first, 1), composed(second, 1)
    assert less_equal(a.apply((c,)), a.apply((c + 1,)))
    if len(a.added) == len(b.added):
        always = all(less_equal(a.apply((t,)), b.apply((t,))) for t in range(12))
        assert not a.less_equal(b) or always
        kept = minimal_summaries([a, b])
        for t in range(8):
            both = Antichain([a.apply((t,)), b.apply((t,))])
            assert Antichain(s.apply((t,)) for s in kept) == both


@given(paths(1), paths(1), paths(1))
def test_composition_is_associative(first, second, third):
    a = composed(first, 1)
    second = [PathSummary.leave(n) for n in range(len(a.added), 1, -1)] + second
    b = composed(second, len(a.added))
    third = [PathSummary.leave(n) for n in range(len(b.added), 1, -1)] + third
    c = composed(third, len(b.added))
    assert a.then(b).then(c) == a.then(b.then(c))


def test_entering_going_round_and_leaving():
    enter, back, leave = PathSummary.enter(1), PathSummary.delay((0, 1)), PathSummary.leave(2)
    assert enter.then(back).then(back).apply((4,)) == (4, 2)
    assert enter.then(back).then(leave) == PathSummary.identity(1)
    assert back.advances()
    assert not PathSummary.identity(2).advances()
    assert not leave.then(enter).advances()  # it starts anew, so it does not advance every time
    assert PathSummary.delay((1, 0)).apply_to(Antichain([(0, 3)])) == Antichain([(1, 3)])


def frontiers(flow, **inputs):
    progress = Progress(flow.graph)
    given = {flow.graph.inputs[n]: f for n, f in inputs.items()}
    return {name: progress.user_frontier(node, given) for name, node in flow.graph.outputs.items()}


@pytest.mark.law("A frontier is the lower envelope of the inputs that reach it.")
def test_a_frontier_is_the_lower_envelope_of_the_inputs_that_reach_it():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    for name, c in {"a": a, "both": a.concat(b), "late": a.delay(2).concat(b), "none": flow.constant(KV, [])}.items():
        flow.output(name, c)
    found = frontiers(flow, a=Antichain([3]), b=Antichain([4]))
    assert found == {"a": Antichain([3]), "both": Antichain([3]), "late": Antichain([4]), "none": Antichain()}
    assert frontiers(flow, a=Antichain(), b=Antichain([4]))["both"] == Antichain([4])


def test_in_two_coordinates_frontiers_are_antichains():
    flow = new_flow(2)
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("both", a.concat(b.delay((1, 0))))
    found = frontiers(flow, a=Antichain([(0, 3)]), b=Antichain([(1, 1)]))
    assert found["both"] == Antichain([(0, 3), (2, 1)])


def test_loops_do_not_hold_frontiers_back():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)

    def body(here):
        return here.iterate(lambda inner: inner.concat(b).distinct()).distinct()

    flow.output("found", a.iterate(body))
    flow.output("only a", a.iterate(lambda here: here.distinct()))
    found = frontiers(flow, a=Antichain([5]), b=Antichain([2]))
    assert found == {"found": Antichain([2]), "only a": Antichain([5])}


def test_the_inputs_that_reach_a_node():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.iterate(lambda here: here.concat(a).distinct()))
    flow.output("other", b)
    progress = Progress(flow.graph)
    assert [n.name for n in progress.sources(flow.graph.outputs["out"])] == ["a"]


@pytest.mark.law("Every cycle strictly increases time.")
def test_a_cycle_that_does_not_advance_time_is_refused():
    flow = new_flow()
    a = flow.input("a", KV)
    flow.output("out", a.iterate(lambda here: here.distinct()))
    graph = flow.graph
    progress = Progress(graph)
    variable = next(n for n in graph.nodes if isinstance(n, Variable))
    feedback = next(n for n in graph.nodes if isinstance(n, Feedback))
    progress._steps[feedback] = [(variable, PathSummary.identity(2))]
    with pytest.raises(GraphError, match="does not advance time"):
        progress.summaries(variable, feedback)


def test_runs_report_frontiers():
    flow = tm.Dataflow()
    a = flow.input("a", KV)
    flow.output("late", a.delay(3))
    with flow.start(tm.Reference()) as run:
        assert run.frontier("late") == Antichain([3])
        run.advance_to(2)
        assert (run.frontier("a"), run.frontier("late")) == (Antichain([2]), Antichain([5]))
        run.close_input("a")
        assert run.frontier("late") == Antichain()


@pytest.mark.parametrize("coordinates", [1, 2])
@given(data=st.data())
def test_inputs_are_needed_as_far_as_outputs_show(coordinates, data):
    """Needed no further than that, and no less: each output's frontier is the same."""
    times = st.tuples(*[st.integers(0, 6)] * coordinates)
    delays = st.tuples(*[st.integers(0, 3)] * coordinates)
    flow = new_flow(coordinates)
    inputs = [flow.input(name, KV) for name in "abc"]
    for i in range(data.draw(st.integers(1, 3))):
        parts = [c.delay(data.draw(delays)) for c in data.draw(st.lists(st.sampled_from(inputs), min_size=1))]
        flow.output(f"out{i}", parts[0].concat(*parts[1:]))
    graph = flow.graph
    progress, outputs = Progress(graph), list(graph.outputs.values())
    frontiers = {node: Antichain(data.draw(st.lists(times, max_size=3))) for node in graph.inputs.values()}
    needed = progress.needed(outputs, frontiers)
    probe = data.draw(times)
    for node, frontier in frontiers.items():
        assert frontier.dominates(needed[node])
        shown = [(s, progress.user_frontier(o, frontiers)) for o in outputs for s in progress.summaries(node, o)]
        hidden = all(upper.beyond(s.apply(probe)) for s, upper in shown) if shown else frontier.beyond(probe)
        assert needed[node].beyond(probe) == hidden
    for output in outputs:
        assert progress.user_frontier(output, needed) == progress.user_frontier(output, frontiers)
