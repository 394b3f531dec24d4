"""The first rows of groups, as a Reduce over rows made wide enough to be sorted."""

from __future__ import annotations

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow import composites
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import col
from tidemill.expressions.ordering import TIE, OrderColumn, TopK, hash_of_row

__all__ = ["top_k"]


@lowering(composites.TopK)
def top_k(node: composites.TopK, source: Collection) -> Collection:
    """Return the first rows of each group: with their keys, what they are sorted by, their hash, and themselves."""
    schema = source.schema
    keys = [(f"key {i}", key) for i, key in enumerate(node.keys)]
    order = [(f"order {i}", key.expression) for i, key in enumerate(node.order)]
    tie = (TIE, bind(hash_of_row(schema), schema))
    rows = [(f"row {name}", bind(col(name), schema)) for name in schema.names]
    wide = source.map_columns([*keys, *order, tie, *rows])
    first = len(keys) + len(order)
    by = [
        *(OrderColumn(len(keys) + i, key.descending, key.nulls_first) for i, key in enumerate(node.order)),
        *(OrderColumn(i) for i in range(first, len(wide.schema))),
    ]
    found = wide.reduce_by(tuple(range(len(keys))), TopK(node.count, tuple(by)), wide.schema)
    return found.select(**{name: col(f"row {name}") for name in schema.names})
