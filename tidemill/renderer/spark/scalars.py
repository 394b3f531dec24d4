"""Scalar expressions as Spark SQL, where Spark's functions mean what ours do; elsewhere the embedded engine's are used.

An error that no value depends on may go unnoticed: Catalyst does not compute columns that nobody reads, nor the second
operand of AND where the first decides, nor what stands beside a NULL. It may also compute what no row that matters
needs; so an error of Spark's is never the last word, but has the step taken again with care.
"""

from __future__ import annotations

from typing import Final

import attrs

from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.intervals import INTERVALS, unit_length
from tidemill.expressions.rewriting import can_fail, itself_can_fail
from tidemill.expressions.sql_text import to_sql
from tidemill.expressions.types import FLOAT64, INT32, INT64, INTERVAL, STRING, TIME, TIMESTAMPTZ, UUID
from tidemill.renderer.spark.frames import columns
from tidemill.renderer.spark.types import sql_type

NATIVE: Final = frozenset(
    (
        "add", "subtract", "multiply", "divide", "int_divide", "modulo", "negate", "abs", "round", "floor", "ceil",
        "sign", "sqrt", "exp", "ln", "log10", "log2", "power", "isnan", "eq", "ne", "lt", "le", "gt", "ge",
        "eq_null_safe", "in", "and", "or", "not", "is_null", "case", "coalesce", "least", "greatest", "bit_and",
        "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right", "shift_right_unsigned", "length", "concat",
        "concat_ws", "substring", "left", "right", "replace", "translate", "split_part", "locate", "reverse",
        "lpad", "rpad", "trim", "ltrim", "rtrim", "upper", "lower", "ascii", "chr", "like", "contains",
        "starts_with", "ends_with", "year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear",
        "weekofyear", "hour", "minute", "second", "datediff", "unix_date", "last_day", "trunc", "date_trunc",
        "timestampdiff", "unix_seconds", "unix_millis", "unix_micros", "xxhash64",
    )
)  # fmt: skip
"""Functions that Spark computes as the embedded engine does; tests compare them value by value."""

_DEEP: Final = 100
"""How deep expressions are given to Catalyst, which walks them by recursion in what stack there is."""
_ROUNDED: Final = 34
"""Decimals of more digits lose some where Spark only changes their sign."""
_COMPACT: Final = 18
"""How many digits always fit an int64."""
_WILDCARDS: Final = 3
"""For LIKE with more of them, Java's regular expressions may try more ways than anybody waits for."""
_DOLLAR: Final = "\\u0024{"
"""How texts are written that have ``${``: Spark puts the value of a variable in place of ``${env:HOME}``."""


def native_sql(bound: Bound) -> str | None:
    """Return an expression over ``c0, c1, ...`` as Spark SQL; None where Spark has no exact counterpart."""
    if isinstance(bound, BoundColumn):
        return columns(bound.index + 1)[-1]
    if (isinstance(bound, BoundCall) and bound.depth > _DEEP) or not _is_native(bound):
        return None
    text = to_sql(_guarded(bound), explicit=True).replace("${", _DOLLAR)
    if bound.dtype == FLOAT64:
        text = f"({text}) + 0D"  # 0.0 for -0.0
    return f"CAST({text} AS {sql_type(bound.dtype)})"


def cannot_fail(bound: Bound) -> bool:
    """Return whether Spark computes an expression, and without an error whatever the row; False where it is unknown."""
    return native_sql(bound) is not None and not can_fail(bound)


_OURS: Final = (TIMESTAMPTZ, TIME, INTERVAL, UUID)
"""Types of which Spark goes by the session's zone, or by rules of its own."""


def _is_native(bound: Bound) -> bool:
    if isinstance(bound, BoundColumn):
        return True
    if bound.dtype in _OURS or (isinstance(bound, BoundCall) and any(a.dtype in _OURS for a in bound.args)):
        return False
    if isinstance(bound, BoundLiteral):
        return bound.dtype not in INTERVALS
    return _has(bound) and all(_is_native(a) for a in bound.args)


def _has(call: BoundCall) -> bool:  # noqa: PLR0911 - one line a difference
    if call.function == "field":
        return True
    if any(a.dtype.is_nested for a in call.args):
        return False
    given = call.args[0].dtype
    if call.function == "cast":
        return given != STRING and not (given.precision > _COMPACT and call.dtype == INT32)  # Spark goes by a double
    if call.function == "timestampdiff" and isinstance(unit := call.args[0], BoundLiteral):
        return unit_length(unit.value) is not None  # Spark counts months in the session's time zone
    if call.function in ("add", "subtract") and not call.dtype.is_numeric:
        return False  # Spark moves dates beyond the year 9999 without an error
    if call.function in ("negate", "abs") and given.precision > _ROUNDED:
        return False  # Spark rounds
    if call.function == "int_divide" and given.is_decimal:
        return given.precision - given.scale + call.args[1].dtype.scale <= _COMPACT  # else Spark's int64 goes round
    if call.function == "like" and isinstance(pattern := call.args[1], BoundLiteral):
        return bool(pattern.value.count("%") <= _WILDCARDS)
    return call.function in NATIVE


def _guarded(bound: Bound) -> Bound:
    """Return the expression over our columns' names, with -2**63 made an overflow wherever it may come up."""
    if isinstance(bound, BoundColumn):
        return attrs.evolve(bound, name=columns(bound.index + 1)[-1])
    if isinstance(bound, BoundLiteral):
        return bound
    call = attrs.evolve(bound, args=tuple(_guarded(a) for a in bound.args))
    if call.dtype != INT64:
        return call
    if call.function == "xxhash64":
        least = BoundLiteral(-(2**63) + 1, INT64)
        return BoundCall("greatest", (call, least), INT64, call.nullable)
    if not itself_can_fail(call):
        return call
    one = BoundLiteral(1, INT64)
    less = BoundCall("subtract", (call, one), INT64, call.nullable)  # overflows for exactly that value
    return BoundCall("add", (less, one), INT64, call.nullable)
