"""Sort keys: something to sort by, up or down, nulls first or last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import attrs

from tidemill.errors import SchemaError

__all__ = ["Nulls", "SortKey", "asc", "desc", "sort_keys"]

Nulls = Literal["first", "last"]


@attrs.frozen(eq=False)
class SortKey:
    """Something to sort by, and how. Made by ``tm.asc`` and ``tm.desc``."""

    expression: Any
    descending: bool
    nulls_first: bool

    @property
    def direction(self) -> str:
        """What SQL writes after the expression."""
        nulls = "" if self.nulls_first is not self.descending else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return " DESC" * self.descending + nulls


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


def sort_keys(order_by: Any) -> list[SortKey]:
    """Return the sort keys of an ``order_by=``: one or several; what is none yet is one that ascends."""
    keys = order_by if isinstance(order_by, Sequence) and not isinstance(order_by, str) else [order_by]
    if not keys or order_by is None:
        msg = f"order_by={order_by!r}: expected at least one column or expression to sort by"
        raise SchemaError(msg)
    return [k if isinstance(k, SortKey) else asc(k) for k in keys]
