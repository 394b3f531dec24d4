"""Table functions in executors, on the columns of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidemill.expressions.schema import Schema
from tidemill.expressions.table_functions import Column, ListColumn, TableCall


def made_by_table(call: TableCall, schema: Schema, given: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]] | None:
    """Return for each row that a table function makes the one it is made from, and the columns; None where it fails."""
    try:
        owner, made = call.function.columns(*(_argument(given[i]) for i in call.arguments))
    except Exception:  # noqa: BLE001 - whatever it is, it is raised again for its row
        return None
    rows = pa.array(owner)
    columns = [given[i].take(rows) for i in call.kept] + [_arrow(c) for c in made]
    return rows, [c.cast(f.dtype.arrow) for c, f in zip(columns, schema, strict=True)]


def _argument(column: pa.Array) -> Column:
    if pa.types.is_list(column.type) and not column.null_count:
        return ListColumn.of(column)
    return column


def _arrow(column: Column) -> pa.Array:
    return column.to_arrow() if isinstance(column, ListColumn) else column
