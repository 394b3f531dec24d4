"""Window calls at top level over one coordinate: of large partitions, only what a change reaches is computed anew.

The state is the rows, by partition. Those of large partitions are kept in their order, and there only; those of small
ones in a spine, and these are computed whole, before and after, many at once. What was saved comes back in the spine,
from which large partitions go into their order when they are touched; of what is spilled, which lies in that order,
too, it is a copy of the pages that were looked at, dropped with all else that was read. Of the output nothing is kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import attrs
import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.nodes import Reduce
from tidemill.errors import StepError
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.bound import MOST_COPIES, CallError, Windows, too_many_copies
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.memory import apart, concatenate, empty, repeated, stack
from tidemill.renderer.embedded.kernels.updates import (
    Bools,
    Codes,
    Ints,
    Rows,
    UpdateArray,
    consolidated,
    first_numbers,
    largest,
    marked,
    may_be_some,
    numbered,
    stacked,
)
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Groups, Shape
from tidemill.renderer.embedded.reduce.group_rows import GroupRows
from tidemill.renderer.embedded.reduce.logic import LOGICS, DesiredOutput, LogicContext
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.stored_order import KeyOrder
from tidemill.renderer.embedded.windows.affected import Reach
from tidemill.renderer.embedded.windows.changes import Evaluator
from tidemill.renderer.embedded.windows.chunks import Edits
from tidemill.renderer.embedded.windows.evaluate import recompute
from tidemill.renderer.embedded.windows.large_partitions import Key, LargePartitions, partitions_in_order, updates_of
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.ordering import GivenRows, order_of_rows
from tidemill.renderer.embedded.windows.scalar import Scalar
from tidemill.renderer.runs import failures

LARGE: Final = 256
"""Rows of a partition from which on it is kept in its order.

A step takes half as long there, and making the order about as long as a step: benchmarks/window_thresholds.py.
"""
SMALL: Final = 64
"""Rows below which it is not any more."""
FEW: Final = 8
"""Updates up to which they are handled one by one: checked for being of one partition, and searched for."""
MANY: Final = 32
"""Where one in this many rows changes, or more, the partition is computed whole, which takes no longer there."""


@attrs.define
class _NewUpdates:
    """New updates of one time, of partitions by their numbers."""

    names: list[Key]
    """The keys of the partitions, as tuples."""
    keys: Codes
    owner: Ints
    """The number of each update's partition."""
    updates: UpdateArray
    time: int

    def mask(self, numbers: Collection[int]) -> Bools:
        """Return which updates are of some of the partitions."""
        wanted = np.zeros(len(self.names), np.bool_)
        wanted[list(numbers)] = True
        return wanted.take(self.owner)


class _ComputedWhole(NamedTuple):
    """Partitions, by numbers, computed whole, or of small ones the rows near to those that changed."""

    rows: GivenRows
    """The rows before, and then those after, with other numbers."""
    old: int
    """How many are those before."""
    source: Ints
    """In the windows' order, which of the rows has the values."""
    values: Codes
    after: GivenRows
    """The rows after."""
    stay: Ints
    """Which rows before are the first ones after, as they are."""
    stored_of: Ints
    """The numbers of the partitions of what the spine had of them."""
    stored: UpdateArray

    def of(self, numbers: Collection[int]) -> GivenRows:
        """Return the rows after of some of the partitions."""
        return _compressed(self.after, np.isin(self.after.partition, list(numbers)))


