"""Python values as literals: which type a value has where nothing beside it says otherwise."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

from tidemill.errors import SchemaError, brief
from tidemill.expressions.intervals import Interval
from tidemill.expressions.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT64,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DType,
    decimal_type,
    encodable,
)

INT64_MAX = 2**63 - 1


def literal_type(value: Any) -> DType | None:  # noqa: PLR0911 - one line a type
    """Return the type of a Python value where nothing beside it says otherwise; None for NULL, which has none.

    >>> literal_type(1), literal_type(decimal.Decimal("0.05"))
    (int64, decimal(2,2))
    """
    if value is None:
        return None
    if isinstance(value, Interval):
        return value.dtype
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        # -2**63 is left out: the engines keep it for NULL.
        return INT64 if -INT64_MAX <= value <= INT64_MAX else _decimal_type(decimal.Decimal(value))
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return _decimal_type(value)
    if isinstance(value, dt.datetime):
        return TIMESTAMP if value.tzinfo is None else TIMESTAMPTZ
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return DATE
    if isinstance(value, str):
        encodable(value)
    for python, found in (
        (float, FLOAT64),
        (str, STRING),
        (bytes, BINARY),
        (dt.time, TIME),
        (dt.timedelta, INTERVAL),
        (uuid.UUID, UUID),
    ):
        if isinstance(value, python):
            return found
    if what := table_called(value):
        msg = (
            f"{what} stands where an expression is expected, such as 'x + 1' or tm.col('x'): put its rows in by "
            "flow.input(...) or flow.constant(...), and join(...) with that"
        )
        raise SchemaError(msg)
    msg = (
        f"{brief(value)} of type {type(value).__name__} cannot be a literal: expected bool, int, float, str, bytes, "
        "date, a datetime, a time, a timedelta, a UUID, a finite Decimal or None"
    )
    raise SchemaError(msg)


def table_called(value: Any) -> str:
    """Return what a value is called if it has rows or values of its own, as DataFrames have, and collections; or "".

    >>> import pyarrow as pa
    >>> table_called(1), table_called(pa.table({"a": [1]}))
    ('', 'a Table (of pyarrow)')
    """
    kind = type(value)
    has_rows = any(hasattr(kind, name) for name in ("__arrow_c_stream__", "iloc", "toPandas", "select"))
    if not has_rows and not (kind.__module__ == "numpy" and getattr(value, "shape", None)):
        return ""
    return f"a {kind.__name__} (of {kind.__module__.partition('.')[0]})"


def _decimal_type(value: decimal.Decimal) -> DType:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > MAX_DECIMAL_PRECISION:
        msg = f"{brief(value)} has more than {MAX_DECIMAL_PRECISION} digits: no decimal type holds it"
        raise SchemaError(msg)
    return decimal_type(precision, scale)
