"""The values of a column with their counts: what min and max are made of."""

from __future__ import annotations

import numpy as np

from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import Interner, order_ranks
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Groups, Shape
from tidemill.renderer.embedded.reduce.group_rows import GroupRows
from tidemill.renderer.embedded.trace.row_order import SortColumn
from tidemill.renderer.embedded.trace.sorted_rows import SortedRows

__all__ = ["ValueCounts"]


class ValueCounts(GroupRows):
    """The values of a column with their counts."""

    def __init__(self, column: int, dtype: DType, input_width: int, shape: Shape, interner: Interner) -> None:
        super().__init__([column], [SortColumn(0, dtype)], input_width, shape, interner)
        self._dtype = dtype
        self._interner = interner

    def extremes(self, group: Groups, interesting: InterestingTimes, seen: Stored) -> tuple[Ints, Ints]:
        """Return the least and the greatest value at each interesting time, NULL where there is none."""
        at, codes, _ = self.accumulated(group, interesting, seen)
        some = codes != NULL
        at, codes = at[some], codes[some]
        order = np.lexsort((order_ranks(codes, self._dtype, self._interner), at))
        at, codes = at[order], codes[order]
        low, high = np.full(len(interesting), NULL), np.full(len(interesting), NULL)
        if len(at):
            new = np.concatenate(([True], at[1:] != at[:-1]))
            low[at[new]] = codes[new]
            last = np.concatenate((new[1:], [True]))
            high[at[last]] = codes[last]
        for here in self.advance_index(group, interesting):
            for a in here.tolist():
                low[a], high[a] = _ends(self.index[tuple(group.codes(a).tolist())])
        return low, high


def _ends(rows: SortedRows) -> tuple[int, int]:
    """Return the codes of the least and the greatest value; NULL sorts first, and is neither."""
    first, last = rows.first(), rows.last()
    if first is None or last is None or last[0] == NULL:
        return NULL, NULL
    if first[0] == NULL:
        return int(rows.select(np.array([first[-1]]))[0, 0]), last[0]
    return first[0], last[0]
