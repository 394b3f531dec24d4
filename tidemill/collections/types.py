"""The types of columns: their names, their Python and Arrow forms, and which values belong to them."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from typing import Any, Final

import attrs
import pyarrow as pa

from tidemill.errors import SchemaError, did_you_mean

__all__ = [
    "BINARY", "BOOL", "DATE", "FLOAT64", "INT32", "INT64", "STRING", "TIMESTAMP", "DType", "decimal_type", "dtype",
]  # fmt: skip

MAX_DECIMAL_PRECISION: Final = 38


@attrs.frozen
class DType:
    """A column's type: one of ``int64 int32 float64 bool string binary date timestamp decimal(p,s)``.

    ``timestamp`` is microseconds without a zone. Two types are equal when their names, precision and scale are.

    >>> dtype("decimal(10, 2)")
    decimal(10,2)
    >>> dtype(float), dtype(pa.int32())
    (float64, int32)
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.is_decimal else self.name

    __repr__ = __str__

    @property
    def is_decimal(self) -> bool:
        """Whether this is a decimal, of whatever precision and scale."""
        return self.name == "decimal"

    @property
    def is_integer(self) -> bool:
        """Whether this is int64 or int32."""
        return self.name in ("int64", "int32")

    @property
    def is_numeric(self) -> bool:
        """Whether values can be added up: integers, floats and decimals, not bool."""
        return self.name in ("int64", "int32", "float64", "decimal")

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type in which columns of this type come in and go out."""
        if self.is_decimal:
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.name]


INT64: Final = DType("int64")
INT32: Final = DType("int32")
FLOAT64: Final = DType("float64")
BOOL: Final = DType("bool")
STRING: Final = DType("string")
BINARY: Final = DType("binary")
DATE: Final = DType("date")
TIMESTAMP: Final = DType("timestamp")

_SIMPLE: Final = {t.name: t for t in (INT64, INT32, FLOAT64, BOOL, STRING, BINARY, DATE, TIMESTAMP)}
_ALIASES: Final = {
    "bigint": INT64, "long": INT64, "int": INT32, "integer": INT32, "double": FLOAT64, "float": FLOAT64,
    "boolean": BOOL, "str": STRING, "varchar": STRING, "text": STRING, "bytes": BINARY, "datetime": TIMESTAMP,
}  # fmt: skip
_PYTHON: Final[dict[type, DType]] = {
    int: INT64, float: FLOAT64, bool: BOOL, str: STRING, bytes: BINARY, dt.date: DATE, dt.datetime: TIMESTAMP,
    decimal.Decimal: DType("decimal", MAX_DECIMAL_PRECISION, 18),
}  # fmt: skip
_ARROW: Final[dict[str, pa.DataType]] = {
    "int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(),
    "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def decimal_type(precision: int, scale: int = 0) -> DType:
    """Return ``decimal(precision, scale)``; an error unless ``0 <= scale <= precision <= 38`` and precision > 0."""
    if not (0 < precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
        msg = f"decimal({precision},{scale}) is no type: expected 1 <= precision <= 38 and 0 <= scale <= precision"
        raise SchemaError(msg)
    return DType("decimal", precision, scale)


def dtype(spec: Any) -> DType:
    """Return the column type that a name, a Python type, an Arrow type or a ``DType`` stands for.

    >>> dtype("int64"), dtype(str), dtype("bigint")
    (int64, string, int64)
    >>> dtype("itn64")
    Traceback (most recent call last):
    ...
    tidemill.errors.SchemaError: 'itn64' is not a column type: did you mean 'int64'?
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str):
        return _from_name(spec)
    if isinstance(spec, pa.DataType):
        return _from_arrow(spec)
    found = _PYTHON.get(spec) if isinstance(spec, type) else None
    if found is None:
        msg = f"{spec!r} is not a column type: {did_you_mean(str(spec), [*_SIMPLE, 'decimal(p,s)'])}"
        raise SchemaError(msg)
    return found


def _from_name(text: str) -> DType:
    name = text.strip().lower()
    if found := _SIMPLE.get(name) or _ALIASES.get(name):
        return found
    if match := _DECIMAL.fullmatch(name):
        return decimal_type(int(match[1]), int(match[2] or 0))
    msg = f"{text!r} is not a column type: {did_you_mean(name, [*_SIMPLE, 'decimal(p,s)'])}"
    raise SchemaError(msg)


def _from_arrow(arrow: pa.DataType) -> DType:  # noqa: PLR0911 - one line a family of types
    t = pa.types
    if t.is_dictionary(arrow):
        return _from_arrow(arrow.value_type)
    if t.is_decimal(arrow):
        return decimal_type(arrow.precision, arrow.scale)
    if t.is_boolean(arrow):
        return BOOL
    if t.is_int8(arrow) or t.is_int16(arrow) or t.is_int32(arrow) or t.is_uint8(arrow) or t.is_uint16(arrow):
        return INT32
    if t.is_integer(arrow):
        return INT64
    if t.is_floating(arrow):
        return FLOAT64
    if t.is_string(arrow) or t.is_large_string(arrow) or t.is_string_view(arrow):
        return STRING
    if t.is_binary(arrow) or t.is_large_binary(arrow) or t.is_fixed_size_binary(arrow) or t.is_binary_view(arrow):
        return BINARY
    if t.is_date(arrow):
        return DATE
    if t.is_timestamp(arrow) and arrow.tz is None:
        return TIMESTAMP
    msg = (
        f"Arrow type {arrow} has no counterpart: expected integers, floats, bool, string, binary, date, decimal or a "
        "timestamp without a zone; cast the column first"
    )
    raise SchemaError(msg)
