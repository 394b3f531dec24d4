"""Where hashes are in the sorted ones of a large batch, by a table of their highest bits.

A binary search of millions of numbers waits for memory again and again; a table is looked at once, and says where a
number is, or between which few others it would be.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.renderer.embedded.kernels.sorting import bisected, parts
from tidemill.renderer.embedded.kernels.updates import Ints

_LARGE: Final = 1 << 16
"""Fewer hashes stay in the caches, where a binary search is fast."""
_LOOK_UPS: Final = 1 << 13
"""A table takes as long as looking up one in so many hashes some fifty times, and that is asked far more often."""
_FEW_PLACES: Final = 64
"""A table of no more places than so many for each hash that is looked up is made by looking these up."""
_UNEVEN: Final = 64
"""With more hashes than that at a place of the table, a binary search of all of them is as good."""
_INT32: Final = 2**31
_WORD: Final = 2**64


class HashPlaces(NamedTuple):
    """For each number, by how much hashes are above the least without some low bits, how many hashes are below it."""

    hashes: Ints
    least: np.uint64
    low_bits: np.uint64
    table: npt.NDArray[np.int32]
    """It ends with how many hashes there are."""

    def runs_of(self, sought: Ints) -> tuple[Ints, Ints, Ints]:
        """Return which of some hashes are here, each one's first place, and how often it is here.

        >>> places_of(np.array([3, 7, 7, 8])).runs_of(np.array([1, 7, 8, 9]))
        (array([1, 2]), array([1, 3]), array([2, 1]))
        """
        at = np.minimum(_above(sought, self.least, self.low_bits), len(self.table) - 2)  # also of what is below all
        low, high = self.table.take(at).astype(np.int64), self.table.take(at + 1).astype(np.int64)
        if self.low_bits:
            low = bisected(low, high, lambda place: self.hashes.take(place, mode="clip") < sought)
        hits = (self.hashes.take(low, mode="clip") == sought).nonzero()[0]
        low, high = low.take(hits), high.take(hits)
        if self.low_bits:
            here = sought.take(hits)
            high = bisected(low, high, lambda place: self.hashes.take(place, mode="clip") <= here)
        return hits, low, high - low


def searched(in_batch: Ints, hashes: Ints) -> tuple[Ints, Ints, Ints]:
    """Return what `HashPlaces.runs_of` does, by binary searches for hashes in order."""
    low = in_batch.searchsorted(hashes)
    hits = (in_batch.take(low, mode="clip") == hashes).nonzero()[0]  # most batches have few of the keys
    low, hashes = low.take(hits), hashes.take(hits)
    counts = np.ones(len(low), np.int64)
    (more,) = (in_batch.take(low + 1, mode="clip") == hashes).nonzero()  # mostly it is there once
    counts[more] = in_batch.searchsorted(hashes.take(more), "right") - low.take(more)
    return hits, low, counts


def is_worth_a_table(hashes: Ints, sought: int) -> bool:
    """Return whether looking up so many in sorted hashes is worth a table."""
    if not _LARGE <= len(hashes) < _INT32:
        return False
    return len(hashes) < sought * _LOOK_UPS or hashes.item(-1) - hashes.item(0) < sought * _FEW_PLACES


def places_of(hashes: Ints) -> HashPlaces | None:
    """Return where sorted hashes are, with no more places in a table than hashes; None where they are too uneven."""
    n, first, last = len(hashes), hashes.item(0), hashes.item(-1)
    low_bits = np.uint64(((last - first) // n).bit_length())
    least = np.uint64(first % _WORD)
    places = (last - first >> int(low_bits)) + 2
    if places * _FEW_PLACES < n:
        table = np.full(places, n, np.int32)
        table[:-1] = hashes.searchsorted(first + np.arange(places - 1))
        return HashPlaces(hashes, least, low_bits, table)
    table = np.zeros(places, np.int32)
    for part in parts(n):
        np.add.at(table, _above(hashes[part], least, low_bits) + 1, np.int32(1))
    if low_bits and table.max() > _UNEVEN:
        return None
    table.cumsum(out=table)
    return HashPlaces(hashes, least, low_bits, table)


def _above(hashes: Ints, least: np.uint64, low_bits: np.uint64) -> Ints:
    """Return by how much hashes are above the least one, without some low bits; of those below it, some number."""
    above = hashes.view(np.uint64) - least
    above >>= low_bits
    above &= np.uint64(_WORD // 2 - 1)
    return above.view(np.int64)
