"""What scalar expressions mean: one row in plain Python. The other evaluators are tested against this one.

Values are Python's: int, float, bool, str, bytes, date, naive datetime, Decimal, and None for NULL. An operand of AND
or OR that is an error is an error even where the other one decides; CASE and COALESCE leave alone what they need not.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.errors import ExpressionError
from tidemill.expressions.binding import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.intervals import DAYS, Interval
from tidemill.expressions.types import BOOL, DATE, FLOAT64, INT32, STRING, TIMESTAMP, DType
from tidemill.renderer.reference.ordering import value_order
from tidemill.renderer.reference.scalar_dates import DATES, moved
from tidemill.renderer.reference.scalar_functions import FLOATS, NUMBERS, TEXT, FailureError, shifted
from tidemill.renderer.reference.scalar_hash import xxhash64

__all__ = ["evaluate"]

_OVERFLOW: Final = "overflow"


def evaluate(bound: Bound, row: Sequence[Any]) -> Any:  # noqa: PLR0911 - one line a kind of node
    """Return the value of a bound expression for a row; ``ExpressionError`` where it has none.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import expr
    >>> from tidemill.expressions.schema import Schema
    >>> ratio = bind(expr("delay / n"), Schema.of({"delay": "int64", "n": "int64"}))
    >>> evaluate(ratio, (3, 2)), evaluate(ratio, (None, 2))
    (1.5, None)
    >>> evaluate(ratio, (3, 0))
    Traceback (most recent call last):
    ...
    tidemill.errors.ExpressionError: division by zero in `delay / n`
    """
    if isinstance(bound, BoundColumn):
        return row[bound.index]
    if isinstance(bound, BoundLiteral):
        return bound.value
    if bound.function == "case":
        return _case(bound, row)
    if bound.function == "coalesce":
        return next((v for a in bound.args if (v := evaluate(a, row)) is not None), None)
    values = [evaluate(a, row) for a in bound.args]
    if bound.function == "xxhash64":
        return max(xxhash64(values, [a.dtype for a in bound.args]), -(2**63) + 1)  # -2**63 is the engines' NULL
    if rule := _NULL_AWARE.get(bound.function):
        return rule(*values)
    if any(v is None for v in values):
        return None
    try:
        return _apply(bound, values)
    except FailureError as failure:
        raise ExpressionError(str(failure), bound.sql()) from None


def _case(bound: BoundCall, row: Sequence[Any]) -> Any:
    *branches, default = bound.args
    for condition, value in zip(branches[::2], branches[1::2], strict=True):
        if evaluate(condition, row) is True:
            return evaluate(value, row)
    return evaluate(default, row)


def _apply(bound: BoundCall, values: list[Any]) -> Any:
    name = bound.function
    if name == "cast":
        return _cast(values[0], bound.args[0].dtype, bound.dtype)
    if name.startswith("shift_"):
        return _fit(shifted(name, values[0], values[1], 32 if bound.dtype == INT32 else 64), bound.dtype)
    if bound.dtype in (DATE, TIMESTAMP) and name in ("add", "subtract"):
        return _moved(values, -1 if name == "subtract" else 1)
    if name in NUMBERS:
        return _fit(NUMBERS[name](*values), bound.dtype)
    return _STRICT[name](*values)


def _moved(values: list[Any], sign: int) -> Any:
    moment, by = values if isinstance(values[0], dt.date) else values[::-1]
    kind, amount = (by.dtype, by.amount) if isinstance(by, Interval) else (DAYS, by)
    return moved(moment, kind, sign * amount)


# Comparison: NaN equals itself and is greater than every number; lists go by their values.


def _equal(a: Any, b: Any) -> bool:
    return value_order(a) == value_order(b)


def _less(a: Any, b: Any) -> bool:
    return value_order(a) < value_order(b)


# Functions that see NULL.


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: bool | None, b: bool | None) -> bool | None:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _in(value: Any, *options: Any) -> bool | None:
    if value is None:
        return None
    found = any(o is not None and _equal(value, o) for o in options)
    return True if found else (None if None in options else False)


def _least(*values: Any) -> Any:
    known = [v for v in values if v is not None]
    return functools.reduce(lambda a, b: b if _less(b, a) else a, known) if known else None


def _greatest(*values: Any) -> Any:
    known = [v for v in values if v is not None]
    return functools.reduce(lambda a, b: b if _less(a, b) else a, known) if known else None


def _concat_ws(separator: str | None, *parts: str | None) -> str | None:
    return None if separator is None else separator.join(p for p in parts if p is not None)


_NULL_AWARE: Final[dict[str, Callable[..., Any]]] = {
    "and": _and,
    "or": _or,
    "is_null": lambda a: a is None,
    "eq_null_safe": lambda a, b: a is b is None or (a is not None and b is not None and _equal(a, b)),
    "in": _in,
    "least": _least,
    "greatest": _greatest,
    "concat_ws": _concat_ws,
    "isnan": lambda a: a is not None and math.isnan(a),
}


# Results of numbers.


def _fit(value: Any, to: DType) -> Any:
    """Return an exact result as a value of its type; -2**63 is none of int64's, the engines keep it for NULL."""
    if to.is_integer and not (-(2**31) <= value < 2**31 if to == INT32 else -(2**63) < value < 2**63):
        raise FailureError(_OVERFLOW)
    return _round(value, to) if to.is_decimal else value


def _round(value: decimal.Decimal, to: DType) -> decimal.Decimal:
    with decimal.localcontext(prec=1000):
        rounded = value.quantize(decimal.Decimal(1).scaleb(-to.scale), decimal.ROUND_HALF_UP)
        if abs(rounded.scaleb(to.scale)) >= 10**to.precision:
            raise FailureError(_OVERFLOW)
        return rounded + 0  # a decimal has no -0


_STRICT: Final[dict[str, Callable[..., Any]]] = {
    "eq": _equal,
    "ne": lambda a, b: not _equal(a, b),
    "lt": _less,
    "le": lambda a, b: not _less(b, a),
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: not _less(a, b),
    "not": lambda a: not a,
    **FLOATS,
    **TEXT,
    **DATES,
    "size": len,
    "get": lambda values, place: values[place] if 0 <= place < len(values) else None,
}


# Casts.


def _cast(value: Any, source: DType, to: DType) -> Any:
    if source == to:
        return value
    try:
        if source == STRING:
            return _from_string(value, to)
        if to.is_integer:
            return _fit(math.trunc(value), to)
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
        return _fit(int(text), to)
    if to == FLOAT64:
        return float(text)
    if to.is_decimal:
        return _round(decimal.Decimal(text), to)
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
    return _round(exact, to)


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
