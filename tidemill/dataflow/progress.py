"""Progress tracking: from what may still come in, what may still arrive at each node.

The frontier at a node is the lower envelope of what every outstanding time, sent along every path, can become. Between
steps all that is outstanding are the inputs' user times. So summaries are kept of these: an iteration is never waited
for, and a cycle, which adds to the iteration at least, brings a user time back no earlier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial, reduce
from heapq import heapify, heappop, heappush
from typing import TypeAlias, TypeVar

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, common
from tidemill.dataflow.nodes import Enter, Feedback, Input, Leave, Node, Retime
from tidemill.dataflow.summaries import PathSummary

N = TypeVar("N", bound=Node)
T = TypeVar("T")
Edges: TypeAlias = dict[Node, list[tuple[Node, PathSummary | None]]]
"""The nodes at the other end, and what the edge does to user times; None for nothing, as nearly all do."""
Reach: TypeAlias = frozenset[tuple[PathSummary, int]]
"""The least path summaries from inputs to a node; for each of them the inputs, as a bit set."""


class Progress:
    """How user times change on the way from the inputs of a graph to its nodes, and the frontiers that follow.

    Cost: each question is answered by a pass over the graph, for all nodes at once.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._into: Edges = {node: [] for node in graph.nodes}
        self._out_of: Edges = {node: [] for node in graph.nodes}
        for node in graph.nodes:
            for source in node.inputs:
                self._add_edge(source, node, _across(node))
            if isinstance(node, Feedback):
                back = PathSummary.delay((0,) * (node.scope.coordinates - 1) + (1,))
                self._add_edge(node, node.variable, back)
        self.delays = any(isinstance(n, Retime) for n in graph.nodes)
        """Whether user times move anywhere. Where none do, frontiers that are the same everywhere stay so."""

    def _add_edge(self, source: Node, target: Node, step: PathSummary) -> None:
        user_step = step.of_outermost(len(self._graph.coordinates))
        moving = user_step if any(user_step.added) else None
        self._into[target].append((source, moving))
        self._out_of[source].append((target, moving))

    def reach(self, target: Node) -> Reach:
        """Return by which summaries inputs reach a node: nodes with the same ones always have the same frontier."""
        return self._reach.get(target, frozenset())

    @cached_property
    def _reach(self) -> Mapping[Node, Reach]:
        identity = PathSummary.identity(len(self._graph.coordinates))
        alone = {node: frozenset([(identity, 1 << i)]) for i, node in enumerate(self._graph.inputs.values())}
        return self._spread(alone.items(), _reach_across, _united)

    def sources(self, target: Node) -> list[Input]:
        """Return the inputs that can reach a node, without constants."""
        reached = reduce(int.__or__, (some for _, some in self.reach(target)), 0)
        return [node for i, node in enumerate(self._graph.inputs.values()) if reached >> i & 1]

    def user_frontiers(self, targets: Iterable[N], inputs: Mapping[Input, Antichain]) -> dict[N, Antichain]:
        """Return the user coordinates of nodes' frontiers when the inputs', all of them, have these.

        User times are all that outlives a step, so this is the frontier between steps.
        """
        same = None if self.delays else common(inputs.values())
        if same is not None:
            closed = Antichain()
            return {node: same if node in self._reach else closed for node in targets}
        found = self._spread(inputs.items(), PathSummary.apply_to, _lower_envelope)
        return {node: found.get(node, Antichain()) for node in targets}

    def needed(self, outputs: Iterable[Node], inputs: Mapping[Input, Antichain]) -> dict[Input, Antichain]:
        """Return how far each input's updates have to be processed so that the outputs reach their frontiers.

        An input that is ahead of the others is needed no further than they are, unless an output depends on it alone.
        The frontiers of the outputs are the same for the frontiers returned.
        """
        shown = self.user_frontiers(outputs, inputs)
        found = self._spread(shown.items(), PathSummary.before, partial(reduce, Antichain.join), backwards=True)
        return {source: found.get(source, frontier) for source, frontier in inputs.items()}

    def _spread(
        self,
        start: Iterable[tuple[Node, T]],
        across: Callable[[PathSummary, T], T],
        together: Callable[[list[T]], T],
        *,
        backwards: bool = False,
    ) -> dict[Node, T]:
        """Propagate values through the graph: ``across`` each edge, and ``together`` where several meet.

        In the order of ids each node has its turn once, after all those before it. Only where something comes back
        to a loop's variable has what follows another one.
        """
        before, after, sign = self._into, self._out_of, 1
        if backwards:
            before, after, sign = after, before, -1
        given, found = dict(start), dict[Node, T]()
        todo = [sign * node.id for node in given]
        heapify(todo)
        waiting = set(todo)
        while todo:
            place = heappop(todo)
            waiting.discard(place)
            node = self._graph.nodes[sign * place]
            there = [(found[other], step) for other, step in before[node] if other in found]
            came = [value if step is None else across(step, value) for value, step in there]
            value = together([given[node], *came] if node in given else came)
            if node in found and found[node] == value:
                continue
            found[node] = value
            for other, _ in after[node]:
                if sign * other.id not in waiting:
                    waiting.add(sign * other.id)
                    heappush(todo, sign * other.id)
        return found


def _reach_across(step: PathSummary, reach: Reach) -> Reach:
    return frozenset([(path.then(step), some) for path, some in reach])


def _united(came: list[Reach]) -> Reach:
    """Return by which summaries inputs reach where several ways meet: of one input the least ones."""
    if all(reach is came[0] for reach in came):
        return came[0]
    found: dict[PathSummary, int] = defaultdict(int)
    for path, some in (pair for reach in came for pair in reach):
        found[path] |= some
    if len(found) > 1:
        for path in found:
            for other, some in found.items():
                if other is not path and other.less_equal(path):
                    found[path] &= ~some
    return frozenset([pair for pair in found.items() if pair[1]])


def _lower_envelope(came: list[Antichain]) -> Antichain:
    if all(frontier is came[0] for frontier in came):
        return came[0]
    return Antichain(t for frontier in came for t in frontier.elements)


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
