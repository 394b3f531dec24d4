"""Codes: every value as one int64, equal exactly when the values are equal. Only here is known what a code stands for.

Codes of integers, floats, dates, timestamps, bools and decimals of up to 18 digits are in the order of the values, NaN
greatest. Strings and bytes are interned: numbered as they come in. So are lists and structs, as tuples of their values'
codes, so that those of equal values are equal. Of longer decimals, large values are, `long_decimals` says how. NULL has
one code, the least, in all.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import (
    bool_array,
    int64_array,
    numbers_of,
    plain_array,
    text_array,
    truths_of,
    value_array,
)
from tidemill.boundary.list_columns import list_array, list_parts, struct_array
from tidemill.boundary.rows import Batch
from tidemill.boundary.values import NAN
from tidemill.expressions.functions.date_values import EPOCH, EPOCH_UTC, time_of, whole_micros
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ, DType
from tidemill.renderer.embedded.kernels import long_decimals
from tidemill.renderer.embedded.kernels.interner import Interner
from tidemill.renderer.embedded.kernels.memory import zeros
from tidemill.renderer.embedded.kernels.threads import in_shares, shares, side_by_side
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, UpdateArray, numbered

__all__ = [
    "FEW", "NAN_CODE", "Interner", "decode", "decode_column", "decode_rows", "decoder", "encode", "encode_column",
    "encode_row", "encoder", "encoders", "has_codes_in_order", "interned_numbers", "is_interned", "is_long_decimal",
    "leading_number_of", "leading_numbers", "order_key", "order_ranks",
]  # fmt: skip

LONG_DECIMAL: Final = 18
"""Values of decimals of more digits than this may not fit a code."""
FEW: Final = 16
"""Up to how many rows encoding value by value beats the fixed costs of Arrow."""
_FEW_RANKED: Final = 256
"""Up to how many codes Python sorts sooner than Arrow ranks values."""
_LONG: Final = 1 << 16
"""Columns of more values are encoded a part at a time, so that what is computed from one stays in the caches."""
_MANY: Final = 1 << 12
_OFTEN: Final = 4
"""From how many values on, and how often each on average, a value is turned into Arrow only once."""
_EPOCH_DAY: Final = EPOCH.toordinal()
_FLIP: Final = 2**63 - 1
_MOST_DIGITS: Final = 38
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_One: TypeAlias = Callable[[Any], Any]


def is_interned(dtype: DType) -> bool:
    """Return whether values of a type are interned, all of them: codes say nothing of their order."""
    return dtype.name in ("string", "binary", "uuid", "list", "struct")


def is_long_decimal(dtype: DType) -> bool:
    """Return whether a type is of decimals whose large values are interned; the codes of others are their values."""
    return dtype.is_decimal and dtype.precision > LONG_DECIMAL


def has_codes_in_order(dtype: DType) -> bool:
    """Return whether all codes of a type are in the order of the values, NULL least."""
    return not is_interned(dtype) and not is_long_decimal(dtype)


def interned_numbers(codes: Ints, dtype: DType) -> Ints:
    """Return the interner's numbers among codes of a type."""
    if is_interned(dtype):
        return codes.compress(codes != NULL)
    return long_decimals.large_numbers(codes) if is_long_decimal(dtype) else codes[:0]


def encode(
    schema: Schema, batch: Batch, interner: Interner, *, more_rows: int = 0, kept: Bools | None = None
) -> UpdateArray:
    """Return checked rows as a matrix of codes, a column for each row; below them there may be more rows of zeros.

    Of a table, only those rows that are ``kept``, if that is said.
    """
    k = len(schema)
    n = len(batch) if kept is None else int(np.count_nonzero(kept))
    updates: UpdateArray = zeros((k + more_rows, n))  # zeros that nobody writes take no memory
    if isinstance(batch, list) and len(batch) <= FEW:
        for codes, column, code_of in zip(updates, zip(*batch, strict=True), encoders(schema, interner), strict=False):
            if code_of is int and None not in column:
                codes[:] = column
            else:
                codes[:] = [NULL if v is None else code_of(v) for v in column]
        return updates
    if isinstance(batch, list):
        columns = [value_array(c, f.dtype.arrow) for c, f in zip(zip(*batch, strict=True), schema, strict=True)]
    else:
        columns = batch.columns
    long: list[_Column] = []
    for codes, column, field in zip(updates, columns, schema, strict=False):
        if len(batch) > _LONG and not field.dtype.is_nested and not is_long_decimal(field.dtype):
            long.append(_Column(codes, column, field.dtype, interner, kept))
        else:
            codes[:] = encode_column(column, field.dtype, interner, kept)
    _write_long(long, len(batch))
    return updates


