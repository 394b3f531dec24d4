"""Pushing filters down: rows that are dropped later are dropped before anything is done with them."""

from __future__ import annotations

import functools
from typing import Final

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Enter,
    Filter,
    Join,
    Map,
    Negate,
    Node,
    Retime,
    Threshold,
)
from tidemill.dataflow.passes.fuse import columns_of
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.bound import Bound, BoundColumn, BoundLiteral
from tidemill.expressions.rewriting import both, can_fail, column, column_uses, conditions, substituted

__all__ = ["push_filters"]

_PASS_ON: Final = (Consolidate, Enter, Negate, Retime)


def push_filters(graph: Graph) -> Graph:
    """Return the graph with filters as near to the inputs as they can be.

    They go below maps, for columns which those take as they are; below joins, to the side whose columns they read;
    below concats and distinct; and out of loops which their rows enter. Only what cannot fail is moved, for it will see
    rows that it did not see before; and only past operators that nobody else reads.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Filter) and not can_fail(node.predicate):
            return _pushed(copy, node, node.predicate, inputs[0])
        return copy.put(node, inputs=inputs)

    return rebuild(graph, rewrite)


def _pushed(copy: Copy, node: Filter, predicate: Bound, source: Node) -> Node:
    """Return the rows of a source that pass, the predicate asked as early as can be."""
    if copy.readers(source) <= 1:
        if isinstance(source, _PASS_ON) or (isinstance(source, Threshold) and source.function is None):
            return copy.put(source, inputs=(_pushed(copy, node, predicate, source.inputs[0]),))
        if isinstance(source, Concat):
            return copy.put(source, inputs=tuple(_pushed(copy, node, predicate, s) for s in source.inputs))
        if isinstance(source, Map):
            before = _before(predicate, source)
            if before is not None:
                return copy.put(source, inputs=(_pushed(copy, node, before, source.inputs[0]),))
        if isinstance(source, Join):
            return _below_join(copy, node, predicate, source)
    return _filtered(copy, node, predicate, source)


def _filtered(copy: Copy, node: Filter, predicate: Bound, source: Node) -> Node:
    """Return a filter, scope and columns from its source, the rest from the filter as it was written."""
    made = attrs.evolve(node, scope=source.scope, schema=source.schema)
    return copy.put(made, inputs=(source,), predicate=predicate)


def _before(predicate: Bound, source: Map) -> Bound | None:
    """Return what a predicate asks of the rows before a Map; None where it would work out what the Map works out."""
    columns = columns_of(source)
    if not all(isinstance(columns[i], (BoundColumn, BoundLiteral)) for i in column_uses(predicate)):
        return None
    return substituted(predicate, lambda c: columns[c.index])


def _below_join(copy: Copy, node: Filter, predicate: Bound, join: Join) -> Node:
    sides, above = list(join.inputs), list[Bound]()
    for condition in conditions(predicate):
        side = _side(condition, join)
        if side is not None and _is_private(copy, sides[side]):
            asked = substituted(condition, functools.partial(_of_side, join, side))
            sides[side] = _below_arrangement(copy, node, asked, sides[side])
        else:
            above.append(condition)
    joined = join if sides == list(join.inputs) else copy.put(join, inputs=tuple(sides))
    return _filtered(copy, node, functools.reduce(both, above), joined) if above else joined


def _side(condition: Bound, join: Join) -> int | None:
    """Return which side of a join a condition is about; None where it is about both, or neither."""
    width = len(join.inputs[0].schema)
    sides = {int(join.output[i] >= width) for i in column_uses(condition)}
    return sides.pop() if len(sides) == 1 else None


def _of_side(join: Join, side: int, output: BoundColumn) -> BoundColumn:
    place = join.output[output.index] - (len(join.inputs[0].schema) if side else 0)
    return column(join.inputs[side].schema, place)


def _is_private(copy: Copy, arranged: Node) -> bool:
    """Return whether nobody else uses an arrangement."""
    while isinstance(arranged, Enter) and copy.readers(arranged) <= 1:
        (arranged,) = arranged.inputs
    return isinstance(arranged, Arrange) and copy.readers(arranged) <= 1


def _below_arrangement(copy: Copy, node: Filter, predicate: Bound, arranged: Node) -> Node:
    (source,) = arranged.inputs
    if isinstance(arranged, Enter):
        return copy.put(arranged, inputs=(_below_arrangement(copy, node, predicate, source),))
    return copy.put(arranged, inputs=(_pushed(copy, node, predicate, source),))
