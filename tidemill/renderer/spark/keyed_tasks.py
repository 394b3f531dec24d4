"""What runs in executors on whole partitions of keys: the embedded engine's own operators for Threshold and Reduce.

A partition has all updates of its keys, as one table whose column ``kind`` says what each line is: a new update, a
pending time that is due, or a stored update of one of the operator's arrangements. What comes out has the same columns:
updates to be added to the arrangements, the output's among them, and times pending for later rounds. So Python is
called once for a partition, and the kernels are those of a step of the embedded engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Arrange, Input, Node, Reduce
from tidemill.expressions.aggregates import UserReduce
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT32, INT64, DType
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, encode_column
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray, consolidated
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.keyed import KeyedOperator
from tidemill.renderer.embedded.operators.threshold import ThresholdOperator, UniqueCheck
from tidemill.renderer.embedded.reduce.aggregates import AggregateLogic
from tidemill.renderer.embedded.reduce.operator import ReduceOperator
from tidemill.renderer.embedded.schedule import Frontier, Region, Round, Schedule
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.spark.frames import DIFF
from tidemill.renderer.spark.row_tasks import detached

KIND: Final = "kind"
NEW, DUE, STORE = 0, 1, 2
"""A new update of the input; a pending time of a key; from here on, updates of the arrangements, in their order."""
ARRANGED: Final = "arranged"
"""The name of the arrangement from which a user's function gets its groups."""

Batches = Iterator[pa.RecordBatch]


@attrs.frozen
class ArrangementColumns:
    """The lines of one arrangement: the columns and types of its values, and the number of its weights."""

    name: str
    columns: tuple[str, ...]
    types: tuple[DType, ...]
    weights: int


@attrs.frozen
class Layout:
    """The columns of the table: kind, the input's row, further values of arrangements, times, weights.

    Others than those of a line's kind are NULL in it; all have the key. The diff of a new update is weight 0.
    """

    row: Schema
    keys: tuple[int, ...]
    coordinates: int
    arrangements: tuple[ArrangementColumns, ...]
    output_columns: tuple[str, ...]
    """The columns that the output's rows have, in lines of the last arrangement."""
    diff_weight: int
    """Which weight of these lines is the output's diff."""
    sums: list[tuple[str, int | None]] | None
    """What is stored of the input, where that is sums of whole numbers alone; see `IntegerSums.weight_meanings`."""

    @property
    def fields(self) -> list[Field]:
        """All columns, as they are named inside."""
        values = {f"c{i}": f.dtype for i, f in enumerate(self.row)}
        for arrangement in self.arrangements:
            values |= dict(zip(arrangement.columns, arrangement.types, strict=True))
        numbers = self.times_and_weights(max([1, *(a.weights for a in self.arrangements)]))
        return [Field(KIND, INT32), *(Field(n, t) for n, t in values.items()), *(Field(n, INT64) for n in numbers)]

    def times_and_weights(self, weights: int) -> list[str]:
        """Return the columns of times, and of so many weights."""
        return [*(f"t{i}" for i in range(self.coordinates)), *(f"w{i}" for i in range(weights))]


def layout_of(node: Node) -> Layout:
    """Return the columns of a keyed operator's tables."""
    operator, spines = _operator(detached(node), Region(schedule_of(1, Antichain()), None, -1), Interner())
    row = node.inputs[0].schema if node.inputs else node.schema
    keys = node.keys if isinstance(node, Reduce) else tuple(range(len(row)))
    arrangements = []
    for number, (name, spine) in enumerate(spines.items()):
        of = spine.layout
        at = dict(zip(of.keys, keys, strict=True)) if name != ARRANGED else {k: k for k in range(len(row))}
        columns = tuple(f"c{at[i]}" if i in at else f"x{number}_{i}" for i in range(len(of.types)))
        types = tuple(t or INT64 for t in of.types)
        arrangements.append(ArrangementColumns(name, columns, types, of.weights))
    output_columns = arrangements[-1].columns[operator.dropped if isinstance(operator, ReduceOperator) else 0 :]
    logic = operator.logic if isinstance(operator, ReduceOperator) else None
    sums = logic.sums.weight_meanings if isinstance(logic, AggregateLogic) and logic.sums is not None else None
    diff_weight = arrangements[-1].weights - 1
    return Layout(row, keys, node.scope.coordinates, tuple(arrangements), output_columns, diff_weight, sums)


