"""What comes in from outside, checked: rows of Python values, or Arrow columns.

A batch is refused whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tidemill.boundary.named_rows import field_names, values_by_name
from tidemill.boundary.plain_rows import plain_rows
from tidemill.boundary.tables import Source, as_table, checked_table
from tidemill.boundary.values import BadValueError, Check, canonical, check_of, checked_value
from tidemill.errors import RowError, brief
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import is_arrow_list

Batch: TypeAlias = "list[tuple[Any, ...]] | pa.Table"
"""Checked rows: tuples of canonical Python values, or an Arrow table of just the schema's types and order."""

FEW: Final = 2
"""Up to so many rows, to look at each value takes no longer than to look at columns."""
COUNT_LIMIT: Final = 2**31
"""Single diffs are at most this, so that sums and products of them cannot overflow unnoticed."""


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
    """Return a column as canonical Python values: one NaN, no -0.0, lists as tuples."""
    values: list[Any] = column.to_pylist()
    t = column.type
    if pa.types.is_floating(t) or is_arrow_list(t):
        return [canonical(v) for v in values]
    return values


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
