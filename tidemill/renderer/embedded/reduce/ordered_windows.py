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
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.bound import MOST_COPIES, CallError, Windows, too_many_copies
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.memory import apart, empty, stack
from tidemill.renderer.embedded.kernels.updates import (
    Bools,
    Codes,
    Ints,
    Rows,
    UpdateArray,
    consolidated,
    largest,
    numbered,
    stacked,
)
from tidemill.renderer.embedded.reduce.window_updates import ComputedWhole, NewUpdates, added_up, by_time, compressed
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.stored_order import KeyOrder
from tidemill.renderer.embedded.windows.edits import Edit, ManyEdits
from tidemill.renderer.embedded.windows.few_rows import calls_of_few
from tidemill.renderer.embedded.windows.large_partitions import Key, LargePartitions, updates_of
from tidemill.renderer.embedded.windows.many_changes import CallsOfMany
from tidemill.renderer.embedded.windows.many_places import edits_of
from tidemill.renderer.embedded.windows.ordered import changed_rows, rows_with_values
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.ordering import order_of_rows
from tidemill.renderer.embedded.windows.partitions_in_order import partitions_in_order
from tidemill.renderer.embedded.windows.reach import Reach
from tidemill.renderer.embedded.windows.recompute import GivenRows, recompute
from tidemill.renderer.runs import failures

__all__ = ["OrderedWindowsOperator"]

LARGE: Final = 256
"""Rows of a partition from which on it is kept in its order.

A step takes half as long there, and making the order about as long as a step: benchmarks/window_thresholds.py.
"""
SMALL: Final = 64
"""Rows below which it is not any more."""
FEW: Final = 8
"""Updates up to which they are looked at one by one, whether they are of one partition, and sorted."""
MANY: Final = 32
"""Where one in so many rows changes, or more, the partition is computed whole, which takes no longer there."""

