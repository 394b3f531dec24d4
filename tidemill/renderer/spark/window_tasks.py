"""Tasks that executors run on the partitions of window calls.

Where nothing is stored and all is at one time, whole partitions go through the kernel. In a live run a task gets the
stored rows of the partitions that change, and the new updates, and runs the embedded engine's own operator, which
keeps rows and nothing of the output: it computes the values around the changes before and after, of small partitions
all, and gives what differs.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.schema import Field
from tidemill.expressions.types import BOOL, INT64
from tidemill.expressions.windows.bound import CallError
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import UpdateArray, consolidated, numbered, stacked
from tidemill.renderer.embedded.reduce.ordered_windows import OrderedWindowsOperator
from tidemill.renderer.embedded.schedule import Round
from tidemill.renderer.embedded.windows.evaluate import recompute
from tidemill.renderer.embedded.windows.ordering import GivenRows
from tidemill.renderer.spark.frames import DIFF
from tidemill.renderer.spark.large_windows import STORED
from tidemill.renderer.spark.tasks import detached, put_below, region_at


@attrs.frozen
class WindowsKernel:
    """A step of window calls, over times of one coordinate, on some of their partitions."""

    node: Any = attrs.field(converter=detached)
    lower: Antichain
    upper: Antichain

    @property
    def given(self) -> list[Field]:
        """See `Kernel`."""
        return [*self._updates(self.node.inputs[0].schema.dtypes), Field(STORED, BOOL)]

    @property
    def made(self) -> list[Field]:
        """See `Kernel`."""
        return self._updates(self.node.schema.dtypes)

    @staticmethod
    def _updates(types: Any) -> list[Field]:
        return [*(Field(f"c{i}", t) for i, t in enumerate(types)), Field("t0", INT64), Field(DIFF, INT64)]

    def apply(self, given: UpdateArray, interner: Interner) -> UpdateArray:
        """See `Kernel`."""
        updates, is_stored = given[:-1], given[-1] != 0
        region = region_at(1, (), self.lower, checks=bool(self.upper.elements))
        operator = OrderedWindowsOperator(self.node, self.node.logic, region, interner)
        operator.frontier.upper = self.upper
        (spine,) = operator.spines().values()
        put_below(spine, updates.compress(is_stored, axis=1))
        reader = _Reader()
        operator.consumers.append((reader, 0))  # type: ignore[arg-type]
        operator.ports[0].put(updates.compress(~is_stored, axis=1), ())
        operator.run()
        # Equal rows, which come for different times, are of one task: they have the keys of their partitions.
        return consolidated(stacked(reader.found)) if reader.found else np.empty((len(self.made), 0), np.int64)


class _Reader:
    """A reader of the operator's output."""

    takes_rows = False

    def __init__(self) -> None:
        self.found: list[UpdateArray] = []

    def accept(self, port: int, updates: UpdateArray, at: Round | None) -> None:
        """See `Operator`."""
        del port, at
        self.found.append(updates)


def windows_at_one_time(node: Reduce, updates: UpdateArray, interner: Interner, *, as_rows: bool) -> UpdateArray | None:
    """Return rows with diffs, all at one time, with the values of window calls; None where there is an error.

    With ``as_rows`` they are given one by one, equal ones too.
    A Reduce does the same, and three times as long: it looks for times at which each partition may change.
    """
    windows: Any = node.logic
    width, updates = len(node.keys), consolidated(updates)
    rows, counts = updates[:-1], updates[-1]
    if (counts < 0).any():
        return None
    partition = numbered(rows[:width])[1] if width else np.zeros(len(counts), np.int64)
    try:
        source, values = recompute(windows, node.inputs[0].schema.dtypes, GivenRows(partition, rows, counts), interner)
    except CallError:
        return None
    kept = windows.kept(width)
    change = np.empty((len(kept) + len(values) + 1, len(source)), np.int64)
    for place, column in enumerate(kept):
        rows[column].take(source, out=change[place])
    change[len(kept) : -1] = values
    change[-1] = 1
    return change if as_rows or (counts == 1).all() else consolidated(change)  # rows that differ still do, with values
