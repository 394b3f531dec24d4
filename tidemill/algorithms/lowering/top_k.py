"""The first rows of groups, as a Reduce over rows made wide enough to be sorted."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow import composites
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.expr import col
from tidemill.expressions.ordering import OrderColumn, OrderKey, TopK, hash_of_row
from tidemill.expressions.rewriting import column, columns_among
from tidemill.expressions.schema import Field, Schema, unused_name
from tidemill.expressions.types import INT64


@lowering(composites.TopK)
def top_k(node: composites.TopK, source: Collection) -> Collection:
    """Return the first rows of each group."""
    return first_rows(source, node.keys, node.order, node.count, node.hashed)


def first_rows(
    source: Collection,
    keys: Sequence[Bound],
    order: tuple[OrderKey, ...],
    count: int,
    hashed: Sequence[int] | None,
    *,
    numbers: Sequence[str] = (),
) -> Collection:
    """Return the first rows of each group: of rows with their keys, what they are sorted by, and themselves.

    With ``numbers``, each copy is a row, which has its place in the group in columns of these names.
    """
    schema = source.schema
    columns = _WideColumns(schema)
    for i, key in enumerate(keys):
        columns.add(f"key {i}", key)
    width = len(keys)
    places = [
        OrderColumn(columns.place(f"order {i}", key.expression), key.descending, key.nulls_first)
        for i, key in enumerate(_order_before_ties(order, keys, schema, hashed))
    ]
    row = [columns.place(name, bind(col(name), schema)) for name in schema.names]
    named = columns.named
    wide = (
        source if [b for _, b in named] == [bind(col(n), schema) for n in schema.names] else source.map_columns(named)
    )
    by = tuple(o for o in places if o.column >= width)  # in a group all rows have the same key
    made = wide.schema
    if numbers:
        made = Schema((*made, Field(unused_name("number", made.names), INT64, nullable=False)))
    of_tie = None if hashed is None else tuple(row[i] for i in hashed)
    logic = TopK(count, by, tuple(row), numbered=bool(numbers), hashed=of_tie)
    found = wide.reduce_by(tuple(range(width)), logic, made)
    if wide is source and not numbers:
        return found
    wanted = [*zip(schema.names, row, strict=True), *((name, len(made) - 1) for name in numbers)]
    return found.map_columns([(name, column(made, place)) for name, place in wanted])


def _order_before_ties(
    order: tuple[OrderKey, ...], keys: Sequence[Bound], schema: Schema, hashed: Sequence[int] | None
) -> tuple[OrderKey, ...]:
    """Return an order without trailing keys that break ties as is done anyway: the hash, then the row's columns."""
    tie = bind(hash_of_row(schema, hashed), schema)
    for place, key in enumerate(order):
        if key.expression == tie and not key.descending:
            alike = columns_among([*keys, *(before.expression for before in order[:place])])
            rest = [column(schema, i) for i in range(len(schema)) if i not in alike]
            further = order[place + 1 :]
            upwards = all(not k.descending and k.nulls_first for k in further)
            return order[:place] if not further or (upwards and [k.expression for k in further] == rest) else order
    return order


class _WideColumns:
    """Columns of rows that are made wide: each expression once, but for the keys, which come first."""

    def __init__(self, schema: Schema) -> None:
        self._names = set(schema.names)
        self.named: list[tuple[str, Bound]] = []

    def add(self, name: str, expression: Bound) -> None:
        """Add a column for an expression, named like the row's column that it is, or else by the given name."""
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
