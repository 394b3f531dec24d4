"""Conversions of bound trees: literals in the types that their neighbours suggest, values widened."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Sequence
from typing import Any, Final

import attrs

from tidemill.expressions.bound import Bound, BoundCall, BoundLiteral
from tidemill.expressions.functions import NULL, widens
from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.intervals import Interval, microseconds_of
from tidemill.expressions.literals import INT64_MAX, literal_type
from tidemill.expressions.types import (
    DATE,
    FLOAT64,
    INT32,
    INT64,
    INTERVAL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DType,
)

INT32_MAX = 2**31 - 1
_OF_TEXT: Final = (TIMESTAMP, DATE, TIMESTAMPTZ, TIME, INTERVAL, UUID)
"""Types of which a literal's text stands for a value beside a column of the type."""
_PYTHON: Final[dict[DType, Any]] = {FLOAT64: float, UUID: str}
"""What makes a literal's value one of a type, where it may be given as another."""
_SPECIAL_FLOATS = {"NaN", "Infinity", "-Infinity"}


@attrs.frozen
class Operand:
    """An argument on its way into a call; ``loose`` for a literal whose type may adapt to its neighbours."""

    bound: Bound
    loose: bool = False


def literal(value: Any) -> Operand:
    """Return a Python value as an operand."""
    found = literal_type(value)
    loose = value is None or (isinstance(value, (int, str, decimal.Decimal)) and not isinstance(value, bool))
    return Operand(typed(value, found or NULL), loose)


def typed(value: Any, to: DType) -> BoundLiteral:
    """Return a literal of a type that holds it, in that type's Python form."""
    if value is None:
        return BoundLiteral(None, to)
    if to.is_decimal:
        with decimal.localcontext(prec=100):
            exact = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-to.scale))
            return BoundLiteral(exact + 0, to)  # a decimal has no -0
    if isinstance(value, Interval) and to == INTERVAL:
        return BoundLiteral(microseconds_of(value) * dt.timedelta(microseconds=1), to)
    if isinstance(value, dt.date):
        return BoundLiteral(_as_moment(value, to), to)
    return BoundLiteral(_PYTHON[to](value) if to in _PYTHON else value, to)


def _as_moment(value: dt.date, to: DType) -> dt.date:
    if to == DATE:
        return value.date() if isinstance(value, dt.datetime) else value
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC)


def adapt(operands: Sequence[Operand], literals: Sequence[int]) -> list[Bound]:
    """Return the arguments with each loose literal in the type that its neighbours suggest."""
    beside = {o.bound.dtype for o in operands if not o.loose}
    return [_adapted(o.bound, beside) if o.loose and i not in literals else o.bound for i, o in enumerate(operands)]


def _adapted(literal: Bound, beside: set[DType]) -> Bound:
    assert isinstance(literal, BoundLiteral)
    value = literal.value
    if isinstance(value, int) and not beside & {INT64, FLOAT64}:
        if any(t.is_decimal for t in beside):
            exact = decimal.Decimal(value)
            return typed(exact, literal_type(exact) or NULL)
        if INT32 in beside and fits(literal, INT32):
            return typed(value, INT32)
    if isinstance(value, str) and STRING not in beside:
        for to in _OF_TEXT:
            if to in beside:
                return coerce(literal, to) if fits(literal, to) else literal
    return literal


def reaches(arg: Bound, to: DType, *, by_day: bool) -> bool:
    """Return whether an argument can stand where a type is expected."""
    if widens(arg.dtype, to) or (by_day and (arg.dtype, to) == (TIMESTAMP, DATE)):
        return True
    return isinstance(arg, BoundLiteral) and fits(arg, to) and arg.dtype != STRING


def fits(literal: Bound, to: DType) -> bool:  # noqa: PLR0911 - one line a family of types
    """Return whether a literal is a literal of another type as well, without any loss."""
    if not isinstance(literal, BoundLiteral):
        return False
    value, source = literal.value, literal.dtype
    if value is None or source == to:
        return source == to
    if source == STRING:
        return (to in _OF_TEXT and _moment(value, to) is not None) or (to == FLOAT64 and value in _SPECIAL_FLOATS)
    if not source.is_numeric or source == FLOAT64 or not to.is_numeric:
        return False
    if to.is_integer:
        bound = INT32_MAX if to == INT32 else INT64_MAX
        return source.is_integer and -bound - (to == INT32) <= value <= bound
    if to.is_decimal:
        exact = decimal.Decimal(value)
        scaled = exact.scaleb(to.scale, decimal.Context(prec=100))
        return scaled == scaled.to_integral_value() and abs(scaled) < 10**to.precision
    return True


def coerce(arg: Bound, to: DType) -> Bound:
    """Return a value as one of a type that it widens to, or that a literal fits."""
    if arg.dtype == to:
        return arg
    if arg.dtype == NULL:
        return typed(None, to)
    if not isinstance(arg, BoundLiteral):
        return BoundCall("cast", (arg,), to, arg.nullable)
    if arg.dtype == STRING and to in _OF_TEXT:
        return BoundLiteral(_moment(arg.value, to), to)
    return typed(arg.value, to)


def _moment(text: str, to: DType) -> Any:
    """Return the date, timestamp or the like that text stands for, as in a cast, or None."""
    try:
        return cast_value(text, STRING, to)
    except FailureError:
        return None
