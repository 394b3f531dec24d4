"""Merging the batches of a spine: a bounded amount of work at a time, several merges side by side.

Merging is where times are compacted and updates cancel. Neighbours of similar size are merged, so there are O(log n)
batches, and an update is copied O(log n) times.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.embedded.kernels.memory import concatenate, empty, zeros
from tidemill.renderer.embedded.kernels.updates import Bools, Ints, UpdateArray
from tidemill.renderer.embedded.trace.batch import Batch, UpdateLayout

_LOG: Final = logging.getLogger("tidemill.spines")
RATIO: Final = 4
"""Neighbouring batches are merged when the older is less than this many times the size of the newer."""
PIECE: Final = 1 << 15
"""How many updates are merged at once: the next ones reuse the memory of what is computed from them."""
LARGE: Final = 2
"""A key with more than this many times the updates that are to be merged is divided, if that can be."""


Gone: TypeAlias = Callable[[UpdateArray], "Bools | None"]
"""Says which updates nobody asks for any more; None for none."""


class Merger:
    """Merges batches of one layout, compacting times to the frontier that readers have reached by then."""

    __slots__ = ("_layout", "_since", "gone")

    def __init__(self, layout: UpdateLayout, since: Callable[[], Antichain]) -> None:
        self._layout = layout
        self._since = since
        self.gone: Gone | None = None
        """The rows that are left out; None where none are."""

    def work(
        self, batches: Sequence[Batch], merges: Sequence[Merge], effort: int
    ) -> tuple[tuple[Batch, ...], tuple[Merge, ...]]:
        """Return the batches and merges after each merge has got on with as many updates as ``effort`` says.

        The merges are those under way, and those of neighbours that have become similar in size.
        """
        batches, merges = list(batches), list(merges)
        merges += self._begun(batches, merges)
        working = tuple(merges)
        while working:
            for merge in working:
                merge.work(effort)
                if merge.result is not None:
                    merges.remove(merge)
                    merge.log()
                    place = next(i for i, batch in enumerate(batches) if batch is merge.older)
                    batches[place : place + 2] = [merge.result] if len(merge.result.hashes) else []
            working = self._begun(batches, merges)
            merges += working
        return tuple(batches), tuple(merges)

    def _begun(self, batches: Sequence[Batch], merges: Sequence[Merge]) -> tuple[Merge, ...]:
        """Return merges of neighbours of similar size that are in no merge yet, oldest first."""
        taken = {id(batch) for merge in merges for batch in (merge.older, merge.newer)}
        found: list[Merge] = []
        for older, newer in itertools.pairwise(batches):
            if older.size < RATIO * newer.size and id(older) not in taken and id(newer) not in taken:
                found.append(Merge(older, newer, self._layout, self._since, self.gone))
                taken |= {id(older), id(newer)}
        return tuple(found)


class Merge:
    """Two neighbouring batches being merged, a run of keys at a time, into arrays of their own."""

    __slots__ = ("_gone", "_layout", "_progress", "_room", "_since", "newer", "older", "result")

    def __init__(
        self, older: Batch, newer: Batch, layout: UpdateLayout, since: Callable[[], Antichain], gone: Gone | None = None
    ) -> None:
        self.older = older
        self.newer = newer
        self.result: Batch | None = None
        self._layout = layout
        self._since = since
        self._gone = gone
        self._progress = (0, 0, 0)
        """How much of each batch is merged, and into how many updates. One value: an interrupt cannot come within."""
        self._room: Batch | None = None
        """The batch to which updates are written where they are not all merged at once."""

    def work(self, effort: int) -> None:
        """Merge about ``effort`` updates, some at a time; with the last of them there is a result."""
        while effort > 0 and self.result is None:  # else what finished it has been rolled back: it is the same merge
            self._merge_some(min(effort, PIECE))
            effort -= PIECE

    def _merge_some(self, effort: int) -> None:
        """Merge about ``effort`` updates at once."""
        i, j, filled = self._progress
        older, newer = self.older, self.newer
        total = len(older.hashes) + len(newer.hashes)
        if effort >= total - i - j:
            end_i, end_j = len(older.hashes), len(newer.hashes)
        else:
            end_i, end_j = self._ends(i, j, max(effort, 1))
        both = concatenate((older.array[:, i:end_i], newer.array[:, j:end_j]), axis=1)
        hashes = concatenate((older.hashes[i:end_i], newer.hashes[j:end_j]))
        both, hashes = without(self._gone, both, hashes)
        if self._room is None and end_i + end_j == total:
            self.result = self._layout.compacted(both, self._since(), hashes)
            return
        if self._room is None:
            self._room = self._with_room(total, 0)
        merged = self._layout.compacted(both, self._since(), hashes, partial(self._free_space, filled))
        end = self._write(merged, filled, total)
        if end_i + end_j == total:
            self._finish(end)
        self._progress = (end_i, end_j, end)  # last: what is cut off before it is done again

    def _ends(self, i: int, j: int, effort: int) -> tuple[int, int]:
        """Return up to where to merge in both batches, from these places on.

        That is up to a key, as equal updates are not to be parted: only together can they cancel. The updates of a key
        that has very many are parted where they are in order, between values of the first column.
        """
        batches = self.older, self.newer
        big, start = max(zip(batches, (i, j), strict=True), key=lambda b: len(b[0].hashes) - b[1])
        place = min(start + effort, len(big.hashes)) - 1
        last = big.hashes[place]
        end_i, end_j = (int(batch.hashes.searchsorted(last, "right")) for batch in batches)
        order = self._layout.order
        if order is None or order.first_row is None or end_i - i + end_j - j <= LARGE * effort:
            return end_i, end_j
        row, number = order.first_row, order.number_of(big.array.item(order.first_row, place))
        lows = (max(at, int(b.hashes.searchsorted(last))) for b, at in zip(batches, (i, j), strict=True))
        end_i, end_j = (
            order.place(batch.array[row], number, low, high, right=True)
            for batch, low, high in zip(batches, lows, (end_i, end_j), strict=True)
        )
        return end_i, end_j

    def log(self) -> None:
        """Tell that it is done."""
        if self.result is not None and _LOG.isEnabledFor(logging.DEBUG):
            sizes = len(self.older.hashes), len(self.newer.hashes), len(self.result.hashes)
            _LOG.debug("batches of %s and %s updates were merged into one of %s", *sizes)

    def _write(self, merged: Batch, start: int, total: int) -> int:
        """Write merged updates from ``start`` on, unless they are there already; return where they end."""
        end = start + len(merged.hashes)
        assert self._room is not None
        if end > self._room.array.shape[1]:  # limbs that would overflow are split: more updates than there were
            self._room = self._with_room(end + total, start)
        room = self._room
        if not np.may_share_memory(merged.array, room.array):
            room.array[:, start:end] = merged.array
        if self._layout.own_hash is None:  # else they are in the array
            room.hashes[start:end] = merged.hashes
        return end

    def _with_room(self, count: int, filled: int) -> Batch:
        """Return a batch for ``count`` updates, with those there are: where nothing is written, it takes no memory.

        An interrupt finds the one before, or this one.
        """
        array, own = zeros((self._layout.rows, count)), self._layout.own_hash
        hashes = zeros(count) if own is None else array[own]
        if self._room is not None:
            array[:, :filled] = self._room.array[:, :filled]
            hashes[:filled] = self._room.hashes[:filled]
        return Batch(hashes, array)

    def _free_space(self, filled: int, count: int) -> UpdateArray:
        """Return the space for ``count`` updates after the ``filled`` ones, or a new array where there is no room."""
        assert self._room is not None
        array = self._room.array
        if filled + count > array.shape[1]:
            return empty((len(array), count))
        return array[:, filled : filled + count]

    def _finish(self, filled: int) -> None:
        assert self._room is not None
        hashes, array = self._room.hashes[:filled], self._room.array
        if filled < array.shape[1] // 2:  # most has cancelled: do not hold on to so much more room than it takes
            array, own = concatenate((array[:, :filled],), axis=1), self._layout.own_hash
            hashes = concatenate((hashes,)) if own is None else array[own]
        self.result = Batch(hashes, array)


def without(gone: Gone | None, updates: UpdateArray, hashes: Ints) -> tuple[UpdateArray, Ints]:
    """Return updates, and their hashes, without those that nobody asks for any more."""
    which = None if gone is None else gone(updates)
    if which is None:
        return updates, hashes
    kept = (~which).nonzero()[0]
    return updates.take(kept, axis=1), hashes.take(kept)


class View(NamedTuple):
    """The batches and the tail that a spine holds in memory at a moment."""

    batches: tuple[Batch, ...]
    tail: Batch
    """As many columns as there is room for, not sorted; beyond ``tail_size`` they hold nothing."""
    tail_size: int
    merges: tuple[Merge, ...] = ()
    """Merges under way, each of two neighbours among the batches, at most one on each level of sizes."""
    unsorted: tuple[UpdateArray, ...] = ()
    """Large arrays as they came."""
    lost: int = 0
    """About how many rows were lost since arrays lie unsorted: by updates in these arrays, or in the tail."""

    @property
    def size(self) -> int:
        return self.tail_size + self.sorted_size + self.unsorted_size

    @property
    def sorted_size(self) -> int:
        return sum([b.size for b in self.batches])

    @property
    def unsorted_size(self) -> int:
        return sum([updates.shape[1] for updates in self.unsorted])
