"""Lowering: composites replaced by their definitions, until only those are left that the engine takes itself.

The table of what they stand for is filled from above: see `tidemill.algorithms.lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

from tidemill.dataflow.composites import Composite
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Enter, Node, outside
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.errors import GraphError

Lowering: TypeAlias = Callable[[Graph, Any, tuple[Node, ...]], Node]
"""Adds to a graph what stands for a composite over these inputs, and returns the node that gives its rows."""

LOWERINGS: Final[dict[type[Composite], Lowering]] = {}


def has_composites(graph: Graph, taken: Collection[type[Composite]] = ()) -> bool:
    """Return whether there are composites in a graph, other than those of the kinds taken."""
    return any(isinstance(n, Composite) and type(n) not in taken for n in graph.nodes)


def lower(graph: Graph, taken: Collection[type[Composite]] = ()) -> Graph:
    """Return the graph with each composite as its lowering has it, but for those of the kinds taken.

    What takes a composite's place has its name and the user's line. It is made of what the composite's inputs were
    before they were entered: what does not change in a loop is computed, and arranged, outside of it.
    """
    while has_composites(graph, taken):
        graph = rebuild(
            graph, lambda copy, node, inputs: _lowered(copy, node, inputs, taken), (Composite, Enter, Arrange),
            keep_unread=True,
        )  # fmt: skip
    return graph


def _lowered(copy: Copy, node: Node, inputs: tuple[Node, ...], taken: Collection[type[Composite]]) -> Node:
    if isinstance(node, Composite) and type(node) not in taken:
        if type(node) not in LOWERINGS:
            msg = f"{node.where} has no lowering: a composite needs one, written in tidemill.algorithms.lowering"
            raise GraphError(msg)
        with copy.graph.on_behalf_of(node):
            made = LOWERINGS[type(node)](copy.graph, node, tuple(map(outside, inputs)))
        assert made.scope is node.scope, f"{node.where} is lowered into another scope"
        assert made.schema == node.schema, f"{node.where} is lowered to {made.schema}"
        return made
    known: Node | None = None  # what lowerings have entered and arranged before is what is entered and arranged
    if isinstance(node, Enter):
        known = copy.graph.entered(inputs[0], node.scope)
    elif isinstance(node, Arrange):
        known = copy.graph.arranged(inputs[0], node.keys)
    return known or copy.put(node, inputs=inputs)
