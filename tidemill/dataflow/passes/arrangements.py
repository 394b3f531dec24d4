"""Sharing arrangements: one index for all who look up the same rows by the same key, made outside of loops."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import attrs

from tidemill.dataflow.composites import DeltaJoin
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Consolidate, Enter, Filter, FlatMap, Join, Map, Negate, Node, Reduce
from tidemill.dataflow.passes.duplicates import merged
from tidemill.dataflow.passes.rebuild import Copy, rebuild

_LOOK_UP: Final = (DeltaJoin, Join, Reduce)
_LEADING_TO_ONE: Final = (Map, Filter, FlatMap, Negate, Consolidate)


def share_arrangements(graph: Graph) -> Graph:
    """Return the graph with each arrangement made once, and none in which nobody looks anything up.

    What enters a loop and is arranged there is arranged outside, and so are the rows that operators row by row make of
    it on the way. An arrangement of an arrangement is one of its rows.
    """
    known: dict[Hashable, Node] = {}
    leading = _leading(graph)

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Arrange):
            return _arranged(copy, node, inputs[0], known) if _is_used(graph, node) else inputs[0]
        if node in leading:
            return _outermost(copy, node, inputs[0], known)
        return merged(copy, node, inputs, known)

    return rebuild(graph, rewrite)


def _arranged(copy: Copy, node: Arrange, source: Node, known: dict[Hashable, Node]) -> Node:
    while isinstance(source, Arrange) and source.keys != node.keys:
        (source,) = source.inputs
    return source if isinstance(source, Arrange) else _outermost(copy, node, source, known)


def _outermost(copy: Copy, node: Node, source: Node, known: dict[Hashable, Node]) -> Node:
    """Return the node over a source; where that was entered, made outside and entered then."""
    if isinstance(source, Enter):
        (outside,) = source.inputs
        if isinstance(node, Arrange):
            made = _arranged(copy, node, outside, known)
        else:
            made = _outermost(copy, node, outside, known)
        return merged(copy, attrs.evolve(source, name=made.name, schema=made.schema), (made,), known)
    return merged(copy, attrs.evolve(node, scope=source.scope), (source,), known)


def _leading(graph: Graph) -> set[Node]:
    """Return the operators row by row whose every reader is an arrangement that is used, or leads to one."""
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if isinstance(node, _LEADING_TO_ONE):
            readers = [reader for reader, _ in graph.consumers(node)]
            if readers and all(r in found or (isinstance(r, Arrange) and _is_used(graph, r)) for r in readers):
                found.add(node)
    return found


def _is_used(graph: Graph, node: Node) -> bool:
    """Return whether anybody looks something up in an arrangement, wherever it was entered."""
    readers = [reader for reader, _ in graph.consumers(node)]
    return any(isinstance(r, _LOOK_UP) or (isinstance(r, Enter) and _is_used(graph, r)) for r in readers)
