"""Consolidating what unions with a negated input give.

What a left join pads is its left rows less those with a partner: mostly updates that cancel out. Unconsolidated, each
join of a stack would hand them on to the next, which reads them twice, to join them and to pad what has no partner:
N updates would become 3 N, 5 N, 7 N, or 9 N and 27 N where joins take updates as they come.
"""

from __future__ import annotations

from typing import Final

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Concat, Consolidate, Enter, Filter, Leave, Map, Negate, Node, Retime
from tidemill.dataflow.passes.consolidations import is_read_consolidated
from tidemill.dataflow.passes.rebuild import Copy, rebuild

_NEGATED_STILL: Final = (Enter, Filter, Leave, Map, Retime)
"""What may stand between a union and the negation of one of its inputs."""


def consolidate_unions(graph: Graph) -> Graph:
    """Return the graph with a Consolidate after each union that has a negated input.

    Not where its one reader consolidates anyway. Where one of several readers is an arrangement, the others read that
    instead: it is consolidated, and there already.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Arrange) and isinstance(inputs[0], Arrange) and inputs[0].keys == node.keys:
            return inputs[0]  # it was put with the union, before the others that read it
        put = copy.put(node, inputs=inputs)
        if not _cancels(node) or is_read_consolidated(graph, node):
            return put
        for reader, _ in graph.consumers(node):
            if isinstance(reader, Arrange):
                return copy.put(reader, inputs=(put,))
        return copy.add(Consolidate, node, put, schema=node.schema)

    return rebuild(graph, rewrite)


def _cancels(node: Node) -> bool:
    """Return whether a node is a union in which much may cancel out."""
    return isinstance(node, Concat) and any(map(_is_negated, node.inputs))


def _is_negated(node: Node) -> bool:
    while isinstance(node, _NEGATED_STILL):
        (node,) = node.inputs
    return isinstance(node, Negate)