class OrderedWindowsOperator(Operator):
    """A Reduce by `Windows` at top level, over one coordinate: its updates come in the order of their times."""

    consolidated = True

    def __init__(self, node: Reduce, windows: Windows, region: Region, interner: Interner) -> None:
        schema = node.inputs[0].schema
        super().__init__(node, region, (len(schema),))
        self._reduce = node
        self._windows = windows
        self._interner = interner
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
        self._far = _rows_between(self._reach)
        self._evaluator = None
        if self._reach is not None:
            self._evaluator = Evaluator(windows, self._types, self._reach, interner, self._kept)
        self._scalar = Scalar.of(windows, self._types, self._reach, self._kept)
        self._order = order_of_rows(windows, self._types, interner, self._width)
        self._by = KeyOrder(self._order, len(windows.order))
        if self._reach is not None:
            self._spine.by = self._by
        self._large = self._spine.beside = LargePartitions()

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
        new = _NewUpdates(list(map(tuple, keys.T.tolist())), keys, owner, updates, int(updates[self._codes, 0]))
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
        computed: _ComputedWhole | None = None
        if whole:
            computed = self._computed_whole(new, np.array(whole))
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

    def _shared_out(self, new: _NewUpdates) -> tuple[dict[int, OrderIndex], list[int]]:
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
            for number in unknown.compress(stored >= np.maximum(LARGE, changed.take(unknown) * MANY)).tolist():
                if (rows := self._into_order(names[number], new.keys[:, number : number + 1])) is not None:
                    known[number] = rows
        most = changed * MANY
        in_order = {number: rows for number, rows in sorted(known.items()) if len(rows) >= most[number]}
        return in_order, [n for n in range(len(names)) if n not in in_order]

    def _look_in_order(self, new: _NewUpdates, known: dict[int, OrderIndex]) -> None:
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

    def _by_partition(self, in_order: dict[int, OrderIndex], new: _NewUpdates) -> Iterator[tuple[int, UpdateArray]]:
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
            raise self._negative(row, there + count)
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

    def _loaded(self, new: _NewUpdates, which: list[int]) -> tuple[list[int], Rows | None]:
        """Hold in order those partitions that are large and had no rows; return them, with the output's updates.

        Values are computed some rows at a time, so that there is no need of more memory than for rows and values.
        """
        come = self._large_and_new(new, which)
        if not come:
            return [], None
        assert self._evaluator is not None
        copies = largest(new.updates[-1])
        partitions = dict(self._ordered(self._given(new, come)))
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

    def _large_and_new(self, new: _NewUpdates, which: list[int]) -> list[int]:
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

    def _given(self, new: _NewUpdates, which: list[int]) -> GivenRows:
        """Return the rows of new updates of some of the partitions."""
        rows = GivenRows(new.owner, new.updates[: self._codes], new.updates[-1])
        return rows if len(which) == len(new.names) else _compressed(rows, new.mask(which))

    def _computed_whole(self, new: _NewUpdates, which: Ints) -> _ComputedWhole:
        """Return some of the partitions computed whole, before and after."""
        found, stored = self._spine.find(new.keys.take(which, axis=1))
        found = which.take(found)
        before = [concatenate((found[None], stored[: self._codes], stored[-1:]))] if len(found) else []
        for number in self._large.held(new.names).intersection(which.tolist()):
            before += self._large.numbered(new.names[number], number)
        change = self._given(new, which.tolist())
        if not before:
            none = first_numbers(0)
            return _ComputedWhole(change, 0, *self._values(change, change), change, none, found, stored)
        old = consolidated(stacked(before))
        come = np.concatenate((change.partition[None], change.codes, change.counts[None]))
        gone = old.shape[1]
        rows = concatenate((old, come), axis=1)
        changed = _equal_to_later(rows[:-1], gone)
        if self._is_small_in(rows, new, 2 * int(np.count_nonzero(changed))):
            near = self._near(rows, changed)
            some = marked(rows, near), int(np.count_nonzero(near[:gone])), changed.compress(near)
            with contextlib.suppress(StepError):  # perhaps of a row that is only looked at: computed whole, it shows
                return _ComputedWhole(*self._before_and_after(*some, len(new.names)), found, stored)
        return _ComputedWhole(*self._before_and_after(rows, gone, changed, len(new.names)), found, stored)

    def _before_and_after(
        self, rows: UpdateArray, gone: int, changed: Bools, partitions: int
    ) -> tuple[GivenRows, int, Ints, Codes, GivenRows, Ints]:
        """Return what a `_ComputedWhole` begins with, of the rows before, and those that come or go."""
        old, stays = rows[:, :gone], ~changed[:gone]
        rows = concatenate((old, marked(old, stays), consolidated(rows.compress(changed, axis=1))), axis=1)
        after = GivenRows(rows[0, gone:].copy(), rows[1:-1, gone:], rows[-1, gone:])
        rows[0, gone:] += partitions
        given = GivenRows(rows[0], rows[1:-1], rows[-1])
        return given, gone, *self._values(given, after), after, stays.nonzero()[0]

    def _is_small_in(self, rows: UpdateArray, new: _NewUpdates, changed: int) -> bool:
        """Return whether few of the rows decide what changes, and all are of partitions that stay small."""
        if self._far is None or (4 * self._far + 1) * changed > rows.shape[1] or self._large.among(new.names):
            return False
        return bool(np.bincount(rows[0], np.abs(rows[-1])).max() < LARGE)

    def _near(self, rows: UpdateArray, changed: Bools) -> Bools:
        """Return which rows are so near to one that changed that they decide a value that changes.

        A value looks so many rows far. Twice as far all are taken, so that those once as far see what they saw, and of
        those beyond the values stay, whatever they are now.
        """
        assert self._far is not None
        order = self._order.sorted(list(rows[1:-1]), rows[0]).order
        at, n = changed.take(order).nonzero()[0], len(order)
        begins, ends = np.maximum(at - 2 * self._far, 0), np.minimum(at + 2 * self._far + 1, n)
        near = np.empty(n, np.bool_)
        near[order] = (np.bincount(begins, minlength=n + 1) - np.bincount(ends, minlength=n + 1)).cumsum()[:n] > 0
        return near

    def _of_whole(self, computed: _ComputedWhole, new: _NewUpdates) -> UpdateArray:
        """Return the output's updates for partitions computed whole."""
        codes, source, values = computed.rows.codes, computed.source, computed.values
        if computed.old:
            differs = self._differing(computed)
            source, values = source.compress(differs), values.compress(differs, axis=1)
        updates = self._room(len(source), new.time)
        for row, result in zip(self._kept.tolist(), updates, strict=False):
            codes[row].take(source, out=result, mode="clip")
        updates[len(self._kept) : -2] = values
        updates[-1, : np.count_nonzero(source < computed.old)] = -1  # these come first
        return updates if not computed.old and largest(computed.rows.counts) == 1 else consolidated(updates)

    def _differing(self, computed: _ComputedWhole) -> Bools:
        """Return which values are of rows that changed, or are others than before; where rows have copies, all."""
        differs = np.ones(len(computed.source), np.bool_)
        if largest(computed.rows.counts) == 1:
            place = np.empty(computed.rows.codes.shape[1], np.int64)
            place[computed.source] = np.arange(len(place))
            before, after = place.take(computed.stay), place[computed.old : computed.old + len(computed.stay)]
            equal = np.ones(len(before), np.bool_)
            for row in computed.values:
                equal &= row.take(before) == row.take(after)
            differs[before.compress(equal)] = differs[after.compress(equal)] = False
        return differs

    def _values(self, given: GivenRows, after: GivenRows) -> tuple[Ints, Codes]:
        """Return the values of rows, among them those after."""
        negative = (after.counts < 0).nonzero()[0]
        if len(negative):
            raise self._negative(after.codes[:, negative[0]], int(after.counts[negative[0]]))
        try:
            return recompute(self._windows, self._types, given, self._interner)
        except CallError as error:
            (row,) = decode_rows(self._schema, given.codes[:, [error.row]], self._interner)
            raise failures.no_window_value(self.node, self._windows, row, error) from None

    def _negative(self, row: Ints, count: int) -> Exception:
        fields, width = self._schema.fields, self._windows.partitioned_by(self._width)
        (key,) = decode_rows(Schema(fields[:width]), row[:width, None], self._interner)
        own = list(self._windows.row)
        (shown,) = decode_rows(Schema(tuple(fields[i] for i in own)), row[own, None], self._interner)
        return failures.negative_count(self.node, key, shown, count)

    @property
    def _schema(self) -> Schema:
        return self._reduce.inputs[0].schema

    # -- storing -------------------------------------------------------------------------------------------------------

    def _store(self, new: _NewUpdates, done: Collection[int], computed: _ComputedWhole | None) -> None:
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

    def _large_and_small(
        self, new: _NewUpdates, done: Collection[int], after: GivenRows
    ) -> tuple[list[int], list[int]]:
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

    def _into_order(self, name: Key, key: Codes) -> OrderIndex | None:
        """Have a partition in its order whose rows are in the spine, and return it; None where they are few."""
        _, updates = self._spine.find(key)
        rows = consolidated(np.concatenate((updates[: self._codes], updates[-1:])))
        if int(rows[-1].sum()) < LARGE:  # what is stored may cancel out
            return None
        ((_, found),) = self._ordered(GivenRows(np.zeros(rows.shape[1], np.int64), rows[:-1], rows[-1]))
        is_spilled = self._spine.spilled is not None
        self._large.put(name, found, cached=is_spilled)
        if not is_spilled:
            self._spine.remove(updates)
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


