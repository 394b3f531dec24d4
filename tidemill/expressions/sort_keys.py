"""Sort keys: something to sort by, up or down, nulls first or last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.schema import Schema

Nulls = Literal["first", "last"]

_WRITTEN: Final = re.compile(
    r"(?P<expression>.*?\S)(?:\s+(?P<direction>asc|desc)(?:\s+nulls\s+(?P<nulls>first|last))?"
    r"|\s+nulls\s+(?P<only_nulls>first|last))\s*",
    re.IGNORECASE | re.DOTALL,
)
"""SQL text with a direction after it."""


@attrs.frozen(eq=False)
class SortKey:
    """Something to sort by, and how. Made by ``tm.asc`` and ``tm.desc``."""

    expression: Any
    descending: bool
    nulls_first: bool
    text: str | None = None
    """The text that all of this was read from, where it was."""

    def over(self, schema: Schema) -> SortKey:
        """Return the key for rows of a schema: text that is a column's name as a whole is that column, ascending."""
        return asc(self.text) if self.text is not None and self.text in schema else self

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
    """Return the sort keys of an ``order_by=``: one or several; what is none yet ascends, unless its text says more.

    >>> [(k.expression, k.descending, k.nulls_first) for k in sort_keys(["x", "x + y DESC", "y desc nulls first"])]
    [('x', False, True), ('x + y', True, False), ('y', True, True)]
    """
    keys = order_by if isinstance(order_by, Sequence) and not isinstance(order_by, str) else [order_by]
    if not keys or order_by is None:
        msg = f"order_by={order_by!r}: expected at least one column or expression to sort by"
        raise SchemaError(msg)
    return [k if isinstance(k, SortKey) else _written(k) if isinstance(k, str) else asc(k) for k in keys]


def _written(text: str) -> SortKey:
    """Return the sort key that text stands for: an expression, ASC or DESC, NULLS FIRST or LAST."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return asc(text)
    descending = (found["direction"] or "").lower() == "desc"
    nulls = (found["nulls"] or found["only_nulls"] or "").lower()
    return SortKey(found["expression"], descending, nulls == "first" if nulls else not descending, text)
