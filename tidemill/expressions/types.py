"""The types of columns: their names, their Python and Arrow forms, and which values belong to them."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final, get_args, get_origin

import attrs
import pyarrow as pa

from tidemill.errors import SchemaError, brief, did_you_mean

MAX_DECIMAL_PRECISION: Final = 38


@attrs.frozen(cache_hash=True, slots=False)  # with slots cached properties slow every attribute
class DType:
    """A column's type: a name such as ``int64``, a decimal, a list, a struct.

    Names are ``int64 int32 float64 bool string binary date timestamp timestamptz time interval uuid decimal(p,s)``.
    ``timestamp`` is microseconds without a zone; ``timestamptz`` is a moment, as Spark's TIMESTAMP: it comes in with a
    zone, is read by functions in UTC and goes out so. ``time`` is a time of day, ``interval`` a number of microseconds,
    ``uuid`` text of 36 characters.

    ``list<T>`` holds lists of values of T, a list too if need be, ``struct<a: T, b: U>`` values by names; values in
    them may be NULL. In rows both are tuples, which can be keys of dicts, and in Arrow lists and structs. They are
    equal where their values are, NULL being equal to NULL; they sort by
    their first values, then by the second ones and so on, NULL before all others and a list before those that it
    begins. Two types are equal when all they say is.

    >>> dtype("decimal(10, 2)")
    decimal(10,2)
    >>> dtype(float), dtype(pa.int32())
    (float64, int32)
    >>> dtype(list[str]), dtype("list<list<int64>>").element
    (list<string>, list<int64>)
    >>> dtype("struct<id: bigint, tags: list<string>>").fields
    (('id', int64), ('tags', list<string>))
    """

    name: str
    precision: int = 0
    scale: int = 0
    element: DType | None = None
    fields: tuple[tuple[str, DType], ...] = ()
    unknown: bool = False

    def __str__(self) -> str:
        if self.unknown:
            return "null"
        if self.element is not None:
            return f"list<{self.element}>"
        if self.fields:
            return f"struct<{', '.join(f'{_quoted(name)}: {of}' for name, of in self.fields)}>"
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
    def is_nested(self) -> bool:
        """Whether values of this are made of others: lists and structs."""
        return self.element is not None or bool(self.fields)

    @property
    def inner(self) -> Iterable[DType]:
        """The types of the values that a list or a struct is made of, in order; of a list, without end."""
        return itertools.repeat(self.element) if self.element is not None else [of for _, of in self.fields]

    @property
    def is_unknown(self) -> bool:
        """Whether this is the type of NULL alone, or of a list or a struct with such."""
        inner = [self.element] if self.element is not None else [of for _, of in self.fields]
        return self.unknown or any(of.is_unknown for of in inner)

    @property
    def is_integer(self) -> bool:
        """Whether this is int64 or int32."""
        return self.name in ("int64", "int32")

    @property
    def is_numeric(self) -> bool:
        """Whether values can be added up: integers, floats and decimals, not bool."""
        return self.name in ("int64", "int32", "float64", "decimal")

    @cached_property
    def arrow(self) -> pa.DataType:
        """The Arrow type in which columns of this type come in and go out."""
        if self.is_decimal:
            return pa.decimal128(self.precision, self.scale)
        if self.element is not None:
            return pa.list_(self.element.arrow)
        if self.fields:
            return pa.struct([(name, of.arrow) for name, of in self.fields])
        return _ARROW[self.name]


DType.__init__.__globals__["DType"] = DType  # attrs writes it apart from this module, whose names its hints are of

INT64: Final = DType("int64")
INT32: Final = DType("int32")
FLOAT64: Final = DType("float64")
BOOL: Final = DType("bool")
STRING: Final = DType("string")
BINARY: Final = DType("binary")
DATE: Final = DType("date")
TIMESTAMP: Final = DType("timestamp")
TIMESTAMPTZ: Final = DType("timestamptz")
TIME: Final = DType("time")
INTERVAL: Final = DType("interval")
UUID: Final = DType("uuid")
NULL: Final = DType("bool", unknown=True)
"""The type of a bare NULL until what stands beside it says more; engines keep a column of it as one of bools."""

_SIMPLE: Final = {
    t.name: t for t in (INT64, INT32, FLOAT64, BOOL, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMPTZ, TIME, INTERVAL, UUID)
}
_ALIASES: Final = {
    "bigint": INT64, "long": INT64, "int": INT32, "integer": INT32, "double": FLOAT64, "float": FLOAT64,
    "smallint": INT32, "short": INT32, "tinyint": INT32, "byte": INT32, "real": FLOAT64, "boolean": BOOL, "str": STRING,
    "varchar": STRING, "text": STRING, "bytes": BINARY, "datetime": TIMESTAMP, "timestamp_ntz": TIMESTAMP,
    "timestamp_ltz": TIMESTAMPTZ, "interval day to second": INTERVAL,
}  # fmt: skip
_PYTHON: Final[dict[type, DType]] = {
    int: INT64, float: FLOAT64, bool: BOOL, str: STRING, bytes: BINARY, dt.date: DATE, dt.datetime: TIMESTAMP,
    dt.time: TIME, dt.timedelta: INTERVAL, uuid.UUID: UUID,
    decimal.Decimal: DType("decimal", MAX_DECIMAL_PRECISION, 18),
}  # fmt: skip
_ARROW: Final[dict[str, pa.DataType]] = {
    "int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(),
    "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "time": pa.time64("us"), "interval": pa.duration("us"),
    "uuid": pa.string(),
}  # fmt: skip
_LIST: Final = re.compile(r"(?:list|array)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_STRUCT: Final = re.compile(r"struct\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_FIELD: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\W\d]\w*))\s*(?::|\s)\s*(.+?)\s*", re.DOTALL)
_TOKEN: Final = re.compile(r"`(?:[^`]|``)*`|.", re.DOTALL)
_EXPECTED: Final = [*_SIMPLE, "decimal(p,s)", "list<T>", "struct<a: T>"]
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


def struct_type(fields: Iterable[tuple[str, DType]]) -> DType:
    """Return the type of structs of these fields; an error where there are none, or two of a name."""
    found = tuple(fields)
    names = [name for name, _ in found]
    if not names or len(set(names)) < len(names) or not all(names):
        msg = f"a struct of {names or 'nothing'} is no type: expected fields, each of a name of its own"
        raise SchemaError(msg)
    return DType("struct", fields=tuple((encodable(name), of) for name, of in found))


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d]\w*", name) else "`" + name.replace("`", "``") + "`"


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


def _from_name(text: str, depth: int = 0) -> DType:
    text = text.strip()
    name = text.lower()
    if found := _SIMPLE.get(name) or _ALIASES.get(name):
        return found
    if match := _DECIMAL.fullmatch(name):
        return decimal_type(int(match[1]), int(match[2] or 0))
    if depth > _MOST_NESTED:
        msg = f"{brief(text)} is not a column type: lists and structs are nested at most {_MOST_NESTED} deep"
        raise SchemaError(msg)
    if match := _LIST.fullmatch(text):
        return list_type(_from_name(match[1], depth + 1))
    if match := _STRUCT.fullmatch(text):
        return struct_type([_named(part, text, depth + 1) for part in _apart(match[1])])
    msg = f"{brief(text)} is not a column type: {did_you_mean(name, _EXPECTED)}"
    raise SchemaError(msg)


def _apart(text: str) -> list[str]:
    """Return what stands between the commas that are in no brackets, nor in a name."""
    parts, depth = [""], 0
    for mark in _TOKEN.findall(text):
        depth += (mark in "<(") - (mark in ">)")
        if mark == "," and not depth:
            parts.append("")
        else:
            parts[-1] += mark
    return parts


def _named(part: str, text: str, depth: int) -> tuple[str, DType]:
    match = _FIELD.fullmatch(part)
    if match is None:
        msg = f"{brief(text)} is not a column type: {brief(part.strip())} is no field, such as 'name: int64'"
        raise SchemaError(msg)
    return match[2] or match[1].replace("``", "`"), _from_name(match[3], depth)


def _from_arrow(arrow: pa.DataType) -> DType:
    t = pa.types
    if t.is_dictionary(arrow):
        return _from_arrow(arrow.value_type)
    if t.is_decimal(arrow):
        return decimal_type(arrow.precision, arrow.scale)
    if t.is_timestamp(arrow) and arrow.tz is not None:
        return TIMESTAMPTZ
    if (found := next((of for is_one, of in _FROM_ARROW if is_one(arrow)), None)) is not None:
        return found
    if is_arrow_list(arrow):
        return list_type(_from_arrow(arrow.value_type))
    if t.is_struct(arrow):
        return struct_type([(f.name, _from_arrow(f.type)) for f in arrow])
    msg = (
        f"Arrow type {arrow} has no counterpart: expected integers, floats, bool, string, binary, date, "
        "decimal, timestamp, time, duration, uuid, lists or structs of these; cast the column first"
    )
    raise SchemaError(msg)


_FROM_ARROW: Final[Sequence[tuple[Callable[[pa.DataType], bool], DType]]] = (
    (pa.types.is_boolean, BOOL),
    *((is_one, INT32) for is_one in (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32)),
    *((is_one, INT32) for is_one in (pa.types.is_uint8, pa.types.is_uint16)),
    (pa.types.is_integer, INT64), (pa.types.is_floating, FLOAT64),
    *((is_one, STRING) for is_one in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    *((is_one, BINARY) for is_one in (pa.types.is_binary, pa.types.is_large_binary)),
    *((is_one, BINARY) for is_one in (pa.types.is_fixed_size_binary, pa.types.is_binary_view)),
    (pa.types.is_date, DATE), (pa.types.is_timestamp, TIMESTAMP), (pa.types.is_time, TIME),
    (pa.types.is_duration, INTERVAL), (pa.types.is_interval, INTERVAL),
    (lambda arrow: isinstance(arrow, pa.UuidType), UUID),
)  # fmt: skip
"""The first of these that an Arrow type is of, those with parts aside, says what it is here."""


def is_arrow_nested(arrow: pa.DataType) -> bool:
    """Return whether this is one of Arrow's types of lists, or a struct."""
    return is_arrow_list(arrow) or bool(pa.types.is_struct(arrow))


def is_arrow_list(arrow: pa.DataType) -> bool:
    """Return whether this is one of Arrow's types of lists."""
    t = pa.types
    plain = t.is_list(arrow) or t.is_large_list(arrow) or t.is_fixed_size_list(arrow)
    return bool(plain or t.is_list_view(arrow) or t.is_large_list_view(arrow))
