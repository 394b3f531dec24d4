"""Window calls at top level over one coordinate: of large partitions, only what a change reaches is computed anew.

The state is the rows, by partition. Those of large partitions are kept in their order, and there only; those of small
ones in a spine, and these are computed whole, before and after, many at once. What was saved comes back in the spine,
from which large partitions go into their order when they are touched; of what is spilled that is a copy, which is
dropped with all else that was read from the disk. Nothing is kept of the output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.bound import MOST_COPIES, CallError, Windows, too_many_copies
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.memory import empty
from tidemill.renderer.embedded.kernels.updates import (
    Codes,
    Ints,
    UpdateArray,
    consolidated,
    first_numbers,
    largest,
    numbered,
)
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.windows.large_partitions import Key, LargePartitions, updates_of
from tidemill.renderer.embedded.windows.ordered import Changed, changed_rows
from tidemill.renderer.embedded.windows.ordered_partition import Edit, OrderedPartition
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
MANY: Final = 32
"""Where one in so many rows changes, or more, the partition is computed whole, which takes no longer there."""


class _Computed(NamedTuple):
    """Partitions, by numbers, computed whole."""

    rows: GivenRows
    """The rows before, and then those after, with other numbers."""
    old: int
    """How many are those before."""
    source: Ints
    """In the windows' order, which of the rows has the values."""
    values: Codes
    after: GivenRows
    """The rows after."""
    stored_of: Ints
    """The numbers of the partitions of what the spine had of them."""
    stored: UpdateArray

    @property
    def differ(self) -> bool:
        """Whether no row, with its values, is known to be among those that go or come twice, or among both."""
        return not self.old and largest(self.rows.counts) == 1

    def of(self, numbers: Collection[int]) -> GivenRows:
        """Return the rows after of some of the partitions."""
        mask = np.isin(self.after.partition, list(numbers))
        if mask.all():
            return self.after
        partition, codes, counts = self.after
        return GivenRows(partition.compress(mask), codes.compress(mask, axis=1), counts.compress(mask))


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
        self._kept = windows.kept(self._width)
        self._kept_rows = np.array(self._kept, np.int64)
        layout = UpdateLayout(tuple(range(self._width)), self._types, 1, self.schedule.users)
        self._spine = Spine(layout, self.since, self.schedule.transaction)
        self._reach = Reach.of(windows, self._types)
        """How far changes reach; None where they may reach to an end of the partition."""
        # Where no call depends on the order of peers, rows are found again by all they have.
        ties = windows.ties or tuple(OrderColumn(c) for c in self._kept[self._width :])
        columns = [
            SortColumn(o.column, self._types[o.column], o.descending, o.nulls_first) for o in (*windows.order, *ties)
        ]
        self._order = RowOrder(columns, interner)
        self._large = self._spine.beside = LargePartitions()

    def run(self) -> None:
        new = self.ports[0].take_consolidated()
        if new is None:
            return
        if largest(new[-1]) > COUNT_LIMIT:
            raise failures.too_many(self.node)
        times = new[self._codes]
        if len(times) == 1 or (times == times[0]).all():
            changes = [self._changed(new)]
        else:
            changes = [self._changed(new.compress(times == t, axis=1)) for t in np.unique(times)]
        change = changes[0] if len(changes) == 1 else np.concatenate(changes, axis=1)
        if change.shape[1]:
            self.emit(change, self.region.now)

    def _changed(self, new: UpdateArray) -> UpdateArray:
        """Take new updates of one time, and return the output's."""
        self.schedule.transaction.join(self, None)
        time = int(new[self._codes, 0])
        one, owner = numbered(new[: self._width])
        keys = new[: self._width].take(one, axis=1)
        names = list(map(tuple, keys.T.tolist()))
        in_order, whole = self._shared_out(names, keys, owner, new)
        edits: dict[int, list[Edit]] = {}
        changed: Changed | None = None
        try:
            edits = {n: self._edits(in_order[n], some) for n, some in self._by_partition(in_order, owner, new)}
            if edits:
                changed = self._in_order([(in_order[n], made) for n, made in edits.items()])
        except CallError:  # perhaps of a row that is only looked at: computed whole, it shows
            whole = np.arange(len(names))
        computed = self._computed_whole(names, keys, owner, new, whole) if len(whole) else None
        if computed is not None or not all(map(self._large.holds, names)):
            self._store(names, owner, new, edits, computed)
        for number, made in edits.items():
            self._apply(names[number], in_order[number], made)
        found = [] if changed is None else [_updates(changed, self._kept_rows, time)]
        found += [] if computed is None else [_of_whole(computed, self._kept, time)]
        if len(found) > 1:
            return consolidated(np.concatenate(found, axis=1))
        return found[0] if all(part.differ for part in (changed, computed) if part) else consolidated(found[0])

    def _shared_out(
        self, names: list[Key], keys: Codes, owner: Ints, new: UpdateArray
    ) -> tuple[dict[int, OrderedPartition], Ints]:
        """Return which partitions are changed in their order, by the number of the key, and which computed whole."""
        if self._reach is None:
            return {}, np.arange(len(names))
        in_order: dict[int, OrderedPartition] = {}
        changed = _added_up(owner, np.abs(new[-1]), len(names))
        known = [self._large.get(name) for name in names]
        stored = self._spine.count(keys).tolist() if None in known else []
        for number, name in enumerate(names):
            rows = known[number]
            if rows is None and stored[number] >= max(LARGE, changed[number] * MANY):
                rows = self._into_order(name, keys[:, number : number + 1])
            if rows is not None and len(rows) >= changed[number] * MANY:
                in_order[number] = rows
        if len(in_order) == len(names):
            return in_order, first_numbers(0)
        return in_order, np.array([n for n in range(len(names)) if n not in in_order], np.int64)

    def _by_partition(
        self, in_order: dict[int, OrderedPartition], owner: Ints, new: UpdateArray
    ) -> Iterator[tuple[int, UpdateArray]]:
        """Iterate over the partitions changed in their order, with the updates of each in it, too: one sort for all."""
        if new.shape[1] == 1 or not in_order:
            yield from ((number, new) for number in in_order)
            return
        if len(in_order) <= owner.max():
            some = np.isin(owner, list(in_order))
            owner, new = owner.compress(some), new.compress(some, axis=1)
        new = new.take(self._order.sorted(list(new[: self._codes]), owner).order, axis=1)
        ends = np.bincount(owner).cumsum().tolist()
        for number in in_order:
            yield number, new[:, ends[number - 1] if number else 0 : ends[number]]

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

    def _in_order(self, edits: list[tuple[OrderedPartition, list[Edit]]]) -> Changed:
        assert self._reach is not None
        return changed_rows(self._windows, self._types, self._reach, edits, self._interner)

    # -- whole partitions ----------------------------------------------------------------------------------------------

    def _computed_whole(self, names: list[Key], keys: Codes, owner: Ints, new: UpdateArray, which: Ints) -> _Computed:
        """Return some of the partitions computed whole, before and after."""
        found, stored = self._spine.find(keys.take(which, axis=1))
        found = which.take(found)
        before = [np.concatenate((found[None], stored[: self._codes], stored[-1:]))] if len(found) else []
        for number in which.tolist():
            before += self._large.numbered(names[number], number)
        if not before and len(which) == len(names):  # as in a load: nothing need be copied
            after = GivenRows(owner, new[: self._codes], new[-1])
            return _Computed(after, 0, *self._values(after, after), after, found, stored)
        old = consolidated(np.concatenate(before, axis=1)) if before else np.empty((self._codes + 2, 0), np.int64)
        change = np.concatenate((owner[None], new[: self._codes], new[-1:]))
        if len(which) < len(names):
            change = change.compress(np.isin(owner, which), axis=1)
        rows = np.concatenate((old, consolidated(np.concatenate((old, change), axis=1))), axis=1)
        count = old.shape[1]
        after = GivenRows(rows[0, count:].copy(), rows[1:-1, count:], rows[-1, count:])
        rows[0, count:] += len(names)
        given = GivenRows(rows[0], rows[1:-1], rows[-1])
        return _Computed(given, count, *self._values(given, after), after, found, stored)

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
        fields = self._schema.fields
        (key,) = decode_rows(Schema(fields[: self._width]), row[: self._width, None], self._interner)
        own = self._kept[self._width :]
        (shown,) = decode_rows(Schema(tuple(fields[i] for i in own)), row[list(own), None], self._interner)
        return failures.negative_count(self.node, key, shown, count)

    @property
    def _schema(self) -> Schema:
        return self._reduce.inputs[0].schema

    # -- storing -------------------------------------------------------------------------------------------------------

    def _store(
        self, names: list[Key], owner: Ints, new: UpdateArray, edited: Collection[int], computed: _Computed | None
    ) -> None:
        """Store updates, but for those of partitions that are in their order and edited."""
        to_spine = np.array([not self._large.holds(name) for name in names])
        if computed is not None:
            stay, leave = self._large_and_small(names, edited, computed.after)
            if stay:
                gone = np.isin(computed.stored_of, stay)
                if gone.any():
                    self._spine.remove(computed.stored.compress(gone, axis=1))
                for number, rows in self._ordered(computed.of(stay)):
                    self._large.put(names[number], rows)
                to_spine[stay] = False
            if leave:
                rows_there = computed.of(leave)
                self._spine.append(updates_of(rows_there.codes, rows_there.counts))
        mask = to_spine.take(owner)
        if mask.any():
            self._spine.append(new if mask.all() else new.compress(mask, axis=1))

    def _large_and_small(
        self, names: list[Key], edited: Collection[int], after: GivenRows
    ) -> tuple[list[int], list[int]]:
        """Return the partitions computed whole that are to be in their order, and those that are no more."""
        sizes = np.bincount(after.partition, after.counts, len(names)).tolist()
        may_come = self._reach is not None and self._spine.spilled is None
        stay, leave = list[int](), list[int]()
        for number, name in enumerate(names):
            if number in edited:
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
        return OrderedPartition.several(rows.codes, rows.counts, rows.partition, self._order, len(self._windows.order))

    def _apply(self, name: Key, rows: OrderedPartition, edits: list[Edit]) -> None:
        self._large.touch(name)
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


