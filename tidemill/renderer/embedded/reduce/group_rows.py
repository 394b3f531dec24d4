"""Some columns of the rows of groups, with their counts: what min, max and the first rows are found in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tidemill.errors import StepError
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Codes, Ints, Rows, UpdateArray, compressed, consolidated
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes, SingleTime
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import MANY, Accumulator, Groups, Shape
from tidemill.renderer.embedded.trace.order_index import OrderIndex
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import View

__all__ = ["GroupRows"]

TRUE: Final = 1
"""The code of true."""
INDEXED_FROM: Final = 2048
"""Updates of a group from which on an index of it in order beats looking through it."""


class GroupRows(Accumulator):
    """The rows of groups.

    Where an order is given, times are of one coordinate and no loop is around, a group that has grown large is from
    then on indexed in order as well, and a change to it costs a search. The others are looked through, many at once,
    which is cheaper as long as they are small.
    """

    def __init__(
        self,
        columns: Sequence[int],
        order: list[SortColumn] | None,
        input_width: int,
        shape: Shape,
        interner: Interner,
        *,
        condition: int | None = None,
        named: Sequence[int] | None = None,
    ) -> None:
        super().__init__(shape, [shape.node.inputs[0].schema.fields[c].dtype for c in columns], 1)
        self.columns = list(columns)
        self._input = input_width
        self._condition = condition
        """A column that is true in those rows that take part; None where all do."""
        self._named = [self.columns.index(c) for c in (self.columns if named is None else named)]
        """Which of the columns an error names a row by."""
        self._can_index = order is not None and shape.schedule.users == 1 and shape.coordinates == 1
        self.index = OrderIndex(shape.width, RowOrder(order or [], interner), shape.schedule.transaction)
        """The large groups in order, up to the latest interesting time."""
        self._new: Rows = []
        """The new updates of indexed groups."""
        self._is_indexed = np.empty(0, np.bool_)

    def project(self, owner: Ints, new: UpdateArray) -> tuple[Ints, UpdateArray]:
        rows = [*range(self.width), *self.columns, *range(self._input, len(new))]
        if self._condition is not None:
            taken = new[self._condition] == TRUE
            owner, new = owner.compress(taken), new.compress(taken, axis=1)
        return owner, new.take(rows, axis=0)

    def _taking_part(self, owner: Ints, new: UpdateArray) -> tuple[Ints, Rows]:
        """Return the new updates that take part, and the numbers of their keys: row by row where they are many."""
        if new.shape[1] <= MANY:
            return self.project(owner, new)
        rows = [new[row] for row in (*range(self.width), *self.columns, *range(self._input, len(new)))]
        if self._condition is not None:
            taken = new[self._condition] == TRUE
            if not taken.all():
                return owner.compress(taken), [row.compress(taken) for row in rows]
        return owner, rows

    def gather(self, keys: Codes, owner: Ints, new: UpdateArray) -> Stored:
        """Return the updates of the groups that are not indexed; the others' new ones are kept for `advance_index`."""
        self._is_indexed = np.zeros(keys.shape[1], np.bool_)
        if not self._can_index:
            return super().gather(keys, owner, new)
        owner, rows = self._taking_part(owner, new)
        before, batch = self.spine.view, None
        if len(owner):
            self.check_counts(new)
            if isinstance(rows, list):
                before, batch = self.spine.append_rows(rows)
            else:
                before = self.spine.append(consolidated(rows))
        self._is_indexed |= self.index.has(keys)
        grown = (self.spine.count(keys) > INDEXED_FROM) & ~self._is_indexed
        if grown.any():
            self._add_to_index(keys.compress(grown, axis=1), before)
            self._is_indexed |= grown
        if not self._is_indexed.any():
            self._new = rows[:0]
            return Stored(*self.spine.find(keys), self.codes)
        if batch is not None and self._is_indexed.all():  # the same, but sorted by key, which spares the caches
            self._new = list(batch.updates)
            return Stored(np.empty(0, np.int64), batch.updates[:, :0], self.codes)
        indexed = self._is_indexed.take(owner)
        self._new = rows if indexed.all() else compressed(rows, indexed)
        small = (~self._is_indexed).nonzero()[0]
        found, updates = self.spine.find(keys.take(small, axis=1))
        return Stored(small.take(found), updates, self.codes)

    def accumulated(self, group: Groups, interesting: InterestingTimes, seen: Stored) -> UpdateArray:
        """Return the rows of groups not indexed, at each interesting time: its number, the row's columns, the count.

        A negative count is an error. A row may be there twice, with two positive counts.
        """
        if isinstance(interesting, SingleTime):
            accumulated = self._at_one(seen)
        else:
            at, which = interesting.pairs(seen.owner, seen.updates[self.codes : self.codes + self.users])
            rows = seen.updates[self.width : self.codes].take(which, axis=1)
            accumulated = consolidated(np.concatenate((at[None], rows, seen.updates[-1:].take(which, axis=1))))
        negative = (accumulated[-1] < 0).nonzero()[0]
        if len(negative):
            at_first, *row, count = accumulated[:, negative[0]].tolist()
            raise self._negative(group, at_first, row, count)
        return accumulated

    def _at_one(self, seen: Stored) -> UpdateArray:
        """Return for a single time what `accumulated` does; only groups with deletions have to be consolidated."""
        rows = np.concatenate((seen.owner[None], seen.updates[self.width : self.codes], seen.updates[-1:]))
        deleted = rows[-1] < 0
        if not deleted.any():
            return rows
        marks = np.zeros(int(seen.owner.max()) + 1, np.bool_)
        marks[seen.owner.compress(deleted)] = True
        changed = marks.take(seen.owner)
        if changed.all():
            return consolidated(rows)
        return np.concatenate((rows.compress(~changed, axis=1), consolidated(rows.compress(changed, axis=1))), axis=1)

    def advance_index(self, group: Groups, interesting: InterestingTimes) -> Iterator[Ints]:
        """Bring the index to each time in turn, and give the interesting times of its groups that are at it."""
        indexed = self._is_indexed.take(interesting.keys)
        if not indexed.any():
            return
        times, new = interesting.times[0], self._new
        self._new = []  # rows of arrays that are others', and may be large
        for time in np.unique(times[indexed]).tolist():
            change = compressed(new, new[self.codes] == time)
            if isinstance(change, list):
                negative = self.index.apply([*change[: self.codes], change[-1]])
            else:
                negative = self.index.apply(np.concatenate((change[: self.codes], change[-1:])))
            here = (indexed & (times == time)).nonzero()[0]
            if negative.shape[1]:
                self._refuse(group, negative[:, 0].tolist(), here)
            yield here

    def _add_to_index(self, keys: Codes, before: View) -> None:
        """Index these groups, as they were before the new updates."""
        _, updates = self.spine.find(keys, before)
        self.index.add(keys, np.concatenate((updates[: self.codes], updates[-1:])))

    def _refuse(self, group: Groups, row: list[int], here: Ints) -> None:
        keys = group.codes(here)
        at = int(here[(keys == np.array(row[: self.width], np.int64)[:, None]).all(axis=0)][0])
        raise self._negative(group, at, row[self.width : -1], row[-1])

    def _negative(self, group: Groups, at: int, row: list[int], count: int) -> StepError:
        return group.negative(at, [self.columns[i] for i in self._named], [row[i] for i in self._named], count)

    def drop_derived(self) -> None:
        """Index no group: the spine was given other updates."""
        self.index.clear()
