"""Orders of rows as nodes carry them; ties are broken by a fixed hash, then by the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import Expr, col
from tidemill.expressions.functions.hashing import xxhash64
from tidemill.expressions.schema import Schema
from tidemill.expressions.sort_keys import sort_keys
from tidemill.expressions.sql_text import as_expr, to_sql


@attrs.frozen
class OrderKey:
    """An expression to sort by, bound, and how."""

    expression: Bound
    descending: bool
    nulls_first: bool

    def describe(self) -> str:
        """Return it as SQL has it."""
        return to_sql(self.expression) + _how(self.descending, self.nulls_first)


@attrs.frozen
class OrderColumn:
    """A column to sort by, and how."""

    column: int
    descending: bool = False
    nulls_first: bool = True

    def describe(self) -> str:
        """Return it as SQL has it, with the column's number."""
        return f"#{self.column}{self.direction}"

    @property
    def direction(self) -> str:
        """What SQL writes after the column."""
        return _how(self.descending, self.nulls_first)


def _how(descending: bool, nulls_first: bool) -> str:
    nulls = "" if nulls_first is not descending else f" NULLS {'FIRST' if nulls_first else 'LAST'}"
    return f"{' DESC' if descending else ''}{nulls}"


@attrs.frozen
class TopK:
    """What a Reduce computes for each group: its first rows in an order, as many as make ``count`` copies.

    The rows begin with the key, and may have columns that are there to be sorted by. Ties are broken by `hash_of_row`,
    then by the columns of the row itself.
    """

    count: int
    order: tuple[OrderColumn, ...]
    row: tuple[int, ...]
    """Which columns are those of the row itself."""
    numbered: bool = False
    """Whether each copy is a row of its own, with its place in the group, from 1 on, as one column more."""
    hashed: tuple[int, ...] | None = None
    """Which columns the hash is over, if not over those of the row itself."""

    @property
    def hash_columns(self) -> tuple[int, ...]:
        """The columns that the hash is over, in their order."""
        return self.row if self.hashed is None else self.hashed

    def describe(self) -> str:
        """Return the number and the order, where there is more to it than the key.

        >>> TopK(2, (), (0,)).describe(), TopK(2, (OrderColumn(1),), (0, 1)).describe()
        ('first 2', 'first 2 by #1')
        """
        by = ", ".join(o.describe() for o in self.order)
        first = f"first {self.count} by {by}" if by else f"first {self.count}"
        return f"{first}, numbered" if self.numbered else first


def hash_of_row(schema: Schema, hashed: Sequence[int] | None = None) -> Expr:
    """Return the fixed hash that breaks ties: xxhash64 over some columns, or all in order, as Spark has it."""
    names = schema.names if hashed is None else [schema.names[i] for i in hashed]
    return xxhash64(*map(col, names))


def bind_order(order_by: Any, schema: Schema) -> tuple[OrderKey, ...]:
    """Return the keys of an ``order_by=``, bound."""
    keys = [k.over(schema) for k in sort_keys(order_by)]
    return tuple(OrderKey(bind(as_expr(k.expression, schema), schema), k.descending, k.nulls_first) for k in keys)
