"""Window calls at top level over one coordinate: of large partitions, only what a change reaches is computed anew.

The state is the rows, by partition. Large partitions that are touched have them in their order as well, which is
derived, and made anew when it is not there: after a restart, a step that failed, or when the rows were spilled. Small
ones are computed whole, before and after, many at once. Nothing is kept of the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.bound import MOST_COPIES, CallError, Windows, too_many_copies
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
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
from tidemill.renderer.embedded.windows.ordered import Changed, changed_rows
from tidemill.renderer.embedded.windows.ordered_partition import Edit, OrderedPartition
from tidemill.renderer.embedded.windows.reach import Reach
from tidemill.renderer.embedded.windows.recompute import GivenRows, recompute
from tidemill.renderer.runs import failures

__all__ = ["OrderedWindowsOperator"]

LARGE: Final = 256
"""Rows of a partition from which on its order is kept.

A step takes half as long there, and making the order about as long as a step: benchmarks/window_thresholds.py.
"""
SMALL: Final = 64
"""Rows below which it is not any more."""
MANY: Final = 32
"""Where one in so many rows changes, or more, the partition is computed whole, which takes no longer there."""


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
        self._partitions: dict[tuple[int, ...], OrderedPartition] = {}
        """The large partitions that have been touched, in their order."""
        self._changing: list[tuple[int, ...]] = []
        """Those of them that the current step changes."""

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
        time = int(new[self._codes, 0])
        one, owner = numbered(new[: self._width])
        keys = new[: self._width].take(one, axis=1)
        in_order, whole = self._shared_out(keys, owner, new)
        edits: list[tuple[OrderedPartition, list[Edit]]] = []
        found: list[Changed] = []
        try:
            edits = [(rows, self._edits(rows, updates)) for rows, updates in self._by_partition(in_order, owner, new)]
            found = [self._in_order(edits)] if edits else []
        except CallError:  # perhaps of a row that is only looked at: computed whole, it shows
            whole = np.arange(keys.shape[1])
        if len(whole):
            found.append(self._computed_whole(keys, owner, new, whole))
        self.schedule.transaction.join(self, None)
        self._spine.append(new)
        for rows, made in edits:
            rows.apply(made)
        change = [_updates(part, self._kept_rows, time) for part in found]
        all_differ = not len(whole) and all(part.differ for part in found)
        return change[0] if all_differ and len(change) == 1 else consolidated(np.concatenate(change, axis=1))

    def _shared_out(self, keys: Codes, owner: Ints, new: UpdateArray) -> tuple[dict[int, OrderedPartition], Ints]:
        """Return which partitions are changed in their order, by the number of the key, and which computed whole."""
        if self._reach is None:
            return {}, np.arange(keys.shape[1])
        in_order: dict[int, OrderedPartition] = {}
        changed = _added_up(owner, np.abs(new[-1]), keys.shape[1])
        as_tuples = list(map(tuple, keys.T.tolist()))
        known = [self._partitions.get(key) for key in as_tuples]
        stored = self._spine.count(keys).tolist() if None in known else []
        for number, key in enumerate(as_tuples):
            rows = known[number]
            if rows is None and stored[number] >= max(LARGE, changed[number] * MANY):
                rows = self._in_its_order(keys[:, number : number + 1])
                if len(rows) < LARGE:  # what is stored may cancel out
                    rows = None
            if rows is not None and len(rows) >= max(SMALL, changed[number] * MANY):
                self._partitions[key] = in_order[number] = rows
                self._changing.append(key)
            else:
                self._forget(key)
        if len(in_order) == len(as_tuples):
            return in_order, first_numbers(0)
        return in_order, np.array([n for n in range(len(as_tuples)) if n not in in_order], np.int64)

    def _by_partition(
        self, in_order: dict[int, OrderedPartition], owner: Ints, new: UpdateArray
    ) -> Iterator[tuple[OrderedPartition, UpdateArray]]:
        """Iterate over the partitions changed in their order, with the updates of each in it, too: one sort for all."""
        if new.shape[1] == 1 or not in_order:
            yield from ((rows, new) for rows in in_order.values())
            return
        if len(in_order) <= owner.max():
            some = np.isin(owner, list(in_order))
            owner, new = owner.compress(some), new.compress(some, axis=1)
        new = new.take(self._order.sorted(list(new[: self._codes]), owner).order, axis=1)
        ends = np.bincount(owner).cumsum().tolist()
        for key, rows in in_order.items():
            yield rows, new[:, ends[key - 1] if key else 0 : ends[key]]

    def _in_its_order(self, key: Codes) -> OrderedPartition:
        _, updates = self._spine.find(key)
        rows = consolidated(np.concatenate((updates[: self._codes], updates[-1:])))
        return OrderedPartition(rows[:-1].repeat(rows[-1], axis=1), self._order, len(self._windows.order))

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

    def _computed_whole(self, keys: Codes, owner: Ints, new: UpdateArray, which: Ints) -> Changed:
        """Return how some of the partitions change, computed whole, before and after."""
        number = np.full(keys.shape[1], -1)
        number[which] = np.arange(len(which))
        in_which = number.take(owner)
        some = in_which >= 0
        found, stored = self._spine.find(keys.take(which, axis=1))
        before = np.concatenate((found[None], stored[: self._codes], stored[-1:]))
        change = np.concatenate((in_which[None], new[: self._codes], new[-1:])).compress(some, axis=1)
        before = consolidated(before)
        after = consolidated(np.concatenate((before, change), axis=1))
        negative = (after[-1] < 0).nonzero()[0]
        if len(negative):
            raise self._negative(after[1:-1, negative[0]], int(after[-1, negative[0]]))
        rows = np.concatenate((before, after), axis=1)
        rows[0, before.shape[1] :] += len(which)
        given = GivenRows(rows[0], rows[1:-1], rows[-1])
        try:
            source, values = recompute(self._windows, self._types, given, self._interner)
        except CallError as error:
            (row,) = decode_rows(self._schema, given.codes[:, [error.row]], self._interner)
            raise failures.no_window_value(self.node, self._windows, row, error) from None
        gone = int(np.count_nonzero(source < before.shape[1]))
        return Changed(given.codes.take(source, axis=1), values, gone)

    def _negative(self, row: Ints, count: int) -> Exception:
        fields = self._schema.fields
        (key,) = decode_rows(Schema(fields[: self._width]), row[: self._width, None], self._interner)
        own = self._kept[self._width :]
        (shown,) = decode_rows(Schema(tuple(fields[i] for i in own)), row[list(own), None], self._interner)
        return failures.negative_count(self.node, key, shown, count)

    @property
    def _schema(self) -> Schema:
        return self._reduce.inputs[0].schema

    # -- state ---------------------------------------------------------------------------------------------------------

    def spines(self) -> dict[str, Spine]:
        # A name of its own: other engines, which keep rows and output, do not take these for theirs.
        return {"rows alone": self._spine}

    @property
    def bytes(self) -> int:
        return super().bytes + sum(rows.bytes for rows in self._partitions.values())

    def drop_derived(self) -> None:
        self._partitions.clear()

    def _forget(self, key: tuple[int, ...]) -> None:
        self._partitions.pop(key, None)

    def commit(self) -> None:
        self._changing.clear()

    def rollback(self, state: None) -> None:
        """Forget what is derived from rows that the step had changed."""
        del state
        for key in self._changing:
            self._forget(key)
        self._changing.clear()


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
