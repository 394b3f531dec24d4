"""The values of a column with their counts: the state of min and max."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidemill.expressions.aggregates import BoundAggregate
from tidemill.renderer.embedded.kernels.codec import Interner, order_ranks
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes, SingleTime
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Groups, Shape
from tidemill.renderer.embedded.reduce.group_rows import GroupRows
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn

_GREATEST: Final = 2**63 - 1


class ValueCounts(GroupRows):
    """The values of a column with their counts."""

    def __init__(
        self,
        column: int,
        aggregates: Sequence[BoundAggregate],
        input_width: int,
        shape: Shape,
        interner: Interner,
    ) -> None:
        dtype = shape.node.inputs[0].schema.fields[column].dtype
        self._asked = {a.function for a in aggregates if a.column == column}
        super().__init__([column], RowOrder([SortColumn(shape.width, dtype)], interner), input_width, shape)
        self._dtype = dtype
        self._interner = interner

    def extremes(self, group: Groups, interesting: InterestingTimes, seen: Stored) -> tuple[Ints, Ints]:
        """Return the least and the greatest value at each interesting time, NULL where there is none or none asked."""
        if isinstance(interesting, SingleTime) and seen.updates[-1].min(initial=1) > 0:
            at, codes = seen.owner, seen.updates[self.width]  # nothing to cancel
        else:
            at, codes, _ = self.accumulated(group, interesting, seen)
        non_null = codes != NULL
        if not non_null.all():
            at, codes = at.compress(non_null), codes.compress(non_null)
        ranks = order_ranks(codes, self._dtype, self._interner)
        low, high = np.full(len(interesting), NULL), np.full(len(interesting), NULL)
        if "max" in self._asked:
            np.maximum.at(high, at, ranks)
        if "min" in self._asked:
            low[at] = _GREATEST
            np.minimum.at(low, at, ranks)
        if ranks is not codes:
            of_rank = np.full(int(ranks.max(initial=0)) + 1, NULL)
            of_rank[ranks] = codes
            low, high = (np.where(r == NULL, NULL, of_rank.take(np.maximum(r, 0))) for r in (low, high))
        asked = ((low, False),) * ("min" in self._asked) + ((high, True),) * ("max" in self._asked)
        for ends, is_last in asked:
            at, rows = self.first(group, interesting, 1, last=is_last, non_null=self.width)
            if len(at):
                ends[at] = rows[self.width]
        return low, high
