"""Window calls in loops, and over times of several coordinates: each group is computed whole, at each of its times."""

from __future__ import annotations

import numpy as np

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.windows.bound import CallError, Windows
from tidemill.renderer.embedded.kernels.codec import decode_rows
from tidemill.renderer.embedded.kernels.updates import Codes, Ints, Rows
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Groups, Shape
from tidemill.renderer.embedded.reduce.group_rows import GroupRows
from tidemill.renderer.embedded.reduce.logic import LOGICS, DesiredOutput, LogicContext
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.windows.evaluate import recompute
from tidemill.renderer.embedded.windows.ordering import GivenRows
from tidemill.renderer.runs import failures


class WindowsLogic:
    """The logic of a Reduce by `Windows`: each copy of each row of the group, with the calls' values."""

    consolidates = False
    keyed_output = True

    def __init__(self, node: Reduce, windows: Windows, around: LogicContext) -> None:
        self._node = node
        self._windows = windows
        self._interner = around.interner
        schema = node.inputs[0].schema
        self._types = schema.dtypes
        width = len(node.keys)
        shape = Shape(width, node.scope.coordinates, around.schedule, around.since, node)
        self._kept = windows.kept(width)
        columns = range(width, len(schema))
        self._rows = GroupRows(columns, None, len(schema), shape, named=windows.row)

    def spines(self) -> dict[str, Spine]:
        return {"rows": self._rows.spine}

    def drop_derived(self) -> None:
        self._rows.drop_derived()

    def gather(self, keys: Codes, owner: Ints, new: Rows) -> list[Stored]:
        return [self._rows.gather(keys, owner, new)]

    def desired(self, keys: Codes, interesting: InterestingTimes, seen: list[Stored]) -> DesiredOutput:
        group = Groups(self._node, keys, interesting, np.arange(len(interesting)), self._interner)
        accumulated = self._rows.accumulated(group, interesting, seen[0])
        at = accumulated[0]
        rows = np.concatenate((group.codes(at), accumulated[1:-1]))
        try:
            source, values = recompute(self._windows, self._types, GivenRows(at, rows, accumulated[-1]), self._interner)
        except CallError as error:
            raise self._failed(rows, error) from None
        found = np.concatenate([*(rows[i].take(source)[None] for i in self._kept), values])
        return DesiredOutput(at.take(source), found, np.ones(len(source), np.int64))

    def _failed(self, rows: Codes, error: CallError) -> Exception:
        schema = self._node.inputs[0].schema
        (row,) = decode_rows(schema, rows[:, [error.row]], self._interner)
        return failures.no_window_value(self._node, self._windows, row, error)


@LOGICS(Windows)
def _logic(node: Reduce, around: LogicContext) -> WindowsLogic:
    assert isinstance(node.logic, Windows)
    return WindowsLogic(node, node.logic, around)
