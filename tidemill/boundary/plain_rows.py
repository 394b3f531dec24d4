"""Rows that come in as they are kept: tuples of Python's own values. Looked through by columns, not value by value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tidemill.boundary.values import INT32_LIMIT, INT64_LIMIT, canonical_float
from tidemill.expressions.schema import Schema

_Column: TypeAlias = Sequence[Any]


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
