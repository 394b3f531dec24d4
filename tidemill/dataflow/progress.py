"""Progress tracking: from what may still come in, what may still arrive at each node.

The frontier at a node is the lower envelope of what every outstanding time, sent along every path, can become. Paths
are summarised once per graph; cycles only ever add, so each summary kept is that of a path without one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, common
from tidemill.dataflow.nodes import Enter, Feedback, Input, Leave, Node, Retime
from tidemill.dataflow.summaries import PathSummary, minimal_summaries
from tidemill.errors import GraphError


class Progress:
    """The path summaries between the nodes of a graph, and the frontiers that follow from them.

    Cost: one pass over the graph for each source asked about, kept afterwards.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._steps: dict[Node, list[tuple[Node, PathSummary]]] = defaultdict(list)
        for node in graph.nodes:
            for source in node.inputs:
                self._steps[source].append((node, _across(node)))
            if isinstance(node, Feedback):
                back = PathSummary.delay((0,) * (node.scope.coordinates - 1) + (1,))
                self._steps[node].append((node.variable, back))
        self._from: dict[Node, dict[Node, tuple[PathSummary, ...]]] = {}
        self._sources: dict[Node, list[Input]] = {}
        self.delays = any(isinstance(n, Retime) for n in graph.nodes)
        """Whether user times move anywhere. Where none do, frontiers that are the same everywhere stay so."""

    def summaries(self, source: Node, target: Node) -> tuple[PathSummary, ...]:
        """Return the antichain of summaries of all paths; empty where there is no path."""
        if source not in self._from:
            self._from[source] = self._explore(source)
        return self._from[source].get(target, ())

    def sources(self, target: Node) -> list[Input]:
        """Return the inputs that can reach a node."""
        if target not in self._sources:
            inputs = (n for n in self._graph.nodes if isinstance(n, Input))
            self._sources[target] = [n for n in inputs if self.summaries(n, target)]
        return self._sources[target]

    def frontier(self, target: Node, outstanding: Iterable[tuple[Node, Time]]) -> Antichain:
        """Return the frontier at a node while these times are outstanding at these nodes' outputs."""
        return Antichain(s.apply(t) for source, t in outstanding for s in self.summaries(source, target))

    def user_frontier(self, target: Node, inputs: Mapping[Input, Antichain]) -> Antichain:
        """Return the user coordinates of a node's frontier when the inputs' frontiers are these.

        User times are all that outlives a step, so this is the frontier between steps.
        """
        same = None if self.delays else common(inputs.values())
        if same is not None:
            for source in self.sources(target):
                if source in inputs:
                    return same
            return Antichain()
        users = len(self._graph.coordinates)
        times = [(source, t) for source, frontier in inputs.items() for t in frontier.elements]
        return Antichain(t[:users] for t in self.frontier(target, times).elements)

    def needed(self, outputs: Iterable[Node], inputs: Mapping[Input, Antichain]) -> dict[Input, Antichain]:
        """Return, for inputs with these frontiers, up to where each one's updates show at one of the outputs.

        An input that is ahead of the others is needed no further than they are, unless an output depends on it alone.
        The frontiers of the outputs are the same for the frontiers returned.
        """
        shown = [(output, self.user_frontier(output, inputs)) for output in outputs]
        found: dict[Input, Antichain] = {}
        for source, frontier in inputs.items():
            back = [s.before(upper) for output, upper in shown for s in self.summaries(source, output)]
            found[source] = reduce(Antichain.join, back) if back else frontier
        return found

    def _explore(self, source: Node) -> dict[Node, tuple[PathSummary, ...]]:
        found: dict[Node, tuple[PathSummary, ...]] = {source: (PathSummary.identity(source.scope.coordinates),)}
        todo = [source]
        while todo:
            node = todo.pop()
            for after, step in self._steps[node]:
                reached = [s.then(step) for s in found[node]]
                if after is source and any(not s.advances() for s in reached):
                    msg = f"a cycle through {after.where} does not advance time"
                    raise GraphError(msg)
                known = found.get(after, ())
                minimal = minimal_summaries([*known, *reached])
                if set(minimal) != set(known):
                    found[after] = minimal
                    todo.append(after)
        return found


def _across(node: Node) -> PathSummary:
    """Return how a record's time changes from a node's input to its output, at the least."""
    if isinstance(node, Enter):
        return PathSummary.enter(node.scope.coordinates - 1)
    if isinstance(node, Leave):
        return PathSummary.leave(node.scope.coordinates + 1)
    if isinstance(node, Retime) and node.steps is not None:
        inner = node.scope.coordinates - len(node.steps)
        return PathSummary.delay(node.steps + (0,) * inner)
    return PathSummary.identity(node.scope.coordinates)
