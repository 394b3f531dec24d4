"""Columns of numbers, truth values and texts, from NumPy and Python to Arrow and back.

``pa.array``, ``pa.scalar`` and ``to_numpy`` do the same for whatever they are given. For that they import pandas, where
it is installed, which takes longer than to open a dataflow's state and take a step.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BOOL: Final = pa.bool_()
_INT64: Final = pa.int64()
_STRING: Final = pa.string()
_NUMBERS: Final = {
    pa.from_numpy_dtype(name): np.dtype(name)
    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
}
_DATE: Final = pa.date32()
_KINDS: Final = {
    **_NUMBERS,
    _BOOL: np.dtype(np.bool_),
    _DATE: np.dtype("M8[D]"),
}
"""Of types whose values NumPy takes from Python as they are."""
_MOST: Final = 2**31 - 1
"""Bytes that an array of texts holds."""
_FIRST_DAY: Final = dt.date(1970, 1, 1).toordinal()
_MANY: Final = 10_000
"""Beside so many texts it does not matter what pandas takes to be imported, and pyarrow is the quicker one."""

Bools = npt.NDArray[np.bool_]


def plain_array(dtype: pa.DataType, values: npt.NDArray[Any], null: Bools | None = None) -> pa.Array:
    """Return values as an array of an Arrow type that has them in memory as NumPy does, NULL where that is said."""
    valid = None if null is None else _bits(~null)
    return pa.Array.from_buffers(dtype, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def int64_array(values: npt.NDArray[Any], null: Bools | None = None) -> pa.Array:
    """Return whole numbers as an Arrow array."""
    return plain_array(_INT64, np.asarray(values, np.int64), null)


def bool_array(values: Bools, null: Bools | None = None) -> pa.Array:
    """Return truth values as an Arrow array."""
    return pa.Array.from_buffers(_BOOL, len(values), [_validity(null), _bits(values)])


def text_array(texts: Sequence[str], null: Bools | None = None) -> pa.Array:
    """Return texts as an Arrow array, NULL where that is said.

    >>> text_array(["a", "é", "?"], np.array([False, False, True])).to_pylist()
    ['a', 'é', None]
    """
    if len(texts) > _MANY:
        return pa.array(texts, _STRING, mask=null)
    joined = "".join(texts)
    data = joined.encode()
    if len(data) > _MOST:
        return pa.array(texts, _STRING, mask=null)
    lengths = map(len, texts) if len(data) == len(joined) else (len(text.encode()) for text in texts)
    ends = np.fromiter(accumulate(lengths, initial=0), np.int32, len(texts) + 1)
    return pa.Array.from_buffers(_STRING, len(texts), [_validity(null), pa.py_buffer(ends), pa.py_buffer(data)])


def value_array(values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    """Return checked values of a type, and Nones among them, as an Arrow array."""
    kind = _KINDS.get(dtype)
    if kind is None and dtype != _STRING:
        return pa.array(values, dtype)
    null = None
    if None in values:
        null = np.fromiter((v is None for v in values), np.bool_, len(values))
        nothing: Any = "" if kind is None else np.zeros((), kind).item()
        values = [nothing if v is None else v for v in values]
    if kind is None:
        return text_array(values, null)
    if dtype == _DATE:  # NumPy would take a date twenty times as long
        days = np.fromiter(map(dt.date.toordinal, values), np.int64, len(values)) - _FIRST_DAY
        return plain_array(dtype, days.astype(np.int32), null)
    found = np.array(values, kind)
    return bool_array(found, null) if dtype == _BOOL else plain_array(dtype, found, null)


def arrow_scalar(value: Any, dtype: pa.DataType) -> pa.Scalar:
    """Return a value as a scalar of a type.

    >>> arrow_scalar(1, pa.int64()), arrow_scalar("a", pa.string()), arrow_scalar(None, pa.date32())
    (<pyarrow.Int64Scalar: 1>, <pyarrow.StringScalar: 'a'>, <pyarrow.Date32Scalar: None>)
    """
    return value_array([value], dtype)[0]


def numbers_of(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column of numbers as NumPy's, with zeros where it is NULL."""
    kind = _NUMBERS[column.type]
    if isinstance(column, pa.ChunkedArray):
        chunks = [numbers_of(chunk) for chunk in column.chunks]
        return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0, kind), *chunks])
    if not len(column):
        return np.empty(0, kind)
    whole = column.fill_null(arrow_scalar(0, column.type)) if column.null_count else column
    return stored(whole, kind)


def stored(array: pa.Array, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return what an array has in memory for its values, of which there are some; the reverse of `plain_array`."""
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def truths_of(column: pa.Array) -> Bools:
    """Return an array of truth values as NumPy's, False where it is NULL."""
    if not len(column):
        return np.zeros(0, np.bool_)
    valid, values = column.buffers()
    truths = _from_bits(values, column.offset, len(column))
    return truths & _from_bits(valid, column.offset, len(column)) if column.null_count else truths


def _validity(null: Bools | None) -> pa.Buffer | None:
    return None if null is None else _bits(~null)


def _bits(values: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def _from_bits(bits: pa.Buffer, start: int, count: int) -> Bools:
    first = start // 8
    some = np.frombuffer(bits, np.uint8, (start + count + 7) // 8 - first, first)
    return np.unpackbits(some, bitorder="little")[start - 8 * first :][:count].view(np.bool_)
