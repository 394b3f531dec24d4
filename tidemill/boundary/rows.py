"""What comes in from outside, checked: rows of Python values, or Arrow columns.

A batch is refused whole or not at all. Rows go by position, or where their values have names by these: dicts, named
tuples, PySpark's rows, dataclasses and objects of attrs. Many that come in as they are kept, as tuples of Python's own
values, are looked through by columns, not value by value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import numbers_of
from tidemill.boundary.tables import Source, as_table, checked_table, mismatch
from tidemill.boundary.values import (
    INT32_LIMIT,
    INT64_LIMIT,
    BadValueError,
    Check,
    as_dict,
    canonical,
    canonical_float,
    check_of,
    checked_value,
    field_names,
    plain,
)
from tidemill.errors import RowError, brief
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import is_arrow_nested

Batch: TypeAlias = "list[tuple[Any, ...]] | pa.Table"
"""Checked rows: tuples of canonical Python values, or an Arrow table of just the schema's types and order."""

FEW: Final = 2
"""Up to so many rows, to look at each value takes no longer than to look at columns."""
_Column: TypeAlias = Sequence[Any]
COUNT_LIMIT: Final = 2**31
"""Single diffs are at most this, so that sums and products of them cannot overflow unnoticed."""


def is_count(value: Any) -> bool:
    """Return whether a value is a diff: a whole number of at most `COUNT_LIMIT`."""
    return hasattr(value, "__index__") and not isinstance(value, bool) and abs(int(value)) <= COUNT_LIMIT


def checked_batch(schema: Schema, data: Any, where: str, *, first: int = 0) -> Batch:
    """Return what a user handed in as a checked batch; `RowError` naming the column and row otherwise.

    Takes iterables of rows (see `checked_rows`), files, Arrow tables, pandas and Polars frames, DuckDB results, Spark
    frames: anything that speaks the Arrow PyCapsule interface.
    """
    if type(data) is list:  # what services put in: not asked at length what it is
        return checked_rows(schema, data, where, first=first)
    if isinstance(data, Source):
        return data.read(schema, where)
    table = as_table(schema, data, where)
    return checked_rows(schema, data, where, first=first) if table is None else checked_table(schema, table, where)


def listed_rows(rows: Any, where: str) -> list[Any]:
    """Return what is no table as a list of rows, not checked yet; `RowError` where it is none."""
    if isinstance(rows, list):
        return rows
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        hint = "; collect() it first" if hasattr(rows, "collect") else ""
        msg = (
            f"{where}: {brief(rows)} is not a batch of rows: expected an iterable of tuples or dicts, or a table{hint}"
        )
        raise RowError(msg)
    return list(rows)


def checked_rows(schema: Schema, rows: Iterable[Any], where: str, *, first: int = 0) -> list[tuple[Any, ...]]:
    """Return rows as tuples of canonical values of the schema's types. The first has this number in errors.

    Tuples and lists go by position. Whatever has names goes by name: dicts, named tuples, PySpark's rows, dataclasses.

    >>> checked_rows(Schema.of({"a": "int64", "b": "float64"}), [(1, 2), {"b": None, "a": 3}], "input 'x'")
    [(1, 2.0), (3, None)]
    """
    given = listed_rows(rows, where)
    plain = plain_rows(schema, given) if len(given) > FEW else None
    if plain is not None:
        return plain
    names, checks = schema.names, _checks(schema)
    width = len(names)
    checked = []
    for number, row in enumerate(given, first):
        try:
            values = row if type(row) is tuple and len(row) == width else _values(row, names, number, where)
            checked.append(tuple([checked_value(f, c, v) for (f, c), v in zip(checks, values, strict=True)]))
        except BadValueError as bad:
            msg = f"{where}, row {number} {brief(row)}: column {bad}"
            raise RowError(msg).about(row=row, row_index=number, column=bad.column) from None
        except RowError as error:
            error.about(row=row, row_index=number)
            raise
    return checked


@lru_cache(maxsize=1024)
def _checks(schema: Schema) -> tuple[tuple[Field, Check], ...]:
    """Return the columns, each with the check of its values."""
    return tuple((field, check_of(field.dtype)) for field in schema.fields)


