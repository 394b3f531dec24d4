"""Window calls: as a Reduce over rows with all that calls read beside them, or as sums over their order."""

from __future__ import annotations

import attrs

from tidemill.algorithms.lowering.first_values import needs_first_values, with_first_values
from tidemill.algorithms.lowering.registry import lowering
from tidemill.algorithms.lowering.top_k import first_rows
from tidemill.algorithms.lowering.window_sums.rendering import by_prefix_sums
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import Windowed
from tidemill.expressions.ordering import OrderKey
from tidemill.expressions.rewriting import column
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.windows.bound import value_fields


@lowering(Windowed)
def windowed(node: Windowed, source: Collection) -> Collection:
    """Return the rows with the calls' values, and no more beside them then: see `BoundWindows.strategy`.

    Where only the first rows of each partition are asked for, with their numbers, these alone.
    """
    bound = node.bound
    if node.most is not None and bound.numbers_rows:
        return _numbered(node, source)
    if bound.strategy == "prefix_sum":
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
    """Return rows made wide with the calls' values at their ends, and of which columns of theirs the others are."""
    bound, windows = node.bound, node.bound.windows
    in_order = bound.strategy != "recompute" and node.scope.coordinates == 1
    windows = attrs.evolve(windows, in_order=in_order, only_in_order=bound.strategy == "ordered")
    if in_order and needs_first_values(windows):  # the hash is a column then: several operators sort by it
        wide, windows = with_first_values(source.map_columns(bound.columns), windows, bound.keys)
    else:
        wide = source.map_columns(bound.without_hash)
    there = windows.kept(bound.keys)
    # Named so that no call can clash with a column.
    values = (Field(f"call {f.name}", f.dtype, f.nullable) for f in value_fields(windows))
    fields = (*(wide.schema.fields[i] for i in there), *values)
    return wide.reduce_by(tuple(range(bound.keys)), windows, Schema(fields)), there
