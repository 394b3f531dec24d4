"""Dynamic filters: by an index where times are totally ordered; else a cross join with the one right row, filtered.

Temporal filters beside them: rows that are valid at a time.
"""

from __future__ import annotations

from typing import Final

import attrs

from tidemill.algorithms.lowering.joins import new_names
from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import (
    ComparingFilter,
    DynamicFilter,
    OrderedDynamicFilter,
    RangeJoin,
    TemporalFilter,
)
from tidemill.dataflow.lattice import MAX_COORDINATE
from tidemill.dataflow.nodes import Join, Reduce, Retime
from tidemill.dataflow.passes.row_keys import is_told_apart_by
from tidemill.expressions.aggregates import OneRow, UserReduce
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.expr import col
from tidemill.expressions.rewriting import column
from tidemill.expressions.schema import Schema, unused_name

_ONE_ROW: Final = OneRow()


@lowering(DynamicFilter)
def dynamic_filter(node: DynamicFilter, left: Collection, right: Collection) -> Collection:
    """Return an `OrderedDynamicFilter` where times have one coordinate; else the left rows of the pairs that pass."""
    if node.scope.coordinates > 1:
        return filter_by_cross_join(node, left, right)
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
def filter_by_cross_join(node: ComparingFilter, left: Collection, right: Collection) -> Collection:
    """Return the left rows of the pairs that pass: for engines without the index, and times that are not ordered."""
    names = new_names([f"right {i}" for i in range(len(right.schema))], left.schema, suffix="_right")
    right = right.select(**{new: col(name) for new, name in zip(names, right.schema.names, strict=True)})
    pairs = left.cross_join(right if is_told_apart_by(right.node, ()) else _checked(right))
    return pairs.filter_by(node.predicate).select(*left.schema.names)


@lowering(RangeJoin)
def range_join(node: RangeJoin, left: Collection, right: Collection) -> Collection:
    """Return the pairs for which the comparison holds, among those with equal keys if there are any."""
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


def _checked(right: Collection) -> Collection:
    """Return the rows; more than one of them is an error."""
    whole = right.builder.arrange(right.node, ())
    return Collection(right.builder, right.builder.add(Reduce, whole, keys=(), logic=UserReduce(_ONE_ROW)))


@lowering(TemporalFilter)
def temporal_filter(node: TemporalFilter, source: Collection) -> Collection:
    """Return the rows, inserted at their ``valid_from`` and retracted at their ``valid_to``."""
    wide, (begin, end) = _with_columns(source, [node.valid_from, node.valid_to])
    begun = source
    if begin is not None:
        at = col(wide.schema.names[begin])
        begun = _moved(node, wide.filter(at.is_null() | (at < MAX_COORDINATE)), begin, None, source)
    if end is None:
        return begun
    ending = wide.filter(col(wide.schema.names[end]) < MAX_COORDINATE)
    return begun.concat(_moved(node, ending, end, begin, source).negate())


def _with_columns(source: Collection, bounds: list[Bound | None]) -> tuple[Collection, list[int | None]]:
    """Return the rows with columns for what is computed from them; and which columns the bounds are."""
    named = [(name, bind(col(name), source.schema)) for name in source.schema.names]
    places: list[int | None] = []
    for bound in bounds:
        if bound is None or isinstance(bound, BoundColumn):
            places.append(None if bound is None else bound.index)
            continue
        places.append(len(named))
        named.append((unused_name("time", {name for name, _ in named}), bound))
    return (source if len(named) == len(source.schema) else source.map_columns(named)), places


def _moved(node: TemporalFilter, wide: Collection, column: int, since: int | None, like: Collection) -> Collection:
    """Return the rows at the times in a column, or at their own times where these are later."""
    made = wide.builder.add(Retime, wide.node, column=column, since=since, coordinate=node.coordinate)
    moved = Collection(wide.builder, made)
    return moved if len(wide.schema) == len(like.schema) else moved.select(*map(col, like.schema.names))
