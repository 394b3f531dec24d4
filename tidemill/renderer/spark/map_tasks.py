"""``map_rows`` on a whole batch: columns into rows and rows into columns at once, values looked at by their types.

What is not as it should be, and what has no quick way, is left to the functions that look at a row at a time: they
convert what may be converted, and say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.rows import checked_rows, python_values
from tidemill.boundary.values import INT64_LIMIT
from tidemill.dataflow.nodes import FlatMap
from tidemill.errors import RowError
from tidemill.expressions.schema import Field
from tidemill.renderer.runs.user_functions import row_type

_PLAIN: Final[dict[str, type]] = {"int64": int, "float64": float, "bool": bool, "string": str}
"""Types whose values in Python, if they are of just this class, Arrow takes as the check of single values does."""


def mapped_at_once(node: FlatMap, given: list[pa.Array], count: int) -> list[pa.Array] | None:
    """Return the columns that a function makes of a batch, a row of each row; None where anything at all is wrong."""
    make = row_type(node.inputs[0].schema.names)
    rows = map(make, *map(_values, given)) if given else (make() for _ in range(count))
    function: Callable[[Any], Any] = node.function
    try:
        made = [function(row) for row in rows]
    except Exception:  # noqa: BLE001 - whatever it is, it is raised again for its row
        return None
    width = len(node.schema)
    if not width or set(map(type, made)) != {tuple} or set(map(len, made)) != {width}:
        return _checked(node, made)
    columns = [_column(field, values) for field, values in zip(node.schema, zip(*made, strict=True), strict=True)]
    return _checked(node, made) if any(c is None for c in columns) else [c for c in columns if c is not None]


def _checked(node: FlatMap, made: list[Any]) -> list[pa.Array] | None:
    try:
        rows = checked_rows(node.schema, made, "")
    except RowError:
        return None
    return [pa.array([row[i] for row in rows], f.dtype.arrow) for i, f in enumerate(node.schema)]


def _values(column: pa.Array) -> list[Any]:
    """Return a column as canonical Python values."""
    if column.null_count == 0 and (pa.types.is_int64(column.type) or pa.types.is_float64(column.type)):
        values = column.to_numpy()
        if pa.types.is_int64(column.type) or not np.isnan(values).any():
            listed: list[Any] = (values + 0).tolist()  # 0.0 for -0.0
            return listed
    return python_values(column)


def _column(field: Field, values: tuple[Any, ...]) -> pa.Array | None:
    """Return values as a column where they are all of the plain type; None where one has to be looked at."""
    kinds = set(map(type, values))
    if field.nullable:
        kinds.discard(type(None))
    if kinds and kinds != {_PLAIN.get(field.dtype.name)}:
        return None
    try:
        column = pa.array(values, field.dtype.arrow)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    if field.dtype.name == "int64" and column.null_count < len(column):
        return None if pc.min(column).as_py() < -INT64_LIMIT else column
    if field.dtype.name == "float64":
        numbers = column.to_numpy(zero_copy_only=False)
        zeros = np.where(np.isnan(numbers), np.nan, numbers + 0.0)
        return pa.array(zeros, mask=column.is_null().to_numpy(zero_copy_only=False))
    return column
