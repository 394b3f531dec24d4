"""Sharing equal operators, and arrangements: one index for all readers that look up by the same key."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, Final

import attrs

from tidemill.dataflow.composites import DeltaJoin
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Enter,
    Feedback,
    Filter,
    FlatMap,
    Input,
    Inspect,
    Join,
    Map,
    Negate,
    Node,
    Output,
    Reduce,
    Threshold,
    Variable,
)
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
    kind: Any = type(node)
    own = (_key(getattr(node, name)) for name in _own_fields(kind))
    key = (node.kind, node.scope, inputs, node.schema, *own)
    if key not in known:
        known[key] = copy.put(node, inputs=inputs)
    return known[key]


@cache
def _own_fields(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in attrs.fields(kind) if f.name not in _COMMON)


def _key(value: Any) -> Hashable:
    """Return what two equal fields have in common: their value, or where a function is in them, which one it is."""
    if callable(value):
        return id(value)
    kind: Any = type(value)
    parts = _parts(kind)
    if parts is not None:
        return type(value), *(_key(getattr(value, name)) for name in parts)
    hashable: Hashable = value
    return hashable


@cache
def _parts(kind: Any) -> tuple[str, ...] | None:
    """Return the fields of a class whose objects are equal if these are; None for values that have a hash."""
    is_compared = attrs.has(kind) and "__hash__" not in vars(kind)
    return tuple(f.name for f in attrs.fields(kind)) if is_compared else None


_LOOK_UP: Final = (DeltaJoin, Join, Reduce)
_LEADING_TO_ONE: Final = (Map, Filter, FlatMap, Negate, Consolidate)
_STEADY: Final = (Concat, Join, Reduce, Threshold)
"""Operators that are outside of a loop where all that they read is."""


def share_arrangements(graph: Graph) -> Graph:
    """Return the graph with each arrangement made once, and none in which nobody looks anything up.

    What enters a loop and is arranged there is arranged outside, and so is what joins, groups, distinct and operators
    row by row make of it on the way. An arrangement of an arrangement is one of its rows.
    """
    known: dict[Hashable, Node] = {}
    leading = _leading(graph)

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Arrange):
            return _arranged(copy, node, inputs[0], known) if _is_used(graph, node) else inputs[0]
        if node in leading or isinstance(node, _STEADY):
            return _outermost(copy, node, inputs, known)
        return merged(copy, node, inputs, known)

    return rebuild(graph, rewrite)


def _arranged(copy: Copy, node: Arrange, source: Node, known: dict[Hashable, Node]) -> Node:
    while isinstance(source, Arrange) and source.keys != node.keys:
        (source,) = source.inputs
    return source if isinstance(source, Arrange) else _outermost(copy, node, (source,), known)


def _outermost(copy: Copy, node: Node, sources: tuple[Node, ...], known: dict[Hashable, Node]) -> Node:
    """Return the node over sources; where all were entered, made outside and entered then."""
    if all(isinstance(source, Enter) for source in sources):
        before = tuple(source.inputs[0] for source in sources)
        if isinstance(node, Arrange):
            made = _arranged(copy, node, before[0], known)
        else:
            made = _outermost(copy, node, before, known)
        return merged(copy, attrs.evolve(sources[0], name=made.name, schema=made.schema), (made,), known)
    scope = sources[0].scope
    return merged(copy, node if node.scope is scope else attrs.evolve(node, scope=scope), sources, known)


def _leading(graph: Graph) -> set[Node]:
    """Return the row-by-row operators whose every reader groups, is an arrangement in use, or is such an operator."""
    steady: set[Node] = set()
    for node in graph.nodes:
        can_be = isinstance(node, (Arrange, *_LEADING_TO_ONE, *_STEADY))
        if isinstance(node, Enter) or (can_be and all(source in steady for source in node.inputs)):
            steady.add(node)
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if isinstance(node, _LEADING_TO_ONE):
            readers = [reader for reader, _ in graph.consumers(node)]
            if readers and all(
                r in found or (r in steady and isinstance(r, Concat)) or _keeps(graph, r) for r in readers
            ):
                found.add(node)
    return found


def _keeps(graph: Graph, node: Node) -> bool:
    return isinstance(node, (Reduce, Threshold)) or (isinstance(node, Arrange) and _is_used(graph, node))


def _is_used(graph: Graph, node: Node) -> bool:
    """Return whether anybody looks something up in an arrangement, wherever it was entered."""
    readers = [reader for reader, _ in graph.consumers(node)]
    return any(isinstance(r, _LOOK_UP) or (isinstance(r, Enter) and _is_used(graph, r)) for r in readers)


def drop_null_keys(graph: Graph) -> Graph:
    """Return the graph with arrangements that leave out rows with NULL in their keys, where joins alone look up.

    To joins NULL is equal to nothing, unless they say otherwise. What goes round an arrangement has those rows: the
    union that gives an outer join the rows without a partner.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert isinstance(node, Arrange)
        if any(node.schema.fields[k].nullable for k in node.keys):
            return copy.put(node, inputs=inputs, drops_nulls=_pass_over_nulls(graph, node))
        return copy.put(node, inputs=inputs)

    return rebuild(graph, rewrite, Arrange)


def _pass_over_nulls(graph: Graph, node: Node) -> bool:
    """Return whether all who read an arrangement, wherever it was entered, are joins to which NULL equals nothing."""
    return all(
        _pass_over_nulls(graph, reader)
        if isinstance(reader, Enter)
        else isinstance(reader, (DeltaJoin, Join)) and not reader.nulls_equal
        for reader, _ in graph.consumers(node)
    )
