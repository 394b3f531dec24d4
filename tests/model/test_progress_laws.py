"""Path summaries compose, and the frontiers that follow from them are lower envelopes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.dataflow.lattice import Antichain, less_equal
from tidemill.dataflow.nodes import Enter, Feedback, Leave, Retime, Variable
from tidemill.dataflow.progress import Progress
from tidemill.dataflow.summaries import PathSummary
from tidemill.errors import GraphError
from tidemill.testing import dataflows


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
    assert PathSummary.delay((1, 0)).apply_to(Antichain([(0, 3)])) == Antichain([(1, 3)])


def frontiers(flow, **inputs):
    progress = Progress(flow.graph)
    given = {flow.graph.inputs[n]: f for n, f in inputs.items()}
    return {node.name: found for node, found in progress.user_frontiers(flow.graph.outputs.values(), given).items()}


@pytest.mark.law("A frontier is the lower envelope of the inputs that reach it.")
def test_a_frontier_is_the_lower_envelope_of_the_inputs_that_reach_it():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    for name, c in {"a": a, "both": a.concat(b), "late": a.delay(2).concat(b), "none": flow.constant(KV, [])}.items():
        flow.output(name, c)
    found = frontiers(flow, a=Antichain([3]), b=Antichain([4]))
    assert found == {"a": Antichain([3]), "both": Antichain([3]), "late": Antichain([4]), "none": Antichain()}
    assert frontiers(flow, a=Antichain(), b=Antichain([4]))["both"] == Antichain([4])


def arrivals(graph, inputs):
    """Return the user coordinates of what can arrive at each node: along every edge, and round every loop, in full."""
    found = {node: inputs.get(node, Antichain()) for node in graph.nodes}
    edges = [(source, node, step(node)) for node in graph.nodes for source in node.inputs]
    for node in graph.nodes:
        if isinstance(node, Feedback):
            edges.append((node, node.variable, PathSummary.delay((0,) * (node.scope.coordinates - 1) + (1,))))
    before = None
    while before != found:
        before = dict(found)
        for source, node, by in edges:
            found[node] = found[node].meet(by.apply_to(found[source]))
    return {node: Antichain(t[: len(graph.coordinates)] for t in f.elements) for node, f in found.items()}


def step(node):
    at = node.scope.coordinates
    if isinstance(node, Enter):
        return PathSummary.enter(at - 1)
    if isinstance(node, Leave):
        return PathSummary.leave(at + 1)
    if isinstance(node, Retime) and node.steps is not None:
        return PathSummary.delay(node.steps + (0,) * (at - len(node.steps)))
    return PathSummary.identity(at)


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
@examples(150)
@given(data=st.data())
def test_frontiers_are_what_can_arrive_along_every_path(coordinates, data):
    """Of random dataflows with loops; and nodes that the same inputs reach in the same way have one frontier."""
    graph = data.draw(dataflows(coordinates, max_operators=10)).flow.graph
    progress, times = Progress(graph), st.tuples(*[st.integers(0, 6)] * coordinates)
    reached = {}
    for _ in range(3):
        inputs = {node: Antichain(data.draw(st.lists(times, max_size=3))) for node in graph.inputs.values()}
        found = progress.user_frontiers(graph.nodes, inputs)
        assert found == arrivals(graph, inputs)
        for node, frontier in found.items():
            reached.setdefault(progress.reach(node), set()).add(frontier)
        assert all(len(frontiers) == 1 for frontiers in reached.values())
        reached.clear()
    for node in graph.nodes:
        alone = [arrivals(graph, {i: Antichain.minimum(coordinates)})[node] for i in graph.inputs.values()]
        assert progress.sources(node) == [i for i, f in zip(graph.inputs.values(), alone, strict=True) if f.elements]


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
    graph.check()
    variable = next(n for n in graph.nodes if isinstance(n, Variable))
    object.__setattr__(variable, "inputs", graph.feedback_of(variable).inputs)
    with pytest.raises(GraphError, match="a cycle does not advance time: .*; only a loop's feedback may go back"):
        graph.check()


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
        alone = {n: Antichain([probe] if n is node else []) for n in frontiers}
        uppers, arriving = progress.user_frontiers(outputs, frontiers), arrivals(graph, alone)
        shown = [(t, uppers[o]) for o in outputs for t in arriving[o].elements]
        hidden = all(upper.beyond(t) for t, upper in shown) if shown else frontier.beyond(probe)
        assert needed[node].beyond(probe) == hidden
    assert progress.user_frontiers(outputs, needed) == progress.user_frontiers(outputs, frontiers)
