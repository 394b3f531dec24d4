"""Values that a watermark can be, as whole numbers that grow with them: integers, days, microseconds."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from tidemill.errors import SchemaError
from tidemill.expressions.expr import Expr, Literal
from tidemill.expressions.functions.date_values import EPOCH, whole_micros
from tidemill.expressions.intervals import MONTHS, Interval, of_timedelta
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import DATE, INT32, INT64, TIMESTAMP, DType

INSTANTS: Final = (INT64, INT32, DATE, TIMESTAMP)
"""The types whose values a watermark can be."""

_MICROSECOND: Final = dt.timedelta(microseconds=1)
_DAY: Final = dt.timedelta(days=1)
_LEAST: Final = {"int64": -(2**63) + 1, "int32": -(2**31)}
_GREATEST: Final = {"int64": 2**63 - 1, "int32": 2**31 - 1}


def number_of(value: Any, dtype: DType) -> int:
    """Return the whole number that stands for a value: itself, days or microseconds since 1970.

    >>> number_of(dt.date(1970, 1, 11), DATE), number_of(7, INT64)
    (10, 7)
    """
    if dtype == DATE:
        return int(value.toordinal() - EPOCH.toordinal())
    if dtype == TIMESTAMP:
        return whole_micros(value)
    return int(value)


def value_of(number: int, dtype: DType) -> Any:
    """Return the value that a number stands for; the type's least one for lesser numbers."""
    number = max(number, least_number(dtype))
    if dtype == DATE:
        return dt.date.fromordinal(number + EPOCH.toordinal())
    if dtype == TIMESTAMP:
        return EPOCH + number * _MICROSECOND
    return number


def least_number(dtype: DType) -> int:
    """Return the number of a type's least value."""
    if dtype in (DATE, TIMESTAMP):
        return (dt.date.min.toordinal() - EPOCH.toordinal()) * (1 if dtype == DATE else _DAY // _MICROSECOND)
    return _LEAST[dtype.name]


def greatest_number(dtype: DType) -> int:
    """Return the number of a type's greatest value."""
    if dtype in (DATE, TIMESTAMP):
        return number_of(dt.date.max if dtype == DATE else dt.datetime.max, dtype)  # noqa: DTZ901 - no zone
    return _GREATEST[dtype.name]


def require_instant(dtype: DType, what: str) -> None:
    """Raise ``SchemaError`` for a type whose values a watermark cannot be."""
    if dtype not in INSTANTS:
        msg = f"{what}: a column of type {dtype}: expected one of {', '.join(map(str, INSTANTS))}"
        raise SchemaError(msg)


def units_of(distance: Any, dtype: DType, what: str) -> int:
    """Return a distance, as users give it, as a difference of such numbers; ``SchemaError`` where it is none.

    >>> units_of(dt.timedelta(minutes=5), TIMESTAMP, "watermark"), units_of(3, INT64, "watermark")
    (300000000, 3)
    """
    given = resolve(distance) if isinstance(distance, Expr) else distance
    given = given.value if isinstance(given, Literal) else given
    given = of_timedelta(given) if isinstance(given, dt.timedelta) else given
    units: int | None = None
    if dtype in (DATE, TIMESTAMP) and isinstance(given, Interval) and given.dtype != MONTHS:
        length = given.amount * (_DAY // _MICROSECOND if "days" in given.dtype.name else 1)
        unit = _DAY // _MICROSECOND if dtype == DATE else 1
        units = length // unit if length % unit == 0 else None
    elif dtype.is_integer and isinstance(given, int) and not isinstance(given, bool):
        units = given
    if units is None or units < 0:
        wanted = {
            "timestamp": "a timedelta, or tm.interval(...) of days or shorter units",
            "date": "a timedelta of whole days, or tm.interval(days=...)",
        }.get(dtype.name, "a whole number")
        msg = f"{what}: {distance!r} is no distance for a column of type {dtype}: expected {wanted}, 0 or more"
        raise SchemaError(msg)
    return units


def shown_distance(units: int, dtype: DType) -> str:
    """Return a difference of such numbers for people."""
    if dtype == TIMESTAMP:
        return str(units * _MICROSECOND)
    return f"{units} days" if dtype == DATE else str(units)
