"""What runs in executors on the partitions of window calls.

Where nothing is stored and all is at one time, whole partitions go through the kernel. In a live run a task gets the
stored rows of the partitions that change, and the new updates, and runs the embedded engine's own operator, which
keeps rows and nothing of the output: it computes the values around the changes before and after, of small partitions
all, and gives what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.schema import Field
from tidemill.expressions.types import BOOL, INT64
from tidemill.expressions.windows.bound import CallError
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column
from tidemill.renderer.embedded.kernels.updates import UpdateArray, consolidated, numbered, stacked
from tidemill.renderer.embedded.reduce.ordered_windows import OrderedWindowsOperator
from tidemill.renderer.embedded.schedule import Round
from tidemill.renderer.embedded.windows.evaluate import recompute
from tidemill.renderer.embedded.windows.ordering import GivenRows
from tidemill.renderer.spark.frames import DIFF
from tidemill.renderer.spark.keyed_tasks import (
    KeyedTaskAtOneTime,
    encoded_columns,
    region_of,
    schedule_of,
    spine_like,
)
from tidemill.renderer.spark.row_tasks import detached

STORED: Final = "stored"
"""The column that says whether an update is a stored one."""

Batches = Iterator[pa.RecordBatch]


@attrs.frozen
class WindowsTask:
    """A step of window calls, over times of one coordinate, on some of their partitions."""

    node: Any
    lower: Antichain
    upper: Antichain

    @classmethod
    def of(cls, node: Reduce, lower: Antichain, upper: Antichain) -> WindowsTask:
        """Return the task for a node, which is cut off from its graph."""
        return cls(detached(node), lower, upper)

    @property
    def given(self) -> list[Field]:
        """The columns of the updates that are given."""
        return [*self._updates(self.node.inputs[0].schema.dtypes), Field(STORED, BOOL)]

    @property
    def made(self) -> list[Field]:
        """The columns of the output's updates."""
        return self._updates(self.node.schema.dtypes)

    @staticmethod
    def _updates(types: Any) -> list[Field]:
        return [*(Field(f"c{i}", t) for i, t in enumerate(types)), Field("t0", INT64), Field(DIFF, INT64)]

    def run(self, batches: Batches) -> Batches:
        """Return what changes in the output."""
        found = list(batches)
        if not sum(batch.num_rows for batch in found):
            return
        interner = Interner()
        codes = encoded_columns(pa.Table.from_batches(found), self.given, interner)
        is_stored = codes.pop(STORED) != 0
        updates = np.array(list(codes.values()))
        change = self._changed(updates.compress(is_stored, axis=1), updates.compress(~is_stored, axis=1), interner)
        if change.shape[1]:
            columns = [decode_column(c, f.dtype, interner) for c, f in zip(change, self.made, strict=True)]
            yield from pa.table(columns, [f.name for f in self.made]).to_batches(max_chunksize=100_000)

    def _changed(self, stored: UpdateArray, new: UpdateArray, interner: Interner) -> UpdateArray:
        schedule = schedule_of(1, self.lower)
        schedule.checks_frontiers = bool(self.upper.elements)
        operator = OrderedWindowsOperator(self.node, self.node.logic, region_of(schedule, ()), interner)
        operator.frontier.upper = self.upper
        if stored.shape[1]:
            (spine,) = operator.spines().values()
            spine.spilled = spine_like(spine)
            spine.spilled.append(stored)
        reader = _Reader()
        operator.consumers.append((reader, 0))  # type: ignore[arg-type]
        operator.ports[0].put(new, ())
        operator.run()
        # Equal rows, which come for different times, are of one task: they have the keys of their partitions.
        return consolidated(stacked(reader.found)) if reader.found else np.empty((len(self.made), 0), np.int64)


@attrs.frozen
class WindowsAtOneTime:
    """Window calls where nothing is stored and all updates are at one time."""

    general: KeyedTaskAtOneTime
    """What does the same for any operator, and knows the errors."""

    def run(self, batches: Batches) -> Batches:
        """Return the rows of a partition of the keys with the calls' values."""
        found = list(batches)
        if not sum(batch.num_rows for batch in found):
            return
        interner = Interner()
        change = self._computed(pa.Table.from_batches(found), interner)
        if change is None:
            yield from self.general.run(iter(found))
            return
        made = self.general.made
        columns = [decode_column(c, f.dtype, interner) for c, f in zip(change, made, strict=True)]
        yield from pa.table(columns, [f.name for f in made]).to_batches(max_chunksize=100_000)

    def _computed(self, table: pa.Table, interner: Interner) -> UpdateArray | None:
        """Return the output's rows with their counts; None where there is an error."""
        node = self.general.task.node
        windows, width = node.logic, len(node.keys)
        updates = consolidated(np.array(list(encoded_columns(table, self.general.given, interner).values())))
        rows, counts = updates[:-1], updates[-1]
        if (counts < 0).any():
            return None
        partition = numbered(rows[:width])[1] if width else np.zeros(len(counts), np.int64)
        try:
            source, values = recompute(
                windows, node.inputs[0].schema.dtypes, GivenRows(partition, rows, counts), interner
            )
        except CallError:
            return None
        kept = windows.kept(width)
        change = np.empty((len(kept) + len(values) + 1, len(source)), np.int64)
        for place, column in enumerate(kept):
            rows[column].take(source, out=change[place])
        change[len(kept) : -1] = values
        change[-1] = 1
        return change if (counts == 1).all() else consolidated(change)  # rows that differ still do, with values


class _Reader:
    """What reads the operator."""

    def __init__(self) -> None:
        self.found: list[UpdateArray] = []

    def accept(self, port: int, updates: UpdateArray, at: Round | None) -> None:
        """See `Operator`."""
        del port, at
        self.found.append(updates)
