"""Single values from outside, checked: what a column of each type takes of Python's, NumPy's and pandas' values.

The rules are those that `tables` has for whole columns: whatever a value comes in, it is taken or refused alike. A
value is converted where that changes nothing of it. What pandas calls missing is NULL: its NA and NaT anywhere, NaN in
its frames. Elsewhere NaN is a value of float64 alone.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from tidemill.errors import brief
from tidemill.expressions.functions.date_values import whole_micros
from tidemill.expressions.schema import Field
from tidemill.expressions.types import DType

Check = Callable[[Any, DType], Any]
"""Returns the canonical form of a value of a type; TypeError, ValueError or ArithmeticError where it is none."""

NAN: Final = float("nan")
"""The one NaN in checked rows, so that rows with it are equal to themselves and can be keys of dicts."""

INT64_LIMIT: Final = 2**63 - 1
"""Both ways: the 64-bit pattern of -2**63 stands for NULL in the columnar engines, so it is not a valid int64 here."""
INT32_LIMIT: Final = 2**31 - 1
EXACT: Final = 2.0**53
"""Up to here floats hold every integer."""
NAN_IS_NO_NULL: Final = "NaN is a value of float64 alone, and no NULL; None is NULL"
_PANDAS_MISSING: Final = frozenset(("NaTType", "NAType"))
_MOMENTS: Final = frozenset(("date", "timestamp", "timestamptz", "time", "interval"))


def canonical(value: Any) -> Any:
    """Return the value that stands for all equal to it: see `canonical_float`; a tuple of such for a list or a struct.

    >>> canonical([1, -0.0, {"a": None}])
    (1, 0.0, (None,))
    """
    if isinstance(value, float):
        return canonical_float(value)
    return plain(value, canonical)


def plain(value: Any, inner: Callable[[Any], Any] | None = None) -> Any:
    """Return a value as expressions compute with it: lists and structs as tuples, instants in UTC; -0.0 stays.

    ``inner`` does so for the values in it, where it is not this.

    >>> plain([1, -0.0, {"a": None}])
    (1, -0.0, (None,))
    """
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, dict):
        value = tuple(value.values())
    return tuple(map(inner or plain, value)) if isinstance(value, (list, tuple)) else value


def canonical_float(value: float) -> float:
    """Return the float that stands for all equal to it: the one NaN, and 0.0 for -0.0."""
    return NAN if math.isnan(value) else value + 0.0


def check_of(dtype: DType) -> Check:
    """Return the check of values of a type."""
    return _CHECKS[dtype.name]


class BadValueError(Exception):
    """A value that its column cannot have; the text says which column, which value and why."""

    def __init__(self, column: str, text: str) -> None:
        super().__init__(text)
        self.column = column


def checked_value(field: Field, check: Check, value: Any) -> Any:
    """Return a value in the canonical form of a column's type, by the check for it; `BadValueError` if it is none."""
    if value is None:
        return _null(field)
    try:
        return check(value, field.dtype)
    except (TypeError, ValueError, ArithmeticError) as error:
        if _is_missing(value, field.dtype):
            return _null(field)
        shown = f"{field}: {brief(value)} ({type(value).__name__})"
        raise BadValueError(field.name, _misfit(shown, value, field.dtype, error)) from None


def _misfit(shown: str, value: Any, dtype: DType, error: Exception) -> str:
    """Return why a value is none of a type, and what to do with it where that is simple."""
    # An int too large for a float, or a decimal for its digits, is an ArithmeticError.
    why = "overflow" if isinstance(error, ArithmeticError) else str(error)
    hint = _hint_for(value, dtype)
    return f"{shown} is not a valid {dtype}{f': {why}' if why else ''}{f'; {hint}' if hint else ''}"


def _null(field: Field) -> None:
    if not field.nullable:
        msg = f"{field} is NULL: nulls are not allowed here"
        raise BadValueError(field.name, msg)


def _is_missing(value: Any, dtype: DType) -> bool:
    """Return whether a value is another way to say NULL: pandas' NaT and NA; NumPy's NaT in a column of moments."""
    kind = type(value)
    if kind.__name__ in _PANDAS_MISSING and kind.__module__.startswith("pandas."):
        return True
    return dtype.name in _MOMENTS and _is_numpy_time(value) and bool(value != value)  # noqa: PLR0124 - NaT


