"""Batches: immutable arrays of updates sorted by the hash of their keys, and how such updates are laid out.

With an order, updates of one hash are sorted by that: then the first ones of a group are found without a look at the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import attrs
import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.errors import CountOverflowError
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.array_file import Member
from tidemill.renderer.embedded.kernels.consolidation import consolidated_by
from tidemill.renderer.embedded.kernels.gathers import Gathers
from tidemill.renderer.embedded.kernels.limbs import Limbs, consolidated_limbs
from tidemill.renderer.embedded.kernels.memory import empty, stack, whole, zeros
from tidemill.renderer.embedded.kernels.pages import settle
from tidemill.renderer.embedded.kernels.sorting import PART, ascending, parts
from tidemill.renderer.embedded.kernels.times import advance_times, advanced_rows, alike
from tidemill.renderer.embedded.kernels.updates import Bools, Ints, Rows, UpdateArray, added_up, hashed
from tidemill.renderer.embedded.trace.row_order import RowOrder


@attrs.define(eq=False)
class Batch:
    """Updates sorted by the hash of their key columns.

    The array may have more columns than there are hashes, with nothing in them: a part of it would not be contiguous,
    and ``take`` copies the whole of what is not.
    """

    hashes: Ints
    array: UpdateArray
    stored: Member | None = attrs.field(default=None, init=False)
    """The array of a file that has the same updates; None where none is known."""

    def runs_of(self, hashes: Ints) -> tuple[Ints, Ints, Ints]:
        """Return which of some hashes, in order, are in the batch, their first places, and how often each is there."""
        low = self.hashes.searchsorted(hashes)
        hits = (self.hashes.take(low, mode="clip") == hashes).nonzero()[0]  # most batches have few of the keys
        low, hashes = low.take(hits), hashes.take(hits)
        counts = np.ones(len(low), np.int64)
        (more,) = (self.hashes.take(low + 1, mode="clip") == hashes).nonzero()  # mostly it is there once
        counts[more] = self.hashes.searchsorted(hashes.take(more), "right") - low.take(more)
        return hits, low, counts

    @property
    def size(self) -> int:
        """How many updates there are."""
        return len(self.hashes)

    @property
    def updates(self) -> UpdateArray:
        """The array, less the columns with nothing in them."""
        return self.array[:, : len(self.hashes)]

    @property
    def bytes(self) -> int:
        """How much memory it takes, less the columns with nothing in them; a key that is its own hash is there once."""
        hashes = 0 if np.may_share_memory(self.hashes, self.array) else self.hashes.nbytes
        return self.updates.nbytes + hashes


class Reordered(NamedTuple):
    """Updates in another order than the one in which they came."""

    array: UpdateArray
    order: Ints | None
    """Which of them each was; None where the order is the same."""

    def as_they_came(self) -> UpdateArray:
        """Return them as they were.

        >>> Reordered(np.array([[7, 8, 9]]), np.array([2, 0, 1])).as_they_came()
        array([[8, 9, 7]])
        """
        if self.order is None:
            return self.array
        result: UpdateArray = zeros(self.array.shape)
        for row, found in zip(self.array, result, strict=True):
            if not _fill(found, row):
                found[self.order] = row
        return result


class StoredBatch(Batch):
    """A batch that is read where it is stored when somebody first looks at its updates, and is like any other then."""

    __slots__ = ("_read", "_size")

    def __init__(self, size: int, read: Callable[[], Batch], stored: Member | None = None) -> None:
        self._size = size
        self._read = read
        self.stored = stored

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that is not there yet."""
        if name not in {"array", "hashes"}:
            raise AttributeError(name)
        batch = self._read()
        self.hashes, self.array = batch.hashes, batch.array
        self._read = lambda: batch  # nothing of where it was stored is held
        return getattr(batch, name)

    @property
    def size(self) -> int:
        return self._size

    @property
    def bytes(self) -> int:
        return super().bytes if self.is_read else 0

    @property
    def is_read(self) -> bool:
        """Whether its updates are in memory."""
        try:
            object.__getattribute__(self, "array")
        except AttributeError:
            return False
        return True


def _as_tuple(types: Iterable[DType | None]) -> tuple[DType | None, ...]:
    return tuple(types)


