"""Rows that are there for a time, by moving what brings them, and what takes them away, to the times of their own."""

from __future__ import annotations

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import TemporalFilter
from tidemill.dataflow.lattice import MAX_COORDINATE
from tidemill.dataflow.nodes import Retime
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.expr import col
from tidemill.expressions.schema import unused_name


@lowering(TemporalFilter)
def temporal_filter(node: TemporalFilter, source: Collection) -> Collection:
    """Return the rows from their beginnings on, less the rows from their ends on."""
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
    """Return the rows with columns for what is worked out of them; and which columns the bounds are."""
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
    """Return the rows at the times in a column, or at their own where these are later."""
    made = wide.builder.add(Retime, wide.node, column=column, since=since, coordinate=node.coordinate)
    moved = Collection(wide.builder, made)
    return moved if len(wide.schema) == len(like.schema) else moved.select(*map(col, like.schema.names))
