"""Sums kept as several weights, limbs of 32 bits each, or as several updates, one for each place: beyond 64 bits.

A limb has 64 bits, so that many are added up as plain weights before one overflows. Where that could be, and only
there, limbs are cut into parts of 32 bits, which are added up instead and put together again, as limbs that are small.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.errors import CountOverflowError
from tidemill.renderer.embedded.kernels.updates import Ints, UpdateArray, consolidated, largest
from tidemill.renderer.runs import failures

BITS: Final = 32
MASK: Final = (1 << BITS) - 1
NOT_FINITE: Final = 1000
"""From this place on there are no limbs, but counts of what is no number."""
_OVERFLOW: Final = 1 << 63
_HALF: Final = 1 << 31
_UNIT_BITS: Final = 30
_UNIT: Final = 1 << BITS + _UNIT_BITS
"""The unit of further updates that keep what is too much for a highest limb."""
_MOST_UPDATES: Final = 1 << 16
_FEW_LOOKED_AT: Final = 48
"""Weights of which Python finds the largest sooner."""


def are_safe(weights: UpdateArray) -> bool:
    """Return whether no sum of some columns can be beyond 64 bits.

    >>> are_safe(np.array([[2**61, 0, -1]])), are_safe(np.array([[2**62, 0, -1]]))
    (True, False)
    """
    count: int = weights.shape[1]
    if weights.size <= _FEW_LOOKED_AT:
        most: int = max(map(abs, chain.from_iterable(weights.tolist())), default=0)
        return most * count < _OVERFLOW
    return largest(weights) * count < _OVERFLOW


class LimbWeights(NamedTuple):
    """Weights that are limbs of numbers, side by side, the lowest first; a number of a single one is to fit 64 bits."""

    sizes: tuple[int, ...]
    """How many weights each number has, the first one's first; in all, as many as there are."""

    def parted(self, weights: UpdateArray) -> UpdateArray:
        """Return the numbers in parts of about 32 bits, one more than each has limbs: they add up as the limbs do.

        >>> LimbWeights((2,)).parted(np.array([[2**62], [-1]])).tolist()
        [[0], [5368709119], [-1]]
        """
        low, high = weights & MASK, weights >> BITS
        parts = np.zeros((len(weights) + len(self.sizes), weights.shape[1]), np.int64)
        first = 0
        for number, size in enumerate(self.sizes):
            at, end = first + number, first + size
            parts[at : at + size] += low[first:end]
            parts[at + 1 : at + size + 1] += high[first:end]
            first = end
        return parts

    def parts_of(self, numbers: list[Any]) -> UpdateArray:
        """Return numbers, given as Python's in an array for each, in the same parts."""
        parts: list[Any] = []
        for values, size in zip(numbers, self.sizes, strict=True):
            parts += [*(values >> BITS * i & MASK for i in range(size)), values >> BITS * size]
        return np.stack(parts).astype(np.int64)

    def joined(self, parts: UpdateArray) -> tuple[UpdateArray, UpdateArray | None]:
        """Return sums of parts as weights, and for each number what its limbs, of 32 bits then, lack.

        The second is None where they lack nothing. ``CountOverflowError`` where a number of one limb does not fit.

        >>> numbers = LimbWeights((2,))
        >>> numbers.joined(np.array([[2**32 + 5], [2**32], [-1]]))
        (array([[5],
               [1]]), None)
        >>> numbers.joined(np.array([[5], [6], [2**31]]))
        (array([[5],
               [6]]), array([[2147483648]]))
        """
        weights = np.empty((len(parts) - len(self.sizes), parts.shape[1]), np.int64)
        lacking = np.zeros((len(self.sizes), parts.shape[1]), np.int64)
        first = 0
        for number, size in enumerate(self.sizes):
            digits = parts[first + number : first + number + size + 1].copy()
            for i in range(size):
                digits[i + 1] += digits[i] >> BITS
                digits[i] &= MASK
            weights[first : first + size] = digits[:size]
            first += size
            if _fit(digits[size]).all():
                weights[first - 1] |= digits[size] << BITS
            elif size == 1:
                raise failures.count_overflow()
            else:
                lacking[number] = digits[size]
        return weights, lacking if lacking.any() else None

    def spread(self, updates: UpdateArray) -> tuple[UpdateArray, Ints | None, int]:
        top = len(updates) - sum(self.sizes)
        return np.concatenate((updates[:top], self.parted(updates[top:]))), None, len(updates) - top + len(self.sizes)

    def gathered(self, updates: UpdateArray) -> tuple[UpdateArray, Ints | None]:
        top = len(updates) - sum(self.sizes) - len(self.sizes)
        weights, lacking = self.joined(updates[top:])
        if lacking is None:
            return np.concatenate((updates[:top], weights)), None
        every, whose = [weights], [np.arange(weights.shape[1])]
        ends = np.cumsum(self.sizes)
        for lacks, end in zip(lacking, ends.tolist(), strict=True):
            units = np.where(_fit(lacks), 0, lacks >> _UNIT_BITS)
            weights[end - 1] += lacks - (units << _UNIT_BITS) << BITS
            counts = np.abs(units)
            if counts.sum() > _MOST_UPDATES:
                raise failures.count_overflow()
            again = whose[0].repeat(counts)
            more = np.zeros((len(weights), len(again)), np.int64)
            more[end - 1] = np.sign(units).take(again) * _UNIT
            every.append(more)
            whose.append(again)
        which = np.concatenate(whose)
        return np.concatenate((updates[:top].take(which, axis=1), np.concatenate(every, axis=1))), which


