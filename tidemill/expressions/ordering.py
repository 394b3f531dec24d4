"""Orders of rows: by columns or expressions, up or down, nulls first or last; ties by a fixed hash, then by the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.binding import Bound, bind
from tidemill.expressions.expr import Expr, as_expr, col
from tidemill.expressions.functions.hashing import xxhash64
from tidemill.expressions.schema import Schema

__all__ = ["OrderColumn", "OrderKey", "SortKey", "TopK", "asc", "bind_order", "desc", "hash_of_row"]

Nulls = Literal["first", "last"]


@attrs.frozen(eq=False)
class SortKey:
    """Something to sort by, and how. Made by ``tm.asc`` and ``tm.desc``."""

    expression: Any
    descending: bool
    nulls_first: bool


def asc(expression: Any, *, nulls: Nulls = "first") -> SortKey:
    """Return an ascending sort key; nulls come first unless told otherwise, NaN is the greatest float."""
    return SortKey(expression, descending=False, nulls_first=_first(nulls))


def desc(expression: Any, *, nulls: Nulls = "last") -> SortKey:
    """Return a descending sort key; nulls come last unless told otherwise, NaN is the greatest float."""
    return SortKey(expression, descending=True, nulls_first=_first(nulls))


def _first(nulls: str) -> bool:
    if nulls not in ("first", "last"):
        msg = f"nulls={nulls!r}: expected 'first' or 'last'"
        raise SchemaError(msg)
    return nulls == "first"


@attrs.frozen
class OrderKey:
    """An expression to sort by, bound, and how."""

    expression: Bound
    descending: bool
    nulls_first: bool

    def describe(self) -> str:
        """Return it as SQL has it."""
        return self.expression.sql() + _how(self.descending, self.nulls_first)


@attrs.frozen
class OrderColumn:
    """A column to sort by, and how."""

    column: int
    descending: bool = False
    nulls_first: bool = True

    def describe(self) -> str:
        """Return it as SQL has it, with the column's number."""
        return f"#{self.column}{_how(self.descending, self.nulls_first)}"


def _how(descending: bool, nulls_first: bool) -> str:
    nulls = "" if nulls_first is not descending else f" NULLS {'FIRST' if nulls_first else 'LAST'}"
    return f"{' DESC' if descending else ''}{nulls}"


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


def bind_order(order_by: Any, schema: Schema) -> tuple[OrderKey, ...]:
    """Return the keys of an ``order_by=``, bound."""
    keys = order_by if isinstance(order_by, Sequence) and not isinstance(order_by, str) else [order_by]
    if not keys or order_by is None:
        msg = f"order_by={order_by!r}: expected at least one column or expression to sort by"
        raise SchemaError(msg)
    found = [k if isinstance(k, SortKey) else asc(k) for k in keys]
    return tuple(OrderKey(bind(as_expr(k.expression, schema), schema), k.descending, k.nulls_first) for k in found)
