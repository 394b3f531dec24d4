"""What casts mean, by Spark's ANSI rules, of one value in plain Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.errors import brief
from tidemill.expressions.functions.durations import interval_text, time_text
from tidemill.expressions.functions.reading import value_of_text
from tidemill.expressions.functions.registry import MOMENTS, Function, Signature, always, widens
from tidemill.expressions.functions.values import FailureError, fitted, rounded
from tidemill.expressions.types import BINARY, BOOL, FLOAT64, STRING, TIME, TIMESTAMP, TIMESTAMPTZ, DType


def cast_value(value: Any, source: DType, to: DType) -> Any:
    """Return a value that is not NULL as one of another type; ``FailureError`` where it does not fit."""
    if source == to:
        return value
    try:
        if source == STRING:
            return value_of_text(value, to)
        if to.is_integer:
            return fitted(math.trunc(value), to)
        return _CASTS[to.name](value, to)
    except (ValueError, OverflowError, decimal.InvalidOperation, FailureError):
        text = brief(value) if isinstance(value, (str, bytes)) else str(value)
        reason = f"{text} does not fit {to}"
        raise FailureError(reason) from None


def cast_can_fail(source: DType, to: DType) -> bool:
    """Return whether some value of a type does not fit another."""
    if source == STRING or widens(source, to):
        return source == STRING != to
    if to == STRING:
        return source.is_nested or source == BINARY
    is_number = source.is_numeric or source == BOOL
    if is_number and (to in (FLOAT64, BOOL) or (source == BOOL and to.is_integer)):
        return False
    return not (to in MOMENTS and source in MOMENTS) and not (to == TIME and source in (TIMESTAMP, TIMESTAMPTZ))


def _to_string(value: Any, _to: DType) -> str:  # noqa: PLR0911 - one line a type
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        return text.rstrip("0") if value.microsecond else text
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dt.time):
        return time_text(value)
    if isinstance(value, dt.timedelta):
        return interval_text(value)
    return str(value)


def _float_text(value: float) -> str:
    """Return Java's text of a double, which is Spark's: an exponent below 0.001 and from ten million on."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:  # noqa: PLR2004 - Java's limits; repr has an exponent below 1e-4 only
        return repr(value)
    # The fewest digits that read back, but at least one after the point.
    text = next(t for digits in range(1, 18) if float(t := f"{value:.{digits}e}") == value)
    mantissa, exponent = text.split("e")
    return f"{mantissa}E{int(exponent)}"


def _to_decimal(value: Any, to: DType) -> decimal.Decimal:
    exact = decimal.Decimal(repr(value) if isinstance(value, float) else value)
    if not exact.is_finite():
        raise ValueError(value)
    return rounded(exact, to)


def _to_timestamp(value: dt.date, to: DType) -> dt.datetime:
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    return moment.replace(tzinfo=dt.UTC if to == TIMESTAMPTZ else None)


_CASTS: Final[dict[str, Callable[[Any, DType], Any]]] = {
    "bool": lambda value, _to: value != 0,
    "float64": lambda value, _to: float(value),
    "decimal": _to_decimal,
    "string": _to_string,
    "date": lambda value, _to: value.date(),
    "timestamp": _to_timestamp,
    "timestamptz": _to_timestamp,
    "time": lambda value, _to: value.time(),
}


# Types of SQL that have fewer values than those in which they are kept here.


def _fit_types(types: Sequence[DType]) -> Signature | None:
    fits = len(types) == 3 and types[1:] == [STRING, BOOL]  # noqa: PLR2004 - a value, a type, and whether it is tried
    return Signature((types[0], STRING, BOOL), types[0]) if fits else None


def _fit(value: Any, kind: str, is_try: bool) -> Any:
    """Return a value as one of a smaller type; where there is none NULL if that is tried, else an error."""
    name, _, length = kind.partition(" ")
    found = value
    if name in _RANGES:
        found = value if -_RANGES[name] <= value < _RANGES[name] else None
    elif name == "real":
        found = _of_32_bits(value)
    elif len(value) > int(length):
        short = value[: int(length)]
        found = short if value == short + " " * (len(value) - len(short)) else None
    if found is None and not is_try:
        reason = f"{brief(value) if isinstance(value, str) else value} does not fit {name}({length})".replace("()", "")
        raise FailureError(reason)
    return found.ljust(int(length)) if name == "char" and found is not None else found


def _of_32_bits(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


_RANGES: Final = {"smallint": 2**15, "tinyint": 2**7}

CASTS: Final = (
    Function("fit", _fit_types, "a value, the name of a type and whether it is tried", nullable=always, literals=(1, 2),
             can_fail=lambda literals: not literals[2], python=_fit),
)  # fmt: skip