AT_ONCE: Final = 64
"""Rows of a partition that change from which on their places are found together."""
SPREAD: Final = 8192
"""But where no more than one in so many changes: all rows are gone through for it."""


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
        self._keeps_all = kept == tuple(range(len(schema)))
        layout = UpdateLayout(tuple(range(self._width)), self._types, 1, self.schedule.users)
        self._spine = Spine(layout, self.since, self.schedule.transaction)
        self._reach = Reach.of(windows, self._types)
        """How far changes reach; None where they may reach to an end of the partition."""
        self._calls = calls_of_few(windows, self._types)
        self._calls_of_many = CallsOfMany.of(windows, self._types, self._reach, interner, self._kept)
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
        parts = by_time(new, self._codes)
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
        edits: dict[int, list[Edit] | ManyEdits] = {}
        found: list[Rows] = []
        try:
            for n, some in self._by_partition(in_order, new):
                edits[n] = self._any_edits(in_order[n], some)
            if edits:
                found = [*self._of_any_edits([(in_order[n], made) for n, made in edits.items()], new.time)]
        except CallError:  # perhaps of a row that is only looked at: computed whole, it shows
            whole = list(range(len(new.names)))
        loaded, part = self._loaded(new, whole) if whole else ([], None)
        if part is not None:
            found.append(part)
            whole = [number for number in whole if number not in set(loaded)]
        computed: ComputedWhole | None = None
        if whole:
            computed = self._computed_whole(new, np.array(whole))
            found.append(self._of_whole(computed, new))
        if computed is not None or not all(map(self._large.holds, new.names)):
            self._store(new, {*edits, *loaded}, computed)
        for number, made in edits.items():
            self._apply(new.names[number], in_order[number], made)
        return _together(found)  # of different partitions, so that none of one part is equal to one of another

    def _changed_by_few(self, updates: UpdateArray) -> UpdateArray | None:
        """Return what `_changed` does with updates of one partition that is held in order; None where it is not so."""
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

    def _shared_out(self, new: NewUpdates) -> tuple[dict[int, OrderedPartition], list[int]]:
        """Return which partitions are changed in their order, by the number of the key, and which computed whole."""
        names = new.names
        if self._reach is None:
            return {}, list(range(len(names)))
        in_order: dict[int, OrderedPartition] = {}
        changed = added_up(new.owner, np.abs(new.updates[-1]), len(names))
        known = [self._large.get(name) for name in names]
        if self._spine.spilled is not None:
            self._look_in_order(new, known)
        unknown = [number for number, rows in enumerate(known) if rows is None]
        counts = self._spine.count(new.keys.take(unknown, axis=1)).tolist() if unknown else []
        stored = dict(zip(unknown, counts, strict=True))
        for number, name in enumerate(names):
            rows = known[number]
            if rows is None and stored[number] >= max(LARGE, changed[number] * MANY):
                rows = self._into_order(name, new.keys[:, number : number + 1])
            if rows is not None and len(rows) >= changed[number] * MANY:
                in_order[number] = rows
        return in_order, [n for n in range(len(names)) if n not in in_order]

    def _look_in_order(self, new: NewUpdates, known: list[OrderedPartition | None]) -> None:
        """Look at spilled partitions, and have those here that lie in order, read as far as they are looked at."""
        asked = [number for number, rows in enumerate(known) if rows is None]
        found = self._spine.in_order(new.keys.take(asked, axis=1), MANY) if asked else {}
        for at, (pages, rest) in found.items():
            name = new.names[asked[at]]
            rows = OrderedPartition.stored(pages, self._by)
            changed = consolidated(np.concatenate((rest[: self._codes], rest[-1:])))
            updates = changed.take(
                self._order.sorted(list(changed[:-1]), np.zeros(changed.shape[1], np.int64)).order, axis=1
            )
            rows.apply(self._edits(rows, updates))
            self._large.put(name, rows, copies=True)
            known[asked[at]] = rows
        for name, there in zip(new.names, known, strict=True):
            if there is not None and not self._large.holds(name):
                self._large.touch(name)  # before it is looked at: that reads more of it

    def _by_partition(
        self, in_order: dict[int, OrderedPartition], new: NewUpdates
    ) -> Iterator[tuple[int, UpdateArray]]:
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

    def _edits(self, rows: OrderedPartition, new: UpdateArray) -> list[Edit]:
        """Return what updates of a partition, in its order, come to; `CallError` for too many copies of a row."""
        found: list[Edit] = []
        for update, numbers in zip(new.T, new.T.tolist(), strict=True):
            row, count = update[: self._codes], numbers[-1]
            place = rows.place_of(numbers[: self._codes])
            if count < 0 and (there := rows.copies(place, row, -count)) < -count:
                raise self._negative(row, there + count)
            last = place + MOST_COPIES - count  # where no copy may be that is there already
            if count > 0 and last < len(rows) and (last < place or rows.copies(last, row, 1)):
                raise CallError(0, row, too_many_copies(count))
            found.append(Edit(place, row, count))
        return found

    def _any_edits(self, rows: OrderedPartition, new: UpdateArray) -> list[Edit] | ManyEdits:
        """Return what `_edits` does; where they are many, worked out at once."""
        codes, counts = new[: self._codes], new[-1]
        if len(counts) < AT_ONCE or len(counts) * SPREAD < len(rows) or rows.in_memory < len(rows):
            return self._edits(rows, new)

        def check(some: slice, there: Bools) -> None:
            counts = new[-1, some]
            unsure = (counts < 0) & ~there | (counts > 0) & there | (np.abs(counts) > 1)
            if unsure.any():
                self._edits(rows, new[:, some].compress(unsure, axis=1))  # which looks how often each is there

        return edits_of(rows, codes, counts, check)

    def _of_any_edits(
        self, edits: list[tuple[OrderedPartition, list[Edit] | ManyEdits]], time: int
    ) -> Iterator[UpdateArray]:
        """Iterate over the output's updates for edits of partitions in their order, of which some are many."""
        by_one: list[tuple[OrderedPartition, list[Edit]]] = []
        at_once: list[tuple[OrderedPartition, ManyEdits]] = []
        for rows, made in edits:
            if not isinstance(made, ManyEdits):
                by_one.append((rows, made))
            elif self._calls_of_many is None:
                by_one.append((rows, made.each()))
            else:
                at_once.append((rows, made))
        if self._calls_of_many is not None and at_once:
            yield self._calls_of_many.updates(at_once, time)
        if by_one:
            yield self._in_order(by_one, time)

    def _in_order(self, edits: list[tuple[OrderedPartition, list[Edit]]], time: int) -> UpdateArray:
        """Return the output's updates for edits of partitions in their order, which are not made yet."""
        assert self._reach is not None
        changed = changed_rows(self._windows, self._types, self._reach, edits, self._interner, calls=self._calls)
        updates = self._room(changed.rows.shape[1], time)
        updates[: len(self._kept)] = changed.rows if self._keeps_all else changed.rows.take(self._kept, axis=0)
        updates[len(self._kept) : -2] = changed.values
        updates[-1, : changed.gone] = -1
        return updates if changed.differ else consolidated(updates)

    def _room(self, count: int, time: int) -> UpdateArray:
        """Return room for so many updates of the output, at a time; each with count 1."""
        updates: UpdateArray = empty((len(self._kept) + len(self._windows.calls) + 2, count))
        updates[-2], updates[-1] = time, 1
        return updates

    def _room_by_rows(self, count: int, time: int) -> list[Ints]:
        """Return what `_room` does, row by row, so that whoever stores them can let go of one after another."""
        rows: list[Ints] = [apart(count) for _ in range(len(self._kept) + len(self._windows.calls))]
        return [*rows, *(np.broadcast_to(np.int64(number), count) for number in (time, 1))]

    # -- whole partitions ----------------------------------------------------------------------------------------------

    def _loaded(self, new: NewUpdates, which: list[int]) -> tuple[list[int], Rows | None]:
        """Put those of the partitions in order that are large and had no rows, and return them, with their updates.

        Values are worked out some rows at a time, so that there is no need of more memory than for rows and values.
        """
        come = self._large_and_new(new, which)
        if not come:
            return [], None
        assert self._reach is not None
        copies = largest(new.updates[-1])
        partitions = dict(self._ordered(self._given(new, come)))
        if len(come) == len(new.names):
            new.updates, new.owner = new.updates[:, :0].copy(), new.owner[:0].copy()  # these may be a part of those
        by_rows = copies == 1 and self.readers_take_rows
        count, at = sum(map(len, partitions.values())), 0
        updates: Rows = self._room_by_rows(count, new.time) if by_rows else self._room(count, new.time)
        computed = rows_with_values(self._windows, self._types, self._reach, partitions.values(), self._interner)
        try:
            for codes, values in computed:
                end = at + codes.shape[1]
                for row, numbers in zip(updates, (*codes.take(self._kept, axis=0), *values), strict=False):
                    row[at:end] = numbers
                at = end
        except CallError:
            if len(come) == len(new.names):
                parts = [(number, codes) for number, rows in partitions.items() for codes in rows.parts()]
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

    def _given(self, new: NewUpdates, which: list[int]) -> GivenRows:
        """Return the rows of new updates of some of the partitions."""
        rows = GivenRows(new.owner, new.updates[: self._codes], new.updates[-1])
        return rows if len(which) == len(new.names) else compressed(rows, new.mask(which))

    def _computed_whole(self, new: NewUpdates, which: Ints) -> ComputedWhole:
        """Return some of the partitions computed whole, before and after."""
        found, stored = self._spine.find(new.keys.take(which, axis=1))
        found = which.take(found)
        before = [np.concatenate((found[None], stored[: self._codes], stored[-1:]))] if len(found) else []
        for number in which.tolist():
            before += self._large.numbered(new.names[number], number)
        change = self._given(new, which.tolist())
        if not before:
            return ComputedWhole(change, 0, *self._values(change, change), change, found, stored)
        old = consolidated(np.concatenate(before, axis=1))
        come = np.concatenate((change.partition[None], change.codes, change.counts[None]))
        rows = np.concatenate((old, consolidated(np.concatenate((old, come), axis=1))), axis=1)
        gone = old.shape[1]
        after = GivenRows(rows[0, gone:].copy(), rows[1:-1, gone:], rows[-1, gone:])
        rows[0, gone:] += len(new.names)
        given = GivenRows(rows[0], rows[1:-1], rows[-1])
        return ComputedWhole(given, gone, *self._values(given, after), after, found, stored)

    def _of_whole(self, computed: ComputedWhole, new: NewUpdates) -> UpdateArray:
        """Return the output's updates for partitions computed whole."""
        codes, source, width = computed.rows.codes, computed.source, len(self._kept)
        updates = self._room(len(source), new.time)
        for row, result in zip(self._kept.tolist(), updates, strict=False):
            codes[row].take(source, out=result, mode="clip")
        updates[width:-2] = computed.values
        updates[-1, : np.count_nonzero(source < computed.old)] = -1  # these come first
        return updates if not computed.old and largest(computed.rows.counts) == 1 else consolidated(updates)

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

    def _store(self, new: NewUpdates, done: Collection[int], computed: ComputedWhole | None) -> None:
        """Store updates, but for those of partitions that are in their order and dealt with otherwise."""
        to_spine = [n for n, name in enumerate(new.names) if not self._large.holds(name)]
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
        sizes = np.bincount(after.partition, after.counts, len(new.names)).tolist()
        may_come = self._reach is not None and self._spine.spilled is None
        stay, leave = list[int](), list[int]()
        for number, name in enumerate(new.names):
            if number in done:
                continue
            held = self._large.holds(name)
            if sizes[number] >= (SMALL if held else LARGE) and (held or may_come):
                stay.append(number)
                continue
            if held:
                leave.append(number)
            if self._large.get(name) is not None:
                self._large.drop(name)
        return stay, leave

    def _into_order(self, name: Key, key: Codes) -> OrderedPartition | None:
        """Have a partition in its order whose rows are in the spine, and return it; None where they are few."""
        _, updates = self._spine.find(key)
        rows = consolidated(np.concatenate((updates[: self._codes], updates[-1:])))
        if int(rows[-1].sum()) < LARGE:  # what is stored may cancel out
            return None
        ((_, found),) = self._ordered(GivenRows(np.zeros(rows.shape[1], np.int64), rows[:-1], rows[-1]))
        is_spilled = self._spine.spilled is not None
        self._large.put(name, found, copies=is_spilled)
        if not is_spilled:
            self._spine.remove(updates)
        return found

    def _ordered(self, rows: GivenRows) -> Iterator[tuple[int, OrderedPartition]]:
        return partitions_in_order(rows.codes, rows.counts, rows.partition, *self._by)

    def _apply(self, name: Key, rows: OrderedPartition, edits: list[Edit] | ManyEdits) -> None:
        self._large.touch(name)
        if isinstance(edits, ManyEdits):
            rows.apply_many(edits)
        else:
            rows.apply(edits)
        if len(rows) < SMALL:
            if self._large.holds(name):
                for codes in rows.parts():
                    self._spine.append(updates_of(codes))
            self._large.drop(name)

    # -- state ---------------------------------------------------------------------------------------------------------

    def spines(self) -> dict[str, Spine]:
        # A name of its own: other engines, which keep rows and output, do not take these for theirs.
        return {"rows alone": self._spine}

    def drop_derived(self) -> None:
        self._large.drop_copies()

    def commit(self) -> None:
        self._large.commit()

    def rollback(self, state: None) -> None:
        del state
        self._large.rollback()


def _together(changes: list[Rows]) -> Rows:
    """Return the updates of all; a list of rows stays one where there is nothing else."""
    return changes[0] if len(changes) == 1 else stacked([_matrix(some) for some in changes])


def _matrix(updates: Rows) -> UpdateArray:
    return stack(updates) if isinstance(updates, list) else updates
