"""Dropping needless consolidations: those before or after an operator that consolidates by itself."""

from __future__ import annotations

from typing import Final

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
    Negate,
    Node,
    Output,
    Reduce,
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
        needless = isinstance(node, Consolidate) and (_is_consolidated(inputs[0]) or is_read_consolidated(graph, node))
        return inputs[0] if needless else copy.put(node, inputs=inputs)

    return rebuild(graph, rewrite)


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