@attrs.frozen
class KeyedTask:
    """A round of a Threshold, a Reduce, or the check of a unique input, on a partition of its keys."""

    node: Any
    layout: Layout
    users: int
    now: Round
    lower: Antichain
    upper: Antichain
    keeps_state: bool
    """Whether additions to all arrangements are wanted, to be stored; else only those to the output."""
    summed: bool
    """Whether the new lines are sums for each key and time, as the operator's only arrangement keeps them."""

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
            interner = Interner()
            yield from _Round(self, encoded_columns(table, self.layout.fields, interner), interner).run()


@attrs.frozen
class KeyedTaskAtOneTime:
    """The same where nothing is stored and all updates are at one time: no lines, only rows and diffs, in and out."""

    task: KeyedTask
    time: Time

    @property
    def given(self) -> list[Field]:
        """The columns of the updates that are given."""
        return [*(Field(f"c{i}", f.dtype) for i, f in enumerate(self.task.layout.row)), Field(DIFF, INT64)]

    @property
    def made(self) -> list[Field]:
        """The columns of the output's updates."""
        layout = self.task.layout
        types = {f.name: f.dtype for f in layout.fields}
        return [*(Field(f"c{i}", types[name]) for i, name in enumerate(layout.output_columns)), Field(DIFF, INT64)]

    def run(self, batches: Batches) -> Batches:
        """Return the output's updates for a partition."""
        found = list(batches)
        count = sum(b.num_rows for b in found)
        if not count:
            return
        interner = Interner()
        codes = encoded_columns(pa.Table.from_batches(found), self.given, interner)
        codes |= {f"t{i}": np.full(count, t, np.int64) for i, t in enumerate(self.time)}
        codes |= {KIND: np.full(count, NEW, np.int64), "w0": codes.pop(DIFF)}
        names = [*self.task.layout.output_columns, f"w{self.task.layout.diff_weight}"]
        rows = _Round(self.task, codes, interner).output(names)
        if rows.shape[1]:
            columns = [decode_column(c, f.dtype, interner) for c, f in zip(rows, self.made, strict=True)]
            yield from pa.table(columns, [f.name for f in self.made]).to_batches(max_chunksize=100_000)


def encoded_columns(table: pa.Table, fields: list[Field], interner: Interner) -> dict[str, Ints]:
    """Return a table's columns as codes, by their names."""
    return {f.name: encode_column(table.column(f.name), f.dtype, interner) for f in fields}