def _rows_between(reach: Reach | None) -> int | None:
    """Return how many rows far calls look, where that alone says which values a change reaches; else None."""
    return max(reach.rows) if reach is not None and attrs.evolve(reach, rows=(0, 0)) == Reach() else None


def _equal_to_later(rows: Codes, first: int) -> Bools:
    """Return which rows are equal to one of those from the first of the later ones on: those themselves, too."""
    equal = may_be_some(rows, np.arange(first, rows.shape[1]))
    some = equal.nonzero()[0]
    _, owner = numbered(rows.take(some, axis=1))
    equal[some] = np.bincount(owner, some >= first).take(owner) > 0
    return equal


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


def _compressed(rows: GivenRows, mask: Bools) -> GivenRows:
    """Return the rows that are marked."""
    if mask.all():
        return rows
    return GivenRows(rows.partition.compress(mask), rows.codes.compress(mask, axis=1), rows.counts.compress(mask))


# -- in loops, and over times of several coordinates -------------------------------------------------------------------


class WindowsLogic:
    """The logic of a Reduce by `Windows`: each copy of each row of the group, with the calls' values."""

    consolidates = False
    keyed_output = True

    def __init__(self, node: Reduce, windows: Windows, around: LogicContext) -> None:
        self._node = node
        self._windows = windows
        self._interner = around.interner
        schema = node.inputs[0].schema
        self._types = schema.dtypes
        width = len(node.keys)
        shape = Shape(width, node.scope.coordinates, around.schedule, around.since, node)
        self._kept = windows.kept(width)
        columns = range(width, len(schema))
        self._rows = GroupRows(columns, None, len(schema), shape, named=windows.row)

    def spines(self) -> dict[str, Spine]:
        return {"rows": self._rows.spine}

    def drop_derived(self) -> None:
        self._rows.drop_derived()

    def gather(self, keys: Codes, owner: Ints, new: Rows) -> list[Stored]:
        return [self._rows.gather(keys, owner, new)]

    def desired(self, keys: Codes, interesting: InterestingTimes, seen: list[Stored]) -> DesiredOutput:
        group = Groups(self._node, keys, interesting, np.arange(len(interesting)), self._interner)
        accumulated = self._rows.accumulated(group, interesting, seen[0])
        at = accumulated[0]
        rows = np.concatenate((group.codes(at), accumulated[1:-1]))
        try:
            source, values = recompute(self._windows, self._types, GivenRows(at, rows, accumulated[-1]), self._interner)
        except CallError as error:
            raise self._failed(rows, error) from None
        found = np.concatenate([*(rows[i].take(source)[None] for i in self._kept), values])
        return DesiredOutput(at.take(source), found, np.ones(len(source), np.int64))

    def _failed(self, rows: Codes, error: CallError) -> Exception:
        schema = self._node.inputs[0].schema
        (row,) = decode_rows(schema, rows[:, [error.row]], self._interner)
        return failures.no_window_value(self._node, self._windows, row, error)


@LOGICS(Windows)
def _logic(node: Reduce, around: LogicContext) -> WindowsLogic:
    assert isinstance(node.logic, Windows)
    return WindowsLogic(node, node.logic, around)