@attrs.frozen(slots=False)  # with slots cached properties slow every attribute
class UpdateLayout:
    """How the updates of one trace are laid out: codes of values, coordinates of the time, weights."""

    keys: tuple[int, ...]
    """Which of the codes are the key."""
    types: tuple[DType | None, ...] = attrs.field(converter=_as_tuple)
    """The types of the codes' values; None for plain numbers."""
    coordinates: int
    users: int
    """How many of the coordinates, the first ones, are of user time: those are compacted."""
    weights: int = 1
    order: RowOrder | None = None
    """The order of updates of one hash; None for none."""
    limbs: Limbs | None = None
    """How the weights are limbs of numbers that may be beyond 64 bits; None where they are not."""

    @cached_property
    def rows(self) -> int:
        """How many rows an array of updates has."""
        return len(self.types) + self.coordinates + self.weights

    @cached_property
    def key_rows(self) -> slice | list[int]:
        """The key, for arrays to be indexed by."""
        first = self.keys[0] if self.keys else 0
        adjacent = self.keys == tuple(range(first, first + len(self.keys)))
        return slice(first, first + len(self.keys)) if adjacent else list(self.keys)

    @cached_property
    def _other_rows(self) -> list[int]:
        """The rows, weights aside, that distinguish updates of one key."""
        return [row for row in range(len(self.types) + self.coordinates) if row not in self.keys]

    def sorted_batch(self, updates: Rows, *, shared: bool = False) -> Batch:
        """Return updates, given as a matrix or as its rows, as a batch; those of one hash in order, or as they came.

        With ``shared`` the batch may be the matrix itself, where that is in order: nobody writes to it any more. A list
        of rows may be emptied: each is let go of once it is in the batch.
        """
        if self.order is not None:
            return self._in_order(self.order, updates)
        return self.batch_and_order(updates, shared=shared)[0]

    def batch_and_order(self, updates: Rows, *, shared: bool = False) -> tuple[Batch, Ints | None]:
        """Like `sorted_batch`, by hash alone, and which of the updates each was; None for as they came."""
        if isinstance(updates, np.ndarray):
            hashes = hashed(updates[self.key_rows])
            if len(hashes) <= PART:
                order, hashes = ascending(hashes)
                return Batch(hashes, updates.take(order, axis=1)), order
        else:
            hashes = self._hashes(updates)
        if (hashes[1:] >= hashes[:-1]).all():  # as they often come, by a key that rises
            if isinstance(updates, list):
                array = whole(updates)
            elif shared and updates.flags.c_contiguous:
                array = updates
            else:
                array = stack([*updates])
            return Batch(hashes if self.own_hash is None else array[self.own_hash], array), None
        order, hashes = ascending(hashes)
        return self._gathered(updates if isinstance(updates, list) else list(updates), order, hashes), order

    @cached_property
    def own_hash(self) -> int | None:
        """The row of a key that is its own hash."""
        return self.keys[0] if len(self.keys) == 1 else None

    def _gathered(
        self,
        rows: list[Ints],
        order: Ints,
        hashes: Ints,
        new_hash: Bools | None = None,
        summed: UpdateArray | None = None,
    ) -> Batch:
        """Return some of many updates, given row by row, in an order; its weights may be new.

        The hashes are in that order; or as the updates are, and ``new_hash`` says where in the order another begins.
        The list of rows is emptied, the last first.
        """
        array = zeros((len(rows), len(order)))  # zeros that nobody writes take no memory
        if new_hash is not None:
            hashed_in_order = empty(len(order)) if self.own_hash is None else array[self.own_hash]
            _put_in_order(hashes, order, new_hash, hashed_in_order)
        elif self.own_hash is None:
            hashed_in_order = hashes
        else:
            hashed_in_order = array[self.own_hash]
            hashed_in_order[:] = hashes
        gathers = Gathers(order)
        for at in reversed(range(len(rows))):
            row, ordered = rows.pop(), array[at]
            settle()  # the one before is gone
            if at == self.own_hash:
                continue
            if summed is not None and at >= len(array) - self.weights:
                ordered[:] = summed[at - len(array)]
            elif not _fill(ordered, row):
                gathers.add(row, ordered)
        del row
        gathers.finish()
        return Batch(hashed_in_order, array)

    def compacted(
        self,
        updates: Rows,
        since: Antichain,
        hashes: Ints | None = None,
        room: Callable[[int], UpdateArray] | None = None,
    ) -> Batch:
        """Return updates as a batch, consolidated at times compacted to ``since``.

        ``hashes`` are those of the keys, if the updates are a few sorted batches side by side. The array is the
        caller's to give: its times are overwritten; rows, where it is given as such, are not. With ``room`` the batch
        is written to the array that ``room`` returns for a number of updates, unless limbs had to be split.
        """
        times = slice(len(self.types), len(self.types) + self.users)
        if isinstance(updates, list):
            updates = [*updates[: times.start], *advanced_rows(updates[times], since), *updates[times.stop :]]
        else:
            advance_times(updates[times], since)
        if self.order is not None:
            batch = self._in_order(self.order, updates)
            if room is not None:
                array = room(len(batch.hashes))
                array[:] = batch.array
                batch = Batch(batch.hashes, array)
            return batch
        runs = hashes is not None
        if hashes is None:
            hashes = hashed(updates[self.key_rows]) if isinstance(updates, np.ndarray) else self._hashes(updates)
        try:
            hashes, array = consolidated_by(hashes, updates, self._other_rows, self.weights, runs=runs, room=room)
        except CountOverflowError:
            if self.limbs is None:
                raise
            hashes, array = self._consolidated_limbs(self.limbs, hashes, updates)
        return Batch(hashes if self.own_hash is None else array[self.own_hash], array)

    def _consolidated_limbs(self, limbs: Limbs, hashes: Ints, updates: Rows) -> tuple[Ints, UpdateArray]:
        """Return updates consolidated and sorted by these hashes, after the hashes, where a weight would overflow."""
        spread, which, weights = limbs.spread(stack(updates) if isinstance(updates, list) else updates)
        hashes = hashes if which is None else hashes.take(which)
        hashes, array = consolidated_by(hashes, spread, self._other_rows, weights)
        array, which = limbs.gathered(array)
        if which is None:
            return hashes, array
        order = which.argsort(kind="stable")
        return hashes.take(which.take(order)), array.take(order, axis=1)

    def consolidated(self, updates: UpdateArray) -> UpdateArray:
        """Return updates with the weights of equal rows at equal times added up, less those that cancel."""
        return consolidated_limbs(updates, self.weights, self.limbs)

    def _in_order(self, order: RowOrder, updates: Rows) -> Batch:
        """Return updates as a batch in an order, consolidated: equal ones are side by side."""
        rows = list(updates)
        hashes = self._hashes(rows)
        if not len(hashes):
            return Batch(hashes, np.empty((len(rows), 0), np.int64))
        top = len(rows) - self.weights
        places, new, new_hash = order.stored(
            rows, hashes, [row for at, row in enumerate(rows[:top]) if at != order.first_row]
        )
        if new.all() and any(row.all() for row in rows[top:]):  # nothing to add up, nothing that goes
            return self._gathered(rows, places, hashes, new_hash)
        weights = np.stack([row.take(places) for row in rows[top:]])
        if not new.all():
            starts = new.nonzero()[0]
            weights, places = added_up(weights, starts), places.take(starts)
        kept = weights.any(axis=0)
        if not kept.all():
            weights, places = weights.compress(kept, axis=1), places.compress(kept)
        if not len(places):
            return Batch(places, np.empty((len(rows), 0), np.int64))
        return self._gathered(rows, places, hashes.take(places), summed=weights)

    def _hashes(self, rows: list[Ints]) -> Ints:
        """Return the hashes of the keys of updates given row by row."""
        return hashed([rows[row] for row in self.keys]) if self.keys else np.zeros(len(rows[0]), np.int64)


def _fill(zeros_alone: Ints, numbers: Ints) -> bool:
    """Write numbers that are all the same over zeros, as times and counts are, mostly; return whether they are."""
    if not alike([numbers]):
        return False
    if numbers[0]:
        zeros_alone.fill(numbers[0])
    return True


def _put_in_order(numbers: Ints, order: Ints, new: Bools, result: Ints) -> None:
    """Write numbers in an order, in which another one begins where it is new: each of them is looked up but once."""
    one = numbers.take(order.compress(new))
    before = -1
    for part in parts(len(order)):
        at = new[part].cumsum()
        at += before
        one.take(at, out=result[part], mode="clip")
        before = at.item(-1)
