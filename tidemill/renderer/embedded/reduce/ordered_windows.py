"""Window calls at top level over one coordinate: of large partitions, only what a change reaches is computed anew.

The state is the rows, by partition. Those of large partitions are kept in their order, and there only; those of small
ones in a spine, and these are computed whole, before and after, many at once. What was saved comes back in the spine,
from which large partitions go into their order when they are touched; of what is spilled, which lies in that order,
too, it is a copy of the pages that were looked at, dropped with all else that was read. Of the output nothing is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.windows.bound import MOST_COPIES, CallError, Windows, too_many_copies
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.memory import apart, concatenate, empty, repeated, stack
from tidemill.renderer.embedded.kernels.updates import (
    Codes,
    Ints,
    Rows,
    UpdateArray,
    consolidated,
    largest,
    numbered,
    stacked,
)
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.stored_order import KeyOrder
from tidemill.renderer.embedded.windows.affected import Reach
from tidemill.renderer.embedded.windows.changes import Evaluator
from tidemill.renderer.embedded.windows.chunks import Edits
from tidemill.renderer.embedded.windows.large_partitions import Key, LargePartitions, partitions_in_order, updates_of
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.ordering import GivenRows, order_of_rows
from tidemill.renderer.embedded.windows.scalar import Scalar
from tidemill.renderer.embedded.windows.whole_partitions import ComputedWhole, NewUpdates, WholePartitions
from tidemill.renderer.runs import failures

LARGE: Final = 256
"""Rows of a partition from which on it is kept in its order.

