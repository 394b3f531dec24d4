"""What casts mean, by Spark's ANSI rules, of one value in plain Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from typing import Any, Final

from tidemill.expressions.functions.values import FailureError, fitted, rounded
from tidemill.expressions.types import BOOL, DATE, FLOAT64, STRING, DType

__all__ = ["cast_value"]


def cast_value(value: Any, source: DType, to: DType) -> Any:
    """Return a value that is not NULL as one of another type; ``FailureError`` where it does not fit."""
    if source == to:
        return value
    try:
        if source == STRING:
            return _from_string(value, to)
        if to.is_integer:
            return fitted(math.trunc(value), to)
        return _CASTS[to.name](value, to)
    except (ValueError, OverflowError, decimal.InvalidOperation, FailureError):
        text = repr(value) if isinstance(value, (str, bytes)) else str(value)
        reason = f"{text} does not fit {to}"
        raise FailureError(reason) from None


def _from_string(text: str, to: DType) -> Any:
    if to.name == "binary":
        return text.encode()
    text = text.strip(" \t\n\r")
    if to == BOOL:
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}[_known(text.lower(), _TRUE | _FALSE)]
    if not re.fullmatch(_FORMS["int" if to.is_integer else to.name], text, re.ASCII | re.IGNORECASE):
        raise ValueError(text)
    if to.is_integer:
        return fitted(int(text), to)
    if to == FLOAT64:
        return float(text)
    if to.is_decimal:
        return rounded(decimal.Decimal(text), to)
    return dt.date.fromisoformat(text) if to == DATE else dt.datetime.fromisoformat(text)


def _known(text: str, words: set[str]) -> str:
    if text not in words:
        raise ValueError(text)
    return text


_TRUE: Final = {"t", "true", "y", "yes", "1"}
_FALSE: Final = {"f", "false", "n", "no", "0"}
_FORMS: Final = {
    "int": r"[+-]?\d+",
    "float64": r"[+-]?((\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|inf|infinity)|nan",
    "decimal": r"[+-]?(\d+(\.\d*)?|\.\d+)",
    "date": r"\d{4}-\d{2}-\d{2}",
    "timestamp": r"\d{4}-\d{2}-\d{2}([ t]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?",
}


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
