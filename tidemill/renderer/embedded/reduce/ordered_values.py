"""The rows of groups in a total order: the state of first, last and list."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tidemill.boundary.list_columns import MOST_VALUES
from tidemill.expressions.aggregates import BoundAggregate
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Groups, Shape
from tidemill.renderer.embedded.reduce.group_rows import GroupRows
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn


class OrderedValues(GroupRows):
    """The rows that take part in aggregates of one order and one condition, with their counts."""

    def __init__(self, aggregates: Sequence[BoundAggregate], schema: Schema, shape: Shape, interner: Interner) -> None:
        first = aggregates[0]
        self._aggregates = aggregates
        used = {a.column for a in aggregates if a.column is not None}
        columns = sorted({*used, *(o.column for o in first.order), *first.tells_apart})
        self._rows_of = {c: i for i, c in enumerate(columns)}
        """Where in a row of ours each column of the input is, after the key or the interesting time."""
        by = [(self._rows_of[o.column], schema.fields[o.column].dtype, o) for o in first.order]
        order, self._order = (
            RowOrder([SortColumn(start + i, t, o.descending, o.nulls_first) for i, t, o in by], interner)
            for start in (shape.width, 1)
        )
        ends = any(a.function != "list" for a in aggregates)  # a list is read whole, in order or not
        super().__init__(
            columns, order if ends else None, len(schema), shape, condition=first.condition, named=first.tells_apart
        )
        self._interner = interner

    def values(self, group: Groups, interesting: InterestingTimes, seen: Stored) -> dict[BoundAggregate, Ints]:
        """Return the codes of each aggregate at each interesting time."""
        accumulated = self.accumulated(group, interesting, seen)
        accumulated = accumulated.take(self._order.sorted(accumulated, accumulated[0]).order, axis=1)
        bounds = accumulated[0].searchsorted(np.arange(len(interesting) + 1))
        found = {a: self._of_small(a, accumulated, bounds, group) for a in self._aggregates}
        for ends in ("first", "last", "list"):
            asked = [a for a in self._aggregates if a.function == ends]
            if asked:
                self._of_large(asked, found, group, interesting)
        return found

    def _of_small(self, aggregate: BoundAggregate, rows: UpdateArray, bounds: Ints, group: Groups) -> Ints:
        """Return an aggregate's codes, of rows sorted by interesting time and order; each time begins at its bound."""
        assert aggregate.column is not None
        codes, starts, ends = rows[1 + self._rows_of[aggregate.column]], bounds[:-1], bounds[1:]
        if aggregate.function == "list":
            return self._lists(aggregate, codes, rows[-1], bounds, group, np.arange(len(starts)))
        result = np.full(len(starts), NULL)
        some = starts < ends
        result[some] = codes[starts[some] if aggregate.function == "first" else ends[some] - 1]
        return result

    def _lists(  # noqa: PLR0917 - rows in two parts, and whose they are
        self, aggregate: BoundAggregate, codes: Ints, counts: Ints, bounds: Ints, group: Groups, at: Ints
    ) -> Ints:
        """Return the numbers of the lists, each value as often as its count; ``at`` are the interesting times."""
        counts = np.minimum(counts, MOST_VALUES + 1)  # so that sums of them stay far below 64 bits
        ends = np.concatenate((np.zeros(1, np.int64), counts.cumsum())).take(bounds)
        lengths = np.diff(ends)
        if lengths.max(initial=0) > MOST_VALUES:
            raise group.overflow(aggregate, int(at[lengths.argmax()]))
        values = codes.repeat(counts).tolist()
        found = [self._interner.number(tuple(values[a:b])) for a, b in pairwise(ends.tolist())]
        return np.array(found, np.int64)

    def _of_large(
        self,
        aggregates: Sequence[BoundAggregate],
        found: dict[BoundAggregate, Ints],
        group: Groups,
        interesting: InterestingTimes,
    ) -> None:
        """Put in the codes of aggregates that read the same end of large groups."""
        function = aggregates[0].function
        count = MOST_VALUES + 1 if function == "list" else 1
        at, rows = self.first(group, interesting, count, last=function == "last")
        if not len(at):
            return
        for a in aggregates:
            assert a.column is not None
            codes = rows[self.width + self._rows_of[a.column]]
            if function == "list":
                here, starts = np.unique(at, return_index=True)
                bounds = np.append(starts, len(at))
                found[a][here] = self._lists(a, codes, rows[-1], bounds, group, here)
            else:
                found[a][at] = codes