def _added_up(owner: Ints, counts: Ints, most: int) -> list[int]:
    """Return the sums of the counts of each owner."""
    return counts.tolist() if len(owner) == most == 1 else np.bincount(owner, counts, minlength=most).tolist()


def _updates(changed: Changed, kept: Ints, time: int) -> UpdateArray:
    """Return the output's updates at a time."""
    n = changed.rows.shape[1]
    updates = np.empty((len(kept) + len(changed.values) + 2, n), np.int64)
    updates[: len(kept)] = changed.rows.take(kept, axis=0)
    updates[len(kept) : -2] = changed.values
    updates[-2] = time
    updates[-1, : changed.gone] = -1
    updates[-1, changed.gone :] = 1
    return updates


def _of_whole(computed: _Computed, kept: tuple[int, ...], time: int) -> UpdateArray:
    """Return the output's updates at a time, of partitions computed whole."""
    codes, source = computed.rows.codes, computed.source
    updates: UpdateArray = empty((len(kept) + len(computed.values) + 2, len(source)))
    for row, result in zip(kept, updates, strict=False):
        codes[row].take(source, out=result, mode="clip")
    updates[len(kept) : -2] = computed.values
    updates[-2], updates[-1] = time, 1
    updates[-1, : np.count_nonzero(source < computed.old)] = -1  # these come first
    return updates
