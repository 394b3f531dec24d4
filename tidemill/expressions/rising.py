"""Expressions that rise with a column: of two values the greater one gives no lesser result, and NULL gives NULL."""

from __future__ import annotations

import math
from typing import Final

from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.functions import widens
from tidemill.expressions.intervals import MONTHS
from tidemill.expressions.types import DATE, TIMESTAMP

_RISING: Final = frozenset({
    "ceil", "date_add", "date_from_unix_date", "date_trunc", "floor", "last_day", "timestamp_micros",
    "timestamp_millis", "timestamp_seconds", "trunc", "unix_date", "unix_micros", "unix_millis", "unix_seconds", "year",
})  # fmt: skip
"""Functions that rise with their one argument that is no literal, whatever the literals are."""
_BY_A_POSITIVE: Final = frozenset({"divide", "floor_divide", "int_divide", "multiply"})
"""Those that do where the other operand is a positive number; a quotient, where it is the divisor."""


def rises_with(bound: Bound) -> int | None:
    """Return the column that an expression rises with, and depends on alone; None where there is none.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> schema = Schema.of({"a": "int64", "ts": "timestamp"})
    >>> texts = ["a", "a - 5", "a div 60", "date_trunc('hour', ts - interval 1 day)", "5 - a", "a % 60", "hour(ts)"]
    >>> [rises_with(bind(expr(text), schema)) for text in texts]
    [0, 0, 0, 1, None, None, None]
    """
    while isinstance(bound, BoundCall):
        inner = [a for a in bound.args if not isinstance(a, BoundLiteral)]
        if len(inner) != 1 or any(isinstance(a, BoundLiteral) and a.value is None for a in bound.args):
            return None
        if not _rises(bound, inner[0]):
            return None
        (bound,) = inner
    return bound.index if isinstance(bound, BoundColumn) else None


def _rises(call: BoundCall, inner: Bound) -> bool:
    """Return whether a call rises with its argument ``inner``, the others being literals."""
    if call.function == "cast":
        return widens(inner.dtype, call.dtype) or (inner.dtype, call.dtype) in _DAYS
    literals = [a for a in call.args if isinstance(a, BoundLiteral)]
    is_first = call.args[0] is inner
    if call.function in ("add", "subtract"):
        return (is_first or call.function == "add") and literals[0].dtype != MONTHS
    if call.function in _BY_A_POSITIVE:
        return (is_first or call.function == "multiply") and 0 < literals[0].value < math.inf
    return call.function in _RISING or (is_first and call.function == "date_sub")


_DAYS: Final = ((TIMESTAMP, DATE), (DATE, TIMESTAMP))