class LimbRows(NamedTuple):
    """Updates with one weight, which are limbs of numbers: a row of theirs has the place that each limb stands at."""

    place: int
    """Which row that is."""

    def spread(self, updates: UpdateArray) -> tuple[UpdateArray, Ints | None, int]:
        place, amount, which = split(updates[self.place], updates[-1])
        spread = updates.take(which, axis=1)
        spread[self.place], spread[-1] = place, amount
        return spread, which, 1

    @staticmethod
    def gathered(updates: UpdateArray) -> tuple[UpdateArray, Ints | None]:
        return updates, None


Limbs: TypeAlias = LimbWeights | LimbRows
"""How updates are limbs of numbers. ``spread`` makes of them what adds up without an overflow.

That are updates, which of the given ones each is (None for as they came), and how many weights they have. ``gathered``
makes of their sums updates as they were; of a number that the limbs do not hold, several equal ones.
"""


def _fit(highest: Ints) -> Any:
    """Return whether parts of numbers have room in the upper half of the limb below."""
    return (highest >= -_HALF) & (highest < _HALF)


def split(place: Ints, amount: Ints) -> tuple[Ints, Ints, Ints]:
    """Return limbs of any size at places as limbs of 32 bits: place, how much, and which of those given each is.

    >>> split(np.array([3, 4]), np.array([-(2**32) - 5, 7]))
    (array([3, 4, 4]), array([-5,  7, -1]), array([0, 1, 0]))
    """
    large = (place < NOT_FINITE) & (amount >> BITS != amount >> BITS + BITS - 1)
    high = np.where(large, np.abs(amount) >> BITS, 0) * np.sign(amount)
    (more,) = high.nonzero()
    which = np.concatenate((np.arange(len(place)), more))
    low = amount - (high << BITS)
    return np.concatenate((place, place.take(more) + 1)), np.concatenate((low, high.take(more))), which


def consolidated_limbs(updates: UpdateArray, weights: int, limbs: Limbs | None) -> UpdateArray:
    """Return updates consolidated, whose weights may be limbs of numbers."""
    try:
        return consolidated(updates, weights)
    except CountOverflowError:
        if limbs is None:
            raise
    spread, _, weights = limbs.spread(updates)
    return limbs.gathered(consolidated(spread, weights))[0]
