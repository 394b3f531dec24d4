"""Reading one group in order, row by row in Python: for a few rows NumPy's calls cost more than their work.

What is read, and why it is enough, is as in `OrderedGroups`, of which this is the short cut for a step that changes one
group.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.renderer.embedded.kernels.updates import NULL, Codes, UpdateArray, hashed
from tidemill.renderer.embedded.trace.merging import View
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.trace.spine import Spine

MOST: Final = 64
"""How many updates are read in Python, at most."""
GROWTH: Final = 4
"""How many times as many are read of each run where those read do not do."""

Row: TypeAlias = tuple[int, ...]
_Update: TypeAlias = tuple[Row, int, int]
"""The codes of a row, the time and the count."""
_Run: TypeAlias = tuple[UpdateArray, int, int]


class FirstRows(NamedTuple):
    """The first rows of a group, or the last."""

    rows: list[Row]
    """The codes of each, and how often it is there, of as many as were asked for."""
    cancelled: int
    """How many rows, all of whose updates cancel, were read before the first one; 0 where that may change."""
    first: int | None
    """The code of that first row in the first column that is sorted by; None where there is none."""


class OneGroup:
    """The groups of an ordered spine, one at a time. ``None`` means: there is more to be read than suits Python."""

    def __init__(self, spine: Spine, order: RowOrder) -> None:
        self._spine = spine
        self._order = order
        self._first_row = order.first_row or 0
        self._width = len(spine.layout.keys)
        self._codes = len(spine.layout.types)

    def first(
        self, key: Codes, until: int, count: int, beyond: int, end: int | None, *, last: bool, non_null: int | None
    ) -> FirstRows | None:
        """Return the first rows of a group at a time.

        Of each run ``beyond`` more rows are read at first than are asked for. Where all rows before one with the number
        ``end`` have cancelled, they are passed over. Only rows count whose code in row ``non_null`` is not NULL.
        """
        views, hash_of_key, own = self._spine.views(key), hashed(key).item(), tuple(key[:, 0].tolist())
        runs = _runs(views, hash_of_key)
        if end is not None:
            runs = [self._cut(run, end, last=last) for run in runs]
        take = count + beyond
        while True:
            updates: list[_Update] = []
            ends: set[Row] = set()
            tied: set[Row] = set()
            for array, low, high in runs:
                read = array[:, max(high - take, low) : high] if last else array[:, low : min(low + take, high)]
                some = _updates_of(read)
                updates += some
                if take < high - low:
                    end_row = some[0 if last else -1][0]
                    ends.add(end_row)
                    if self._parts_ties(array, high - take if last else low + take - 1, end_row, high, last=last):
                        tied.add(self._order.tie(end_row))
            updates += self._in_tails(views, hash_of_key, (end, ends), last=last)
            if len(updates) > MOST:
                return None
            if self._width > 1 and any(row[: self._width] != own for row, _, _ in updates):
                return None  # another one has the same hash
            found = self._first_of(updates, (ends, tied), until, count, last=last, non_null=non_null)
            if found is not None:
                return found
            take *= GROWTH

    def count(self, row: Row, key: Codes, until: int) -> int | None:
        """Return the count of a row, given by all of its codes, at a time."""
        views, first = self._spine.views(key), self._first_row
        number = self._order.number_of(row[first])
        updates: list[list[int]] = []
        for array, low, high in _runs(views, hashed(key).item()):
            start = self._order.place(array[first], number, low, high)
            end = self._order.place(array[first], number, start, high, right=True)
            if end - start > MOST:
                return None
            updates += array[:, start:end].T.tolist()
        for view in views:
            at = (view.tail.array[first, : view.tail_size] == row[first]).nonzero()[0]
            if len(at) > MOST:
                return None
            updates += view.tail.array.take(at, axis=1).T.tolist()
        own = list(row)
        return sum(u[-1] for u in updates if u[: self._codes] == own and u[self._codes] <= until)

    def _parts_ties(self, array: UpdateArray, at: int, row: Row, high: int, *, last: bool) -> bool:
        """Return whether a run goes on after a place, at which a row is, that is stored with its ties unbroken."""
        after, order = at - 1 if last else at + 1, self._order
        if not order.row or order.tie(row) != order.tie(array[:, after].tolist()):
            return False
        one, other, end = (np.array([place]) for place in (at, after, high))
        return bool(order.parts_ties(array, one, other, end, self._width)[0])

    def _first_of(
        self,
        updates: list[_Update],
        all_ends: tuple[set[Row], set[Row]],
        until: int,
        count: int,
        *,
        last: bool,
        non_null: int | None,
    ) -> FirstRows | None:
        """Return the first rows among updates; None where these do not do.

        All are there before the ends alone: of runs, and of what is tied with those of the second set.
        """
        ends, tied = all_ends
        counts: dict[Row, int] = {}
        all_visible = True
        for row, time, diff in updates:
            if time <= until:
                counts[row] = counts.get(row, 0) + diff
            else:
                counts.setdefault(row, 0)
                all_visible = False
        rows: list[Row] = []
        cancelled, first = 0, None
        for place, row in enumerate(self._order.in_order(counts, last=last)):
            if row in ends or (tied and self._order.tie(row) in tied):
                return None
            there = counts[row]
            if there and first is None:
                first = row[self._first_row]
                cancelled = place if all_visible else 0
            if there > 0 and (non_null is None or row[non_null] != NULL):
                rows.append((*row, min(there, count)))
                count -= there
                if count <= 0:
                    return FirstRows(rows, cancelled, first)
        return None if ends else FirstRows(rows, cancelled, first)

    def _cut(self, run: _Run, end: int, *, last: bool) -> _Run:
        """Return a run less the rows that have all cancelled."""
        array, low, high = run
        at = self._order.place(array[self._first_row], end, low, high, right=last)
        return (array, low, at) if last else (array, at, high)

    def _in_tails(
        self, views: list[View], hash_of_key: int, between: tuple[int | None, set[Row]], *, last: bool
    ) -> list[_Update]:
        """Return the updates of a group in tails, less those that have cancelled, and those after the first end."""
        end, ends = between
        found: list[_Update] = []
        limits = [self._order.number_of(row[self._first_row]) for row in ends]
        for view in views:
            if not view.tail_size:
                continue
            kept = view.tail.hashes[: view.tail_size] == hash_of_key
            if limits or end is not None:
                numbers = self._order.number(view.tail.array[self._first_row, : view.tail_size])
                if end is not None:
                    kept &= (numbers <= end) if last else (numbers >= end)
                if limits:
                    kept &= (numbers >= max(limits)) if last else (numbers <= min(limits))
            at = kept.nonzero()[0][: MOST + 1]  # more are too many
            found += _updates_of(view.tail.array.take(at, axis=1))
        return found


def _updates_of(array: UpdateArray) -> list[_Update]:
    *codes, times, diffs = array.tolist()
    return list(zip(zip(*codes, strict=True), times, diffs, strict=True))


def _runs(views: list[View], hash_of_key: int) -> list[_Run]:
    """Return the arrays of all batches that have updates with a hash, each with where they begin and end."""
    runs: list[_Run] = []
    for view in views:
        for batch in view.batches:
            hashes = batch.hashes
            low = int(hashes.searchsorted(hash_of_key))
            if low < len(hashes) and hashes.item(low) == hash_of_key:
                runs.append((batch.array, low, int(hashes.searchsorted(hash_of_key, "right"))))
    return runs
