"""Window calls, as a Reduce over rows with all that calls read beside them."""

from __future__ import annotations

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import Windowed
from tidemill.expressions.rewriting import column
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.windows.bound import value_fields

__all__ = ["windowed"]


@lowering(Windowed)
def windowed(node: Windowed, source: Collection) -> Collection:
    """Return the rows with the calls' values: computed for each partition whole, and no more beside the rows then."""
    bound = node.bound
    wide = source.map_columns(bound.columns)
    # Named so that no call can clash with a column.
    values = (Field(f"call {f.name}", f.dtype, f.nullable) for f in value_fields(bound.windows))
    made = wide.reduce_by(tuple(range(bound.keys)), bound.windows, Schema((*wide.schema, *values)))
    kept = (*bound.windows.row, *range(len(wide.schema), len(made.schema)))
    names = node.schema.names
    return made.map_columns([(name, column(made.schema, i)) for name, i in zip(names, kept, strict=True)])
