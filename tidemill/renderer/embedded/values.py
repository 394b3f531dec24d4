"""The values of a column with their counts: what min and max are made of."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.collections.types import DType
from tidemill.renderer.embedded.active import Active
from tidemill.renderer.embedded.blocks import NULL, Block, Ints, consolidated, stacked
from tidemill.renderer.embedded.codec import Interner, order_ranks
from tidemill.renderer.embedded.keyed import Stored
from tidemill.renderer.embedded.ordered import OrderedRows, SortColumn
from tidemill.renderer.embedded.parts import Groups, Part, Shape, numbers
from tidemill.renderer.embedded.schedule import Store

__all__ = ["OrderedValues", "Values"]

MANY: Final = 64
FEWER: Final = 64
"""For more groups than ``MANY``, that have on average less rows than ``FEWER``, going through all beats looking each up."""


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
    """The same where times are of one coordinate and no loop is around: in order, so that no group is looked through."""

    def __init__(self, column: int, dtype: DType, given: int, shape: Shape, interner: Interner) -> None:
        super().__init__(column, dtype, given, shape)
        columns = [SortColumn(shape.width, dtype)]
        self._rows = OrderedRows(shape.width, self.codes, columns, shape.schedule, interner)
        self._new: list[Block] = []

    def gather(self, keys: Block, owner: Ints, new: Block) -> Stored:
        """Keep the new updates for `extremes`; what is stored has no times of its own any more."""
        _, kept = self.project(owner, new)
        self._new = [kept]
        return Stored(owner[:0], np.empty((self.codes + 2, 0), np.int64), self.codes)

    def extremes(self, group: Groups, active: Active, seen: Stored, interner: Interner) -> tuple[Ints, Ints]:
        """Return the least and the greatest value at each active time: time by time, as the contents move on."""
        new, self._new = stacked(self._new), []
        low, high = np.full(len(active), NULL), np.full(len(active), NULL)
        times = active.times[0]
        for time in np.unique(times).tolist():
            change = new.compress(new[self.codes] == time, axis=1)
            rows = np.concatenate((change[: self.codes], change[-1:]))
            negative = self._rows.apply(rows)
            here = (times == time).nonzero()[0]
            if negative.shape[1]:
                self._refuse(group, negative[:, 0].tolist(), here)
            if len(here) > MANY and len(here) * FEWER > self._rows.size:
                low[here], high[here] = self._ends_of_many(group.codes(here))
            else:
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

    def _ends_of_many(self, keys: Block) -> tuple[Ints, Ints]:
        """Return the same for many groups, by going through all rows once."""
        rows = self._rows.everything()
        rows = rows.compress(rows[-2] != NULL, axis=1)
        low, high = np.full(keys.shape[1], NULL), np.full(keys.shape[1], NULL)
        number = numbers(keys, rows[: self.width])
        mine = number >= 0
        number, values = number[mine], rows[-2, mine]
        if len(number):
            starts = np.concatenate(([True], number[1:] != number[:-1]))
            low[number[starts]] = values[starts]
            ends = np.concatenate((starts[1:], [True]))
            high[number[ends]] = values[ends]
        return low, high

    def _refuse(self, group: Groups, row: list[int], here: Ints) -> None:
        keys = group.codes(here)
        at = int(here[(keys == np.array(row[: self.width], np.int64)[:, None]).all(axis=0)][0])
        raise group.negative(at, self._column, row[-2], row[-1])

    @property
    def store(self) -> Store:
        return self._rows
