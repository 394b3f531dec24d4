"""What makes two graphs the same dataflow, whatever lines they were written on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node
from tidemill.expressions.bound import Bound
from tidemill.expressions.sql_text import to_sql

__all__ = ["describe", "difference", "fingerprint"]

_COMMON: Final = frozenset(f.name for f in attrs.fields(Node))


def describe(graph: Graph) -> list[str]:
    """Return a line for the times and one for each node: all that its state depends on. Functions go by their names."""
    return [f"times {', '.join(graph.coordinates)}", *map(_line, graph.nodes)]


def fingerprint(graph: Graph) -> str:
    """Return a digest of the description."""
    return hashlib.sha256("\n".join(describe(graph)).encode()).hexdigest()


def difference(saved: Sequence[str], graph: Graph) -> str | None:
    """Return where a description differs first from that of a graph, or None."""
    now = describe(graph)
    for was, is_ in zip(saved, now, strict=False):
        if was != is_:
            return f"saved: {was}; now: {is_}"
    if len(saved) != len(now):
        return f"saved: {len(saved) - 1} operators; now: {len(now) - 1}"
    return None


def _line(node: Node) -> str:
    reads = ", ".join(f"#{n.id}" for n in node.inputs)
    own = [name for name in _said(node) if name not in _COMMON]
    fields = ", ".join(f"{name}={_value(getattr(node, name))}" for name in own)
    head = f"#{node.id} {node.kind} {node.name!r} in {node.scope.path} <- {reads}"
    return f"{head} {node.schema} [{node.describe()}] {fields}"


def _said(value: Any) -> list[str]:
    """Return the fields of a value, but for some where they have their defaults: then it is as if they did not exist.

    So what was saved before there was such a field, and means the same, goes on.
    """
    return [
        f.name
        for f in attrs.fields(type(value))
        if not (f.metadata.get("unsaid") and getattr(value, f.name) == f.default)
    ]


def _value(value: Any) -> str:
    """Return what a field says; a function by its name, for it has no better text that stays the same."""
    if isinstance(value, Node):
        return f"#{value.id}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_value, value)) + ")"
    if isinstance(value, Bound):
        return to_sql(value)
    if attrs.has(type(value)):
        return "(" + ", ".join(_value(getattr(value, name)) for name in _said(value)) + ")"
    return getattr(value, "__qualname__", type(value).__qualname__) if callable(value) else repr(value)
