"""Bounds of RANGE frames: where the rows begin, or end, whose value is some way from each row's."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tidemill.expressions.intervals import MONTHS, Interval
from tidemill.expressions.types import DType
from tidemill.expressions.windows.frames import DAY_MICROSECONDS, Offset, microseconds
from tidemill.renderer.embedded.expressions.dates import plus_months
from tidemill.renderer.embedded.kernels.codec import Interner, float_codes, float_values, is_long_decimal, order_ranks
from tidemill.renderer.embedded.kernels.long_decimals import large_places, values_of
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.partitions import Partitions, prefix_counts
from tidemill.renderer.embedded.windows.sorting import positions_in_own

__all__ = ["far", "is_counted", "plus", "range_bound", "units"]

_GREATEST: Final = 2**63 - 1
_FARTHEST: Final = 2 * NULL
"""From whichever number, what is so far away is beyond all."""
_CENTURIES: Final = 200_000
"""Months beyond all dates, from whichever of them."""


def range_bound(rows: Partitions, offset: Offset, *, end: bool) -> Ints:
    """Return where each row's frame begins, or ends, whose bound is an offset from its value in the order.

    A row without a value has its peers there.
    """
    (by,) = rows.windows.order
    dtype = rows.types[by.column]
    known = rows.known(by.column)
    codes, starts, asked = rows.codes(by.column), rows.starts, rows.asked
    if known is not None:
        before = prefix_counts(known)
        lacking = rows.end - rows.first - before.take(rows.end) + before.take(rows.first)
        codes, starts, asked = codes[known], before.take(starts), None
    values = order_ranks(codes, dtype, rows.interner)
    values = -values if by.descending else values
    if not is_counted(offset, dtype) or (is_long_decimal(dtype) and len(large_places(codes))):
        up = end == by.descending  # towards the inside of the frame, where no value is just there
        moved = _moved(codes, -offset if by.descending else offset, dtype, rows.interner, up=up)
        bounds = (-moved if by.descending else moved) - (not end)
    else:
        bounds = plus(values, far(offset, dtype, end=end))
    found = positions_in_own(starts, values, bounds, asked)
    if known is None:
        return found
    result = np.where(known, 0, rows.peer_end if end else rows.peer_first)
    first = rows.first[known]
    result[known] = found - before.take(first) + first + (lacking[known] if by.nulls_first else 0)
    return result


def is_counted(offset: Offset, dtype: DType) -> bool:
    """Return whether codes are so many units each, and the offset is so many of them."""
    months = isinstance(offset, Interval) and offset.dtype == MONTHS
    return not (months or dtype.name == "float64")


@lru_cache(typed=True)
def far(offset: Offset, dtype: DType, *, end: bool) -> int:
    """Return how many units a bound is from a value, so that what is at most so far away ends there."""
    exact = units(offset, dtype)
    return math.floor(exact) if end else math.ceil(exact) - 1


def units(offset: Offset, dtype: DType) -> Fraction:
    if isinstance(offset, Interval):
        return Fraction(microseconds(offset), DAY_MICROSECONDS if dtype.name == "date" else 1)
    exact: Fraction = Fraction(offset) * 10**dtype.scale
    return exact


def plus(numbers: Ints, amount: int) -> Ints:
    """Return sums; the greatest or the least int64 where they would be beyond it.

    >>> plus(np.array([-5, 5]), -(2**63) - 3).tolist() == [-(2**63), 2 - 2**63]
    True
    >>> plus(np.array([-(2**63)]), 2**65).tolist() == [2**63 - 1]
    True
    """
    amount = min(max(amount, _FARTHEST), -_FARTHEST)
    most = min(max(amount, NULL), _GREATEST)
    found = np.minimum(numbers, _GREATEST - most) + most if most > 0 else np.maximum(numbers, NULL - most) + most
    # Two numbers may be farther apart than an int64 says.
    return found if most == amount else plus(found, amount - most)


def _moved(codes: Ints, offset: Offset, dtype: DType, interner: Interner, *, up: bool) -> Ints:
    """Return codes of values that are some way from others; where none is just there, of the next one up or down.

    Of decimals with large values, the numbers that `order_ranks` gives them.
    """
    if isinstance(offset, Interval):
        months = min(max(offset.amount, -_CENTURIES), _CENTURIES)
        if dtype.name == "date":
            return plus_months(codes, months)
        days, rest = np.divmod(codes, DAY_MICROSECONDS)
        return plus_months(days, months) * DAY_MICROSECONDS + rest
    if dtype.name == "float64":
        with np.errstate(over="ignore", invalid="ignore"):
            return float_codes(float_values(codes) + offset)
    distinct, inverse = np.unique(codes, return_inverse=True)
    values = values_of(distinct, interner).tolist()
    in_order, more = sorted(values), units(offset, dtype)
    ranks = [bisect_left(in_order, v + more) if up else bisect_right(in_order, v + more) - 1 for v in values]
    return np.array(ranks, np.int64).take(inverse)
