"""What runs in executors on whole partitions of keys: the embedded engine's own operators for Threshold and Reduce.

A partition has all updates of its keys, as one table whose column ``kind`` says what each line is: a new update, an
update of the input or the output from earlier rounds, or a time that is owed. What comes out has the same columns: the
change of the output, times owed to later rounds, and, where there will be a next round, the new updates of the input to
be kept. So Python is called once for a partition, and the kernels are those of a step of the embedded engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.collections.aggregates import UserReduce
from tidemill.collections.schema import Field, Schema
from tidemill.collections.types import INT64
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Arrange, Input, Reduce
from tidemill.renderer.embedded.arrange import ArrangeOperator
from tidemill.renderer.embedded.blocks import Block, consolidated
from tidemill.renderer.embedded.codec import Interner, decode_column, encode_column
from tidemill.renderer.embedded.reduce import ReduceOperator
from tidemill.renderer.embedded.schedule import Frontier, Loops, Operator, Region, Schedule
from tidemill.renderer.embedded.threshold import ThresholdOperator, UniqueCheck
from tidemill.renderer.spark.rowtasks import detached

__all__ = ["DUE", "GIVEN", "KIND", "MADE", "NEW", "KeyedTask", "Layout"]

KIND: Final = "kind"
NEW, GIVEN, MADE, DUE = 0, 1, 2, 3
"""A new update of the input; one of the input or the output from an earlier round; a key and time to look at."""

Batches = Iterator[pa.RecordBatch]


@attrs.frozen
class Layout:
    """The columns of what such a task takes and gives: kind, the input's row, the output's row, the time, the diff.

    A line has the columns of its kind; of the input's row, all have the key.
    """

    given: Schema
    made: Schema
    keys: tuple[int, ...]
    coordinates: int

    @property
    def fields(self) -> list[Field]:
        """The columns between the kind and the diff, as they are named inside."""
        given = [Field(f"c{i}", f.dtype) for i, f in enumerate(self.given)]
        made = [Field(f"o{i}", f.dtype) for i, f in enumerate(self.made)]
        return [*given, *made, *(Field(f"t{i}", INT64) for i in range(self.coordinates))]


@attrs.frozen
class KeyedTask:
    """A round of a Threshold, a Reduce, or the check of a unique input, on a partition of its keys."""

    node: Any
    layout: Layout
    users: int
    now: Loops
    lower: Antichain
    upper: Antichain
    keeps: bool
    """Whether the new updates are wanted back, to be kept for later rounds."""

    @classmethod
    def of(cls, node: Any, **fields: Any) -> KeyedTask:
        """Return the task for a node, which is cut off from its graph."""
        return cls(detached(node), **fields)

    def run(self, batches: Batches) -> Batches:
        """Return what the operator makes of a partition."""
        found = list(batches)
        if not found:
            return
        table = pa.Table.from_batches(found)
        if table.num_rows:
            yield from _Round(self, table).run()


class _Round:
    """One call: the partition's table taken apart, the operator, and what it made."""

    def __init__(self, task: KeyedTask, table: pa.Table) -> None:
        self._task = task
        self._layout = task.layout
        self._width = len(task.layout.given)
        self._interner = Interner()
        self._codes = {KIND: table.column(KIND).to_numpy()}
        for field in [*task.layout.fields, Field("d", INT64)]:
            self._codes[field.name] = encode_column(table.column(field.name), field.dtype, self._interner)
        schedule = Schedule(task.users, lambda _: Frontier(task.lower))
        schedule.watched = bool(task.upper.elements)
        self._region = _region(schedule, task.now)
        self._operator = self._made_operator()
        self._operator.frontier.upper = task.upper
        self._emitted: list[Block] = []

    def run(self) -> Iterator[pa.RecordBatch]:
        inside = [f"c{i}" for i in range(self._width)]
        outside = [f"o{i}" for i in range(len(self._layout.made))]
        keys = [inside[k] for k in self._layout.keys]
        new, due = self._block(NEW, inside), self._block(DUE, keys)[:-1]
        operator = self._operator
        if isinstance(operator, ReduceOperator):
            operator.load(self._block(GIVEN, inside), self._block(MADE, keys[: operator.dropped] + outside))
        else:
            assert isinstance(operator, ThresholdOperator)
            operator.load(self._block(GIVEN, inside), self._block(MADE, inside))
        self._put(new, due)
        if isinstance(operator, ReduceOperator):
            change = operator.changed()
            if operator.dropped:
                yield from self._lines(MADE, change, [*keys, *outside])
            else:
                again = np.concatenate((change[: len(keys)], change))
                yield from self._lines(MADE, again, [*keys, *outside])
        else:
            operator.run()
            for change in self._emitted:
                yield from self._lines(MADE, change, inside)
        for owed in operator.ports[1].outstanding():
            yield from self._lines(DUE, np.concatenate((owed, np.ones((1, owed.shape[1]), np.int64))), keys)
        if self._task.keeps:
            yield from self._lines(GIVEN, consolidated(new), inside)

    def accept(self, port: int, block: Block, at: Loops | None) -> None:
        """Take what the operator emits."""
        del port, at
        self._emitted.append(block)

    def _put(self, new: Block, due: Block) -> None:
        operator, now = self._operator, self._region.now
        operator.consumers.append((self, 0))  # type: ignore[arg-type]
        if isinstance(operator, ReduceOperator) and isinstance(operator.node.logic, UserReduce):  # type: ignore[attr-defined]
            new = consolidated(new)
            self._arrangement.spine.append(new)
        operator.ports[0].put(new, now)
        operator.ports[1].put(due, now)

    def _made_operator(self) -> Operator:
        node, schema = self._task.node, self._layout.given
        if isinstance(node, Input):
            return UniqueCheck(node, self._region, self._interner)
        if not isinstance(node, Reduce):
            return ThresholdOperator(node, self._region, self._interner)
        arranged = None
        if isinstance(node.logic, UserReduce):
            kept = Arrange(
                id=node.id, name=node.name, scope=node.scope, schema=schema, site=node.site, keys=self._layout.keys
            )
            arranged = self._arrangement = ArrangeOperator(kept, self._region)
        operator = ReduceOperator(node, self._region, self._interner, arranged)
        operator.ports[1].refill(None)  # what is owed comes with the table
        return operator

    def _block(self, kind: int, names: list[str]) -> Block:
        """Return the lines of a kind as a block of these columns, the time and the diff."""
        mask = self._codes[KIND] == kind
        wanted = [*names, *(f"t{i}" for i in range(self._layout.coordinates)), "d"]
        return np.stack([self._codes[name][mask] for name in wanted])

    def _lines(self, kind: int, block: Block, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Give a block of these columns, the time and the diff as lines of a kind; what it has not is NULL."""
        count = block.shape[1]
        if not count:
            return
        wanted = [*names, *(f"t{i}" for i in range(self._layout.coordinates)), "d"]
        rows = dict(zip(wanted, block, strict=True))
        columns = {KIND: pa.array(np.full(count, kind, np.int32))}
        for field in [*self._layout.fields, Field("d", INT64)]:
            if field.name in rows:
                columns[field.name] = decode_column(rows[field.name], field.dtype, self._interner)
            else:
                columns[field.name] = pa.nulls(count, field.dtype.arrow)
        yield from pa.table(columns).to_batches(max_chunksize=100_000)


def _region(schedule: Schedule, now: Loops) -> Region:
    """Return the innermost of as many regions as there are loops, each in its round."""
    region = Region(schedule, None, -1)
    for i in range(len(now)):
        region = Region(schedule, region, 0)
        region.now = now[: i + 1]
    return region
