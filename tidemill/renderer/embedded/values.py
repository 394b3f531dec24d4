"""The values of a column with their counts: what min and max are made of."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.collections.types import DType
from tidemill.renderer.embedded.active import Active
from tidemill.renderer.embedded.blocks import NULL, Block, Bools, Ints, consolidated
from tidemill.renderer.embedded.codec import Interner, order_ranks
from tidemill.renderer.embedded.keyed import Stored
from tidemill.renderer.embedded.ordered import OrderedRows, SortColumn
from tidemill.renderer.embedded.parts import Groups, Part, Shape, numbers
from tidemill.renderer.embedded.spine import View

__all__ = ["OrderedValues", "Values"]

LARGE: Final = 2048
"""Updates of a group from which on holding it in order beats looking through it."""


class Values(Part):
    """The values of a column with their counts."""

    def __init__(self, column: int, dtype: DType, given: int, shape: Shape) -> None:
        super().__init__(shape, 1, 1)
        self._column = column
        self._dtype = dtype
        self._input = given

    def project(self, owner: Ints, new: Block) -> tuple[Ints, Block]:
        rows = [*range(self.width), self._column, *range(self._input, len(new))]
        return owner, new.take(rows, axis=0)

    def extremes(self, group: Groups, active: Active, seen: Stored, interner: Interner) -> tuple[Ints, Ints]:
        """Return the least and the greatest value at each active time, NULL where there is none."""
        at, which = active.pairs(seen.owner, seen.block[self.codes : self.codes + self.users])
        counted = consolidated(np.stack((at, seen.block[self.width].take(which), seen.block[-1].take(which))))
        below = (counted[2] < 0).nonzero()[0]
        if len(below):
            at, code, count = counted[:, below[0]].tolist()
            raise group.negative(at, self._column, code, count)
        at, codes = counted[0], counted[1]
        some = codes != NULL
        at, codes = at[some], codes[some]
        ranks = order_ranks(codes, self._dtype, interner)
        order = np.lexsort((ranks, at))
        at, codes = at[order], codes[order]
        low, high = np.full(len(active), NULL), np.full(len(active), NULL)
        if len(at):
            new = np.concatenate(([True], at[1:] != at[:-1]))
            low[at[new]] = codes[new]
            last = np.concatenate((new[1:], [True]))
            high[at[last]] = codes[last]
        return low, high


class OrderedValues(Values):
    """The same where times are of one coordinate and no loop is around: no large group is looked through.

    A group that has grown large is from then on held in order as well, and a change to it costs a search. The others
    are looked through, many at once, which is cheaper as long as they are small.
    """

    def __init__(self, column: int, dtype: DType, given: int, shape: Shape, interner: Interner) -> None:
        super().__init__(column, dtype, given, shape)
        self._rows = OrderedRows(shape.width, self.codes, [SortColumn(shape.width, dtype)], shape.schedule, interner)
        self._touched = shape.schedule.touched
        self._large = np.empty((shape.width, 0), np.int64)
        """The keys of the groups that are held in order."""
        self._mark: Block | None = None
        self._new = self._large
        self._is_large = np.empty(0, np.bool_)

    def gather(self, keys: Block, owner: Ints, new: Block) -> Stored:
        """Return the updates of the small groups; keep the new ones of the large groups for `extremes`."""
        owner, new = self.project(owner, new)
        before = self.spine.view
        if new.shape[1]:
            before = self.spine.append(consolidated(new))
        self._is_large = self._known(keys)
        grown = (self.spine.count(keys) > LARGE) & ~self._is_large
        if grown.any():
            self._promote(keys.compress(grown, axis=1), before)
            self._is_large |= grown
        self._new = new.compress(self._is_large.take(owner), axis=1)
        small = (~self._is_large).nonzero()[0]
        found, block = self.spine.find(keys.take(small, axis=1))
        return Stored(small.take(found), block, self.codes)

    def _known(self, keys: Block) -> Bools:
        if not self._large.shape[1]:
            return np.zeros(keys.shape[1], np.bool_)
        return numbers(self._large, keys) >= 0

    def _promote(self, keys: Block, before: View) -> None:
        """Hold these groups in order from now on, as they were before the new updates."""
        if self._mark is None:
            self._mark = self._large
            self._touched.append(self)
        self._large = np.concatenate((self._large, keys), axis=1)
        _, block = self.spine.find(keys, before)
        self._rows.apply(np.concatenate((block[: self.codes], block[-1:])))

    def commit(self) -> None:
        self._mark = None

    def rollback(self) -> None:
        if self._mark is not None:
            self._large, self._mark = self._mark, None

    def refilled(self) -> None:
        """Begin anew: the spine was given other updates."""
        self._large = self._large[:, :0]
        self._rows.clear()

    def extremes(self, group: Groups, active: Active, seen: Stored, interner: Interner) -> tuple[Ints, Ints]:
        """Return the least and the greatest value at each active time; for large groups, time by time."""
        low, high = super().extremes(group, active, seen, interner)
        large = self._is_large.take(active.keys)
        if not large.any():
            return low, high
        times = active.times[0]
        for time in np.unique(times[large]).tolist():
            change = self._new.compress(self._new[self.codes] == time, axis=1)
            negative = self._rows.apply(np.concatenate((change[: self.codes], change[-1:])))
            here = (large & (times == time)).nonzero()[0]
            if negative.shape[1]:
                self._refuse(group, negative[:, 0].tolist(), here)
            for at in here.tolist():
                low[at], high[at] = self._ends(tuple(group.codes(at).tolist()))
        return low, high

    def _ends(self, key: tuple[int, ...]) -> tuple[int, int]:
        """Return the codes of a group's least and greatest value; NULL sorts first, and is neither."""
        last = self._rows.last(key)
        first = self._rows.first(key)
        if first is None or last is None or last[-2] == NULL:
            return NULL, NULL
        if first[-2] == NULL:
            return int(self._rows.head(key, first[-1] + 1)[-2, -1]), last[-2]
        return first[-2], last[-2]

    def _refuse(self, group: Groups, row: list[int], here: Ints) -> None:
        keys = group.codes(here)
        at = int(here[(keys == np.array(row[: self.width], np.int64)[:, None]).all(axis=0)][0])
        raise group.negative(at, self._column, row[-2], row[-1])
