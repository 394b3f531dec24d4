"""Batches of which only some rows fit: the rows to put in, and those refused, each with its error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tidemill.boundary.rows import Batch, listed_rows
from tidemill.boundary.tables import Source, as_table, mismatch, python_value
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema

_PIECE: Final = 512
"""Rows that are checked together: a row that does not fit has those before it in its piece checked once more."""


class RefusedRow(NamedTuple):
    """A row that was not put in, as it was given (a dict, if that was a table), and the error that says why."""

    row: Any
    error: RowError


def sorted_out(
    schema: Schema, data: Any, where: str, check: Callable[[Any, int], Batch], *, or_: Schema | None = None
) -> tuple[Batch, list[RefusedRow]]:
    """Return the rows of a batch that fit, checked, and the others.

    ``check`` checks a batch, or a part of it that begins with the row of this number. Files, and tables without the
    schema's columns (or those of another that they may have), are refused whole.
    """
    if isinstance(data, Source):
        return check(data, 0), []
    table: pa.Table | None = None
    try:
        table = as_table(schema, data, where)
    except RowError as error:
        if error.row_index is None:
            raise
        rows = _rows_of_frame(data)  # of pandas, with a column of objects that do not fit
    else:
        rows = [] if table is not None else listed_rows(data, where)
    if table is not None:
        try:
            return check(table, 0), []
        except RowError:
            if all(mismatch(table.column_names, s.names) for s in (schema, or_) if s is not None):
                raise
        rows = _rows_of_table(table)
    return _piece_by_piece(rows, check)


def _piece_by_piece(rows: list[Any], check: Callable[[Any, int], Batch]) -> tuple[Batch, list[RefusedRow]]:
    good: list[tuple[Any, ...]] = []
    refused: list[RefusedRow] = []

    def sort_out(piece: list[Any], first: int) -> None:
        while piece:
            try:
                good.extend(check(piece, first))
            except RowError as error:
                if error.row_index is None:
                    raise
                place = error.row_index - first
                sort_out(piece[:place], first)  # of which a later check may refuse some
                refused.append(RefusedRow(piece[place], error))
                first, piece = first + place + 1, piece[place + 1 :]
            else:
                return

    for first in range(0, len(rows), _PIECE):
        sort_out(rows[first : first + _PIECE], first)
    return good, refused


def _rows_of_table(table: pa.Table) -> list[dict[str, Any]]:
    names = table.column_names
    columns = [_values(c) for c in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # for some Python has nothing: these do not fit
        values = [python_value(scalar) for scalar in column]
    return values


def _rows_of_frame(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame of pandas, NULL for what it calls missing."""
    pandas = sys.modules["pandas"]
    names = [str(n) for n in frame.columns]
    columns = [frame.iloc[:, i] for i in range(len(names))]
    missing = [pandas.isna(c).tolist() for c in columns]
    values = [
        [None if m else v for v, m in zip(c, gone, strict=True)] for c, gone in zip(columns, missing, strict=True)
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