def python_rows(batch: Batch) -> list[tuple[Any, ...]]:
    """Return a checked batch as tuples of canonical Python values."""
    if isinstance(batch, list):
        return batch
    columns = [python_values(c) for c in batch.columns]
    return list(zip(*columns, strict=True)) if columns else []


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column as canonical Python values: one NaN, no -0.0, instants in UTC, lists and structs as tuples."""
    if column.type == pa.float64() and not column.null_count:
        numbers = numbers_of(column)
        if not np.isnan(numbers).any():
            listed: list[Any] = (numbers + 0.0).tolist()
            return listed
    values = plain_values(column)
    may_hold_floats = pa.types.is_floating(column.type) or is_arrow_nested(column.type)
    return [canonical(v) for v in values] if may_hold_floats else values


def plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column as the Python values that expressions compute with (`plain`): -0.0 is one of them."""
    values: list[Any] = column.to_pylist()
    t = column.type
    is_zoned = pa.types.is_timestamp(t) and t.tz is not None
    return [plain(v) for v in values] if is_zoned or is_arrow_nested(t) else values


def _values(row: Any, names: tuple[str, ...], number: int, where: str) -> Iterable[Any]:
    given = field_names(row)
    if given is not None:
        return values_by_name(row, given, names, f"{where}, row {number}")
    if not isinstance(row, (tuple, list)):
        msg = (
            f"{where}, row {number}: {brief(row)} is not a row: expected a tuple or a dict; a row of one column is "
            "(value,)"
        )
        raise RowError(msg)
    if len(row) != len(names):
        msg = f"{where}, row {number}: {brief(row)} has {len(row)} values, expected {len(names)}: {', '.join(names)}"
        raise RowError(msg)
    return row


def values_by_name(row: Any, given: tuple[Any, ...], expected: tuple[str, ...], place: str) -> Iterable[Any]:
    """Return the values of a row that has names, in the order of the expected ones; `RowError` where these differ."""
    if given == expected and isinstance(row, tuple):
        return row
    if len(given) != len(expected) or set(given) != set(expected):
        wrong = mismatch(list(map(str, given)), expected)
        what = "the keys are" if isinstance(row, Mapping) else f"the fields of {type(row).__name__} are"
        hint = "; rows with names go by name: tuple(row) goes by position" if isinstance(row, tuple) else ""
        msg = f"{place}: {what} {list(given)}, expected {list(expected)}: {wrong}{hint}"
        others = [n for n in expected if n not in given]
        raise RowError(msg).about(row=row, column=others[0] if len(others) == 1 else None)
    values = as_dict(row, given)
    return [values[name] for name in expected]


def plain_rows(schema: Schema, rows: Sequence[Any]) -> list[tuple[Any, ...]] | None:
    """Return rows in their canonical form if that is at hand; None where values have to be looked at one by one.

    It is for tuples of the schema's width, with values of just the Python type of each column, or None.

    >>> plain_rows(Schema.of({"a": "int64", "b": "float64"}), [(1, 2.0), (3, None)])
    [(1, 2.0), (3, None)]
    >>> plain_rows(Schema.of({"a": "int64", "b": "float64"}), [(1, 2.0), (3, 4)])
    """
    if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {len(schema)}:
        return None
    columns: list[_Column] = list(zip(*rows, strict=True))
    changed = False
    for i, field in enumerate(schema.fields):
        kind, canonical = _PLAIN.get(field.dtype.name, (object, None))
        if canonical is None:
            return None
        column, kinds = columns[i], set(map(type, columns[i]))
        if type(None) in kinds and field.nullable:
            kinds.discard(type(None))
            column = [value for value in column if value is not None]
        if kinds - {kind}:
            return None
        found = canonical(column) if column else column
        if found is None:
            return None
        if found is not column:
            changed, values = True, iter(found)
            columns[i] = [None if value is None else next(values) for value in columns[i]]
    return list(zip(*columns, strict=True)) if changed else list(rows)


def _whole(least: int, greatest: int) -> Callable[[_Column], _Column | None]:
    return lambda column: column if least <= min(column) and max(column) <= greatest else None


def _floats(column: _Column) -> _Column:
    return list(map(canonical_float, column))


def _texts(column: _Column) -> _Column | None:
    try:
        "".join(column).encode()  # a lone surrogate is no text
    except UnicodeEncodeError:
        return None
    return column


def _timestamps(column: _Column) -> _Column | None:
    return None if any(value.tzinfo is not None or value.fold for value in column) else column


def _as_it_is(column: _Column) -> _Column:
    return column


_PLAIN: Final[dict[str, tuple[type, Callable[[_Column], _Column | None]]]] = {
    "int64": (int, _whole(-INT64_LIMIT, INT64_LIMIT)), "int32": (int, _whole(-INT32_LIMIT - 1, INT32_LIMIT)),
    "float64": (float, _floats), "bool": (bool, _as_it_is), "string": (str, _texts), "binary": (bytes, _as_it_is),
    "date": (dt.date, _as_it_is), "timestamp": (dt.datetime, _timestamps),
}  # fmt: skip
"""For each type the Python type of its values, and what makes a column canonical: None if it is to be checked."""
