"""Window calls: as a Reduce over rows with all columns that calls read, as sums over an order, or on close."""

from __future__ import annotations

import attrs

from tidemill.algorithms.lowering.first_values import has_calls_of_first_values, with_first_values
from tidemill.algorithms.lowering.registry import lowering
from tidemill.algorithms.lowering.top_k import first_rows
from tidemill.collections.collection import Collection
from tidemill.collections.on_close import closed_rows, closed_sessions, valued_schema
from tidemill.collections.sessions import Sessions
from tidemill.dataflow.composites import ClosedSessions, SlidingWindows, Windowed
from tidemill.dataflow.nodes import Reduce
from tidemill.dataflow.origins import Origins
from tidemill.expressions.expr import col
from tidemill.expressions.ordering import OrderKey
from tidemill.expressions.rewriting import column
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.windows.bound import value_fields


@lowering(Windowed)
def windowed(node: Windowed, source: Collection) -> Collection:
    """Return the rows with the calls' values and nothing else, computed as `BoundWindows.strategy` says.

    Where only the first rows of each partition are asked for, with their numbers, these alone.
    """
    bound = node.bound
    if node.most is not None and bound.numbers_rows:
        return _numbered(node, source)
    if bound.strategy == "prefix_sum":
        from tidemill.algorithms.lowering.window_sums.rendering import by_prefix_sums  # noqa: PLC0415 - slow to import

        wide = source.map_columns(bound.columns)
        made, there = by_prefix_sums(bound, wide), tuple(range(len(wide.schema)))
    else:
        made, there = _recomputed(node, source)
    wanted = (*map(there.index, bound.windows.row), *range(len(there), len(made.schema)))
    names = node.schema.names
    return made.map_columns([(name, column(made.schema, i)) for name, i in zip(names, wanted, strict=True)])


def _numbered(node: Windowed, source: Collection) -> Collection:
    """Return the first rows of each partition with their numbers."""
    windows, columns = node.bound.windows, node.bound.columns
    order = tuple(OrderKey(columns[o.column][1], o.descending, o.nulls_first) for o in (*windows.order, *windows.ties))
    assert node.most is not None
    hashed = None if windows.hashed is None else tuple(map(windows.row.index, windows.hashed))
    names = node.schema.names[len(source.schema) :]
    return first_rows(source, node.keys, order, node.most, hashed, numbers=names)


def _recomputed(node: Windowed, source: Collection) -> tuple[Collection, tuple[int, ...]]:
    """Return the widened rows with the calls' values at their ends, and which columns of the widened rows are kept."""
    bound, windows = node.bound, node.bound.windows
    in_order = bound.strategy != "recompute" and node.scope.coordinates == 1
    windows = attrs.evolve(windows, in_order=in_order, only_in_order=bound.strategy == "ordered")
    if in_order and has_calls_of_first_values(windows):  # the hash is a column then: several operators sort by it
        wide, windows = with_first_values(source.map_columns(bound.columns), windows, bound.keys)
    else:
        wide = source.map_columns(bound.without_hash)
    there = windows.kept(bound.keys)
    # Named so that no call can clash with a column.
    values = (Field(f"call {f.name}", f.dtype, f.nullable) for f in value_fields(windows))
    fields = (*(wide.schema.fields[i] for i in there), *values)
    return wide.reduce_by(tuple(range(bound.keys)), windows, Schema(fields)), there


@lowering(SlidingWindows)
def sliding_windows(node: SlidingWindows, source: Collection, mark: Collection) -> Collection:
    """Return the closed rows: the others, and the changes to come, are filtered out or held back."""
    schema = valued_schema(source.schema, node.keys, node.windows)
    builder = source.builder
    made = builder.add(Reduce, source.node, schema=schema, keys=tuple(range(node.keys)), logic=node.windows)
    values = schema.names[len(schema) - len(node.windows.calls) :]
    closing = [values[i] for i in node.closing]
    column = source.schema.names[node.column]
    return Collection(builder, closed_rows(builder, made, mark.node, closing, column, node.distance))


@lowering(ClosedSessions)
def over_sessions(node: ClosedSessions, source: Collection, mark: Collection) -> Collection:
    """Return the rows of all sessions, held back until their ends are a gap behind the watermark."""
    names = source.schema.names
    session = Sessions(tuple(map(col, names[: node.keys])), names[node.column], node.gap, "session", "session end")
    with source.builder.graph.telling(Origins(names[node.keys :], ())):
        rows = closed_sessions(source.builder, source.node, mark.node, session)
        return Collection(source.builder, rows).drop("session end")
