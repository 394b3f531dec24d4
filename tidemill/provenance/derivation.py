"""On what way a row follows from a few input rows: backwards through what operators hold by the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from tidemill.dataflow.composites import Composite
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, less_equal
from tidemill.dataflow.nodes import Concat, Enter, Feedback, Input, Join, Leave, Map, Node, Reduce, Variable
from tidemill.dataflow.passes.pipeline import optimised
from tidemill.provenance.kept import with_one_output
from tidemill.provenance.subsets import smaller
from tidemill.provenance.validity import ByClock, by_clock, is_validity
from tidemill.renderer.diagram.reason import Reason, Row
from tidemill.renderer.reference.evaluation import Evaluation
from tidemill.renderer.reference.rules import RULES
from tidemill.renderer.reference.traces import Contents, Trace, contents

Key: TypeAlias = tuple[Node, Row, Time]
"""A row of an operator, at a time."""

TRIALS = 2000
"""How many times at most rows of one operator are left out to see which of them give a row."""


def derivation(graph: Graph, given: Mapping[str, Contents], output: str, row: Row) -> Reason:
    """Return on what way the row of an output follows from these input rows."""
    graph = optimised(with_one_output(graph, output), passes=False, takes=RULES.composites)
    return _Derivation(graph, given).of(graph.outputs[output], row, (0,) * len(graph.coordinates))


class _Derivation:
    """The rows of every operator in every iteration, and the reasons found so far."""

    def __init__(self, graph: Graph, given: Mapping[str, Contents]) -> None:
        least = (0,) * len(graph.coordinates)
        updates = {
            node: [(row, least, count) for row, count in given.get(name, {}).items()]
            for name, node in graph.inputs.items()
        }
        self._traces = Evaluation(graph, updates, dict.fromkeys(graph.nodes, Antichain())).traces
        self._graph = graph
        self._feedback = {n.scope: n for n in graph.nodes if isinstance(n, Feedback)}
        self._by_clock = by_clock(graph)
        self._contents: dict[tuple[Node, Time], Contents] = {}
        self._known: dict[Key, Reason] = {}
        self._shown: set[int] = set()

    def of(self, node: Node, row: Row, time: Time) -> Reason:
        """Return why a node holds a row at a time.

        A row in a long chain has reasons that are many deep: more than functions may call each other, so what is to be
        known before a row is explained waits in a list.
        """
        asked = self._earliest(node, row, time)
        waiting, sources = [asked], dict[Key, list[Key]]()
        while waiting:
            key = waiting[-1]
            if key not in self._known and key not in sources:
                sources[key] = [self._earliest(*source) for source in self._sources(*key)]
                waiting += [source for source in reversed(sources[key]) if source not in self._known]
                continue
            waiting.pop()
            if key not in self._known:
                self._known[key] = self._reason(*key, tuple(self._known[source] for source in sources[key]))
        return self._known[asked]

    def _earliest(self, node: Node, row: Row, time: Time) -> Key:
        """Return the same question about the earliest iteration since which the node has had the row."""
        return node, row, (*time[:-1], self._since(node, row, time)) if node.scope.parent is not None else time

    def _reason(self, node: Node, row: Row, time: Time, children: tuple[Reason, ...]) -> Reason:
        users = len(self._graph.coordinates)
        iteration = tuple(i + 1 for i in time[users:])
        if isinstance(node, Input):
            what = "constant" if node.rows is not None else f"input {node.name!r}"
            return Reason(what, (), row)
        if len(children) == 1:
            (child,) = children
            if str(child.row) == str(row):  # 1 and 1.0 are equal, and not the same
                return child  # whatever let it through: a loop's end, say
            if _only_picks(node) and child.children:
                return attrs.evolve(child, row=row)
        if (whole := self._by_clock.get(node)) is None:
            return Reason(_described(node), children, row, iteration, node.id, node.site)
        parts = [part for child in children for part in (child.children if self._is_of(whole, child) else (child,))]
        return Reason(whole.words, tuple(parts), row, iteration, node.id, node.site)

    def _is_of(self, whole: ByClock, reason: Reason) -> bool:
        """Return whether a reason is an operator that another one, which users know as one, is made of."""
        operator = None if reason.operator is None else self._graph.nodes[reason.operator]
        return operator is not None and self._by_clock.get(operator) is whole

    def _sources(self, node: Node, row: Row, time: Time) -> list[Key]:
        """Return the rows that a node's row is made of: as few as give it, the earliest of them."""
        if isinstance(node, Input):
            return []
        if isinstance(node, Enter):
            return [(node.inputs[0], row, time[:-1])]
        if isinstance(node, Leave):
            return [(node.inputs[0], row, (*time, self._last_iteration(node, time)))]
        if isinstance(node, Variable):
            return [(self._graph.feedback_of(node).inputs[0], row, (*time[:-1], time[-1] - 1))]
        if time[-1] and (body := self._body_of_iterate(node)) is not None:
            return [(body, row, (*time[:-1], time[-1] - 1))]
        held = [
            (number, source, of, count)
            for number, source in enumerate(node.inputs)
            for of, count in self._at(source, time).items()
        ]
        held.sort(key=lambda one: -self._since(one[1], one[2], time))

        copies = self._at(node, time).get(row)  # all of them, which others may need

        def gives(some: Sequence[tuple[int, Node, Row, int]]) -> bool:
            traces: list[Trace] = [{} for _ in node.inputs]
            for number, _, of, count in some:
                traces[number][of, time] = count
            made = RULES.of(node)(node, lambda _: True, *traces)
            return contents(made, time).get(row, 0) == copies

        trials = iter(range(TRIALS))
        found, _ = smaller(held, gives, lambda: next(trials, None) is not None)
        found.sort(key=lambda one: one[0])
        return [(source, of, time) for _, source, of, _ in found]

    def _body_of_iterate(self, node: Node) -> Node | None:
        """Return what ``iterate`` fed back, of the node that stands for its variable inside; None for other nodes.

        That adds its start, to take it away again after the first iteration: the sum is the body's last result.
        """
        if not isinstance(node, Concat) or len(node.inputs) != 2 or node.scope.kind != "iterate":  # noqa: PLR2004
            return None
        variable = node.inputs[1]
        if not isinstance(variable, Variable) or node.name != variable.name:
            return None
        return self._graph.feedback_of(variable).inputs[0].inputs[0]

    def _last_iteration(self, node: Leave, time: Time) -> int:
        """Return the last iteration in which anything of a loop changes at an outer time, or that which is returned."""
        (inner,) = node.inputs
        last = max((t[-1] for _, t in self._traces[inner] if less_equal(t[:-1], time)), default=0)
        return last if node.limits.return_at is None else min(last, node.limits.return_at - 1)

    def _since(self, node: Node, row: Row, time: Time) -> int:
        if node.scope.parent is None:
            return 0
        first = time[-1]
        while first and self._at(node, (*time[:-1], first - 1)).get(row, 0):
            first -= 1
        return first

    def _at(self, node: Node, time: Time) -> Contents:
        key = (node, time)
        if key not in self._contents:
            self._contents[key] = contents(self._traces[node], time)
        return self._contents[key]


def _only_picks(node: Node) -> bool:
    return isinstance(node, Map) and node.picked is not None


def _described(node: Node) -> str:
    """Return what an operator does."""
    if is_validity(node):
        return node.name
    what = node.describe()
    is_plain = isinstance(node, (Join, Reduce, Map, Composite)) or node.name == node.kind.lower()
    return f"{node.kind if is_plain else f'{node.called} {node.name!r}'}{f' [{what}]' if what else ''}"
