"""The first rows of groups, as a Reduce over rows made wide enough to be sorted."""

from __future__ import annotations

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow import composites
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.expr import col
from tidemill.expressions.ordering import OrderColumn, OrderKey, TopK, hash_of_row
from tidemill.expressions.schema import Schema, unused_name

__all__ = ["top_k"]


@lowering(composites.TopK)
def top_k(node: composites.TopK, source: Collection) -> Collection:
    """Return the first rows of each group: of rows with their keys, what they are sorted by, and themselves."""
    schema = source.schema
    columns = _WideColumns(schema)
    for i, key in enumerate(node.keys):
        columns.add(f"key {i}", key)
    width = len(node.keys)
    order = [
        OrderColumn(columns.place(f"order {i}", key.expression), key.descending, key.nulls_first)
        for i, key in enumerate(_order_before_ties(node.order, schema))
    ]
    row = [columns.place(name, bind(col(name), schema)) for name in schema.names]
    named = columns.named
    wide = (
        source if [b for _, b in named] == [bind(col(n), schema) for n in schema.names] else source.map_columns(named)
    )
    by = tuple(o for o in order if o.column >= width)  # in a group all rows have the same key
    found = wide.reduce_by(tuple(range(width)), TopK(node.count, by, tuple(row)), wide.schema)
    names = [found.schema.names[i] for i in row]
    if wide is source:
        return found
    return found.select(**{name: col(wide_name) for name, wide_name in zip(schema.names, names, strict=True)})


def _order_before_ties(order: tuple[OrderKey, ...], schema: Schema) -> tuple[OrderKey, ...]:
    """Return an order without a last key that is the hash by which ties are broken anyway."""
    tie = bind(hash_of_row(schema), schema)
    return order[:-1] if order and order[-1].expression == tie and not order[-1].descending else order


class _WideColumns:
    """Columns of rows that are made wide: each expression once, but for the keys, which come first."""

    def __init__(self, schema: Schema) -> None:
        self._names = set(schema.names)
        self.named: list[tuple[str, Bound]] = []

    def add(self, name: str, expression: Bound) -> None:
        """Have a column of its own for an expression: named as the row's column that it is, or else so."""
        taken = {n for n, _ in self.named}
        if isinstance(expression, BoundColumn) and expression.name not in taken:
            name = expression.name
        else:
            name = unused_name(name, self._names | taken)
        self.named.append((name, expression))

    def place(self, name: str, expression: Bound) -> int:
        """Return the column that holds an expression: one that is there already, or a new one."""
        for i, (_, there) in enumerate(self.named):
            if there == expression:
                return i
        self.add(name, expression)
        return len(self.named) - 1