A step takes half as long there, and making the order about as long as a step: benchmarks/window_thresholds.py.
"""
SMALL: Final = 64
"""Rows below which it is not any more."""
FEW: Final = 8
"""Updates up to which they are handled one by one: checked for being of one partition, and searched for."""
AT_ONCE: Final = 1 << 20
"""About how many rows are brought into their order by one sort."""
MANY: Final = 32
"""Where one in this many rows changes, or more, the partition is computed whole, which takes no longer there."""


class OrderedWindowsOperator(Operator):
    """A Reduce by `Windows` at top level, over one coordinate: its updates come in the order of their times."""

    consolidated = True

    def __init__(self, node: Reduce, windows: Windows, region: Region, interner: Interner) -> None:
        schema = node.inputs[0].schema
        super().__init__(node, region, (len(schema),))
        self._windows = windows
        self._types = schema.dtypes
        self._width = len(node.keys)
        self._codes = len(schema)
        kept = windows.kept(self._width)
        self._kept = np.array(kept, np.int64)
        """Which of a row's codes come out again."""
        by = windows.order[0].column if windows.order else 0
        self._leading = kept.index(by) if by in kept else 0
        """The first of the ORDER BY columns among these, if it is."""
        layout = UpdateLayout(tuple(range(self._width)), self._types, 1, self.schedule.users)
        self._spine = Spine(layout, self.since, self.schedule.transaction)
        self._reach = Reach.of(windows, self._types)
        """How far changes reach; None where they may reach to an end of the partition."""
        self._evaluator = None
        if self._reach is not None:
            self._evaluator = Evaluator(windows, self._types, self._reach, interner, self._kept)
        self._scalar = Scalar.of(windows, self._types, self._reach, self._kept)
        self._order = order_of_rows(windows, self._types, interner, self._width)
        self._by = KeyOrder(self._order, len(windows.order))
        if self._reach is not None:
            self._spine.by = self._by
        self._large = self._spine.beside = LargePartitions()
        self._whole = WholePartitions(node, interner, self._order, self._reach, spine=self._spine, large=self._large)

    def run(self) -> None:
        new = self.ports[0].take_consolidated()
        if new is None:
            return
        if largest(new[-1]) > COUNT_LIMIT:
            raise failures.too_many(self.node)
        parts = _by_time(new, self._codes)
        del new  # many rows are let go of as soon as they are stored
        changes: list[Rows] = []
        while parts:
            changes.append(self._changed(parts.pop()))
        change = _together(changes)
        if isinstance(change, list):
            self.emit_rows(change, self.region.now)
        elif change.shape[1]:
            self.emit(change, self.region.now)

    def _changed(self, updates: UpdateArray) -> Rows:
        """Take new updates of one time, and return the output's."""
        self.schedule.transaction.join(self, None)
        if updates.shape[1] <= FEW:
            change = self._changed_by_few(updates)
            if change is not None:
                return change
        one, owner = numbered(updates[: self._width])
        keys = updates[: self._width].take(one, axis=1)
        new = NewUpdates(list(map(tuple, keys.T.tolist())), keys, owner, updates, int(updates[self._codes, 0]))
        del updates, owner
        in_order, whole = self._shared_out(new)
        edits: dict[int, Edits] = {}
        found: list[Rows] = []
        try:
            for n, some in self._by_partition(in_order, new):
                edits[n] = self._edits(in_order[n], some)
            if edits:
                found = [self._in_order([(in_order[n], made) for n, made in edits.items()], new.time)]
        except CallError:  # perhaps of a row that is only looked at: computed whole, it shows
            whole = list(range(len(new.names)))
        loaded, part = self._loaded(new, whole) if whole else ([], None)
        if part is not None:
            found.append(part)
            whole = [number for number in whole if number not in set(loaded)]
        computed: ComputedWhole | None = None
        if whole:
            computed = self._whole.computed(new, np.array(whole), LARGE)
            found.append(self._of_whole(computed, new))
        if computed is not None or len(self._large.held(new.names)) < len(new.names):
            self._store(new, {*edits, *loaded}, computed)
        for number, made in edits.items():
            self._apply(new.names[number], in_order[number], made)
        return _together(found)  # of different partitions, so that none of one part is equal to one of another

    def _changed_by_few(self, updates: UpdateArray) -> UpdateArray | None:
        """Like `_changed`, for updates of one partition if it is held in order; else None."""
        as_rows: list[list[int]] = updates.T.tolist()
        key = as_rows[0][: self._width]
        name = tuple(key)
        if self._reach is None or not self._large.holds(name) or any(row[: self._width] != key for row in as_rows):
            return None
        rows = self._large[name]
        if len(rows) < sum([abs(row[-1]) for row in as_rows]) * MANY:
            return None
        if len(as_rows) > 1:
            updates = np.array(self._order.in_order(map(tuple, as_rows)), np.int64).T
        try:
            edits = self._edits(rows, updates)
            change = self._in_order([(rows, edits)], as_rows[0][-2])
        except CallError:  # perhaps of a row that is only looked at: computed whole, it shows
            return None
        self._apply(name, rows, edits)
        return change

    def _shared_out(self, new: NewUpdates) -> tuple[dict[int, OrderIndex], list[int]]:
        """Return which partitions are changed in their order, by the number of the key, and which computed whole."""
        names = new.names
        if self._reach is None:
            return {}, list(range(len(names)))
        changed = np.bincount(new.owner, np.abs(new.updates[-1]), len(names))
        known = self._large.among(names)
        if self._spine.spilled is not None:
            self._look_in_order(new, known)
        unknown = np.array([number for number in range(len(names)) if number not in known], np.int64)
        if len(unknown):
            stored = self._spine.count(new.keys.take(unknown, axis=1))
            large = stored >= np.maximum(LARGE, changed.take(unknown) * MANY)
            unknown, stored = unknown.compress(large), stored.compress(large)
            if len(unknown):
                for some in np.split(unknown, np.diff(stored.cumsum() // AT_ONCE).nonzero()[0] + 1):
                    known |= self._into_order(new, some)
        most = changed * MANY
        in_order = {number: rows for number, rows in sorted(known.items()) if len(rows) >= most[number]}
        return in_order, [n for n in range(len(names)) if n not in in_order]

    def _look_in_order(self, new: NewUpdates, known: dict[int, OrderIndex]) -> None:
        """Look up spilled partitions; hold those stored in order here, their pages read only when looked at."""
        missing = [number for number in range(len(new.names)) if number not in known]
        found = self._spine.in_order(new.keys.take(missing, axis=1), MANY) if missing else {}
        for at, (pages, rest) in found.items():
            name = new.names[missing[at]]
            rows = OrderIndex.stored(pages, self._by)
            changed = consolidated(np.concatenate((rest[: self._codes], rest[-1:])))
            updates = changed.take(
                self._order.sorted(list(changed[:-1]), np.zeros(changed.shape[1], np.int64)).order, axis=1
            )
            rows.apply(self._edits(rows, updates))
            self._large.put(name, rows, cached=True)
            known[missing[at]] = rows
        for name in (new.names[number] for number in known):
            if not self._large.holds(name):
                self._large.touch(name)  # before it is looked at: that reads more of it

    def _by_partition(self, in_order: dict[int, OrderIndex], new: NewUpdates) -> Iterator[tuple[int, UpdateArray]]:
        """Iterate over the partitions changed in their order, with the updates of each in it, too: one sort for all."""
        owner, updates = new.owner, new.updates
        if updates.shape[1] == 1 or not in_order:
            yield from ((number, updates) for number in in_order)
            return
        if len(in_order) <= owner.max():
            some = np.isin(owner, list(in_order))
            owner, updates = owner.compress(some), updates.compress(some, axis=1)
        updates = updates.take(self._order.sorted(list(updates[: self._codes]), owner).order, axis=1)
        ends = np.bincount(owner).cumsum().tolist()
        for number in in_order:
            yield number, updates[:, ends[number - 1] if number else 0 : ends[number]]

    def _edits(self, index: OrderIndex, new: UpdateArray) -> Edits:
        """Return updates of a partition, in its order, as edits; `CallError` for too many copies of a row."""
        codes, counts = new[: self._codes], new[-1]
        if len(counts) <= FEW:
            positions = np.array([index.position_of(row) for row in codes.T.tolist()])
            unsure = range(len(counts))
        else:
            positions, there = index.positions_of(codes)
            unsure = ((counts < 0) & ~there | (counts > 0) & there | (np.abs(counts) > 1)).nonzero()[0].tolist()
        for i in unsure:
            self._check_copies(index, positions.item(i), codes[:, i], counts.item(i))
        return Edits(positions, codes, counts)

    def _check_copies(self, index: OrderIndex, position: int, row: Ints, count: int) -> None:
        """Raise an error where a row would have a negative count, or one that is too large."""
        if count < 0 and (there := index.copies(position, row, -count)) < -count:
            raise self._whole.negative(row, there + count)
        last = position + MOST_COPIES - count  # where no copy may be that is there already
        if count > 0 and last < len(index) and (last < position or index.copies(last, row, 1)):
            raise CallError(0, row, too_many_copies(count))

    def _in_order(self, edits: list[tuple[OrderIndex, Edits]], time: int) -> UpdateArray:
        """Return the output's updates for edits of partitions in their order, which are not made yet."""
        few = self._scalar.changed(*edits[0]) if self._scalar is not None and len(edits) == 1 else None
        assert self._evaluator is not None
        found = [*self._evaluator.changed(edits)] if few is None else [few]
        updates, gone = found[0]
        if len(found) > 1:
            gone = sum([some.gone for some in found])
            updates = concatenate([*(rows[:, :n] for rows, n in found), *(rows[:, n:] for rows, n in found)], axis=1)
        updates[-2], updates[-1], updates[-1, :gone] = time, 1, -1
        return consolidated(updates) if _may_be_equal(updates[: len(self._kept)], gone, self._leading) else updates

    def _room(self, count: int, time: int) -> UpdateArray:
        """Return room for ``count`` updates of the output, at a time; each with count 1."""
        updates: UpdateArray = empty((len(self._kept) + len(self._windows.calls) + 2, count))
        updates[-2], updates[-1] = time, 1
        return updates

    def _room_by_rows(self, count: int, time: int) -> list[Ints]:
        """Like `_room`, row by row, so that whoever stores them can let go of one after another."""
        rows: list[Ints] = [apart(count) for _ in range(len(self._kept) + len(self._windows.calls))]
        return [*rows, *(repeated(number, count) for number in (time, 1))]

    # -- whole partitions ----------------------------------------------------------------------------------------------

    def _loaded(self, new: NewUpdates, which: list[int]) -> tuple[list[int], Rows | None]:
        """Hold in order those partitions that are large and had no rows; return them, with the output's updates.

        Values are computed some rows at a time, so that there is no need of more memory than for rows and values.
        """
        come = self._large_and_new(new, which)
        if not come:
            return [], None
        assert self._evaluator is not None
        copies = largest(new.updates[-1])
        partitions = dict(self._ordered(new.rows_of(come)))
        if len(come) == len(new.names):
            new.updates, new.owner = new.updates[:, :0].copy(), new.owner[:0].copy()  # these may be a part of those
        by_rows = copies == 1 and self.readers_take_rows
        count, at = sum(map(len, partitions.values())), 0
        updates: Rows = self._room_by_rows(count, new.time) if by_rows else self._room(count, new.time)
        computed = self._evaluator.rows_with_values(partitions.values())
        try:
            for codes, values in computed:
                end = at + codes.shape[1]
                for row, numbers in zip(updates, (*codes.take(self._kept, axis=0), *values), strict=False):
                    row[at:end] = numbers
                at = end
        except CallError:
            if len(come) == len(new.names):
                parts = [(number, codes) for number, rows in partitions.items() for codes in rows.chunks()]
                new.updates = stacked([updates_of(codes, time=new.time) for _, codes in parts])
                new.owner = np.concatenate([np.full(codes.shape[1], number) for number, codes in parts])
            return [], None
        for number, partition in partitions.items():
            self._large.put(new.names[number], partition)
        return come, updates if copies == 1 else consolidated(_matrix(updates))

    def _large_and_new(self, new: NewUpdates, which: list[int]) -> list[int]:
        """Return the partitions that are large and had no rows, where it is worth something to know them."""
        reach, counts = self._reach, new.updates[-1]
        if reach is None or reach.to_first or reach.to_last or self._spine.spilled is not None:
            return []  # sums of all rows before others would take longer than computing them whole
        if len(counts) < LARGE or int(counts.min()) < 0 or largest(counts) > MOST_COPIES:
            return []
        sizes = np.bincount(new.owner, counts, len(new.names)).tolist()
        with_rows = set(np.array(which).take(self._spine.find(new.keys.take(which, axis=1))[0]).tolist())
        names = new.names
        return [n for n in which if sizes[n] >= LARGE and n not in with_rows and not self._large.holds(names[n])]

    def _of_whole(self, computed: ComputedWhole, new: NewUpdates) -> UpdateArray:
        """Return the output's updates for partitions computed whole."""
        codes, source, values = computed.rows.codes, computed.source, computed.values
        if computed.old:
            differs = computed.differing()
            source, values = source.compress(differs), values.compress(differs, axis=1)
        updates = self._room(len(source), new.time)
        for row, result in zip(self._kept.tolist(), updates, strict=False):
            codes[row].take(source, out=result, mode="clip")
        updates[len(self._kept) : -2] = values
        updates[-1, : np.count_nonzero(source < computed.old)] = -1  # these come first
        return updates if not computed.old and largest(computed.rows.counts) == 1 else consolidated(updates)

    # -- storing -------------------------------------------------------------------------------------------------------

    def _store(self, new: NewUpdates, done: Collection[int], computed: ComputedWhole | None) -> None:
        """Store updates, but for those of partitions that are in their order and dealt with otherwise."""
        held = self._large.held(new.names)
        to_spine = [n for n in range(len(new.names)) if n not in held]
        if computed is not None:
            stay, leave = self._large_and_small(new, done, computed.after)
            if stay:
                gone = np.isin(computed.stored_of, stay)
                if gone.any():
                    self._spine.remove(computed.stored.compress(gone, axis=1))
                for number, rows in self._ordered(computed.of(stay)):
                    self._large.put(new.names[number], rows)
                to_spine = [n for n in to_spine if n not in set(stay)]
            if leave:
                rows_there = computed.of(leave)
                self._spine.append(updates_of(rows_there.codes, rows_there.counts))
        mask = new.mask(to_spine)
        if mask.any():
            self._spine.append(new.updates if mask.all() else new.updates.compress(mask, axis=1))

    def _large_and_small(self, new: NewUpdates, done: Collection[int], after: GivenRows) -> tuple[list[int], list[int]]:
        """Return the partitions computed whole that are to be in their order, and those that are no more."""
        sizes = np.bincount(after.partition, after.counts, len(new.names))
        may_come = self._reach is not None and self._spine.spilled is None
        stay, leave = list[int](), list[int]()
        known = self._large.among(new.names)
        for number in sorted({*known, *(sizes >= LARGE).nonzero()[0].tolist()} - set(done)):
            name = new.names[number]
            held = self._large.holds(name)
            if sizes[number] >= (SMALL if held else LARGE) and (held or may_come):
                stay.append(number)
                continue
            if held:
                leave.append(number)
            if number in known:
                self._large.drop(name)
        return stay, leave

    def _into_order(self, new: NewUpdates, which: Ints) -> dict[int, OrderIndex]:
        """Have partitions in their order whose rows are in the spine, and return those of them that are not small."""
        owner, updates = self._spine.find(new.keys.take(which, axis=1))
        rows = consolidated(np.concatenate((owner[None], updates[: self._codes], updates[-1:])))
        is_large = np.bincount(rows[0], rows[-1], len(which)) >= LARGE  # what is stored may cancel out
        rows = rows.compress(is_large.take(rows[0]), axis=1)
        if not rows.shape[1]:
            return {}
        found = {which.item(at): some for at, some in self._ordered(GivenRows(rows[0], rows[1:-1], rows[-1]))}
        is_spilled = self._spine.spilled is not None
        for number, some in found.items():
            self._large.put(new.names[number], some, cached=is_spilled)
        if not is_spilled:
            self._spine.remove(updates.compress(is_large.take(owner), axis=1))
        return found

    def _ordered(self, rows: GivenRows) -> Iterator[tuple[int, OrderIndex]]:
        return partitions_in_order(rows.codes, rows.counts, rows.partition, *self._by)

    def _apply(self, name: Key, rows: OrderIndex, edits: Edits) -> None:
        self._large.touch(name)
        rows.apply(edits)
        if len(rows) < SMALL:
            if self._large.holds(name):
                for codes in rows.chunks():
                    self._spine.append(updates_of(codes))
            self._large.drop(name)

    # -- state ---------------------------------------------------------------------------------------------------------

    def spines(self) -> dict[str, Spine]:
        # A name of its own: other engines, which keep rows and output, do not take these for theirs.
        return {"rows alone": self._spine}

    def drop_derived(self) -> None:
        self._large.drop_cached()

    def commit(self) -> None:
        self._large.commit()

    def rollback(self, state: None) -> None:
        del state
        self._large.rollback()


def _may_be_equal(rows: Codes, gone: int, leading: int) -> bool:
    """Return whether some of the rows that go, or of those that come, may be equal: only adjacent copies can be.

    Of copies of a row, some may get what others had. ``leading`` is the row of codes that is looked at first.
    """
    leads = rows[leading]
    equal = leads[1:] == leads[:-1]
    if gone:
        equal[gone - 1 : gone] = False
    for row in rows:
        if not np.count_nonzero(equal):
            return False
        equal &= row[1:] == row[:-1]
    return bool(np.count_nonzero(equal))


def _together(changes: list[Rows]) -> Rows:
    """Return the updates of all; a list of rows stays one where there is nothing else."""
    return changes[0] if len(changes) == 1 else stacked([_matrix(some) for some in changes])


def _matrix(updates: Rows) -> UpdateArray:
    return stack(updates) if isinstance(updates, list) else updates


def _by_time(updates: UpdateArray, row: int) -> list[UpdateArray]:
    """Return updates by their times, which a row has, the latest first."""
    times = updates[row]
    if len(times) == 1 or (times == times[0]).all():
        return [updates]
    return [updates.compress(times == t, axis=1) for t in np.unique(times)[::-1]]
