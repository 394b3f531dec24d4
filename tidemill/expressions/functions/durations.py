"""Sums and differences of intervals, times of day and moments; and intervals as text."""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.errors import SchemaError
from tidemill.expressions.functions.date_values import time_of, whole_micros
from tidemill.expressions.functions.registry import MOMENTS, Function, Signature, widens
from tidemill.expressions.functions.values import OVERFLOW, FailureError
from tidemill.expressions.intervals import DAY_MICROSECONDS, MICROSECONDS, interval_of
from tidemill.expressions.types import DATE, INTERVAL, NULL, TIME, TIMESTAMP, TIMESTAMPTZ, DType

_PAIR: Final = 2
_MOST: Final = 2**63 - 1
_LEAST: Final = -(2**63 // DAY_MICROSECONDS) * DAY_MICROSECONDS
"""Arrow counts the whole days below a negative interval, and these have to fit too."""
_MICRO: Final = dt.timedelta(microseconds=1)


def is_of_intervals(types: Sequence[DType], *, plus: bool) -> bool:
    """Return whether a sum or a difference is one of these."""
    return (_sum if plus else _difference)(types) is not None


def _sum(types: Sequence[DType]) -> Signature | None:
    if len(types) == _PAIR and types[0] == INTERVAL and types[1] in MOMENTS:
        found = _moved((types[1], types[0]))
        return None if found is None else Signature(found.params[::-1], found.result)
    return _moved(types)


def _difference(types: Sequence[DType]) -> Signature | None:
    if len(types) == _PAIR and set(types) <= {*MOMENTS, NULL} and set(types) & set(MOMENTS):
        of = TIMESTAMPTZ if TIMESTAMPTZ in types else TIMESTAMP
        return Signature((of, of), INTERVAL)
    return Signature((TIME, TIME), INTERVAL) if tuple(types) == (TIME, TIME) else _moved(types)


def _moved(types: Sequence[DType]) -> Signature | None:
    """Take an interval, and what it is added to or taken from."""
    if len(types) != _PAIR or not widens(types[1], INTERVAL) or NULL in types:
        return None
    if types[0] in MOMENTS:
        of = TIMESTAMP if types[0] == DATE else types[0]
        return Signature((of, INTERVAL), of) if types[1] == INTERVAL or of == TIMESTAMPTZ else None
    return Signature((INTERVAL, INTERVAL), INTERVAL) if widens(types[0], INTERVAL) else None


def _subtract(a: Any, b: Any) -> Any:
    if isinstance(b, dt.time):
        return (whole_micros(a) - whole_micros(b)) * _MICRO
    return a - b


def _within(operate: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    try:
        found = operate(a, b)
    except OverflowError:
        raise FailureError(OVERFLOW) from None
    if isinstance(found, dt.timedelta) and not _LEAST <= whole_micros(found) <= _MOST:
        raise FailureError(OVERFLOW)
    return found


_TAKEN: Final = "intervals, timestamps or times of day"

DURATIONS: Final = (
    Function("interval_add", _sum, _TAKEN, can_fail=True, python=lambda a, b: _within(operator.add, a, b)),
    Function("interval_subtract", _difference, _TAKEN, can_fail=True, python=lambda a, b: _within(_subtract, a, b)),
)  # fmt: skip


# As text.


def interval_text(value: dt.timedelta) -> str:
    """Return an interval as Spark writes it.

    >>> interval_text(dt.timedelta(days=-1, microseconds=500_000))
    "INTERVAL '-0 23:59:59.5' DAY TO SECOND"
    """
    days, rest = divmod(abs(whole_micros(value)), DAY_MICROSECONDS)
    clock = time_text(time_of(rest))
    return f"INTERVAL '{'-' if value < dt.timedelta() else ''}{days} {clock}' DAY TO SECOND"


def time_text(value: dt.time) -> str:
    """Return a time of day as Spark writes it: without zeros after the last part of a second."""
    text = value.isoformat()
    return text.rstrip("0") if value.microsecond else text


_FORM: Final = re.compile(r"(?:interval\s+)?(['\"]?)([+-]?\d[^'\"]*)\1(?:\s+day\s+to\s+second)?", re.IGNORECASE)


def read_interval(text: str) -> dt.timedelta:
    """Return the interval that a text stands for, with or without INTERVAL ... DAY TO SECOND around it."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    try:
        value = interval_of(found[2], "DAY", "SECOND")
    except SchemaError:
        raise ValueError(text) from None
    assert value.dtype == MICROSECONDS
    return value.amount * _MICRO
