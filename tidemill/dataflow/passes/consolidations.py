"""Consolidations: those beside operators that consolidate by themselves go; unions with a negation get one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from tidemill.dataflow.composites import RangeJoin
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Enter,
    Feedback,
    Filter,
    Input,
    Leave,
    Map,
    Negate,
    Node,
    Output,
    Reduce,
    Retime,
    Threshold,
)
from tidemill.dataflow.passes.rebuild import Copy, rebuild

_CONSOLIDATE_FIRST: Final = (Arrange, Consolidate, Feedback, Output, RangeJoin, Reduce, Threshold)
_GIVE_CONSOLIDATED: Final = (Arrange, Consolidate, Input, Reduce, Threshold)
_PASS_ON: Final = (Concat, Enter, Leave, Negate)
"""Operators that do no work that fewer updates would save."""


def drop_consolidations(graph: Graph) -> Graph:
    """Return the graph without a Consolidate whose input is consolidated, or whose one reader consolidates anyway.

    With several readers it stays: each of them would have to do its work, and where they meet again, as in
    ``c.concat(c)``, there would be more to do each time.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        needless = _is_consolidated(inputs[0]) or is_read_consolidated(graph, node)
        return inputs[0] if needless else copy.put(node, inputs=inputs)

    return rebuild(graph, rewrite, Consolidate)


def _is_consolidated(node: Node) -> bool:
    while isinstance(node, (Enter, Filter, Negate)):
        (node,) = node.inputs
    return isinstance(node, _GIVE_CONSOLIDATED)


def is_read_consolidated(graph: Graph, node: Node) -> bool:
    """Return whether one reader alone gets a node's updates, passed on or not, and consolidates what it is given."""
    while len(readers := graph.consumers(node)) == 1:
        ((node, _),) = readers
        if not isinstance(node, _PASS_ON):
            return isinstance(node, _CONSOLIDATE_FIRST)
    return not readers


_NEGATED_STILL: Final = (Enter, Filter, Leave, Map, Retime)
"""Operators that may stand between a union and the negation of one of its inputs."""
_MANY: Final = 8
"""With more paths than these to the same rows, a consolidation is worth it where several read them."""


def consolidate_unions(graph: Graph) -> Graph:
    """Return the graph with a Consolidate after each union that has a negated input, or much of one more than once.

    Not where its one reader consolidates anyway. Where one of several readers is an arrangement, the others read that
    instead: it is consolidated, and there already. A union of a collection with itself, or with what is made of it row
    by row, has updates as often as there are ways to them: as long as there are few they stay.
    """
    ways: dict[Node, _Ways] = {}

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Arrange) and isinstance(inputs[0], Arrange) and inputs[0].keys == node.keys:
            ways[node] = _Ways(node)
            return inputs[0]  # it was put with the union, before the others that read it
        put = copy.put(node, inputs=inputs)
        ways[node] = _ways_to(node, ways)
        repeats = ways[node].count > _MANY and ways[node].unions > 1 and len(graph.consumers(node)) > 1
        if not (_cancels(node) or repeats) or is_read_consolidated(graph, node):
            return put
        ways[node] = _Ways(node)
        for reader, _ in graph.consumers(node):
            if isinstance(reader, Arrange):
                return copy.put(reader, inputs=(put,), drops_nulls=False)
        return copy.add(Consolidate, node, put, schema=node.schema)

    return rebuild(graph, rewrite)


@attrs.frozen
class _Ways:
    """How many paths there are to a node's rows, all through operators that pass rows on."""

    begin: Node
    """The last union before it, or what is none of those operators."""
    count: int = 1
    unions: int = 0
    """How many unions one after the other have brought them together."""


def _ways_to(node: Node, ways: Mapping[Node, _Ways]) -> _Ways:
    """Return the ways to a node, given those to what it reads."""
    if isinstance(node, Concat):
        found: dict[Node, list[_Ways]] = {}
        for source in node.inputs:
            found.setdefault(ways[source].begin, []).append(ways[source])
        some = max(found.values(), key=lambda some: sum(one.count for one in some))
        unions = max(one.unions for one in some) + (len(some) > 1)
        return _Ways(node, sum(one.count for one in some), unions)
    return ways[node.inputs[0]] if isinstance(node, (*_NEGATED_STILL, Negate)) else _Ways(node)


def _cancels(node: Node) -> bool:
    """Return whether a node is a union in which much may cancel out."""
    return isinstance(node, Concat) and any(map(_is_negated, node.inputs))


def _is_negated(node: Node) -> bool:
    while isinstance(node, _NEGATED_STILL):
        (node,) = node.inputs
    return isinstance(node, Negate)
