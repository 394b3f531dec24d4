"""The types of columns: their names, their Python and Arrow forms, and which values belong to them."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from typing import Any, Final, get_args, get_origin

import attrs
import pyarrow as pa

from tidemill.errors import SchemaError, brief, did_you_mean

MAX_DECIMAL_PRECISION: Final = 38


@attrs.frozen(cache_hash=True)
class DType:
    """A column's type: one of ``int64 int32 float64 bool string binary date timestamp decimal(p,s)``, or a list of one.

    ``timestamp`` is microseconds without a zone. ``list<T>`` holds lists of values of T, a list too if need be; values
    in it may be NULL. In rows lists are tuples, which can be keys of dicts, and in Arrow they are lists. Lists are
    equal where their values are, NULL being equal to NULL; they sort by their first values, then by the second ones and
    so on, NULL before all others and a list before those that it begins. Two types are equal when all they say is.

    >>> dtype("decimal(10, 2)")
    decimal(10,2)
    >>> dtype(float), dtype(pa.int32())
    (float64, int32)
    >>> dtype(list[str]), dtype("list<list<int64>>").element
    (list<string>, list<int64>)
    """

    name: str
    precision: int = 0
    scale: int = 0
    element: DType | None = None
    unknown: bool = False

    def __str__(self) -> str:
        if self.unknown:
            return "null"
        if self.element is not None:
            return f"list<{self.element}>"
        return f"decimal({self.precision},{self.scale})" if self.is_decimal else self.name

    __repr__ = __str__

    @property
    def is_decimal(self) -> bool:
        """Whether this is a decimal, of whatever precision and scale."""
        return self.name == "decimal"

    @property
    def is_list(self) -> bool:
        """Whether this is a list, of whatever values."""
        return self.element is not None

    @property
    def is_unknown(self) -> bool:
        """Whether this is the type of NULL alone, or a list of such."""
        return self.unknown or (self.element is not None and self.element.is_unknown)

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
        if self.element is not None:
            return pa.list_(self.element.arrow)
        return _ARROW[self.name]


INT64: Final = DType("int64")
INT32: Final = DType("int32")
FLOAT64: Final = DType("float64")
BOOL: Final = DType("bool")
STRING: Final = DType("string")
BINARY: Final = DType("binary")
DATE: Final = DType("date")
TIMESTAMP: Final = DType("timestamp")
NULL: Final = DType("bool", unknown=True)
"""The type of a bare NULL until what stands beside it says more; engines keep a column of it as one of bools."""

_SIMPLE: Final = {t.name: t for t in (INT64, INT32, FLOAT64, BOOL, STRING, BINARY, DATE, TIMESTAMP)}
_ALIASES: Final = {
    "bigint": INT64, "long": INT64, "int": INT32, "integer": INT32, "double": FLOAT64, "float": FLOAT64,
    "smallint": INT32, "short": INT32, "tinyint": INT32, "byte": INT32, "real": FLOAT64, "boolean": BOOL, "str": STRING,
    "varchar": STRING, "text": STRING, "bytes": BINARY, "datetime": TIMESTAMP, "timestamp_ntz": TIMESTAMP,
}  # fmt: skip
_PYTHON: Final[dict[type, DType]] = {
    int: INT64, float: FLOAT64, bool: BOOL, str: STRING, bytes: BINARY, dt.date: DATE, dt.datetime: TIMESTAMP,
    decimal.Decimal: DType("decimal", MAX_DECIMAL_PRECISION, 18),
}  # fmt: skip
_ARROW: Final[dict[str, pa.DataType]] = {
    "int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(),
    "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
}  # fmt: skip
_LIST: Final = re.compile(r"(?:list|array)\s*<(.*)>")
_EXPECTED: Final = [*_SIMPLE, "decimal(p,s)", "list<T>"]
_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?\)")
_MOST_NESTED: Final = 100


def encodable(text: str) -> str:
    """Return a text; an error if it has half a character of UTF-16, which no encoding has."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = f"{brief(text)} has half a character at {error.start}: expected whole ones"
        raise SchemaError(msg) from None
    return text


def decimal_type(precision: int, scale: int = 0) -> DType:
    """Return ``decimal(precision, scale)``; an error unless ``0 <= scale <= precision <= 38`` and precision > 0."""
    if not (0 < precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
        msg = f"decimal({precision},{scale}) is no type: expected 1 <= precision <= 38 and 0 <= scale <= precision"
        raise SchemaError(msg)
    return DType("decimal", precision, scale)


def list_type(element: DType) -> DType:
    """Return the type of lists of values of a type."""
    return DType("list", element=element)


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
    if get_origin(spec) is list:
        return list_type(dtype(get_args(spec)[0]))
    found = _PYTHON.get(spec) if isinstance(spec, type) else None
    if found is None:
        hint = "say of what, as in list[int] or 'list<int64>'" if spec is list else did_you_mean(str(spec), _EXPECTED)
        msg = f"{spec!r} is not a column type: {hint}"
        raise SchemaError(msg)
    return found


def _from_name(text: str) -> DType:
    name = text.strip().lower()
    if found := _SIMPLE.get(name) or _ALIASES.get(name):
        return found
    if match := _DECIMAL.fullmatch(name):
        return decimal_type(int(match[1]), int(match[2] or 0))
    if match := _LIST.fullmatch(name):
        if name.count("<") > _MOST_NESTED:
            msg = f"{brief(text)} is not a column type: lists are nested at most {_MOST_NESTED} deep"
            raise SchemaError(msg)
        return list_type(_from_name(match[1]))
    msg = f"{brief(text)} is not a column type: {did_you_mean(name, _EXPECTED)}"
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
    if is_arrow_list(arrow):
        return list_type(_from_arrow(arrow.value_type))
    msg = (
        f"Arrow type {arrow} has no counterpart: expected integers, floats, bool, string, binary, date, decimal, a "
        "timestamp without a zone or lists of these; cast the column first"
    )
    raise SchemaError(msg)


def is_arrow_list(arrow: pa.DataType) -> bool:
    """Return whether this is one of Arrow's types of lists."""
    t = pa.types
    plain = t.is_list(arrow) or t.is_large_list(arrow) or t.is_fixed_size_list(arrow)
    return bool(plain or t.is_list_view(arrow) or t.is_large_list_view(arrow))
