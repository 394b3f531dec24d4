"""What a graph says before it is run: which nodes are needed, how often read, and whether later rounds ask again."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TypeVar

import networkx as nx

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Join, Leave, Node, Output, Variable
from tidemill.dataflow.scopes import Scope

__all__ = ["Usage", "affected", "outermost_loop"]

N = TypeVar("N", bound=Node)


class Usage:
    """What outputs need of a graph; or, where operators keep state that goes on, all there is."""

    def __init__(self, graph: Graph, *, whole: bool = False) -> None:
        self._graph = graph
        outputs = [n.id for n in graph.nodes] if whole else [n.id for n in graph.nodes if isinstance(n, Output)]
        self._used = set(outputs).union(*(nx.ancestors(graph.digraph, i) for i in outputs))
        self._changing: set[int] = set()
        for node in graph.nodes:
            if isinstance(node, Variable) or any(i.id in self._changing for i in node.inputs):
                self._changing.add(node.id)
        self._sides_read_again = dict(self._joins_reading_again())
        self._reread = {join.inputs[side].id for join, sides in self._sides_read_again.items() for side in sides}

    def is_used(self, node: Node) -> bool:
        """Return whether an output depends on a node."""
        return node.id in self._used

    def is_reread(self, node: Node) -> bool:
        """Return whether later rounds ask for a node's updates: a join meets them with what comes then."""
        return node.id in self._reread

    def reads_again(self, join: Join, side: int) -> bool:
        """Return whether later rounds ask for what came to a join from one of its sides."""
        return side in self._sides_read_again.get(join, ())

    @functools.cache  # noqa: B019 - lives as long as a step
    def readers(self, node: Node) -> int:
        """Return how often a node is read, by nodes that are needed."""
        return sum(1 for reader, _ in self._graph.consumers(node) if self.is_used(reader))

    @functools.cache  # noqa: B019
    def nodes_of(self, scope: Scope, kind: type[N]) -> list[N]:
        """Return the nodes of a kind in a scope that are needed."""
        return [n for n in self._graph.nodes if n.scope is scope and isinstance(n, kind) and self.is_used(n)]

    @functools.cache  # noqa: B019
    def leaving(self, scope: Scope) -> list[Leave]:
        """Return the nodes that take something out of a scope."""
        return [n for n in self._graph.nodes if isinstance(n, Leave) and n.inputs[0].scope is scope and self.is_used(n)]

    def _joins_reading_again(self) -> Iterable[tuple[Join, list[int]]]:
        """Return joins in loops, and which of their sides have another side that changes after the first round."""
        for node in self._graph.nodes:
            if isinstance(node, Join) and node.scope.parent is not None and self.is_used(node):
                left, right = (source.id in self._changing for source in node.inputs)
                yield node, [*([0] if right else []), *([1] if left else [])]


def affected(graph: Graph, sources: Iterable[int]) -> list[Node]:
    """Return what changes at these nodes can come to, with loops as a whole, and what comes out of these anywhere."""
    found: set[int] = set()
    new = set(sources)
    while new:
        found |= new.union(*(nx.descendants(graph.digraph, i) for i in new))
        loops = {outermost_loop(graph.nodes[i].scope) for i in found} - {None}
        new = {n.id for n in graph.nodes if outermost_loop(n.scope) in loops} - found
    return [n for n in graph.nodes if n.id in found]


def outermost_loop(scope: Scope) -> Scope | None:
    """Return the loop that is in no other, of those that a scope is in."""
    found = None
    while scope.parent is not None:
        scope, found = scope.parent, scope
    return found
