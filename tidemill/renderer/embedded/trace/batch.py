"""Batches: immutable arrays of updates sorted by the hash of their keys, and how such updates are laid out.

With an order, updates of one hash are sorted by that: then the first ones of a group are found without a look at the
others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import attrs
import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.sorting import PART, ascending
from tidemill.renderer.embedded.kernels.times import advance_times
from tidemill.renderer.embedded.kernels.updates import Ints, Rows, UpdateArray, added_up, consolidated_by, hashed
from tidemill.renderer.embedded.trace.row_order import RowOrder

__all__ = ["Batch", "UpdateLayout"]


class Batch(NamedTuple):
    """Updates sorted by the hash of their key columns.

    The array may have more columns than there are hashes, with nothing in them: a part of it would not be contiguous,
    and ``take`` copies the whole of what is not.
    """

    hashes: Ints
    array: UpdateArray

    @property
    def updates(self) -> UpdateArray:
        """The array, less the columns with nothing in them."""
        return self.array[:, : len(self.hashes)]


def _as_tuple(types: Iterable[DType | None]) -> tuple[DType | None, ...]:
    return tuple(types)


@attrs.frozen
class UpdateLayout:
    """How the updates of one trace are laid out: codes of values, coordinates of the time, weights."""

    keys: tuple[int, ...]
    """Which of the codes are the key."""
    types: tuple[DType | None, ...] = attrs.field(converter=_as_tuple)
    """What the codes stand for; None for plain numbers."""
    coordinates: int
    users: int
    """How many of the coordinates, the first ones, are of user time: those are compacted."""
    weights: int = 1
    order: RowOrder | None = None
    """What updates of one hash are sorted by; None for none."""

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
        """The rows, weights aside, that tell updates of one key apart."""
        return [row for row in range(len(self.types) + self.coordinates) if row not in self.keys]

    def sorted_batch(self, updates: Rows) -> Batch:
        """Return updates, given as a matrix or as its rows, as a batch; those of one hash in order, or as they came."""
        if self.order is not None:
            return self._in_order(self.order, updates)
        if isinstance(updates, np.ndarray):
            hashes = hashed(updates[self.key_rows])
            if len(hashes) <= PART:
                order, hashes = ascending(hashes)
                return Batch(hashes, updates.take(order, axis=1))
        else:
            hashes = self._hashes(updates)
        if (hashes[1:] >= hashes[:-1]).all():  # as they often come, by a key that rises
            return Batch(hashes.copy(), np.stack([*updates]))
        order, hashes = ascending(hashes)
        array = np.empty((len(updates), len(order)), np.int64)
        for row, ordered in zip(updates, array, strict=True):
            row.take(order, out=ordered, mode="clip")  # with "raise" it would go through a buffer
        return Batch(hashes, array)

    def compacted(self, updates: Rows, since: Antichain, hashes: Ints | None = None) -> Batch:
        """Return updates as a batch, consolidated at times compacted to ``since``.

        ``hashes`` are those of the keys, if the updates are a few sorted batches side by side. The array is the
        caller's to give: its times are overwritten; rows, where it is given as such, are not.
        """
        times = slice(len(self.types), len(self.types) + self.users)
        if isinstance(updates, list):
            advanced = np.stack(updates[times])
            advance_times(advanced, since)
            updates = [*updates[: times.start], *advanced, *updates[times.stop :]]
        else:
            advance_times(updates[times], since)
        if self.order is not None:
            return self._in_order(self.order, updates)
        runs = hashes is not None
        if hashes is None:
            hashes = hashed(updates[self.key_rows]) if isinstance(updates, np.ndarray) else self._hashes(updates)
        return Batch(*consolidated_by(hashes, updates, self._other_rows, self.weights, runs=runs))

    def _in_order(self, order: RowOrder, updates: Rows) -> Batch:
        """Return updates as a batch in an order, consolidated: equal ones are side by side."""
        rows = list(updates)
        hashes = self._hashes(rows)
        if not len(hashes):
            return Batch(hashes, np.empty((len(rows), 0), np.int64))
        top = len(rows) - self.weights
        places, new, _ = order.sorted(rows, hashes, [row for at, row in enumerate(rows[:top]) if at != order.first_row])
        weights = np.stack([row.take(places) for row in rows[top:]])
        if not new.all():
            starts = new.nonzero()[0]
            weights, places = added_up(weights, starts), places.take(starts)
        kept = weights.any(axis=0)
        if not kept.all():
            weights, places = weights.compress(kept, axis=1), places.compress(kept)
        array = np.empty((len(rows), len(places)), np.int64)
        for row, ordered in zip(rows[:top], array, strict=False):
            row.take(places, out=ordered, mode="clip")
        array[top:] = weights
        return Batch(hashes.take(places), array)

    def _hashes(self, rows: list[Ints]) -> Ints:
        """Return the hashes of the keys of updates given row by row."""
        return hashed([rows[row] for row in self.keys]) if self.keys else np.zeros(len(rows[0]), np.int64)