def _is_numpy_time(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in ("datetime64", "timedelta64")


def _is_datetime64(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ == "datetime64"


def _hint_for(value: Any, dtype: DType) -> str:
    """Return what to do with a value that is not of a type, where there is something simple to do."""
    if is_nan(value):
        return NAN_IS_NO_NULL
    if _is_datetime64(value) or isinstance(value, dt.date):
        return _hint_for_moment(value, dtype)
    if isinstance(value, str):
        return _FROM_TEXT.get(dtype.name, "")
    if dtype.name == "string":
        return "value.decode() makes one" if isinstance(value, bytes) else "str(value) makes one"
    if dtype.name == "decimal" and isinstance(value, float):
        return "decimal.Decimal(str(value)) makes one"
    return "float(value) makes one" if dtype.name == "float64" and isinstance(value, decimal.Decimal) else ""


def _no_zone(value: Any) -> str:
    plain = "value.astype('datetime64[us]').item()" if _is_datetime64(value) else "value"
    return f"it has no zone: {plain}.replace(tzinfo=datetime.UTC) makes one of UTC"


def _hint_for_moment(value: Any, dtype: DType) -> str:  # noqa: PLR0911 - one line a hint
    """Return what to do with a date, a datetime or a NumPy datetime64 that is not of a type."""
    if dtype.name == "string":
        return "str(value) makes one"
    if dtype.name == "timestamptz":
        return "value.floor('us') makes one" if getattr(value, "tzinfo", None) else _no_zone(value)
    if dtype.name not in _UNITS:
        return "a moment is for a column of type timestamp, a day for one of type date"
    if _is_datetime64(value):
        has_year = isinstance(value.astype("datetime64[D]").item(), dt.date)
        return f"value.astype('datetime64[{_UNITS[dtype.name]}]') makes one" if has_year else ""
    if dtype.name == "date":
        return "a date has no time of day: value.date() makes one"
    if not isinstance(value, dt.datetime):
        return "datetime.combine(value, time()) makes one"
    if value.tzinfo is None:
        return "value.floor('us') makes one"
    return "value.astimezone(datetime.UTC).replace(tzinfo=None) makes one"


_UNITS: Final = {"date": "D", "timestamp": "us"}
_FROM_TEXT: Final = {
    "int64": "int(value) makes one", "int32": "int(value) makes one", "float64": "float(value) makes one",
    "decimal": "decimal.Decimal(value) makes one", "date": "date.fromisoformat(value) makes one",
    "timestamp": "datetime.fromisoformat(value) makes one", "binary": "value.encode() makes one",
}  # fmt: skip


def _integer(limit: int) -> Check:
    def check(value: Any, _: DType) -> int:
        if type(value) is not int:
            value = _as_integer(value)
        if not -limit - (limit == INT32_LIMIT) <= value <= limit:
            msg = "overflow"
            raise ValueError(msg)
        return int(value)

    return check


def _as_integer(value: Any) -> int:
    """Return a whole number of another type as an int: of floats those up to where they hold every integer."""
    if _is_bool(value):
        raise TypeError
    if hasattr(value, "__index__"):
        return int(value.__index__())
    if isinstance(value, decimal.Decimal):
        if not value.is_finite() or value != value.to_integral_value():
            msg = "not a whole number"
            raise ValueError(msg)
        return int(value)
    if not _is_float(value):
        raise TypeError
    number = float(value)
    if not number.is_integer():
        msg = "not a whole number"
        raise ValueError(msg)
    if abs(number) > EXACT:
        msg = "beyond 2**53 floats do not hold every integer; int(value) makes one"
        raise ValueError(msg)
    return int(number)


def is_nan(value: Any) -> bool:
    """Return whether a value of any type is a float's NaN."""
    return _is_float(value) and math.isnan(value)


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (type(value).__module__ == "numpy" and type(value).__name__.startswith("float"))


_NO_FLOATS: Final = (str, bytes, decimal.Decimal)


def _float(value: Any, _: DType) -> float:
    if type(value) is float:
        return canonical_float(value)
    if isinstance(value, _NO_FLOATS) or _is_bool(value) or not hasattr(value, "__float__"):
        raise TypeError
    if type(value).__name__ in ("datetime64", "timedelta64"):  # NumPy has numbers for those in nanoseconds
        raise TypeError
    found = float(value)
    if hasattr(value, "__index__") and int(found) != value.__index__():
        msg = "a float does not hold this integer"
        raise ValueError(msg)
    return canonical_float(found)


def _bool(value: Any, _: DType) -> bool:
    if _is_bool(value):
        return bool(value)
    raise TypeError


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _string(value: Any, _: DType) -> str:
    if not isinstance(value, str):
        raise TypeError
    if not value.isascii():
        value.encode()  # a lone surrogate is no text, and Arrow cannot hold it
    return str(value)


def _binary(value: Any, _: DType) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError
    return bytes(value)


def _date(value: Any, _: DType) -> dt.date:
    value = _of_numpy(value)
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise TypeError
    return value


def _timestamp(value: Any, _: DType) -> dt.datetime:
    if type(value) is dt.datetime and value.tzinfo is None and not value.fold:
        return value
    value = _of_numpy(value)
    if not isinstance(value, dt.datetime):
        raise TypeError
    if value.tzinfo is not None:
        msg = "a timestamp has no zone here, one of type timestamptz has"
        raise ValueError(msg)
    plain = _of_pandas(value)
    return plain.replace(fold=0) if plain.fold else plain  # which of two equal wall times is a matter of zones


def _of_pandas(value: dt.datetime) -> dt.datetime:
    """Return a moment as Python's, if it is of pandas' own, which have nanoseconds."""
    if type(value) is dt.datetime:
        return value
    if getattr(value, "nanosecond", 0):
        raise ValueError(_NANOSECONDS)
    return dt.datetime.fromisoformat(value.isoformat(timespec="microseconds"))


def _instant(value: Any, _: DType) -> dt.datetime:
    if not isinstance(value, dt.datetime) or value.utcoffset() is None:
        raise TypeError
    return _of_pandas(value).astimezone(dt.UTC)


def _time(value: Any, _: DType) -> dt.time:
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise TypeError
    return value.replace(fold=0) if value.fold else value


def _interval(value: Any, _: DType) -> dt.timedelta:
    if _is_numpy_time(value) and not _is_datetime64(value):
        micros = value.astype("timedelta64[us]")
        if micros != value:
            raise ValueError(_NANOSECONDS)
        value = micros.item()
    if isinstance(value, pa.MonthDayNano):  # DuckDB's
        if value.months or value.nanoseconds % 1000:
            msg = "it has months: their length is not known" if value.months else _NANOSECONDS
            raise ValueError(msg)
        value = dt.timedelta(value.days, microseconds=value.nanoseconds // 1000)
    if not isinstance(value, dt.timedelta):
        raise TypeError
    if getattr(value, "nanoseconds", 0):  # pandas'
        raise ValueError(_NANOSECONDS)
    whole = dt.timedelta(value.days, value.seconds, value.microseconds)
    if abs(whole_micros(whole)) > INT64_LIMIT:
        raise OverflowError
    return whole


def _uuid(value: Any, _: DType) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    if not isinstance(value, str):
        raise TypeError
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        msg = "a UUID is 36 characters, such as 6ba7b810-9dad-11d1-80b4-00c04fd430c8"
        raise ValueError(msg)
    return value.lower()


_NANOSECONDS: Final = "it has nanoseconds, and here are microseconds"


def _of_numpy(value: Any) -> Any:
    """Return NumPy's days as dates and its other times as datetimes, all else as it is."""
    if not _is_datetime64(value):
        return value
    if value.dtype == "datetime64[D]":
        return value.item()
    micros = value.astype("datetime64[us]")
    if micros != value:
        raise ValueError(_NANOSECONDS)
    found = micros.item()
    if not isinstance(found, dt.datetime):
        msg = "the years are 1 to 9999"
        raise ValueError(msg)  # noqa: TRY004 - the value is wrong, not its type
    return found


def _decimal(value: Any, dtype: DType) -> decimal.Decimal:
    if _is_bool(value):
        raise TypeError
    if hasattr(value, "__index__"):  # NumPy's integers too
        value = value.__index__()
    elif not isinstance(value, decimal.Decimal) and not _is_float(value):
        raise TypeError
    given = (
        value if isinstance(value, decimal.Decimal) else decimal.Decimal(float(value) if _is_float(value) else value)
    )
    if not given.is_finite():
        msg = "not a finite number"
        raise ValueError(msg)
    with decimal.localcontext(prec=400):  # a float may have 309 digits before the point
        fitted = given.quantize(decimal.Decimal(1).scaleb(-dtype.scale))
    if fitted != given:
        of = "as a float is exactly, it has " if _is_float(value) else ""
        msg = f"{of}more than {dtype.scale} digits after the point"
        raise ValueError(msg)
    if len(fitted.as_tuple().digits) > dtype.precision:
        msg = "overflow"
        raise ValueError(msg)
    return fitted or abs(fitted)


def _list(value: Any, dtype: DType) -> tuple[Any, ...]:
    assert dtype.element is not None
    if hasattr(value, "tolist"):  # NumPy's arrays, which is what lists in pandas frames are
        value = value.tolist()
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Sequence):
        raise TypeError
    return tuple([_inner(f"value {i}", v, dtype.element) for i, v in enumerate(value)])


def _struct(value: Any, dtype: DType) -> tuple[Any, ...]:
    names, given = [name for name, _ in dtype.fields], field_names(value)
    if given is not None:
        if len(given) != len(names) or set(given) != set(names):
            msg = f"its fields are {list(given)}"
            raise ValueError(msg)
        fields = as_dict(value, given)
        value = [fields[name] for name in names]
    elif not isinstance(value, (tuple, list)):
        raise TypeError
    if len(value) != len(names):
        msg = f"it has {len(value)} values"
        raise ValueError(msg)
    return tuple([_inner(f"field {name!r}", v, of) for (name, of), v in zip(dtype.fields, value, strict=True)])


def _inner(place: str, value: Any, dtype: DType) -> Any:
    """Return a value in a list or a struct in its canonical form; ValueError that says where, if it is none."""
    try:
        return None if value is None or _is_missing(value, dtype) else check_of(dtype)(value, dtype)
    except (TypeError, ValueError, ArithmeticError) as error:
        shown = f"{place}, {brief(value)} ({type(value).__name__}),"
        raise ValueError(_misfit(shown, value, dtype, error)) from None


def field_names(row: Any) -> tuple[Any, ...] | None:
    """Return the names by which a row's values go; None for one that goes by position, and for what is no row.

    >>> import typing
    >>> Late = typing.NamedTuple("Late", [("flight", int), ("delay", int)])
    >>> field_names(Late(7, 90)), field_names({"delay": 90}), field_names((7, 90))
    (('flight', 'delay'), ('delay',), None)
    """
    kind = type(row)
    if kind is tuple or kind is list:
        return None
    if isinstance(row, Mapping):
        return tuple(row)
    if isinstance(row, tuple):
        # Ours have columns whose names Python does not allow, PySpark's have names where they were made with them.
        found = getattr(kind, "__columns__", None) or getattr(row, "__fields__", None) or getattr(kind, "_fields", None)
        return None if found is None else tuple(found)
    return names_of_class(kind) or None


def names_of_class(given: type) -> tuple[str, ...]:
    """Return the names of the fields of a class; none where it has none."""
    model = getattr(given, "model_fields", None)
    if isinstance(model, Mapping):  # pydantic's
        return tuple(model)
    if dataclasses.is_dataclass(given):
        return tuple(f.name for f in dataclasses.fields(given))
    if attrs.has(given):
        return tuple(f.name for f in attrs.fields(given))
    found = getattr(given, "_fields", ()) if issubclass(given, tuple) else ()  # others mean other things by it
    return found if isinstance(found, tuple) else ()


def as_dict(row: Any, names: Iterable[Any]) -> dict[Any, Any]:
    """Return a row whose values have these names as a dict."""
    if isinstance(row, tuple):
        return dict(zip(names, row, strict=True))
    return dict(row) if isinstance(row, Mapping) else {name: getattr(row, name) for name in names}


_CHECKS: Final[dict[str, Check]] = {
    "int64": _integer(INT64_LIMIT), "int32": _integer(INT32_LIMIT), "float64": _float, "bool": _bool, "string": _string,
    "binary": _binary, "date": _date, "timestamp": _timestamp,
    "timestamptz": _instant, "time": _time, "interval": _interval, "uuid": _uuid, "decimal": _decimal, "list": _list,
    "struct": _struct,
}  # fmt: skip
