"""The first rows of groups in an order."""

from __future__ import annotations

import numpy as np

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.ordering import TopK
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.memory import concatenate
from tidemill.renderer.embedded.kernels.updates import Codes, Ints, Rows, UpdateArray, ones, summable
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Groups, Shape, Since
from tidemill.renderer.embedded.reduce.group_rows import GroupRows
from tidemill.renderer.embedded.reduce.logic import LOGICS, DesiredOutput, LogicContext
from tidemill.renderer.embedded.schedule import Schedule
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.windows.ordering import run_lengths


class TopKLogic:
    """The logic of a Reduce by `TopK`: the first rows of each group, copies counted."""

    consolidates = False
    keyed_output = True

    def __init__(self, node: Reduce, schedule: Schedule, since: Since, interner: Interner) -> None:
        assert isinstance(node.logic, TopK)
        self._node = node
        self._interner = interner
        self._is_numbered = node.logic.numbered
        self._count = min(node.logic.count, np.iinfo(np.int64).max)  # counts are of 64 bits
        schema = node.inputs[0].schema
        types = schema.dtypes
        by = [SortColumn(o.column, types[o.column], o.descending, o.nulls_first) for o in node.logic.order]
        row, hashed = ([SortColumn(c, types[c]) for c in some] for some in (node.logic.row, node.logic.hash_columns))
        self._order = RowOrder(by, interner, row, hashed)
        width = len(node.keys)
        shape = Shape(width, node.scope.coordinates, schedule, since, node)
        every = range(len(schema))
        self._rows = GroupRows(every[width:], self._order, len(schema), shape, named=every)

    def spines(self) -> dict[str, Spine]:
        return {"rows": self._rows.spine}

    def drop_derived(self) -> None:
        self._rows.drop_derived()

    def gather(self, keys: Codes, owner: Ints, new: Rows) -> list[Stored]:
        return [self._rows.gather(keys, owner, new)]

    def desired(self, keys: Codes, interesting: InterestingTimes, seen: list[Stored]) -> DesiredOutput:
        group = Groups(self._node, keys, interesting, np.arange(len(interesting)), self._interner)
        small = self._first_of_small(group, interesting, seen[0]) if len(seen[0].owner) else None
        at, rows = self._rows.first(group, interesting, self._count)
        if small is not None and not len(at):
            at, rows = small
        elif small is not None:
            at, rows = np.concatenate((at, small[0])), np.concatenate((rows, small[1]), axis=1)
            order = at.argsort(kind="stable")
            at, rows = at.take(order), rows.take(order, axis=1)
        return _numbered(at, rows) if self._is_numbered else DesiredOutput(at, rows[:-1], rows[-1])

    def _first_of_small(self, group: Groups, interesting: InterestingTimes, seen: Stored) -> tuple[Ints, UpdateArray]:
        """Return the first rows of groups that are looked through, each with its interesting time."""
        accumulated = self._rows.accumulated(group, interesting, seen)
        at = accumulated[0]
        rows = concatenate((group.codes(at), accumulated[1:]))
        order = self._order.sorted(rows, at).order
        return self._first(at.take(order), rows.take(order, axis=1))

    def _first(self, at: Ints, rows: UpdateArray) -> tuple[Ints, UpdateArray]:
        """Return of rows in order, the first of each interesting time, with as many copies as there is room for."""
        if not len(at):
            return at, rows
        counts = summable(np.minimum(rows[-1], self._count))
        running = counts.cumsum()
        starts = np.concatenate(([True], at[1:] != at[:-1]))
        before_group = (running - counts)[starts][starts.cumsum() - 1]
        before = running - counts - before_group
        kept = (before < self._count).astype(np.bool_, copy=False)
        rows = rows.compress(kept, axis=1)
        rows[-1] = np.minimum(counts[kept], self._count - before[kept])
        return at[kept], rows


def _numbered(at: Ints, rows: UpdateArray) -> DesiredOutput:
    """Return each copy of rows, which are in order of their interesting times, with its place in its time's."""
    counts = rows[-1]
    if np.count_nonzero(counts == 1) < len(counts):
        at, rows = at.repeat(counts), rows.repeat(counts, axis=1)
    codes, n = rows.copy(), len(at)
    codes[-1] = np.arange(1, n + 1)
    if n and at.item(0) != at.item(-1):
        begins = np.concatenate(([0], (at[1:] != at[:-1]).nonzero()[0] + 1))
        codes[-1] -= begins.repeat(run_lengths(begins, n))
    return DesiredOutput(at, codes, ones(n))


@LOGICS(TopK)
def _logic(node: Reduce, around: LogicContext) -> TopKLogic:
    return TopKLogic(node, around.schedule, around.since, around.interner)
