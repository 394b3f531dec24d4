"""What casts mean, by Spark's ANSI rules, of one value in plain Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any, Final

from tidemill.errors import brief
from tidemill.expressions.functions.reading import value_of_text
from tidemill.expressions.functions.values import FailureError, fitted, rounded
from tidemill.expressions.types import STRING, DType


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


def _to_string(value: Any, _to: DType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        text = value.isoformat(sep=" ")
        return text.rstrip("0") if value.microsecond else text
    if isinstance(value, bytes):
        return value.decode()
    return str(value)


def _float_text(value: float) -> str:
    """Return Java's text of a double, which is Spark's: an exponent below 0.001 and from ten million on."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    if value == 0 or 1e-3 <= abs(value) < 1e7:  # noqa: PLR2004 - Java's limits
        text = f"{decimal.Decimal(repr(value)):f}"
        return text if "." in text else text + ".0"
    mantissa = "".join(map(str, digits))
    return f"{'-' * sign}{mantissa[0]}.{mantissa[1:] or '0'}E{exponent + len(digits) - 1}"


def _to_decimal(value: Any, to: DType) -> decimal.Decimal:
    exact = decimal.Decimal(repr(value) if isinstance(value, float) else value)
    if not exact.is_finite():
        raise ValueError(value)
    return rounded(exact, to)


def _to_timestamp(value: dt.date, _to: DType) -> dt.datetime:
    return dt.datetime.combine(value, dt.time())


_CASTS: Final[dict[str, Callable[[Any, DType], Any]]] = {
    "bool": lambda value, _to: value != 0,
    "float64": lambda value, _to: float(value),
    "decimal": _to_decimal,
    "string": _to_string,
    "date": lambda value, _to: value.date(),
    "timestamp": _to_timestamp,
}
