"""Dynamic filters: by an index where times are in order; else every left row with the one right row, and a filter."""

from __future__ import annotations

from typing import Final

import attrs

from tidemill.algorithms.lowering.joins import new_names
from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import Aggregate, ComparingFilter, DynamicFilter, OrderedDynamicFilter, RangeJoin
from tidemill.dataflow.nodes import Enter, Filter, Join, Map, Node, Reduce
from tidemill.expressions.aggregates import OneRow, UserReduce
from tidemill.expressions.expr import col
from tidemill.expressions.rewriting import column
from tidemill.expressions.schema import Schema

_ONE_ROW: Final = OneRow()


@lowering(DynamicFilter)
def dynamic_filter(node: DynamicFilter, left: Collection, right: Collection) -> Collection:
    """Return what an engine may do by an index, where it can be one; else the pairs that pass."""
    if node.scope.coordinates > 1:
        return ordered_dynamic_filter(node, left, right)
    made = left.builder.add(
        OrderedDynamicFilter,
        left.node,
        right.node,
        schema=node.schema,
        conditions=node.conditions,
        predicate=node.predicate,
        monotone=node.monotone,
    )
    return Collection(left.builder, made)


@lowering(OrderedDynamicFilter)
def ordered_dynamic_filter(node: ComparingFilter, left: Collection, right: Collection) -> Collection:
    """Return the left rows of the pairs that pass."""
    names = new_names([f"right {i}" for i in range(len(right.schema))], left.schema, suffix="_right")
    right = right.select(**{new: col(name) for new, name in zip(names, right.schema.names, strict=True)})
    pairs = left.cross_join(right if _has_one_row(right.node) else _checked(right))
    return pairs.filter_by(node.predicate).select(*left.schema.names)


@lowering(RangeJoin)
def range_join(node: RangeJoin, left: Collection, right: Collection) -> Collection:
    """Return the pairs that compare, of all, or of those with equal keys."""
    names = new_names([f"right {i}" for i in range(len(right.schema))], left.schema, suffix="_right")
    fields = [attrs.evolve(f, name=name) for f, name in zip(right.schema, names, strict=True)]
    sides = zip((left, right), zip(*node.keys, strict=True) if node.keys else ((), ()), strict=True)
    joined = left.builder.add(
        Join,
        *(left.builder.arrange(side.node, keys) for side, keys in sides),
        schema=Schema((*left.schema.fields, *fields)),
        output=tuple(range(len(left.schema) + len(right.schema))),
        nulls_equal=node.nulls_equal,
    )
    pairs = Collection(left.builder, joined).filter_by(node.predicate)
    wanted = zip(node.schema.names, (column(pairs.schema, i) for i in node.output), strict=True)
    return pairs.map_columns(list(wanted))


def _has_one_row(node: Node) -> bool:
    while isinstance(node, (Map, Filter, Enter)):
        (node,) = node.inputs
    return (isinstance(node, Reduce) and node.scalar) or (isinstance(node, Aggregate) and not node.keys)


def _checked(right: Collection) -> Collection:
    """Return the rows, of which more than one is an error."""
    whole = right.builder.arrange(right.node, ())
    return Collection(right.builder, right.builder.add(Reduce, whole, keys=(), logic=UserReduce(_ONE_ROW)))
