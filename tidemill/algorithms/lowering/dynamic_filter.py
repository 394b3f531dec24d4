"""Dynamic filters: by an index where times are in order; else every left row with the one right row, and a filter."""

from __future__ import annotations

from typing import Final

from tidemill.algorithms.lowering.joins import new_names
from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import ComparingFilter, DynamicFilter, OrderedDynamicFilter
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregates import OneRow, UserReduce
from tidemill.expressions.expr import col

__all__ = ["dynamic_filter", "ordered_dynamic_filter"]

_ONE_ROW: Final = OneRow()


@lowering(DynamicFilter)
def dynamic_filter(node: DynamicFilter, left: Collection, right: Collection) -> Collection:
    """Return what an engine may do by an index, where it can be one; else the pairs that pass."""
    if node.scope.coordinates > 1:
        return ordered_dynamic_filter(node, left, right)
    made = left.builder.graph.add(
        OrderedDynamicFilter,
        scope=node.scope,
        inputs=(left.node, right.node),
        schema=node.schema,
        conditions=node.conditions,
        predicate=node.predicate,
        monotone=node.monotone,
    )
    return left.builder.collection(made)


@lowering(OrderedDynamicFilter)
def ordered_dynamic_filter(node: ComparingFilter, left: Collection, right: Collection) -> Collection:
    """Return the left rows of the pairs that pass."""
    names = new_names([f"right {i}" for i in range(len(right.schema))], left.schema, suffix="_right")
    right = right.select(**{new: col(name) for new, name in zip(names, right.schema.names, strict=True)})
    whole = right.builder.arrange(right.node, ())
    one = right.builder.graph.add(
        Reduce, scope=whole.scope, inputs=(whole,), schema=right.schema, keys=(), logic=UserReduce(_ONE_ROW)
    )
    pairs = left.cross_join(right.builder.collection(one))
    return pairs.filter_by(node.predicate).select(*left.schema.names)
