"""Removing duplicates: what computes the same from the same is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Feedback, Input, Inspect, Node, Output, Variable
from tidemill.dataflow.passes.rebuild import Copy, rebuild

_UNLIKE_ALL: Final = (Input, Output, Variable, Feedback, Inspect)
_COMMON: Final = frozenset(f.name for f in attrs.fields(Node))


def remove_duplicates(graph: Graph) -> Graph:
    """Return the graph with one node for all that are equal and read the same, arrangements and borders of loops too.

    The first of them stays, under its name. Users' functions are equal if they are the same object.
    """
    known: dict[Hashable, Node] = {}
    return rebuild(graph, lambda copy, node, inputs: merged(copy, node, inputs, known))


def merged(copy: Copy, node: Node, inputs: tuple[Node, ...], known: dict[Hashable, Node]) -> Node:
    """Return a known node equal to this one over these inputs, or else a new one, known from now on."""
    if isinstance(node, _UNLIKE_ALL):
        return copy.put(node, inputs=inputs)
    own = (_key(getattr(node, f.name)) for f in attrs.fields(type(node)) if f.name not in _COMMON)
    key = (node.kind, node.scope, inputs, node.schema, *own)
    if key not in known:
        known[key] = copy.put(node, inputs=inputs)
    return known[key]


def _key(value: Any) -> Hashable:
    """Return what two equal fields have in common: their value, or where a function is in them, which one it is."""
    if callable(value):
        return id(value)
    if attrs.has(type(value)) and "__hash__" not in vars(type(value)):
        return type(value), *(_key(getattr(value, f.name)) for f in attrs.fields(type(value)))
    hashable: Hashable = value
    return hashable
