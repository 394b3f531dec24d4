"""Exact sums over frames: of whole numbers by differences of prefix sums, of floats as whole numbers of some unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.types import DType
from tidemill.expressions.windows.frames import Frame
from tidemill.renderer.embedded.kernels.codec import Interner, is_long_decimal
from tidemill.renderer.embedded.kernels.exact_quotients import quotients
from tidemill.renderer.embedded.kernels.long_decimals import codes_of, values_of
from tidemill.renderer.embedded.kernels.updates import Ints, largest
from tidemill.renderer.embedded.windows.digests import MANTISSA, FloatSum, exact_floats, objects
from tidemill.renderer.embedded.windows.frames import has_its_row
from tidemill.renderer.embedded.windows.partitions import Part, Partitions

__all__ = ["FrameSums", "ShortFrameSums", "Summation", "decimal_codes", "float_totals", "whole_numbers"]

_SHORT: Final = 8
"""Up to so many rows of a frame beside its own are added one by one, where partitions are so many times longer."""
_LARGEST_POWER: Final = 1000


class Summation(Protocol):
    """Adds up numbers over each row's frame, or over some of its rows."""

    def of(self, numbers: Any) -> Any:
        """Return the sums of whole numbers, one for each place; int64, modulo 2**64, or objects, Python's numbers."""


class FrameSums:
    """Sums over all rows of each frame, which are differences of prefix sums.

    With int64 these are exact whenever the sums themselves fit, however far a prefix sum has gone round.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def of(self, numbers: Any) -> Any:
        before = np.zeros(len(numbers) + 1, numbers.dtype)
        numbers.cumsum(out=before[1:])
        (start, end), *more = self._parts
        total = before.take(end) - before.take(start)
        for start, end in more:
            total += before.take(end) - before.take(start)
        return total


class ShortFrameSums:
    """Sums over frames of a few rows: neighbours are added to each row, and done over near the ends of partitions.

    That is less than half the work of prefix sums.
    """

    def __init__(self, rows: Partitions, before: int, after: int) -> None:
        self._reach = [far for far in range(-before, after + 1) if far]
        offsets = np.concatenate([np.zeros(0, np.int64), *(np.arange(n) for n in (before, after))])
        from_end = np.arange(len(offsets)) >= before
        starts, ends = rows.starts[:, None], (rows.starts + rows.sizes)[:, None]
        places = np.where(from_end, ends - 1 - offsets, starts + offsets)
        inside = (places >= starts) & (places < ends)
        self._cut_off = places[inside]
        """Where frames may be cut off."""
        first, end = (np.broadcast_to(of, places.shape)[inside] for of in (starts, ends))
        self._there = [(self._cut_off + far >= first) & (self._cut_off + far < end) for far in self._reach]

    @staticmethod
    def of_frame(rows: Partitions, frame: Frame) -> ShortFrameSums | None:
        """Return what adds up over a frame; None where it is not short, for how short partitions are."""
        low, high = frame.start, frame.end
        if frame.mode != "rows" or not has_its_row(frame) or not isinstance(low, int) or not isinstance(high, int):
            return None
        if high - low > _SHORT or (high - low) * _SHORT * len(rows.starts) > len(rows):
            return None
        return ShortFrameSums(rows, -low, high)

    def of(self, numbers: Any) -> Any:
        total = numbers.copy()
        again = numbers.take(self._cut_off)
        for far, there in zip(self._reach, self._there, strict=True):
            if far < 0:
                total[-far:] += numbers[:far]
            else:
                total[:-far] += numbers[far:]
            again[there] += numbers.take(self._cut_off[there] + far)
        total[self._cut_off] = again
        return total


def whole_numbers(rows: Partitions, column: int, *, squared: bool = False, times: int = 1, more: int = 0) -> Any:
    """Return the values of a column that holds no floats as whole numbers of its last digit, 0 for NULL.

    They are int64 where that holds any sum of a partition's values, which may be by so much larger, or squares of such
    a sum, so many times as large; else objects.
    """
    codes, dtype = rows.codes(column), rows.types[column]
    if is_long_decimal(dtype):
        values = values_of(codes, rows.interner)
        if values.dtype == object:
            return values
    else:
        known = rows.known(column)
        values = codes if known is None else np.where(known, codes, 0)
    most = largest(values) * rows.longest + more
    fits = (most**2 if squared else most) * times <= INT64_LIMIT
    return values if fits else values.astype(object)


def float_totals(
    values: Any, summed: Summation, longest: int, beyond: tuple[list[FloatSum], Ints] | None = None
) -> Any:
    """Return the correctly rounded sums of finite floats over each frame, of at most so many values.

    With ``beyond``, sums and for how many places each is, that is added.
    Floats that are not too far apart, a few powers of ten, are two whole numbers of a unit each, whose sums are exact;
    and so is the one floating-point addition that puts these together, but for its rounding.
    """
    if beyond is not None:
        numbers, least_unit = exact_floats(values)
        sums, places = beyond
        unit = min(least_unit, *(value.unit for value in sums))
        total = summed.of(numbers << (least_unit - unit)) + objects([value.at_unit(unit) for value in sums], places)
        return quotients(total, np.full(len(values), 1 << -unit, object))
    magnitudes = np.abs(values)
    least, greatest = magnitudes.min(initial=math.inf), magnitudes.max(initial=0.0)
    if not greatest:
        return np.zeros(len(values))
    if not least:
        least = magnitudes[magnitudes > 0].min()
    unit, top, more = math.frexp(least)[1] - MANTISSA, math.frexp(greatest)[1], longest.bit_length()
    low_bits = min(MANTISSA - 1, 62 - more)
    if top - unit + more >= low_bits + MANTISSA:
        numbers, unit = exact_floats(values)
        return quotients(summed.of(numbers), np.full(len(values), 1 << -unit, object))
    whole = _scaled(values, -unit)
    high = np.floor(_scaled(whole, -low_bits))
    low = whole - _scaled(high, low_bits)
    high, low = summed.of(high.astype(np.int64)), summed.of(low.astype(np.int64))
    high += low >> low_bits
    low &= (1 << low_bits) - 1
    with np.errstate(over="ignore"):  # infinite, as IEEE has it
        return _scaled(_scaled(high.astype(np.float64), low_bits) + low, unit)


def _scaled(values: Any, power: int) -> Any:
    """Return floats times a power of two, where that is exact and in range."""
    return values * math.ldexp(1.0, power) if abs(power) < _LARGEST_POWER else np.ldexp(values, power)


def decimal_codes(totals: Any, dtype: DType, interner: Interner) -> Ints:
    """Return the codes of decimals, given as whole numbers of their type's last digit."""
    if is_long_decimal(dtype):
        return codes_of(totals, interner)
    codes: Ints = totals.astype(np.int64, copy=False)
    return codes
