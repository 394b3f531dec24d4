"""What comes in from outside, checked: rows of Python values, or Arrow columns.

A batch is refused whole or not at all.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tidemill.boundary.tables import INT64_LIMIT, Source, as_table, checked_table, mismatch
from tidemill.errors import RowError
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import DType, is_arrow_list

__all__ = ["INT64_LIMIT", "NAN", "Batch", "checked_batch", "checked_rows", "python_rows"]

Batch: TypeAlias = "list[tuple[Any, ...]] | pa.Table"
"""Checked rows: tuples of canonical Python values, or an Arrow table of just the schema's types and order."""

NAN: Final = float("nan")
"""The one NaN in checked rows, so that rows with it are equal to themselves and can be keys of dicts."""

INT32_LIMIT: Final = 2**31 - 1
COUNT_LIMIT: Final = 2**31
"""Single diffs are at most this, so that sums and products of them cannot overflow unnoticed."""


def checked_batch(schema: Schema, data: Any, where: str) -> Batch:
    """Return what a user handed in as a checked batch; `RowError` naming the column and row otherwise.

    Takes iterables of tuples or dicts, files, Arrow tables, pandas and Polars frames, DuckDB results, Spark frames:
    anything that speaks the Arrow PyCapsule interface.
    """
    if isinstance(data, Source):
        return data.read(schema, where)
    table = None if isinstance(data, (list, tuple)) else as_table(schema, data, where)
    return checked_rows(schema, data, where) if table is None else checked_table(schema, table, where)


def checked_rows(schema: Schema, rows: Iterable[Any], where: str) -> list[tuple[Any, ...]]:
    """Return rows as tuples of canonical values of the schema's types.

    >>> checked_rows(Schema.of({"a": "int64", "b": "float64"}), [(1, 2), {"b": None, "a": 3}], "input 'x'")
    [(1, 2.0), (3, None)]
    """
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        hint = "; collect() it first" if hasattr(rows, "collect") else ""
        msg = f"{where}: {rows!r} is not a batch of rows: expected an iterable of tuples or dicts, or a table{hint}"
        raise RowError(msg)
    names = schema.names
    checks = [_CHECKS[f.dtype.name] for f in schema]
    fields = schema.fields
    checked = []
    for number, row in enumerate(rows):
        values = _values(row, names, number, where)
        try:
            checked.append(tuple([_check(f, c, v) for f, c, v in zip(fields, checks, values, strict=True)]))
        except _BadValueError as bad:
            msg = f"{where}, row {number} {row!r}: column {bad}"
            raise RowError(msg) from None
    return checked


def python_rows(batch: Batch) -> list[tuple[Any, ...]]:
    """Return a checked batch as tuples of canonical Python values."""
    if isinstance(batch, list):
        return batch
    columns = [python_values(c) for c in batch.columns]
    return list(zip(*columns, strict=True)) if columns else []


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column as canonical Python values: one NaN, no -0.0, lists as tuples."""
    values: list[Any] = column.to_pylist()
    t = column.type
    if pa.types.is_floating(t) or is_arrow_list(t):
        return [canonical(v) for v in values]
    return values


def canonical(value: Any) -> Any:
    """Return the value that stands for all equal to it: see `canonical_float`; a tuple of such for a list.

    >>> canonical([1, -0.0, [None]])
    (1, 0.0, (None,))
    """
    if isinstance(value, float):
        return canonical_float(value)
    return tuple(map(canonical, value)) if isinstance(value, (list, tuple)) else value


def canonical_float(value: float) -> float:
    """Return the float that stands for all equal to it: the one NaN, and 0.0 for -0.0."""
    return NAN if math.isnan(value) else value + 0.0


class _BadValueError(Exception):
    pass


def _values(row: Any, names: tuple[str, ...], number: int, where: str) -> Iterable[Any]:
    if isinstance(row, Mapping):
        if len(row) != len(names) or any(n not in row for n in names):
            wrong = mismatch(list(map(str, row)), names)
            msg = f"{where}, row {number}: the keys are {list(row)}, expected {list(names)}: {wrong}"
            raise RowError(msg)
        return [row[n] for n in names]
    if not isinstance(row, (tuple, list)):
        msg = (
            f"{where}, row {number}: {row!r} is not a row: expected a tuple or a dict; a row of one column is (value,)"
        )
        raise RowError(msg)
    if len(row) != len(names):
        msg = f"{where}, row {number}: {row!r} has {len(row)} values, expected {len(names)}: {', '.join(names)}"
        raise RowError(msg)
    return row


def _check(field: Field, check: Callable[[Any, DType], Any], value: Any) -> Any:
    if value is None:
        if not field.nullable:
            msg = f"{field} is NULL: nulls are not allowed here"
            raise _BadValueError(msg)
        return None
    try:
        return check(value, field.dtype)
    except (TypeError, ValueError) as error:
        msg = f"{field}: {value!r} ({type(value).__name__}) is not a valid {field.dtype}" + (
            f": {error}" if str(error) else ""
        )
        raise _BadValueError(msg) from None
    except ArithmeticError:  # an int too large for a float, a decimal for its digits
        msg = f"{field}: {value!r} ({type(value).__name__}) is not a valid {field.dtype}: overflow"
        raise _BadValueError(msg) from None


def _integer(limit: int) -> Callable[[Any, DType], int]:
    def check(value: Any, _: DType) -> int:
        if type(value) is not int:
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError
            value = value.__index__()
        if not -limit - (limit == INT32_LIMIT) <= value <= limit:
            msg = "overflow"
            raise ValueError(msg)
        return int(value)

    return check


def _float(value: Any, _: DType) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError
    return canonical_float(float(value))


def _bool(value: Any, _: DType) -> bool:
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError


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
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise TypeError
    return value


def _timestamp(value: Any, _: DType) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        raise TypeError
    if value.tzinfo is not None:
        msg = "a timestamp has no zone here; convert it to naive UTC first"
        raise ValueError(msg)
    plain: dt.datetime = value
    if type(value) is not dt.datetime:  # pandas' own, which has nanoseconds
        plain = dt.datetime.fromisoformat(value.isoformat(timespec="microseconds"))
    return plain.replace(fold=0) if plain.fold else plain  # which of two equal wall times is a matter of zones


def _decimal(value: Any, dtype: DType) -> decimal.Decimal:
    if isinstance(value, (bool, float)) or not isinstance(value, (int, decimal.Decimal)):
        raise TypeError
    given = decimal.Decimal(value)
    if not given.is_finite():
        msg = "not a finite number"
        raise ValueError(msg)
    with decimal.localcontext(prec=80):
        fitted = given.quantize(decimal.Decimal(1).scaleb(-dtype.scale))
    if fitted != given:
        msg = f"more than {dtype.scale} digits after the point"
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
    check, element = _CHECKS[dtype.element.name], dtype.element
    found = []
    for i, v in enumerate(value):
        try:
            found.append(None if v is None else check(v, element))
        except (TypeError, ValueError, ArithmeticError) as error:
            why = "overflow" if isinstance(error, ArithmeticError) else str(error)
            msg = f"value {i}, {v!r} ({type(v).__name__}), is not a valid {element}" + (f": {why}" if why else "")
            raise ValueError(msg) from None
    return tuple(found)


_CHECKS: Final[dict[str, Callable[[Any, DType], Any]]] = {
    "int64": _integer(INT64_LIMIT), "int32": _integer(INT32_LIMIT), "float64": _float, "bool": _bool, "string": _string,
    "binary": _binary, "date": _date, "timestamp": _timestamp, "decimal": _decimal, "list": _list,
}  # fmt: skip
