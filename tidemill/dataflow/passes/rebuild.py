"""Copies of graphs with changes: the basis of all passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Feedback, Inspect, Node, Output, Variable

N = TypeVar("N", bound=Node)


class Copy:
    """A graph being copied, node by node in the order of ids, so that what a node reads is there before it.

    As long as nothing is changed there is no copy yet: many passes have nothing to do in most graphs.
    """

    def __init__(self, old: Graph) -> None:
        self.old = old
        self._made: Graph | None = None
        self._same = 0
        """How many nodes are the old graph's, where there is no copy."""
        self._new: dict[Node, Node] = {}
        self._stand_for: dict[Node, list[Node]] = {}
        """Of each node of the copy, which of the old graph it stands for; itself left out."""

    @property
    def graph(self) -> Graph:
        """The copy, so far."""
        if self._made is None:
            self._made = self.old.emptied(self._same)
        return self._made

    def keeps(self, node: Node) -> bool:
        """Have a node as it is, if all before it are: then so is what it reads."""
        if self._made is not None or node.id != self._same:
            return False
        self._same += 1
        self._new[node] = node
        return True

    def put(self, node: N, *, inputs: tuple[Node, ...] | None = None, **changes: Any) -> N:
        """Add a node like this one, reading these nodes of the copy; its name and the user's line stay.

        What is the same in all is the same node in both graphs.
        """
        if isinstance(node, Feedback) and self._new[node.variable] is not node.variable:
            changes.setdefault("variable", self._new[node.variable])
        if changes:
            changes = {name: value for name, value in changes.items() if getattr(node, name) != value}
        sources = self.inputs(node) if inputs is None else inputs
        place = self._same if self._made is None else len(self._made.nodes)
        if changes or node.id != place or node.inputs != sources:
            node = attrs.evolve(node, id=place, inputs=sources, **changes)
        elif self._made is None and self.old.nodes[place] is node:
            self._same += 1
            return node
        return self.graph.put(node)

    def add(self, kind: type[N], like: Node, source: Node, *others: Node, **fields: Any) -> N:
        """Add a node of another kind after ``source`` and others, for errors a part of ``like``."""
        return self.graph.put(
            kind(
                id=len(self.graph.nodes),
                name=like.name,
                scope=source.scope,
                site=like.site,
                origins=like.origins,
                part_of=like.part_of or like.called,
                call=like.call or like,
                inputs=(source, *others),
                **fields,
            )
        )

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """Return the inputs in the copy of a node of the old graph."""
        return tuple(map(self._new.__getitem__, node.inputs))

    def now(self, node: Node) -> Node:
        """Return the node in the copy for a node of the old graph."""
        return self._new[node]

    def finished(self) -> Graph:
        """Return the copy, with the scopes closed that are closed in the old graph; or that, where nothing changed."""
        if self._made is None and self._same == len(self.old.nodes):
            return self.old
        self.graph.close_as(self.old)
        return self.graph

    def stands_for(self, new: Node, node: Node) -> None:
        """Note what became of a node of the old graph."""
        self._new[node] = new
        if new is not node:
            self._stand_for.setdefault(new, []).append(node)

    def readers(self, new: Node) -> int:
        """Return how many will read a node of the copy, each reader counted once for every port.

        What stands for no node of the old graph was made by the pass, as a part of what does: it has one reader.
        """
        olds = [*self._stand_for.get(new, ()), *([new] if self._new.get(new) is new else ())]
        if not olds:
            return 1
        own = sum(self._new.get(source) is new for old in olds for source in old.inputs)
        return sum(len(self.old.consumers(old)) for old in olds) - own


Rewrite: TypeAlias = Callable[[Copy, Node, tuple[Node, ...]], Node]
"""Says what stands for a node in the copy, given what stands for its inputs: a node just added, or one before."""


def rebuild(
    graph: Graph, rewrite: Rewrite, kinds: type[Node] | tuple[type[Node], ...] = Node, *, keep_unread: bool = False
) -> Graph:
    """Return a copy of a graph with each node of some kinds as ``rewrite`` says, and without what nobody reads.

    Where no node changes, or there is none of these kinds, it is the graph.
    With ``keep_unread``, what nobody read in the graph stays: its errors count.
    """
    if not any(isinstance(node, kinds) for node in graph.nodes):
        return graph
    copy = Copy(graph)
    for node in graph.nodes:
        changes = isinstance(node, kinds)
        if changes or not copy.keeps(node):
            inputs = copy.inputs(node)
            copy.stands_for(rewrite(copy, node, inputs) if changes else copy.put(node, inputs=inputs), node)
    made = copy.finished()
    if made is graph and kinds is not Node:
        return graph
    kept: list[Node] = []
    if keep_unread:
        ends = (n for n in graph.nodes if isinstance(n, Feedback) or not graph.consumers(n))
        kept = [copy.now(node) for node in ends]
    return _without_unread(made, kept)


def _without_unread(graph: Graph, kept: list[Node]) -> Graph:
    """Return the graph without what can reach no output and is no input. A function that inspects is a reader, too.

    What is kept anyway is as good as an output.
    """
    wanted: set[Node] = set()
    todo = [*kept, *graph.inputs.values(), *(n for n in graph.nodes if isinstance(n, (Output, Inspect)))]
    while todo:
        node = todo.pop()
        if node not in wanted:
            wanted.add(node)
            todo += node.inputs
            if isinstance(node, Variable):
                todo.append(graph.feedback_of(node))
    if len(wanted) == len(graph.nodes):
        return graph
    copy = Copy(graph)
    for node in graph.nodes:
        if node in wanted and not copy.keeps(node):
            copy.stands_for(copy.put(node), node)
    return copy.finished()