class _Column(NamedTuple):
    """A column to be encoded, and where to."""

    codes: Ints
    column: pa.Array | pa.ChunkedArray
    dtype: DType
    interner: Interner
    kept: Bools | None
    """Which of its values are encoded; None for all."""


def _write_long(long: list[_Column], n: int) -> None:
    """Write long columns of tables of n rows as codes."""
    together = [long] if len(shares(n)) > 1 else [[c] for c in long]  # else one after the other: less memory
    for some in together:
        for c, chunks in zip(some, side_by_side(_encoded, some), strict=True):
            done = 0
            for chunk in chunks:
                numbers = c.interner.numbers(chunk.dictionary.to_pylist())
                _put_numbers(c.codes[done : done + len(chunk)], chunk, numbers)
                done += len(chunk)


def _encoded(given: _Column) -> list[pa.DictionaryArray]:
    """Write a long column as codes, a part at a time; return what is to be interned, value by value, instead."""
    column, kept, first, done = given.column, given.kept, 0, 0
    if kept is not None and is_interned(given.dtype):
        column = column.filter(bool_array(kept))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if is_interned(given.dtype):
        return [c if isinstance(c, pa.DictionaryArray) else c.dictionary_encode() for c in chunks]
    for chunk in chunks:
        for start in range(0, len(chunk), _LONG):
            part = chunk.slice(start, _LONG)
            codes = _plain_codes(part, given.dtype, given.interner)
            if kept is not None:
                codes = codes.compress(kept[first : first + len(part)])
            given.codes[done : done + len(codes)] = codes
            first, done = first + len(part), done + len(codes)
    return []


def _put_numbers(codes: Ints, chunk: pa.DictionaryArray, numbers: Ints) -> None:
    """Write a long column of interned values as codes, a part at a time."""

    def put(share: slice) -> None:
        for start in range(share.start, share.stop, _LONG):
            end = min(start + _LONG, share.stop)
            codes[start:end] = _of_dictionary(chunk.slice(start, end - start), numbers)

    in_shares(put, len(chunk))


def encoders(schema: Schema, interner: Interner) -> list[Callable[[Any], int]]:
    """Return for each column what gives the code of a value."""
    return [encoder(f.dtype, interner) for f in schema.fields]


def encode_row(row: tuple[Any, ...], by: list[Callable[[Any], int]]) -> list[int]:
    """Return a checked row as codes."""
    return [NULL if v is None else e(v) for v, e in zip(row, by, strict=True)]


def encode_column(
    column: pa.Array | pa.ChunkedArray, dtype: DType, interner: Interner, kept: Bools | None = None
) -> Ints:
    """Return an Arrow column as codes; only of those values that are ``kept``, if that is said."""
    if isinstance(column, pa.ChunkedArray):
        one = column.num_chunks == 1  # the usual case, and joining one chunk would copy it
        column = column.chunk(0) if one else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])
    if kept is not None and (dtype.is_nested or is_interned(dtype) or is_long_decimal(dtype)):
        column, kept = column.filter(bool_array(kept)), None  # so that what is dropped is not interned
    if dtype.is_nested:
        return _encode_nested(column, dtype, interner)
    if is_interned(dtype):
        return _encode_interned(column, interner)
    codes = _plain_codes(column, dtype, interner)
    return codes if kept is None else codes.compress(kept)


def _plain_codes(column: pa.Array, dtype: DType, interner: Interner) -> Ints:
    """Return an Arrow column as codes that need no interner, but for large decimals of long types."""
    codes = _encode_decimals(column, dtype, interner) if dtype.is_decimal else _ENCODE_ARROW[dtype.name](column, dtype)
    if column.null_count:
        codes = np.where(truths_of(column.is_null()), NULL, codes)
    return codes


