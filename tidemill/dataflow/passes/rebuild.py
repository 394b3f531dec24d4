"""Copying a graph with changes: what all passes are made with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Feedback, Inspect, Node, Output, Variable

N = TypeVar("N", bound=Node)


class Copy:
    """A graph being copied, node by node in the order of ids, so that what a node reads is there before it."""

    def __init__(self, old: Graph) -> None:
        self.old = old
        self.graph = old.emptied()
        self._new: dict[Node, Node] = {}
        self._readers: dict[Node, int] = {}

    def put(self, node: N, *, inputs: tuple[Node, ...] | None = None, **changes: Any) -> N:
        """Add a node like this one, reading these nodes of the copy; its name and the user's line stay."""
        if isinstance(node, Feedback):
            changes.setdefault("variable", self._new[node.variable])
        sources = self.inputs(node) if inputs is None else inputs
        return self.graph.put(attrs.evolve(node, id=len(self.graph.nodes), inputs=sources, **changes))

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
                inputs=(source, *others),
                **fields,
            )
        )

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """Return what stands in the copy for what a node of the old graph reads."""
        return tuple(self._new[source] for source in node.inputs)

    def now(self, node: Node) -> Node:
        """Return what stands in the copy for a node of the old graph."""
        return self._new[node]

    def finished(self) -> Graph:
        """Return the copy, with the scopes closed that are closed in the old graph."""
        self.graph.close_as(self.old)
        return self.graph

    def stands_for(self, new: Node, node: Node) -> None:
        """Note what became of a node of the old graph."""
        edges = len(self.old.consumers(node)) - sum(self._new.get(source) is new for source in node.inputs)
        self._readers[new] = self._readers.get(new, 0) + edges
        self._new[node] = new

    def readers(self, new: Node) -> int:
        """Return how many will read a node of the copy, each reader counted once for every port.

        What stands for no node of the old graph was made by the pass, as a part of what does: it has one reader.
        """
        return self._readers.get(new, 1)


Rewrite: TypeAlias = Callable[[Copy, Node, tuple[Node, ...]], Node]
"""Says what stands for a node in the copy, given what stands for its inputs: a node just added, or one before."""


def rebuild(graph: Graph, rewrite: Rewrite, *, keep_unread: bool = False) -> Graph:
    """Return a copy of a graph with each node as ``rewrite`` says, and without what nobody reads.

    With ``keep_unread``, what nobody read in the graph stays: its errors count.
    """
    copy = Copy(graph)
    for node in graph.nodes:
        copy.stands_for(rewrite(copy, node, copy.inputs(node)), node)
    kept: list[Node] = []
    if keep_unread:
        ends = (n for n in graph.nodes if isinstance(n, Feedback) or not graph.digraph.out_degree(n.id))
        kept = [copy.now(node) for node in ends]
    return _without_unread(copy.finished(), kept)


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
        if node in wanted:
            copy.stands_for(copy.put(node), node)
    return copy.finished()
