"""DynamicFilter where times are in order: left rows lie by what is compared, and only those passed are looked at.

When the right value moves, the rows between the old one and the new are a range of each sorted batch. The operator goes
through the right side's times in a step; the left updates before each are taken in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tidemill.dataflow.composites import OrderedDynamicFilter
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, UpdateArray, stacked
from tidemill.renderer.embedded.made import Made
from tidemill.renderer.embedded.makers import MAKERS
from tidemill.renderer.embedded.operators.comparing import Comparison, Truth, Value, affected, truth
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs import failures

__all__ = ["DynamicFilterOperator"]

LEFT: Final = 0
RIGHT: Final = 1
Contents: TypeAlias = dict[tuple[int, ...], int]
"""The right side's rows, as codes, with their counts: mostly one."""
_WHOLE: Final[Codes] = np.empty((0, 1), np.int64)
"""The key of all rows."""


class DynamicFilterOperator(Operator):
    """DynamicFilter. Its state are the left rows in order of each column that is compared, and the right side's row.

    Left rows with a NULL that is compared never pass, and are not kept; nor are those that a right side declared
    monotone has passed.
    """

    def __init__(self, node: OrderedDynamicFilter, region: Region, interner: Interner) -> None:
        left, right = (source.schema for source in node.inputs)
        super().__init__(node, region, (len(left), len(right)))
        self._interner = interner
        self._right_schema = right
        self._widths = len(left), len(right)
        self._monotone = node.monotone
        self._comparisons = [Comparison(l, how, r, left.fields[l].dtype) for l, how, r in node.conditions]
        self._by_column: dict[int, list[Comparison]] = {}
        for comparison in self._comparisons:
            self._by_column.setdefault(comparison.left, []).append(comparison)
        self._orders = {c: RowOrder([SortColumn(c, left.fields[c].dtype)], interner) for c in self._by_column}
        self._indexes = {c: self._spine(left.dtypes, order) for c, order in self._orders.items()}
        self._right = self._spine(right.dtypes, None)
        self._contents: Contents | None = None
        """What the right side holds; None where that has to be looked up."""

    def _spine(self, types: Sequence[Any], order: RowOrder | None) -> Spine:
        layout = UpdateLayout((), types, self.node.scope.coordinates, self.schedule.users, order=order)
        return Spine(layout, self.since, self.schedule.transaction)

    def run(self) -> None:
        left, right = (port.take_consolidated() for port in self.ports)
        contents = self._right_contents()
        value = next(iter(contents), None)
        if right is None:
            if left is not None:  # else what came cancels out
                self._take(left, value)
            return
        for t, came in _by_time(right, self._widths[RIGHT]):
            if left is not None:
                earlier = left[self._widths[LEFT]] < t
                self._take(left.compress(earlier, axis=1), value)
                left = left.compress(~earlier, axis=1)
            contents = self._added(contents, came)
            new = next(iter(contents), None)
            if new != value:
                self._move(value, new, t)
                value = new
        if left is not None:
            self._take(left, value)
        self._right.append(right)
        self.schedule.transaction.join(self, self._contents)
        self._contents = contents

    # -- the right side -----------------------------------------------------------------------------------------------

    def _right_contents(self) -> Contents:
        if self._contents is None:
            self._contents = self._added({}, self._right.all_updates())
        return self._contents

    def _added(self, contents: Contents, updates: UpdateArray) -> Contents:
        """Return the right side's contents with updates; more than one row is an error."""
        found, width = dict(contents), self._widths[RIGHT]
        for row, count in zip(map(tuple, updates[:width].T.tolist()), updates[-1].tolist(), strict=True):
            found[row] = found.get(row, 0) + count
        found = {row: count for row, count in found.items() if count}
        if len(found) > 1 or any(count != 1 for count in found.values()):
            rows = [(self._row(codes), count) for codes, count in found.items()]
            for row, count in rows:
                if count < 0:
                    raise failures.negative_count(self.node, (), row, count)
            failures.one_row(self.node, sorted(rows, key=repr))
        return found

    def _row(self, codes: tuple[int, ...]) -> tuple[Any, ...]:
        (row,) = decode_rows(self._right_schema, np.array(codes, np.int64)[:, None], self._interner)
        return row

    # -- the left side ------------------------------------------------------------------------------------------------

    def _take(self, updates: UpdateArray, value: Value) -> None:
        """Pass new left updates on that compare with a value, and keep them for others to come."""
        if not updates.shape[1]:
            return
        found = self._truth(updates, value)
        self.emit(updates.compress(found.all(), axis=1), self.region.now)
        kept = found.known & ~self._is_settled(found, value)
        if np.count_nonzero(kept):
            self._keep(updates.compress(kept, axis=1))

    def _keep(self, updates: UpdateArray) -> None:
        for spine in self._indexes.values():
            spine.append(updates)

    def _move(self, old: Value, new: Value, time: int) -> None:
        """Pass on the rows that an old value and a new one compare with otherwise, at the time at which it moves."""
        if self._monotone is not None and old is not None:
            self._check_monotone(old, new)
        gone: list[UpdateArray] = []
        for updates in self._passed(old, new):
            before, after = self._truth(updates, old), self._truth(updates, new)
            change = after.all().astype(np.int64) - before.all()
            some = change.nonzero()[0]
            moved = updates.take(some, axis=1)
            moved[self._widths[LEFT]] = time
            moved[-1] *= change.take(some)
            self.emit(moved, self.region.now)
            settled = self._is_settled(after, new)
            if settled.any():
                gone.append(updates.compress(settled, axis=1))
        if gone:
            updates = stacked(gone).copy()
            np.negative(updates[-1], out=updates[-1])
            self._keep(updates)

    def _passed(self, old: Value, new: Value) -> Iterator[UpdateArray]:
        """Give the kept updates for which a comparison may change, each once, whichever columns they are found by."""
        before: list[list[Comparison]] = []
        for column, comparisons in self._by_column.items():
            updates = self._between(column, comparisons, old, new)
            if len(self._by_column) == 1:
                yield updates
            elif updates.shape[1]:
                changed = self._changes(comparisons, updates, old, new)
                for others in before:
                    changed &= ~self._changes(others, updates, old, new)
                yield updates.compress(changed, axis=1)
            before.append(comparisons)

    def _changes(
        self,
        comparisons: list[Comparison],
        updates: UpdateArray,
        old: Value,
        new: Value,
    ) -> Bools:
        before = truth(comparisons, updates, old, self._interner)
        after = truth(comparisons, updates, new, self._interner)
        changed: Bools = (before.each != after.each).any(axis=0)
        return changed

    def _between(self, column: int, comparisons: list[Comparison], old: Value, new: Value) -> UpdateArray:
        """Return the kept updates that may be between two values, and more: ranges of each batch, and the tail."""
        order, spine = self._orders[column], self._indexes[column]
        ranges = affected(comparisons, old, new, order)
        found: list[UpdateArray] = []
        for view in spine.views(_WHOLE):
            for batch in view.batches:
                codes, n = batch.array[column], len(batch.hashes)
                for low, high in ranges:
                    first = order.place(codes, low, 0, n)
                    last = n if high is None else order.place(codes, high, first, n)
                    if last > first:
                        found.append(batch.array[:, first:last])
            if view.tail_size:
                found.append(view.tail.array[:, : view.tail_size])
        return stacked(found) if found else np.empty((spine.layout.rows, 0), np.int64)

    def _truth(self, updates: UpdateArray, value: Value) -> Truth:
        return truth(self._comparisons, updates, value, self._interner)

    # -- a right side that moves in one way ---------------------------------------------------------------------------

    def _is_settled(self, found: Truth, value: Value) -> Bools:
        """Return for which rows nothing will change any more."""
        if self._monotone is None or value is None:
            return np.zeros(len(found.known), np.bool_)
        falls = np.array([c.how.startswith(">") == (self._monotone == "increasing") for c in self._comparisons])
        given = np.array([value[c.right] != NULL for c in self._comparisons])
        lost = (~found.each & (falls & given)[:, None]).any(axis=0)
        won = np.full(len(found.known), not falls.any()) & found.each.all(axis=0)
        settled: Bools = (lost | won) & found.known
        return settled

    def _check_monotone(self, old: tuple[int, ...], new: tuple[int, ...] | None) -> None:
        back = ">" if self._monotone == "increasing" else "<"
        for c in self._comparisons:
            if old[c.right] == NULL:
                continue
            fell = Comparison(c.right, back, c.right, c.dtype)
            is_gone = new is None or new[c.right] == NULL
            if is_gone or truth([fell], np.array(old, np.int64)[:, None], new, self._interner).each.any():
                assert self._monotone is not None
                after = None if new is None else self._row(new)
                raise failures.not_monotone(self.node, self._monotone, self._row(old), after)

    # -- state --------------------------------------------------------------------------------------------------------

    def spines(self) -> dict[str, Spine]:
        return {"right": self._right, **{f"by{column}": spine for column, spine in self._indexes.items()}}

    def drop_derived(self) -> None:
        self._contents = None

    def commit(self) -> None:
        """Do nothing: what the right side holds is there to stay."""

    def rollback(self, state: Contents | None) -> None:
        """Have the right side hold what it held."""
        self._contents = state


def _by_time(updates: UpdateArray, width: int) -> Iterator[tuple[int, UpdateArray]]:
    """Give updates by their times, in order."""
    times: Ints = updates[width]
    if not (times != times[0]).any():
        yield int(times[0]), updates
        return
    for t in np.unique(times).tolist():
        yield t, updates.compress(times == t, axis=1)


@MAKERS(OrderedDynamicFilter)
def _dynamic_filter(node: OrderedDynamicFilter, region: Region, made: Made) -> Operator:
    return DynamicFilterOperator(node, region, made.interner)
