"""Window calls: as a Reduce over rows with all that calls read beside them, or as sums over their order."""

from __future__ import annotations

from tidemill.algorithms.lowering.registry import lowering
from tidemill.algorithms.lowering.window_sums.rendering import by_prefix_sums
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import Windowed
from tidemill.expressions.rewriting import column
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.windows.bound import value_fields

__all__ = ["windowed"]


@lowering(Windowed)
def windowed(node: Windowed, source: Collection) -> Collection:
    """Return the rows with the calls' values, and no more beside them then: see `BoundWindows.strategy`."""
    bound = node.bound
    wide = source.map_columns(bound.columns)
    made = by_prefix_sums(bound, wide) if bound.strategy == "prefix_sum" else _recomputed(node, wide)
    kept = (*bound.windows.row, *range(len(wide.schema), len(made.schema)))
    names = node.schema.names
    return made.map_columns([(name, column(made.schema, i)) for name, i in zip(names, kept, strict=True)])


def _recomputed(node: Windowed, wide: Collection) -> Collection:
    bound = node.bound
    # Named so that no call can clash with a column.
    values = (Field(f"call {f.name}", f.dtype, f.nullable) for f in value_fields(bound.windows))
    return wide.reduce_by(tuple(range(bound.keys)), bound.windows, Schema((*wide.schema, *values)))
