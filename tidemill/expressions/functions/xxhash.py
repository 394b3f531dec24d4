"""Spark's xxhash64 of a row, in plain Python: what each type is hashed as, and XXH64 as its author wrote it down."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any, Final

from tidemill.expressions.functions.date_values import whole_micros
from tidemill.expressions.types import DType

_MASK: Final = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_LONG_DECIMAL: Final = 18
_WORDS: Final = ("int64", "timestamp", "timestamptz", "time", "interval")


def xxhash64_of(values: Sequence[Any], types: Sequence[DType], seed: int = 42) -> int:
    """Return the hash of the values in order, each with the hash so far as its seed; NULL leaves it as it is.

    A list or a struct is hashed as its values are, one after another.

    >>> from tidemill.expressions.types import STRING
    >>> xxhash64_of(["Spark"], [STRING])
    -4294468057691064905
    """
    for value, dtype in zip(values, types, strict=True):
        if dtype.is_nested and value is not None:
            seed = xxhash64_of(value, list(itertools.islice(dtype.inner, len(value))), seed) % 2**64
        elif value is not None:
            seed = xxh64(_form(value, dtype), seed)
    return seed - 2**64 if seed >= 2**63 else seed


def xxhash64_of_words(words: Sequence[int | None], seed: int = 42) -> int:
    """Return what `xxhash64_of` does, of values that are hashed as eight bytes, given as whole numbers.

    >>> from tidemill.expressions.types import INT64
    >>> xxhash64_of_words([7, None, -7]) == xxhash64_of([7, None, -7], [INT64] * 3)
    True
    """
    for word in words:
        if word is not None:
            seed = _mixed(_turned((seed + _P5 + 8 & _MASK) ^ _round(0, word & _MASK), 27) * _P1 + _P4 & _MASK)
    return seed - 2**64 if seed >= 2**63 else seed


def is_word(dtype: DType) -> bool:
    """Return whether values of a type are hashed as the eight bytes of their codes."""
    return dtype.name in _WORDS


def _form(value: Any, dtype: DType) -> bytes:  # noqa: PLR0911 - one line a type
    """Return the bytes that are hashed: of numbers four or eight, lowest first, which are hashed as such."""
    if dtype.name in ("string", "binary", "uuid"):
        return value.encode() if isinstance(value, str) else bytes(value)
    if dtype.name in ("int32", "bool"):
        return struct.pack("<i", value)
    if dtype.name == "date":
        return struct.pack("<i", (value - dt.date(1970, 1, 1)).days)
    if dtype.name == "int64":
        return struct.pack("<q", value)
    if dtype.name in _WORDS:
        return struct.pack("<q", whole_micros(value))
    if dtype.name == "float64":
        return struct.pack("<d", math.nan if math.isnan(value) else value + 0.0)
    unscaled = int(value.scaleb(dtype.scale, decimal.Context(prec=100)))
    if dtype.precision <= _LONG_DECIMAL:
        return struct.pack("<q", unscaled)
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def xxh64(data: bytes, seed: int) -> int:
    """Return XXH64 of bytes; a word of four or eight of them alone is what Spark does with a number."""
    position, n = 0, len(data)
    if n >= 32:  # noqa: PLR2004 - a stripe
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while position + 32 <= n:
            words = struct.unpack_from("<4Q", data, position)
            lanes = [_round(lane & _MASK, word) for lane, word in zip(lanes, words, strict=True)]
            position += 32
        result = sum(_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            result = ((result ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        result = (seed + _P5) & _MASK
    result = (result + n) & _MASK
    while position + 8 <= n:
        (word,) = struct.unpack_from("<Q", data, position)
        result = (_turned(result ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= n:
        (half,) = struct.unpack_from("<I", data, position)
        result = (_turned(result ^ (half * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in data[position:]:
        result = _turned(result ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    return _mixed(result)


def _mixed(result: int) -> int:
    result = (result ^ (result >> 33)) * _P2 & _MASK
    result = (result ^ (result >> 29)) * _P3 & _MASK
    return result ^ (result >> 32)


def _turned(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * _P2) & _MASK, 31) * _P1 & _MASK
