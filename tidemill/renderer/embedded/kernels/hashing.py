"""Spark's xxhash64 of rows, over Arrow columns: vectorised, and the same number as Spark's for every type.

It hashes the first column with seed 42, each further one with the hash so far as its seed, and leaves NULLs out. This
is the tie-break of windows and top-k.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import int64_array, numbers_of, truths_of
from tidemill.boundary.list_columns import list_parts

SEED: Final = 42
_U64 = np.uint64
_P1, _P2, _P3 = _U64(0x9E3779B185EBCA87), _U64(0xC2B2AE3D27D4EB4F), _U64(0x165667B19E3779F9)
_P4, _P5 = _U64(0x85EBCA77C2B2AE63), _U64(0x27D4EB2F165667C5)
_AND_4, _AND_8 = _U64(int(_P5) + 4), _U64(int(_P5) + 8)
_LONG_DECIMAL: Final = 18
_STRIPE: Final = 32
_LONG: Final = 64  # stripes
_FEW: Final = 16

_PART: Final = 1 << 15
"""Rows that are hashed at once: what is computed from them stays in the processor's caches."""

_Hashes = np.ndarray[Any, np.dtype[np.uint64]]


def xxhash64_columns(columns: Sequence[pa.Array], seed: int = SEED) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return one int64 a row: the hash of the columns in order, which are of one length and of our types.

    >>> xxhash64_columns([pa.array(["Spark", None]), pa.array([None, 1], pa.int32())]).tolist()
    [-4294468057691064905, -6698625589789238999]
    """
    hashes = np.full(len(columns[0]), seed, np.uint64)
    with np.errstate(over="ignore"):
        for start in range(0, len(hashes), _PART):
            some = hashes[start : start + _PART]
            for column in columns:
                some = _seen(column if len(some) == len(column) else column.slice(start, _PART), some)
            hashes[start : start + _PART] = some
    return hashes.view(np.int64)


def _seen(column: pa.Array, seeds: _Hashes) -> _Hashes:
    """Return the hashes with one more column, NULL leaving them as they were."""
    found = _column(column, seeds)
    return np.where(truths_of(column.is_null()), seeds, found) if column.null_count else found


def _column(column: pa.Array, seeds: _Hashes) -> _Hashes:  # noqa: PLR0911 - one line a type
    kind, t = column.type, pa.types
    if t.is_boolean(kind):
        return hash_int(numbers_of(column.cast(pa.int8())).astype(np.uint64), seeds)
    if t.is_int32(kind) or t.is_date32(kind):
        return hash_int(numbers_of(column.view(pa.int32())).view(np.uint32).astype(np.uint64), seeds)
    if t.is_int64(kind) or t.is_timestamp(kind) or t.is_time64(kind) or t.is_duration(kind):
        return hash_long(numbers_of(column.view(pa.int64())).view(np.uint64), seeds)
    if t.is_float64(kind):
        return hash_long(float_bits(numbers_of(column)), seeds)
    if t.is_decimal128(kind):
        return _hash_decimal(column, seeds)
    if t.is_large_string(kind) or t.is_large_binary(kind):
        return _hash_texts(column.cast(pa.binary()), seeds)
    if t.is_string(kind) or t.is_binary(kind):
        return _hash_texts(column, seeds)
    if t.is_list(kind):
        return _hash_lists(column, seeds)
    if t.is_struct(kind):
        return functools.reduce(lambda hashes, field: _seen(field, hashes), column.flatten(), seeds)
    msg = f"no hash for columns of {kind}"
    raise TypeError(msg)


def float_bits(values: np.ndarray[Any, Any]) -> _Hashes:
    """Return the bits, with one NaN and one zero."""
    bits = (values + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    return np.where(np.isnan(values), _U64(0x7FF8000000000000), bits)


# The rounds of XXH64.


def _turned(values: _Hashes, bits: int) -> _Hashes:
    return (values << _U64(bits)) | (values >> _U64(64 - bits))


def _mixed(hashes: _Hashes) -> _Hashes:
    hashes = (hashes ^ (hashes >> _U64(33))) * _P2
    hashes = (hashes ^ (hashes >> _U64(29))) * _P3
    return hashes ^ (hashes >> _U64(32))


def _with_word(hashes: _Hashes, words: _Hashes) -> _Hashes:
    return _turned(hashes ^ (_turned(words * _P2, 31) * _P1), 27) * _P1 + _P4


def _with_half(hashes: _Hashes, halves: _Hashes) -> _Hashes:
    return _turned(hashes ^ (halves * _P1), 23) * _P2 + _P3


def hash_int(values: _Hashes, seeds: _Hashes) -> _Hashes:
    """Return the hashes with numbers of 32 bits."""
    return _mixed(_with_half(seeds + _AND_4, values))


def hash_long(values: _Hashes, seeds: _Hashes) -> _Hashes:
    """Return the hashes with numbers of 64 bits."""
    return _mixed(_with_word(seeds + _AND_8, values))


# Decimals.


def _hash_decimal(column: pa.Array, seeds: _Hashes) -> _Hashes:
    """Up to 18 digits as a long; else as the bytes of the unscaled value, the fewest that hold it, highest first."""
    halves = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)[column.offset : column.offset + len(column)]
    if column.type.precision <= _LONG_DECIMAL:
        return hash_long(np.ascontiguousarray(halves[:, 0]), seeds)
    # Big-endian bytes of each value, and how many of them are but sign.
    values = np.ascontiguousarray(halves[:, ::-1]).byteswap().view(np.uint8).reshape(-1, 16)
    sign = np.where(values[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)  # noqa: PLR2004 - the sign's bit
    same = values == sign
    same[:, -1] = False
    first = np.argmin(same, axis=1)
    rows = np.arange(len(values))
    first = first - ((first > 0) & ((values[rows, first] ^ sign[:, 0]) >= 0x80))  # noqa: PLR2004 - the sign's bit
    starts = rows * 16 + first
    return _hash_bytes(values.reshape(-1), starts, 16 - first, seeds)


# Lists.


def _hash_lists(column: pa.Array, seeds: _Hashes) -> _Hashes:
    """Each value with the hash so far as its seed: all first values, all second ones, and so on."""
    values, lengths = list_parts(column)
    starts, hashes = lengths.cumsum() - lengths, seeds.copy()
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > place)
        hashes[rows] = _seen(values.take(int64_array(starts[rows] + place)), hashes[rows])
    return hashes


# Bytes.


def _hash_texts(column: pa.Array, seeds: _Hashes) -> _Hashes:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    values = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.zeros(0, np.uint8)
    lengths = np.diff(ends)
    if column.null_count:
        lengths[truths_of(column.is_null())] = 0
    return _hash_bytes(values, ends[:-1] - ends[0], lengths, seeds)


def _hash_bytes(
    data: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any], seeds: _Hashes
) -> _Hashes:
    """Hash pieces of a buffer, all in step: the longest first, so that those not yet done are always a prefix."""
    order: np.ndarray[Any, Any] | None = None
    at, left, seed = starts.copy(), lengths, seeds
    if len(lengths) and lengths.min() < lengths.max():
        order = np.argsort(-lengths, kind="stable")
        at, left, seed = starts[order], lengths[order], seeds[order]
    given = left
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))  # the eight bytes from every position on
    hashes = seed + _P5
    long = int(np.searchsorted(-left, -_STRIPE, "right"))
    if long:
        hashes[:long] = _stripes(words, at, left, long, seed)
    hashes += given.astype(np.uint64)
    left = left % _STRIPE
    for size in (8, 8, 8, 4, 1, 1, 1):
        enough = left >= size
        rows = slice(None) if enough.all() else np.flatnonzero(enough)
        if isinstance(rows, np.ndarray) and not len(rows):
            continue
        word = words[at[rows]]
        if size == 8:  # noqa: PLR2004 - a word
            hashes[rows] = _with_word(hashes[rows], word)
        elif size == 4:  # noqa: PLR2004 - half a word
            hashes[rows] = _with_half(hashes[rows], word & _U64(0xFFFFFFFF))
        else:
            hashes[rows] = _turned(hashes[rows] ^ ((word & _U64(0xFF)) * _P5), 11) * _P1
        at[rows] += size
        left[rows] -= size
    if order is None:
        return _mixed(hashes)
    result = np.empty_like(hashes)
    result[order] = _mixed(hashes)
    return result


def _stripes(
    words: np.ndarray[Any, Any], at: np.ndarray[Any, Any], left: np.ndarray[Any, Any], long: int, seed: _Hashes
) -> _Hashes:
    """Return the state of the first ``long`` pieces after their whole stripes of 32 bytes; ``at`` moves past these."""
    rounds = left[:long] // _STRIPE
    lanes = [seed[:long] + _P1 + _P2, seed[:long] + _P2, seed[:long] + _U64(0), seed[:long] - _P1]
    alone = min(int(np.searchsorted(-rounds, -_LONG, "right")), _FEW)  # NumPy on few numbers is slower than Python
    for row in range(alone):
        _one_by_one(words, lanes, int(at[row]), row, int(rounds[row]))
    at[:alone] += rounds[:alone] * _STRIPE
    for i in range(int(rounds[alone]) if alone < long else 0):
        n = int(np.searchsorted(-rounds, -i, "left"))  # those with more than i stripes
        for k, lane in enumerate(lanes):
            lane[alone:n] = _turned(lane[alone:n] + words[at[alone:n] + 8 * k] * _P2, 31) * _P1
        at[alone:n] += _STRIPE
    hashes = _turned(lanes[0], 1) + _turned(lanes[1], 7) + _turned(lanes[2], 12) + _turned(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ (_turned(lane * _P2, 31) * _P1)) * _P1 + _P4
    return hashes


def _one_by_one(words: np.ndarray[Any, Any], lanes: list[_Hashes], start: int, row: int, rounds: int) -> None:
    """Take a long piece's stripes in Python's integers."""
    mask, p1, p2 = 2**64 - 1, int(_P1), int(_P2)
    for k, lane in enumerate(lanes):
        value = int(lane[row])
        for word in words[start + 8 * k : start + _STRIPE * rounds : _STRIPE].tolist():
            value = (value + word * p2) & mask
            value = ((value << 31) | (value >> 33)) * p1 & mask
        lane[row] = value
