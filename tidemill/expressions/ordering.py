"""Orders of rows as nodes carry them; ties are broken by a fixed hash, then by the row."""

from __future__ import annotations

from typing import Any

import attrs

from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import Expr, col
from tidemill.expressions.functions.hashing import xxhash64
from tidemill.expressions.schema import Schema
from tidemill.expressions.sort_keys import SortKey, sort_keys
from tidemill.expressions.sql_text import as_expr

__all__ = ["OrderColumn", "TopK", "bind_order", "hash_of_row"]


@attrs.frozen
class OrderColumn:
    """A column to sort by, and how."""

    column: int
    descending: bool = False
    nulls_first: bool = True

    def describe(self) -> str:
        """Return it as SQL has it, with the column's number."""
        nulls = "" if self.nulls_first is not self.descending else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"#{self.column}{' DESC' if self.descending else ''}{nulls}"


@attrs.frozen
class TopK:
    """What a Reduce computes for each group: its first rows in an order, as many as make ``count`` copies.

    The rows begin with the key. The order tells any two rows apart.
    """

    count: int
    order: tuple[OrderColumn, ...]

    def describe(self) -> str:
        """Return the number and the order."""
        return f"first {self.count} by {', '.join(o.describe() for o in self.order)}"


def hash_of_row(schema: Schema) -> Expr:
    """Return the fixed hash that breaks ties: xxhash64 over the columns in order, as Spark has it."""
    return xxhash64(*(col(name) for name in schema.names))


def bind_order(order_by: Any, schema: Schema) -> list[tuple[Bound, SortKey]]:
    """Return the expressions of an ``order_by=``, bound, with their sort keys."""
    keys = sort_keys(order_by)
    return [(bind(as_expr(k.expression, schema), schema), k) for k in keys]