def decode(schema: Schema, codes: Codes, interner: Interner) -> list[pa.Array]:
    """Return a matrix of codes as Arrow arrays, one for each column of the schema."""
    # One look at all is worth it for a few.
    known = codes.shape[1] <= _LONG and np.minimum.reduce(codes, axis=None, initial=0) != NULL
    return [decode_column(row, dtype, interner, known=known) for row, dtype in zip(codes, schema.dtypes, strict=True)]


def decode_column(codes: Ints, dtype: DType, interner: Interner, *, known: bool = False) -> pa.Array:
    """Return codes as an Arrow array; ``known`` where it is that none is NULL."""
    if known and dtype.name in _SIMPLE:
        arrow_type, plain = _SIMPLE[dtype.name]
        return plain_array(arrow_type, plain(codes))
    if dtype.is_nested:
        return _decode_nested(codes, codes == NULL, dtype, interner)
    null = None if known else codes == NULL
    mask = null if null is not None and np.count_nonzero(null) else None
    if is_interned(dtype):
        return _decode_interned(codes, mask, dtype, interner)
    if dtype.is_decimal:
        return long_decimals.decimal_array(codes, mask, dtype.arrow, interner if is_long_decimal(dtype) else None)
    if dtype.name == "bool":
        return bool_array(codes.astype(np.bool_), mask)
    arrow_type, plain = _SIMPLE[dtype.name]
    return plain_array(arrow_type, plain(codes), mask)


def decode_rows(schema: Schema, codes: Codes, interner: Interner) -> list[tuple[Any, ...]]:
    """Return a matrix of codes as tuples of Python values."""
    decoders = [decoder(f.dtype, interner) for f in schema]
    columns = [[None if c == NULL else d(c) for c in row] for d, row in zip(decoders, codes.tolist(), strict=True)]
    return list(zip(*columns, strict=True)) if columns else [()] * codes.shape[1]


