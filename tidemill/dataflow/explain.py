"""A dataflow as text: the outline that tests and bug reports quote."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node
from tidemill.dataflow.scopes import Scope


def explain(graph: Graph) -> str:
    """Return the graph as an outline: a line a node, with what it reads; loops indented.

    Shows id, kind, name, what it does, ``<-`` the ids it reads, its schema, and the user's line.
    """
    head = f"dataflow {graph.name!r}, times ({', '.join(graph.coordinates)})"
    return "\n".join([head, *_lines(graph, graph.root, 1)])


def _lines(graph: Graph, scope: Scope, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for item in graph.plan(scope):
        if isinstance(item, Scope):
            yield f"{pad}{item.kind} {item.name!r}  [{item.site}]"
            yield from _lines(graph, item, depth + 1)
        else:
            yield pad + _line(item)


def _line(node: Node) -> str:
    name = "" if node.name == node.kind.lower() else f" {node.name!r}"
    reads = " <- " + ", ".join(f"#{n.id}" for n in node.inputs) if node.inputs else ""
    does = f" [{node.describe()}]" if node.describe() else ""
    return f"#{node.id} {node.kind}{name}{does}{reads}  {node.schema}  [{node.site}]"
