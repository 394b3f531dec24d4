"""The decorator by which a lowering is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidemill.collections.builder import Builder
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import Composite
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node
from tidemill.dataflow.passes.lowering import LOWERINGS

F = TypeVar("F", bound=Callable[..., Collection])


def lowering(kind: type[Composite]) -> Callable[[F], F]:
    """Return the decorator of the function ``(node, *inputs) -> Collection`` that lowers composites of a kind."""

    def register(function: F) -> F:
        def lowered(graph: Graph, node: Composite, inputs: tuple[Node, ...]) -> Node:
            builder = Builder(graph)
            made = function(node, *(Collection(builder, source) for source in inputs))
            return builder.enter(made.node, node.scope)

        LOWERINGS[kind] = lowered
        return function

    return register
