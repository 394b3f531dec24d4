"""Reading groups in order, without a look at all of their rows: the first or last ones, and the counts of some.

A spine whose layout has an order holds each group as a few sorted runs, one a batch, and what is in the tail. The first
rows of a group are among the first ones of its runs: as many are read of each as are wanted, and more only where rows
have cancelled. Where many have, as when the first row is deleted again and again, the first place that has not
cancelled is remembered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.renderer.embedded.kernels.sorting import bisected
from tidemill.renderer.embedded.kernels.updates import (
    NULL,
    Bools,
    Codes,
    Ints,
    Rows,
    UpdateArray,
    differing,
    expand,
    hashed,
    stacked,
    summable,
)
from tidemill.renderer.embedded.trace.merging import View
from tidemill.renderer.embedded.trace.one_group import MOST, OneGroup
from tidemill.renderer.embedded.trace.row_order import FEW_TIED, RowOrder
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction

SLACK: Final = 4
"""How many rows more than are asked for are read of each run at first."""
GROWTH: Final = 4
"""How many times as many are read then."""
SKIP_FROM: Final = 4
"""How many rows have to have cancelled before the first one for its place to be remembered."""
SCAN: Final = 16
"""How many rows alike in the first column, for each that is sought, are compared with it one by one at most."""
FEW: Final = 8
"""How many places are bisected in Python, one by one, at most."""
_MOST_ROWS: Final = 1 << 40
"""The most rows read at once: more than there are."""
_NEVER: Final = np.iinfo(np.int64).max

_Key = tuple[int, ...]


class _KeyRuns(NamedTuple):
    """For some of the keys, the updates of a batch that have their hashes: which keys, from where, and up to where."""

    array: UpdateArray
    owner: Ints
    low: Ints
    high: Ints


class _ReadRows(NamedTuple):
    """Updates read of groups, the numbers of their keys, and which of them are the last read of a run that goes on."""

    keys: Codes
    until: Ints
    owner: Ints
    rows: UpdateArray
    is_end: Bools
    parts_ties: Bools
    """Which of these end within a run whose ties are unbroken."""


class OrderedGroups:
    """The groups of an ordered spine over times of one coordinate, read at times that never go back."""

    def __init__(self, spine: Spine, order: RowOrder, transaction: Transaction) -> None:
        self._spine = spine
        self._order = order
        self._first_row = order.first_row or 0
        layout = spine.layout
        self._width = len(layout.keys)
        self._codes = len(layout.types)
        self._transaction = transaction
        self._one = OneGroup(spine, order)
        self._ends: dict[tuple[_Key, bool], int] = {}
        """By key and direction: how far, by the first column, all rows have cancelled."""
        self._found_ends: dict[tuple[_Key, bool], int] = {}
        """Those that the current step has found, for when it is committed."""

    # -- the first rows -----------------------------------------------------------------------------------------------

    def first(
        self,
        keys: Codes,
        until: Ints,
        count: int,
        *,
        last: bool = False,
        non_null: int | None = None,
    ) -> tuple[Ints, UpdateArray]:
        """Return the first rows of groups at a time each, or the last ones: the number of the key, codes and count.

        As many as make ``count`` copies, where there are, in order of the keys and then as asked for. Only rows count
        that are not NULL in row ``non_null`` of their codes, of which others must not be many.
        """
        if keys.shape[1] == 1:
            alone = self._first_of_one(keys, until.item(), count, last=last, non_null=non_null)
            if alone is not None:
                return alone
        numbers = self._known_ends(keys, last=last)
        runs = self._runs(keys, numbers, last=last)
        owner, rows = self._in_tails(keys)
        if numbers is not None and len(owner):  # all or none of what has cancelled
            own, limits = self._order.number(rows[self._first_row]), numbers.take(owner)
            kept = own <= limits if last else own >= limits
            owner, rows = owner.compress(kept), rows.compress(kept, axis=1)
        owners, found = [np.empty(0, np.int64)], [np.empty((self._codes + 1, 0), np.int64)]
        take = min(count, _MOST_ROWS) + SLACK
        while True:
            more, ends, runs = self._taken(runs, take, last=last)
            is_end, parts_ties = (np.concatenate((np.zeros(len(owner), np.bool_), of_new)) for of_new in ends)
            owner = np.concatenate((owner, *(o for o, _ in more)))
            rows = stacked([rows, *(r for _, r in more)])
            done, first_owner, first_rows = self._first_of(
                _ReadRows(keys, until, owner, rows, is_end, parts_ties), count, last=last, non_null=non_null
            )
            if done.all() and len(owners) == 1:
                return first_owner, first_rows
            owners.append(first_owner)
            found.append(first_rows)
            if done.all():
                break
            going_on = ~done
            kept = going_on.take(owner)
            owner, rows = owner.compress(kept), rows.compress(kept, axis=1)
            runs = [_only(run, going_on) for run in runs]
            take *= GROWTH
        owner, rows = np.concatenate(owners), np.concatenate(found, axis=1)
        if len(owners) > 2:  # noqa: PLR2004 - more than one round
            order = owner.argsort(kind="stable")
            owner, rows = owner.take(order), rows.take(order, axis=1)
        return owner, rows

    def _first_of_one(
        self, key: Codes, until: int, count: int, *, last: bool, non_null: int | None
    ) -> tuple[Ints, UpdateArray] | None:
        """Like `first`, for one group; None where that is much to read."""
        if count > MOST:
            return None
        name = tuple(key[:, 0].tolist()), last
        found = self._one.first(key, until, count, SLACK, self._ends.get(name), last=last, non_null=non_null)
        if found is None:
            return None
        if found.cancelled >= SKIP_FROM and found.first is not None:
            self._transaction.join(self, None)
            self._found_ends[name] = self._order.number_of(found.first)
        rows = np.array(found.rows, np.int64).T if found.rows else np.empty((self._codes + 1, 0), np.int64)
        return np.zeros(len(found.rows), np.int64), rows

    def _first_of(
        self, read: _ReadRows, count: int, *, last: bool, non_null: int | None
    ) -> tuple[Bools, Ints, UpdateArray]:
        """Return which keys have all that was asked for, or all there is; and the first rows of these."""
        n = read.keys.shape[1]
        if not len(read.owner):
            return np.ones(n, np.bool_), read.owner, np.empty((self._codes + 1, 0), np.int64)
        visible = read.rows[self._codes] <= read.until.take(read.owner)
        if self._width > 1:  # else the key is its own hash
            visible &= (read.rows[: self._width] == read.keys.take(read.owner, axis=1)).all(axis=0)
        codes = list(read.rows[: self._codes])
        order, new, _ = self._order.sorted(codes, read.owner, codes[: self._width])
        if last:
            order, new = order[::-1], np.concatenate((new[1:], [True]))[::-1]
        starts = new.nonzero()[0]
        owner = read.owner.take(order).take(starts)
        counts = np.add.reduceat(np.where(visible, read.rows[-1], 0).take(order), starts)
        limit = np.full(n, _NEVER)
        """Rows of a key are complete before the first that is the last one read of a run which goes on."""
        is_end = read.is_end.take(order)
        place = (new.cumsum() - 1).compress(is_end)
        parting = read.parts_ties.take(order).compress(is_end)
        if np.count_nonzero(parting):  # any of the run may come before those that are read
            tied = self._first_tied(owner, [row.take(order).take(starts) for row in codes])
            place = np.where(parting, tied.take(place), place)
        np.minimum.at(limit, owner.take(place), place)
        counts = np.where(np.arange(len(starts)) < limit.take(owner), counts, 0)
        rows = read.rows[: self._codes].take(order.take(starts), axis=1)
        if visible.all():  # else rows may be there later that are not there now
            self._remember(read, owner, rows, counts.nonzero()[0], last=last)
        there = summable(np.minimum(np.maximum(counts, 0), count))
        if non_null is not None:
            there[rows[non_null] == NULL] = 0
        ends = there.cumsum()
        has, before = _within(owner, ends, there, n)
        done = (has >= count) | (limit == _NEVER)
        kept = ((there > 0) & (before < count) & done.take(owner)).nonzero()[0]
        number = owner.take(kept)
        found = np.empty((self._codes + 1, len(kept)), np.int64)
        found[:-1] = rows.take(kept, axis=1)
        found[-1] = np.minimum(there.take(kept), count - before.take(kept))
        if last:  # keys came the last first
            by_key = number.argsort(kind="stable")
            number, found = number.take(by_key), found.take(by_key, axis=1)
        return done, number, found

    def _taken(
        self, runs: list[_KeyRuns], count: int, *, last: bool
    ) -> tuple[list[tuple[Ints, UpdateArray]], tuple[Bools, Bools], list[_KeyRuns]]:
        """Return the next updates of each run, and what is left of them.

        Besides, which of these updates are the last read of a run that goes on, and which of those part ties.
        """
        taken: list[tuple[Ints, UpdateArray]] = []
        ends, parting, left = [np.empty(0, np.bool_)], [np.empty(0, np.bool_)], list[_KeyRuns]()
        for run in runs:
            size = np.minimum(run.high - run.low, count)
            goes_on = size < run.high - run.low
            start = run.high - size if last else run.low
            if len(size) == 1:
                low, many = start.item(), size.item()
                taken.append((run.owner.repeat(many), run.array[:, low : low + many]))
            else:
                which, at = expand(start, size)
                taken.append((run.owner.take(which), run.array.take(at, axis=1)))
            is_end, parts_ties = np.zeros((2, len(taken[-1][0])), np.bool_)
            if np.count_nonzero(goes_on):
                after = size.cumsum()
                is_at = (after - size if last else after - 1)[goes_on]
                is_end[is_at] = True
                end = (start if last else start + size - 1)[goes_on]
                rest = end - 1 if last else end + 1
                parts_ties[is_at] = self._order.parts_ties(run.array, end, rest, run.high[goes_on], self._width)
                ranges = (run.low, run.high - size) if last else (run.low + size, run.high)
                left.append(_KeyRuns(run.array, *(a.compress(goes_on) for a in (run.owner, *ranges))))
            ends.append(is_end)
            parting.append(parts_ties)
        return taken, (np.concatenate(ends), np.concatenate(parting)), left

    def _first_tied(self, owner: Ints, rows: Rows) -> Ints:
        """Return for each of some rows, in order, the place of the first that the columns leave tied with it."""
        first = differing(owner)
        for column in self._order.columns:
            first |= differing(rows[column.row])
        return np.maximum.accumulate(np.where(first, np.arange(len(owner)), 0))

    def _known_ends(self, keys: Codes, *, last: bool) -> Ints | None:
        """Return for each key up to where all rows have cancelled, by the first column; None where none is known."""
        if not self._ends:
            return None
        known = [self._ends.get((key, last)) for key in map(tuple, keys.T.tolist())]
        if all(end is None for end in known):
            return None
        default = _NEVER if last else -_NEVER - 1
        return np.array([default if end is None else end for end in known], np.int64)

    def _runs(self, keys: Codes, numbers: Ints | None, *, last: bool) -> list[_KeyRuns]:
        """Return the runs of all batches, less those ends of which all rows have cancelled."""
        runs = self._whole_runs(keys)
        if numbers is None:
            return runs
        cut: list[_KeyRuns] = []
        for run in runs:
            at = self._bisected(run, numbers.take(run.owner), right=last)
            low, high = (run.low, at) if last else (at, run.high)
            some = low < high
            cut.append(_KeyRuns(run.array, *(a.compress(some) for a in (run.owner, low, high))))
        return cut

    def _whole_runs(self, keys: Codes) -> list[_KeyRuns]:
        hashes = hashed(keys)
        runs: list[_KeyRuns] = []
        for view in self._spine.views(keys):
            for batch in view.batches:
                low, high = batch.hashes.searchsorted(hashes), batch.hashes.searchsorted(hashes, "right")
                owner = (low < high).nonzero()[0]
                if len(owner):
                    runs.append(_KeyRuns(batch.array, owner, low.take(owner), high.take(owner)))
        return runs

    def _in_tails(self, keys: Codes) -> tuple[Ints, UpdateArray]:
        """Return the updates in tails that have one of these keys, which may repeat, and the key's number."""
        owners, found = [np.empty(0, np.int64)], [np.empty((self._spine.layout.rows, 0), np.int64)]
        for view in self._spine.views(keys):
            tail = _tail(view)
            if tail.shape[1]:
                in_tail = (tail[: self._width, None] == keys[:, :, None]).all(axis=0) if self._width else np.ones(
                    (keys.shape[1], tail.shape[1]), np.bool_
                )  # fmt: skip
                owner, at = in_tail.nonzero()
                owners.append(owner)
                found.append(tail.take(at, axis=1))
        return np.concatenate(owners), stacked(found)

    # -- where all rows have cancelled --------------------------------------------------------------------------------

    def _remember(self, read: _ReadRows, owner: Ints, rows: Codes, there: Ints, *, last: bool) -> None:
        """Note up to where all rows have cancelled, of keys of which many have; ``there`` are rows that have not."""
        if len(owner) < SKIP_FROM or not len(there):
            return
        starts = np.concatenate(([0], (owner[1:] != owner[:-1]).nonzero()[0] + 1))
        firsts = there.take(np.minimum(there.searchsorted(starts), len(there) - 1))
        for start, first in zip(starts.tolist(), firsts.tolist(), strict=True):
            if first - start >= SKIP_FROM and owner[first] == owner[start]:
                key = tuple(read.keys[:, owner[start]].tolist())
                number = int(self._order.number(rows[self._first_row, first : first + 1])[0])
                self._transaction.join(self, None)
                self._found_ends[key, last] = number

    def added(self, updates: Rows) -> None:
        """Take note of updates that were appended to the spine: there is something where they are."""
        for ends in (self._ends, self._found_ends):
            if ends:
                numbers = self._order.number(updates[self._first_row])
                keys = np.stack([*updates[: self._width]]) if self._width else np.empty((0, len(numbers)), np.int64)
                (_put_off_each if len(numbers) <= len(ends) else _put_off)(ends, keys, numbers)

    def commit(self) -> None:
        if len(self._ends) > self._spine.view.size:  # of groups that were forgotten, most of them
            self._ends = {}
        self._ends |= self._found_ends
        self._found_ends = {}

    def rollback(self, state: None) -> None:
        del state
        self._found_ends = {}

    def clear(self) -> None:
        """Remember nothing: the spine was given other contents."""
        self._ends, self._found_ends = {}, {}
        self._transaction.leave(self)

    # -- single rows --------------------------------------------------------------------------------------------------

    def counts(self, rows: Codes, until: Ints) -> Ints:
        """Return the count of each of some rows, given by all of their codes, at a time."""
        if rows.shape[1] == 1:
            count = self._one.count(tuple(rows[:, 0].tolist()), rows[: self._width], until.item())
            if count is not None:
                return np.array([count])
        found = np.zeros(rows.shape[1], np.int64)
        keys = rows[: self._width]
        for run in self._whole_runs(keys):
            self._count_in(run, rows, until, found)
        for view in self._spine.views(keys):
            tail = _tail(view)
            if tail.shape[1]:
                owner, at = _equal_rows(rows, tail[: self._codes])
                self._add(found, until, owner, tail.take(at, axis=1))
        return found

    def _count_in(self, run: _KeyRuns, rows: Codes, until: Ints, found: Ints) -> None:
        sought = self._order.number(rows[self._first_row]).take(run.owner)
        low = self._bisected(run, sought, right=False)
        high = self._bisected(run, sought, right=True)
        if int((high - low).sum()) > SCAN * max(len(sought), SCAN):
            low, high = self._narrowed(run.array, rows.take(run.owner, axis=1), low, high)
        which, at = expand(low, high - low)
        owner = run.owner.take(which)
        updates = run.array.take(at, axis=1)
        same = (updates[: self._codes] == rows.take(owner, axis=1)).all(axis=0)
        self._add(found, until, owner.compress(same), updates.compress(same, axis=1))

    def _add(self, found: Ints, until: Ints, owner: Ints, updates: UpdateArray) -> None:
        diffs = np.where(updates[self._codes] <= until.take(owner), updates[-1], 0)
        np.add.at(found, owner, diffs)

    def _narrowed(self, array: UpdateArray, rows: Codes, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return narrower ranges of a sorted array for rows that have many alike in the first column."""
        low, high = low.copy(), high.copy()
        for i in (high - low > SCAN).nonzero()[0].tolist():
            row = rows[:, i].tolist()
            ends = int(low[i]), int(high[i])
            for key in (self._order.key_of_columns, self._order.key):  # the ties of few are not broken
                if ends[1] - ends[0] > FEW_TIED:
                    ends = _bisected_by_key(key, row, array, *ends)
            low[i], high[i] = ends
        return low, high

    def _bisected(self, run: _KeyRuns, numbers: Ints, *, right: bool) -> Ints:
        """Return for each number its place in its key's run, by the first column; ``right`` of those equal to it."""
        codes = run.array[self._first_row]
        if len(numbers) <= FEW:
            ranges = zip(numbers.tolist(), run.low.tolist(), run.high.tolist(), strict=True)
            return np.array([self._order.place(codes, *of_one, right=right) for of_one in ranges], np.int64)

        def is_before(at: Ints) -> Bools:
            there = self._order.number(codes.take(at, mode="clip"))
            return there <= numbers if right else there < numbers

        return bisected(run.low, run.high, is_before)


def _put_off_each(ends: dict[tuple[_Key, bool], int], keys: Codes, numbers: Ints) -> None:
    """Move ends back so that none is beyond these numbers; for few keys."""
    for key, number in zip(map(tuple, keys.T.tolist()), numbers.tolist(), strict=True):
        for last in (False, True):
            end = ends.get((key, last))
            if end is not None:
                ends[key, last] = max(end, number) if last else min(end, number)


def _put_off(ends: dict[tuple[_Key, bool], int], keys: Codes, numbers: Ints) -> None:
    """Move ends back so that none is beyond these numbers; for many keys."""
    known = np.array([key for key, _ in ends], np.int64).reshape(len(ends), len(keys)).T
    is_last, found = np.array([last for _, last in ends]), np.array([*ends.values()], np.int64)
    owner, at = _equal_rows(known, keys)
    numbers, of_last = numbers.take(at), is_last.take(owner)
    np.maximum.at(found, owner.compress(of_last), numbers.compress(of_last))
    np.minimum.at(found, owner.compress(~of_last), numbers.compress(~of_last))
    ends.update(zip(ends, found.tolist(), strict=True))


def _tail(view: View) -> UpdateArray:
    return view.tail.array[:, : view.tail_size]


def _only(run: _KeyRuns, keys: Bools) -> _KeyRuns:
    """Return of a run what is of marked keys."""
    some = keys.take(run.owner)
    return _KeyRuns(run.array, *(a.compress(some) for a in (run.owner, run.low, run.high)))


def _within(owner: Ints, ends: Any, counts: Any, n: int) -> tuple[Any, Any]:
    """Return the sum of each owner's counts, which lie side by side, and for each count the sum of those before it."""
    sums = np.zeros(n, counts.dtype)
    np.add.at(sums, owner, counts)
    first = np.ones(len(owner), np.bool_)
    first[1:] = owner[1:] != owner[:-1]
    before = ends - counts
    return sums, before - before.compress(first).take(first.cumsum() - 1)


def _equal_rows(rows: Codes, others: Codes) -> tuple[Ints, Ints]:
    """Return all pairs of a row and another that are equal."""
    hashes = hashed(rows)
    order = hashes.argsort()
    hashes, sought = hashes.take(order), hashed(others)
    low = hashes.searchsorted(sought)
    at, which = expand(low, hashes.searchsorted(sought, "right") - low)
    which = order.take(which)
    same = (rows.take(which, axis=1) == others.take(at, axis=1)).all(axis=0)
    return which.compress(same), at.compress(same)


def _bisected_by_key(
    key: Callable[[list[int]], tuple[Any, ...]], row: list[int], array: UpdateArray, low: int, high: int
) -> tuple[int, int]:
    """Return from where up to where rows have a row's key, in a part of an array that is sorted by it."""

    def key_at(i: int) -> tuple[Any, ...]:
        return key(array[:, i].tolist())

    start = bisect_left(range(high), key(row), low, key=key_at)
    return start, bisect_right(range(high), key(row), start, key=key_at)
