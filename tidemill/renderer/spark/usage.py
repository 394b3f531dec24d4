"""How a graph's collections are used: which an output needs, how many read them, which later rounds read again."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import TypeVar

import networkx as nx

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Enter, Join, Leave, Node, Output, Variable
from tidemill.dataflow.scopes import Scope

N = TypeVar("N", bound=Node)


class Usage:
    """The uses of what nodes give. Only what outputs depend on is used, or, where state is kept, everything."""

    def __init__(self, graph: Graph, *, whole: bool) -> None:
        self._graph = graph
        ends = [n.id for n in graph.nodes if whole or isinstance(n, Output)]
        digraph = graph.digraph()
        self._used = set(ends).union(*(nx.ancestors(digraph, i) for i in ends))
        self._changing: set[int] = set()
        """Nodes whose updates come in every round of a loop, not in the first one only."""
        for node in graph.nodes:
            if isinstance(node, Variable) or any(i.id in self._changing for i in node.inputs):
                self._changing.add(node.id)
        self._sides_read_again = dict(self._joins_reading_again())
        self._reread = {join.inputs[side].id for join, sides in self._sides_read_again.items() for side in sides}

    def is_used(self, node: Node) -> bool:
        """Return whether an output depends on a node."""
        return node.id in self._used

    def is_reread(self, node: Node) -> bool:
        """Return whether later rounds read a node's updates again: a join pairs them with what comes then."""
        return node.id in self._reread

    def reads_again(self, join: Join, side: int) -> bool:
        """Return whether a join reads what came from one of its sides again in later rounds."""
        return side in self._sides_read_again.get(join, ())

    @functools.cache  # noqa: B019 - lives as long as a step
    def readers(self, node: Node) -> int:
        """Return how often a node is read, by nodes that are used."""
        return sum(1 for reader, _ in self._graph.consumers(node) if self.is_used(reader))

    @functools.cache  # noqa: B019
    def is_only_joined(self, node: Node) -> bool:
        """Return whether none but joins read a node, here or in loops that it is brought into."""
        readers = [reader for reader, _ in self._graph.consumers(node) if self.is_used(reader)]
        return all(isinstance(r, Join) or (isinstance(r, Enter) and self.is_only_joined(r)) for r in readers)

    @functools.cache  # noqa: B019
    def nodes_of(self, scope: Scope, kind: type[N]) -> list[N]:
        """Return the nodes of a kind in a scope that are used."""
        return [n for n in self._graph.nodes if n.scope is scope and isinstance(n, kind) and self.is_used(n)]

    @functools.cache  # noqa: B019
    def leaving(self, scope: Scope) -> list[Leave]:
        """Return the nodes that take something out of a scope."""
        return [n for n in self._graph.nodes if isinstance(n, Leave) and n.inputs[0].scope is scope and self.is_used(n)]

    def _joins_reading_again(self) -> Iterator[tuple[Join, list[int]]]:
        """Give the joins in loops, and those of their sides whose other side changes after the first round."""
        for node in self._graph.nodes:
            if isinstance(node, Join) and node.scope.parent is not None and self.is_used(node):
                left, right = (source.id in self._changing for source in node.inputs)
                yield node, [*([0] if right else []), *([1] if left else [])]


def affected(graph: Graph, sources: Iterable[int]) -> list[Node]:
    """Return the nodes that changes of these nodes can reach; all nodes of a loop that they reach, and after it."""
    found: set[int] = set()
    new, digraph = set(sources), graph.digraph()
    while new:
        found |= new.union(*(nx.descendants(digraph, i) for i in new))
        loops = {outermost_loop(graph.nodes[i].scope) for i in found} - {None}
        new = {n.id for n in graph.nodes if outermost_loop(n.scope) in loops} - found
    return [n for n in graph.nodes if n.id in found]


def outermost_loop(scope: Scope) -> Scope | None:
    """Return the outermost of the loops that a scope is in; None at the top level."""
    found = None
    while scope.parent is not None:
        scope, found = scope.parent, scope
    return found