class _Round:
    """One call: the operator run on the columns of a partition's table, and its results."""

    def __init__(self, task: KeyedTask, codes: dict[str, Ints], interner: Interner) -> None:
        self._task = task
        self._layout = task.layout
        self._interner = interner
        self._codes = codes
        schedule = schedule_of(task.users, task.lower)
        schedule.checks_frontiers = bool(task.upper.elements)
        self._region = region_of(schedule, task.now)
        self._operator, self._spines = _operator(task.node, self._region, self._interner)
        self._operator.frontier.upper = task.upper

    def output(self, names: list[str]) -> UpdateArray:
        """Return columns of the output's changes, where nothing is stored."""
        layout = self._layout
        self._feed([f"c{k}" for k in layout.keys])
        self._operator.run()
        arrangement, spine = layout.arrangements[-1], list(self._spines.values())[-1]
        made = spine.layout.consolidated(spine.updates_in_memory())
        at = {n: i for i, n in enumerate([*arrangement.columns, *layout.times_and_weights(arrangement.weights)])}
        rows = made[[at[name] for name in names]]
        return rows[:, rows[-1] != 0]

    def run(self) -> Iterator[pa.RecordBatch]:
        """Return the lines of what the operator makes of lines, those that were stored among them."""
        layout = self._layout
        keys = [f"c{k}" for k in layout.keys]
        for number, (arrangement, spine) in enumerate(zip(layout.arrangements, self._spines.values(), strict=True)):
            stored = self._block(STORE + number, arrangement.columns, arrangement.weights)
            if stored.shape[1]:
                spine.spilled = spine_like(spine)
                spine.spilled.append(stored)
        self._feed(keys)
        self._operator.run()
        for pending in self._operator.ports[1].outstanding():
            yield from self._lines(DUE, pending, keys, 0)
        for number, (arrangement, spine) in enumerate(zip(layout.arrangements, self._spines.values(), strict=True)):
            weights = arrangement.weights
            if self._task.keeps_state or number == len(layout.arrangements) - 1:
                made = spine.layout.consolidated(spine.updates_in_memory())
                yield from self._lines(STORE + number, made, arrangement.columns, weights)

    def _feed(self, keys: list[str]) -> None:
        """Give the operator the new updates and the pending times that are due."""
        layout, operator, now = self._layout, self._operator, self._region.now
        if self._task.summed:
            new = feed_sums(layout, operator, self._block(NEW, keys, layout.arrangements[0].weights))
        else:
            new = self._block(NEW, [f"c{i}" for i in range(len(self._layout.row))], 1)
        if ARRANGED in self._spines:
            new = consolidated(new)
            self._spines[ARRANGED].append(new)
        operator.ports[0].put(new, now)
        operator.ports[1].put(self._block(DUE, keys, 0), now)

    def _block(self, kind: int, names: Any, weights: int) -> UpdateArray:
        """Return the lines of a kind as a block of these columns, the time and some weights."""
        mask = self._codes[KIND] == kind
        wanted = [*names, *self._layout.times_and_weights(weights)]
        return np.array([self._codes[name][mask] for name in wanted], np.int64).reshape(len(wanted), -1)

    def _lines(self, kind: int, block: UpdateArray, names: Any, weights: int) -> Iterator[pa.RecordBatch]:
        """Give a block of these columns, the time and some weights as lines of a kind, all else NULL."""
        count = block.shape[1]
        if not count:
            return
        wanted = [*names, *self._layout.times_and_weights(weights)]
        rows = dict(zip(wanted, block, strict=True))
        rows[KIND] = np.full(count, kind, np.int64)
        columns = {
            f.name: decode_column(rows[f.name], f.dtype, self._interner)
            if f.name in rows
            else pa.nulls(count, f.dtype.arrow)
            for f in self._layout.fields
        }
        yield from pa.table(columns).to_batches(max_chunksize=100_000)


def feed_sums(layout: Layout, operator: KeyedOperator, sums: UpdateArray) -> UpdateArray:
    """Have a Reduce take sums (keys, times, weights), and return as many updates, with their keys and times."""
    assert isinstance(operator, ReduceOperator)
    logic, width = operator.logic, len(layout.keys)
    assert isinstance(logic, AggregateLogic)
    logic.take_presummed(sums)
    new = np.full((len(layout.row) + layout.coordinates + 1, sums.shape[1]), NULL, np.int64)
    new[list(layout.keys)] = sums[:width]
    new[len(layout.row) : -1] = sums[width : width + layout.coordinates]
    new[-1] = 1
    return new


def _operator(node: Any, region: Region, interner: Interner) -> tuple[KeyedOperator, dict[str, Spine]]:
    """Return a node's operator and its arrangements: the last one says what the output was."""
    if isinstance(node, Input):
        check = UniqueCheck(node, region, interner)
        return check, check.spines()
    if not isinstance(node, Reduce):
        threshold = ThresholdOperator(node, region, interner)
        return threshold, threshold.spines()
    spines: dict[str, Spine] = {}
    arranged = None
    if isinstance(node.logic, UserReduce):
        schema = node.inputs[0].schema
        arrange = Arrange(id=node.id, name=node.name, scope=node.scope, schema=schema, site=node.site, keys=node.keys)
        arranged = ArrangeOperator(arrange, region)
        spines[ARRANGED] = arranged.spine
    operator = ReduceOperator(node, region, interner, arranged)
    operator.ports[1].refill(None)  # pending times come with the table
    out, *others = operator.spines().items()
    spines |= dict([*others, out])
    return operator, spines


def spine_like(spine: Spine) -> Spine:
    """Return an empty spine for updates of the same shape."""
    return Spine(spine.layout, spine.since, Transaction())


def schedule_of(users: int, lower: Antichain) -> Schedule:
    """Return a schedule of which all operators have taken what is before a frontier."""
    return Schedule(users, lambda _: Frontier(lower))


def region_of(schedule: Schedule, now: Round) -> Region:
    """Return the innermost of as many regions as there are loops, each in its round."""
    region = Region(schedule, None, -1)
    for i in range(len(now)):
        region = Region(schedule, region, 0)
        region.now = now[: i + 1]
    return region
