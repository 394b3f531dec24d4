"""Columns of lists and structs: taken apart into their values, put together again, and put in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.boundary.arrow_arrays import bool_array, numbers_of, plain_array
from tidemill.boundary.values import plain
from tidemill.errors import StepError
from tidemill.expressions.functions.values import value_order
from tidemill.expressions.types import DType, is_arrow_list

Ints: TypeAlias = "npt.NDArray[np.int64]"

MOST_VALUES: Final = 2**31 - 1
"""Arrow counts the values of a column of lists in 32 bits."""


def list_parts(column: pa.Array) -> tuple[pa.Array, Ints]:
    """Return the values of all lists of an Arrow array, end to end, and how many each has; a NULL has none.

    >>> values, lengths = list_parts(pa.array([[1, None], None, []]))
    >>> values.to_pylist(), lengths.tolist()
    ([1, None], [2, 0, 0])
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and only lists need it

    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return column.flatten(), numbers_of(lengths).astype(np.int64)


def list_array(values: pa.Array, lengths: Ints, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an Arrow array of lists: the inverse of `list_parts`."""
    ends = lengths.cumsum()
    if len(ends) and ends[-1] > MOST_VALUES:
        msg = f"{ends[-1]} values in one column of lists: Arrow holds at most {MOST_VALUES}; read fewer rows at once"
        raise StepError(msg)
    offsets = plain_array(pa.int32(), np.concatenate((np.zeros(1, np.int64), ends)).astype(np.int32))
    mask = bool_array(null) if null is not None and null.any() else None
    return pa.ListArray.from_arrays(offsets, values, mask=mask)


def struct_array(fields: Sequence[pa.Array], dtype: DType, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an Arrow array of structs of a type, of a column for each field."""
    mask = bool_array(null) if null is not None and null.any() else None
    return pa.StructArray.from_arrays(fields, fields=list(dtype.arrow), mask=mask)


def exact_lists(column: pa.ChunkedArray) -> list[Any] | None:
    """Return lists of whole numbers as NumPy's arrays, of objects where there is a NULL; None for all other columns.

    Only where there is a NULL in one of them: Arrow makes floats of those, which do not hold every integer. Structs,
    and what they are in, are dicts and lists of Python's values.

    >>> exact_lists(pa.chunked_array([[[2**53 + 1, None], None, [1]]]))
    [array([9007199254740993, None], dtype=object), None, array([1])]
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and only lists need it

    values, depth = column, 0
    while is_arrow_list(values.type):
        values, depth = pc.list_flatten(values), depth + 1
    if pa.types.is_struct(values.type):
        found: list[Any] = column.to_pylist()
        return found
    if not depth or not pa.types.is_integer(values.type) or not values.null_count:
        return None
    plain = values.type.to_pandas_dtype()
    return [_exact_list(value, depth, plain) for value in column.to_pylist()]


def _exact_list(value: list[Any] | None, depth: int, plain: Any) -> npt.NDArray[Any] | None:
    if value is None:
        return None
    if depth == 1:
        return np.array(value, object if None in value else plain)
    found = np.empty(len(value), object)
    found[:] = [_exact_list(inner, depth - 1, plain) for inner in value]
    return found


def list_ranks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a number for each list of a column, in the order of the lists, the same for equal ones; NULL for NULL."""
    keys = [None if v is None else value_order(plain(v)) for v in column.to_pylist()]
    places = {key: place for place, key in enumerate(sorted({k for k in keys if k is not None}))}
    return pa.array([None if k is None else places[k] for k in keys], pa.int64())
