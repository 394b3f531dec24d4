"""DynamicFilter where times are in order: left rows are sorted by the compared column, and only those passed are read.

When the right value moves, the rows between the old one and the new are a range of each sorted batch. The operator goes
through the right side's times in a step; the left updates before each are taken in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tidemill.dataflow.composites import OrderedDynamicFilter
from tidemill.renderer.embedded.compile_context import CompileContext
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, UpdateArray, marked, stacked
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.embedded.operators.comparing import Comparison, Truth, Value, affected, merged_ranges, truth
from tidemill.renderer.embedded.operators.one_row import Contents, Move, OneRow, value_of
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.elsewhere import Range
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import Spine

LEFT: Final = 0
RIGHT: Final = 1


class DynamicFilterOperator(Operator):
    """DynamicFilter. Its state are the left rows in order of each column that is compared, and the right side's row.

    Left rows with a NULL that is compared never pass, and are not kept; nor are those that a right side declared
    monotone has passed.
    """

    def __init__(self, node: OrderedDynamicFilter, region: Region, interner: Interner) -> None:
        left, right = (source.schema for source in node.inputs)
        super().__init__(node, region, (len(left), len(right)))
        self._interner = interner
        self._one_row = OneRow(node, interner)
        self._widths = len(left), len(right)
        self._monotone = node.monotone
        self._comparisons = self._one_row.comparisons
        self._falls = [c.how.startswith(">") == (self._monotone == "increasing") for c in self._comparisons]
        """Which comparisons become false as a monotone value moves on, and never true; the others the other way."""
        self._by_column: dict[int, list[Comparison]] = {}
        for comparison in self._comparisons:
            self._by_column.setdefault(comparison.left, []).append(comparison)
        self._orders = {c: RowOrder([SortColumn(c, left.fields[c].dtype)], interner) for c in self._by_column}
        self._indexes = {c: self._spine(left.dtypes, order) for c, order in self._orders.items()}
        self._right = self._spine(right.dtypes, None)
        self._contents: Contents | None = None
        """The contents of the right side; None where they have to be looked up."""

    def _spine(self, types: Sequence[Any], order: RowOrder | None) -> Spine:
        layout = UpdateLayout((), types, self.node.scope.coordinates, self.schedule.users, order=order)
        return Spine(layout, self.since, self.schedule.transaction)

    def run(self) -> None:
        left, right = (port.take_consolidated() for port in self.ports)
        value = value_of(self._right_contents())
        for move in [] if right is None else self.take_right(right):
            if left is not None:
                earlier = left[self._widths[LEFT]] < move.time
                self._take(marked(left, earlier), value)
                left = marked(left, ~earlier)
            self._move(move)
            value = move.new
        if left is not None:
            self._take(left, value)

    # -- the right side -----------------------------------------------------------------------------------------------

    @property
    def value(self) -> Value:
        """The right row's codes; None where there is none."""
        return value_of(self._right_contents())

    def shown(self, column: int) -> int:
        """Return the code of the right row's value of a column; NULL where there is none."""
        value = self.value
        return NULL if value is None else value[column]

    def take_right(self, updates: UpdateArray) -> list[Move]:
        """Add updates to the right side, and return how its value moves."""
        moves, contents = self._one_row.moves(self._right_contents(), updates)
        self._right.append(updates)
        self.schedule.transaction.join(self, self._contents)
        self._contents = contents
        return moves

    def _right_contents(self) -> Contents:
        if self._contents is None:
            self._contents = self._one_row.added({}, self._right.all_updates())
        return self._contents

    def scan_of(self, moves: Sequence[Move]) -> tuple[str, Sequence[Range] | None] | None:
        """Return by which index executors find the rows that these moves may pass, and where in it; None for no rows.

        Where comparisons of several columns change that is all of one, without ranges: a row may be in those of any.
        """
        found: dict[int, list[Range]] = {}
        for column, comparisons in self._by_column.items():
            order = self._orders[column]
            ranges = [r for move in moves for r in affected(comparisons, move.old, move.new, order)]
            if ranges:
                found[column] = merged_ranges(ranges)
        if not found:
            return None
        column = next(iter(found))
        return f"by{column}", found[column] if len(found) == 1 else None

    # -- the left side ------------------------------------------------------------------------------------------------

    def _take(self, updates: UpdateArray, value: Value) -> None:
        """Pass new left updates on that compare with a value, and keep them for others to come."""
        if not updates.shape[1]:
            return
        found = self._truth(updates, value)
        self.emit(marked(updates, found.all()), self.region.now)
        kept = found.known if self._monotone is None else found.known & ~self._is_settled(found, value)
        if np.count_nonzero(kept):
            self._keep(marked(updates, kept))

    def _keep(self, updates: UpdateArray) -> None:
        for spine in self._indexes.values():
            spine.append(updates)

    def _move(self, move: Move) -> None:
        """Emit the changes of rows that compare differently with the old and the new value, at the time of the move."""
        time, old, new = move
        gone: list[UpdateArray] = []
        for updates in self._passed(old, new):
            before, after = self._truth(updates, old), self._truth(updates, new)
            change = after.all().astype(np.int64) - before.all()
            some = change.nonzero()[0]
            moved = updates.take(some, axis=1)
            moved[self._widths[LEFT]] = time
            moved[-1] *= change.take(some)
            self.emit(moved, self.region.now)
            if self._monotone is not None:  # rows settled before have gone, and what retracted them is found here, too
                settles = self._is_settled(after, new) & ~self._is_settled(before, old)
                gone.append(updates.compress(settles, axis=1))
        if gone and (updates := stacked(gone).copy()).shape[1]:
            np.negative(updates[-1], out=updates[-1])
            self._keep(updates)

    def _passed(self, old: Value, new: Value) -> Iterator[UpdateArray]:
        """Give the kept updates for which a comparison may change, or settle, once each, whatever columns find them."""
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
        if self._is_first(comparisons, old, new):
            return np.ones(updates.shape[1], np.bool_)
        before = truth(comparisons, updates, old, self._interner)
        after = truth(comparisons, updates, new, self._interner)
        changed: Bools = (before.each != after.each).any(axis=0)
        return changed

    def _between(self, column: int, comparisons: list[Comparison], old: Value, new: Value) -> UpdateArray:
        """Return the kept updates that may be between two values, and more: ranges of each batch, and the tail."""
        order, spine = self._orders[column], self._indexes[column]
        is_first = self._is_first(comparisons, old, new)
        ranges: list[Range] = [(NULL, None)] if is_first else affected(comparisons, old, new, order)
        found: list[UpdateArray] = []
        for view in spine.views_between(ranges):
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

    def _is_first(self, comparisons: list[Comparison], old: Value, new: Value) -> bool:
        """Return whether rows settle that compare as before: those that a first value has left behind already."""
        if self._monotone is None or new is None:
            return False
        falling = [
            c.right for falls, c in zip(self._falls, self._comparisons, strict=True) if falls and c in comparisons
        ]
        return any(new[right] != NULL and (old is None or old[right] == NULL) for right in falling)

    def _is_settled(self, found: Truth, value: Value) -> Bools:
        """Return for which rows nothing will change any more."""
        if self._monotone is None or value is None:
            return np.zeros(len(found.known), np.bool_)
        if not any(self._falls):  # then what is true of a row stays so
            settled = found.all()
        else:
            lost = [falls and value[c.right] != NULL for falls, c in zip(self._falls, self._comparisons, strict=True)]
            settled = (~found.each[lost]).any(axis=0)
        return settled & found.known

    @property
    def indexes(self) -> list[str]:
        """The names of the spines that have the left rows, each all of them."""
        return [f"by{column}" for column in self._indexes]

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


@FACTORIES(OrderedDynamicFilter)
def _dynamic_filter(node: OrderedDynamicFilter, region: Region, made: CompileContext) -> Operator:
    return DynamicFilterOperator(node, region, made.interner)
