"""Codes of decimals of more than 18 digits: their unscaled values, as whole numbers of their type's last digit.

Such a type mostly allows for what a product or a sum may be, and the values are short. From -2**62 up to 2**62 they are
their own codes. Larger ones are interned, as Python's numbers: number n is coded as 2**62 + n, and as the complement of
that where the value is negative. So codes are in the order of the values but among the large ones of a sign, and no
code is NULL's.
"""

from __future__ import annotations

import decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import truths_of
from tidemill.renderer.embedded.kernels.interner import SHORT, Interner, is_large, number_of
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints

_BITS: Final = 62
_WORD: Final = 64
_ALL_DIGITS: Final = decimal.Context(prec=80)


def code_of(value: int, interner: Interner) -> int:
    """Return the code of an unscaled value.

    >>> from tidemill.renderer.embedded.kernels.interner import Interner
    >>> interner = Interner()
    >>> [code_of(value, interner) for value in (-5, 2**62 - 1, 2**62, -(2**70))] == [-5, 2**62 - 1, 2**62, ~(2**62 + 1)]
    True
    """
    if -SHORT <= value < SHORT:
        return value
    code = SHORT + interner.number(value)
    return code if value >= 0 else ~code


def value_of(code: int, interner: Interner) -> int:
    """Return the unscaled value of a code, which is not NULL's."""
    if -SHORT <= code < SHORT:
        return code
    value: int = interner.object(number_of(code))
    return value


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """Return a decimal as a whole number of the last of ``scale`` places."""
    return int(value.scaleb(scale, _ALL_DIGITS))


def decimal_of(value: int, scale: int) -> decimal.Decimal:
    """Return the decimal of an unscaled value."""
    return decimal.Decimal(value).scaleb(-scale, _ALL_DIGITS)


# -- whole columns --------------------------------------------------------------------------------------------------


def all_are_short(codes: Ints) -> bool:
    """Return whether all codes are their values: none is of a large value, or NULL's."""
    return not len(codes) or (codes.min() >= -SHORT and codes.max() < SHORT)


def large_places(codes: Ints) -> Ints:
    """Return where codes are of large values."""
    if all_are_short(codes):
        return np.empty(0, np.int64)
    found: Ints = (((codes >= SHORT) | (codes < -SHORT)) & (codes != NULL)).nonzero()[0]
    return found


def large_numbers(codes: Ints) -> Ints:
    """Return the interner's numbers of those values that are large."""
    large = codes.take(large_places(codes))
    return (large ^ (large >> (_WORD - 1))) - SHORT


def codes_of(values: Any, interner: Interner) -> Ints:
    """Return the codes of unscaled values, given as int64 or as objects."""
    if values.dtype != object and all_are_short(values):
        found: Ints = values.astype(np.int64, copy=False)
        return found
    return np.array([code_of(value, interner) for value in values.tolist()], np.int64)


def values_of(codes: Ints, interner: Interner) -> Any:
    """Return unscaled values, 0 for NULL: int64 where none is large, else objects."""
    if all_are_short(codes):
        return codes
    values, large = np.where(codes == NULL, 0, codes), large_places(codes)
    if len(large):
        values = values.astype(object)
        values[large] = interner.objects(large_numbers(codes))
    return values


def encode_column(column: pa.Array, interner: Interner | None) -> Ints:
    """Return a column of 128-bit decimals as codes, of NULL any; without an interner all are short."""
    words: Ints = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)]
    low, high = words[:, 0], words[:, 1]
    codes: Ints = low.copy()
    if interner is None:
        return codes
    above = codes >> _BITS
    if len(codes) and (high.min() < -1 or high.max() > 0 or not np.array_equal(above, high)):
        large = (above != high) | (high < -1) | (high > 0)
        if column.null_count:
            large &= truths_of(column.is_valid())
        places = large.nonzero()[0]
        lows = low.take(places).view(np.uint64).tolist()
        values = [(h << _WORD) + rest for h, rest in zip(high.take(places).tolist(), lows, strict=True)]
        numbers = interner.numbers(values) + SHORT
        codes[places] = numbers ^ (high.take(places) >> (_WORD - 1))
    return codes


def decimal_array(codes: Ints, null: Bools | None, kind: pa.DataType, interner: Interner | None) -> pa.Array:
    """Return codes as decimals; with an interner there may be large ones among them."""
    if null is not None:
        codes = np.where(null, 0, codes)
    words = np.empty((len(codes), 2), np.int64)
    words[:, 0] = codes
    words[:, 1] = codes >> (_WORD - 1)
    if interner is not None:
        large = large_places(codes)
        if len(large):
            values = interner.objects(large_numbers(codes)).tolist()
            words[large, 0] = np.array([value % 2**_WORD for value in values], np.uint64).view(np.int64)
            words[large, 1] = [value >> _WORD for value in values]
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(kind, len(codes), [valid, pa.py_buffer(words)])


# -- order ----------------------------------------------------------------------------------------------------------


def ranks_of_long(codes: Ints, interner: Interner) -> Ints:
    """Return numbers in the order of the values, NULL least; the codes themselves where they are."""
    if not len(large_places(codes)):
        return codes
    distinct, inverse = np.unique(codes, return_inverse=True)
    order = np.arange(len(distinct))
    for of_one_sign in (distinct < -SHORT, distinct >= SHORT):
        places = (of_one_sign & (distinct != NULL)).nonzero()[0]
        values = values_of(distinct.take(places), interner).tolist()
        order[places] = places.take(sorted(range(len(places)), key=values.__getitem__))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks.take(inverse)


def leading_codes(codes: Ints, interner: Interner) -> Ints:
    """Return numbers that never fall where values rise: short values, and `leading_number` of large ones."""
    large = large_places(codes)
    if not len(large):
        return codes
    found = codes.copy()
    found[large] = interner.leading(large_numbers(codes))
    return found


def leading_of(code: int, interner: Interner) -> int:
    """Return the number of one code, as `leading_codes` has it."""
    return interner.leading_of(number_of(code)) if is_large(code) else code