def order_ranks(codes: Ints, dtype: DType, interner: Interner) -> Ints:
    """Return numbers in the order of the values that the codes stand for; the codes themselves where they are."""
    if is_long_decimal(dtype):
        return long_decimals.ranks_of_long(codes, interner)
    if not is_interned(dtype):
        return codes
    if len(codes) <= _FEW_RANKED:
        known, by_value = interner.values(), not dtype.is_nested
        place = {
            code: (1, known[code]) if by_value and code != NULL else order_key(code, dtype, interner)
            for code in set(codes.tolist())
        }
        ranked = {code: rank for rank, code in enumerate(sorted(place, key=place.__getitem__))}
        return np.array([ranked[code] for code in codes.tolist()], np.int64)
    distinct, inverse = np.unique(codes, return_inverse=True)
    if not dtype.is_nested and NULL not in distinct[:1]:
        values: list[Any] = interner.objects(distinct).tolist()
    else:
        values = [order_key(c, dtype, interner) for c in distinct.tolist()]
    ranks = np.empty(len(values), np.int64)
    ranks[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    return ranks.take(inverse)


def order_key(code: int, dtype: DType, interner: Interner) -> Any:
    """Return a key that sorts as the value of a code does, nulls first."""
    is_long = is_long_decimal(dtype)
    if not is_long and not is_interned(dtype):
        return code
    if code == NULL:
        return (0,)
    if is_long:
        return 1, long_decimals.value_of(code, interner)
    if not dtype.is_nested:
        return 1, interner.object(code)
    return 1, [order_key(c, of, interner) for c, of in zip(interner.object(code), dtype.inner, strict=False)]


def leading_numbers(codes: Ints, dtype: DType, interner: Interner) -> Ints:
    """Return numbers that never fall where values rise, each code always its own; of NULL, some number."""
    if is_long_decimal(dtype):
        return long_decimals.leading_codes(codes, interner)
    return interner.leading(codes) if is_interned(dtype) else codes


def leading_number_of(code: int, dtype: DType, interner: Interner) -> int:
    """Return the number of one code, not NULL's, as `leading_numbers` has it."""
    if is_long_decimal(dtype):
        return long_decimals.leading_of(code, interner)
    return interner.leading_of(code) if is_interned(dtype) else code


# -- one value ------------------------------------------------------------------------------------------------------


def float_code(value: float) -> int:
    """Return the code of a float: its bits, made to sort as the values do."""
    if value != value:  # noqa: PLR0124 - NaN
        return NAN_CODE
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ _FLIP


def _float_value(code: int) -> float:
    if code == NAN_CODE:
        return NAN
    (value,) = struct.unpack("<d", struct.pack("<q", code if code >= 0 else code ^ _FLIP))
    return float(value)


NAN_CODE: Final = 0x7FF8000000000000


def encoder(dtype: DType, interner: Interner) -> Callable[[Any], int]:
    """Return a function from a value of a type to its code, NULL aside."""
    if dtype.is_nested:
        of = _each(dtype, encoder, interner)
        return lambda values: interner.number(
            tuple([NULL if v is None else one(v) for one, v in zip(of(), values, strict=False)])
        )
    if is_interned(dtype):
        return interner.number
    if dtype.is_decimal:
        scale = dtype.scale
        if is_long_decimal(dtype):
            return lambda v: long_decimals.code_of(long_decimals.unscaled(v, scale), interner)
        return lambda v: long_decimals.unscaled(v, scale)
    return _ENCODE_VALUE[dtype.name]


def decoder(dtype: DType, interner: Interner) -> Callable[[int], Any]:
    """Return a function from a code of a type to its value, NULL aside."""
    if dtype.is_nested:
        of = _each(dtype, decoder, interner)
        return lambda code: tuple(
            [None if c == NULL else one(c) for one, c in zip(of(), interner.object(code), strict=False)]
        )
    if is_interned(dtype):
        return interner.object
    if dtype.is_decimal:
        scale = dtype.scale
        if is_long_decimal(dtype):
            return lambda c: long_decimals.decimal_of(long_decimals.value_of(c, interner), scale)
        return lambda c: long_decimals.decimal_of(c, scale)
    return _DECODE_VALUE[dtype.name]


def _each(dtype: DType, make: Callable[[DType, Interner], _One], interner: Interner) -> Callable[[], Iterable[_One]]:
    """Return what gives, for the values of a list or a struct in order, what is made of each one's type."""
    if dtype.element is not None:
        one = make(dtype.element, interner)
        return lambda: repeat(one)
    several = [make(of, interner) for _, of in dtype.fields]
    return lambda: several


_ENCODE_VALUE: Final[dict[str, Callable[[Any], int]]] = {
    "int64": int,
    "int32": int,
    "float64": float_code,
    "bool": int,
    "date": lambda v: v.toordinal() - _EPOCH_DAY,
    **dict.fromkeys(("timestamp", "timestamptz", "time", "interval"), whole_micros),
}
_DECODE_VALUE: Final[dict[str, Callable[[int], Any]]] = {
    "int64": int,
    "int32": int,
    "float64": _float_value,
    "bool": bool,
    "date": lambda c: dt.date.fromordinal(c + _EPOCH_DAY),
    "timestamp": lambda c: EPOCH + c * _MICROSECOND,
    "timestamptz": lambda c: EPOCH_UTC + c * _MICROSECOND,
    "time": time_of,
    "interval": lambda c: c * _MICROSECOND,
}

# -- whole columns --------------------------------------------------------------------------------------------------


def _encode_interned(column: pa.Array, interner: Interner) -> Ints:
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    return _of_dictionary(encoded, interner.numbers(encoded.dictionary.to_pylist()))


def _of_dictionary(encoded: pa.DictionaryArray, numbers: Ints) -> Ints:
    """Return the codes of values by the numbers of those in their dictionary."""
    indices = encoded.indices
    if not len(numbers):
        return np.full(len(encoded), NULL, np.int64)
    codes: Ints = numbers.take(numbers_of(indices))
    return np.where(truths_of(indices.is_null()), NULL, codes) if indices.null_count else codes


def _encode_nested(column: pa.Array, dtype: DType, interner: Interner) -> Ints:
    if dtype.element is not None:
        values, lengths = list_parts(column)
        codes, ends = encode_column(values, dtype.element, interner).tolist(), lengths.cumsum()
        starts = (ends - lengths).tolist()
        objects = [tuple(codes[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)]
    else:
        fields = zip(column.flatten(), dtype.inner, strict=True)
        objects = list(zip(*(encode_column(c, of, interner).tolist() for c, of in fields), strict=True))
    found = interner.numbers(objects)
    return np.where(truths_of(column.is_null()), NULL, found) if column.null_count else found


def _decode_interned(codes: Ints, null: Bools | None, dtype: DType, interner: Interner) -> pa.Array:
    if len(codes) > _MANY:
        one, owner = numbered(codes[None])
        if len(one) * _OFTEN < len(codes):
            return decode_column(codes.take(one), dtype, interner).take(int64_array(owner))
    if not len(interner):
        return pa.nulls(len(codes), dtype.arrow)
    objects = interner.objects(codes if null is None else np.where(null, 0, codes))
    if dtype.name == "string":
        if null is not None:
            objects[null] = ""
        return text_array(objects, null)
    return pa.array(objects, dtype.arrow, mask=null, from_pandas=False)


def _decode_nested(codes: Ints, null: Bools, dtype: DType, interner: Interner) -> pa.Array:
    objects = interner.values()
    nothing = (NULL,) * len(dtype.fields)
    lists = [nothing if c == NULL else objects[c] for c in codes.tolist()]
    if dtype.element is None:
        inner = np.array(lists, np.int64).reshape(len(lists), len(dtype.fields)).T
        arrays = [
            decode_column(np.ascontiguousarray(c), of, interner) for c, of in zip(inner, dtype.inner, strict=True)
        ]
        return struct_array(arrays, dtype, null)
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    values = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
    return list_array(decode_column(values, dtype.element, interner), lengths, null)


def _integers(column: pa.Array, storage: pa.DataType) -> Ints:
    """Return the values of a column of plain integers, zeros for nulls."""
    plain = column.view(storage) if column.type != storage else column
    return numbers_of(plain).astype(np.int64, copy=False)


def _encode_floats(column: pa.Array, _: DType) -> Ints:
    return float_codes(numbers_of(column))


def float_codes(values: Any) -> Ints:
    """Return the codes of a NumPy array of floats."""
    bits: Ints = (values + 0.0).view(np.int64)
    codes = bits ^ _below_sign(bits)
    nan = np.isnan(values)
    if np.count_nonzero(nan):
        codes[nan] = NAN_CODE
    return codes


def float_values(codes: Ints) -> Any:
    """Return the floats that codes stand for, as a NumPy array; NULL gives some number."""
    bits = _below_sign(codes)
    bits ^= codes
    return bits.view(np.float64)


def _below_sign(bits: Ints) -> Ints:
    """Return all bits but the sign's where that is set, else none."""
    mask = bits >> 63
    mask &= _FLIP
    return mask


def _encode_decimals(column: pa.Array, dtype: DType, interner: Interner) -> Ints:
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    kind = column.type
    if not pa.types.is_decimal128(kind) or kind.scale != dtype.scale:
        column = column.cast(pa.decimal128(_MOST_DIGITS, dtype.scale))
    return long_decimals.encode_column(column, interner if is_long_decimal(dtype) else None)


_MICROS: Final = {t.name: t.arrow for t in (TIMESTAMP, TIMESTAMPTZ, TIME, INTERVAL)}
"""Types of which codes are microseconds."""


_ENCODE_ARROW: Final[dict[str, Callable[[pa.Array, DType], Ints]]] = {
    "int64": lambda c, _: _integers(c, pa.int64()),
    "int32": lambda c, _: _integers(c, pa.int32()),
    "float64": _encode_floats,
    "bool": lambda c, _: truths_of(c).astype(np.int64),
    "date": lambda c, _: _integers(c, pa.int32()),
    **dict.fromkeys(_MICROS, lambda c, _: _integers(c, pa.int64())),
}
_SIMPLE: Final[dict[str, tuple[pa.DataType, Callable[[Ints], Any]]]] = {
    "int64": (pa.int64(), lambda c: c),
    **{name: (kind, lambda c: c) for name, kind in _MICROS.items()},
    "float64": (pa.float64(), float_values),
    "int32": (pa.int32(), lambda c: c.astype(np.int32)),
    "date": (pa.date32(), lambda c: c.astype(np.int32)),
}
"""Types of Arrow whose arrays are what codes are turned into here."""
