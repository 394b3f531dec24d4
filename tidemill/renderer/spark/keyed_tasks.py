"""What runs in executors on whole partitions of keys: the embedded engine's own operators for Threshold and Reduce.

A partition has all updates of its keys, as one table whose column ``kind`` says what each line is: a new update, a
time that is owed, or an update that one of the operator's arrangements held before. What comes out has the same
columns: what the arrangements hold more, which says how the output changes, and times owed to later rounds. So Python
is called once for a partition, and the kernels are those of a step of the embedded engine.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Arrange, Input, Node, Reduce
from tidemill.expressions.aggregates import UserReduce
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT32, INT64, DType
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, encode_column
from tidemill.renderer.embedded.kernels.updates import NULL, UpdateArray, consolidated
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.keyed import KeyedOperator
from tidemill.renderer.embedded.operators.threshold import ThresholdOperator, UniqueCheck
from tidemill.renderer.embedded.reduce.aggregates import AggregateLogic
from tidemill.renderer.embedded.reduce.operator import ReduceOperator
from tidemill.renderer.embedded.schedule import Frontier, Region, Round, Schedule
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.spark.row_tasks import detached

__all__ = ["ARRANGED", "DUE", "KIND", "NEW", "STORE", "Kept", "KeyedTask", "Layout", "fed_sums", "layout_of"]

KIND: Final = "kind"
NEW, DUE, STORE = 0, 1, 2
"""A new update of the input; a key and time to look at; from here on, updates of each arrangement, in their order."""
ARRANGED: Final = "arranged"
"""The name of the arrangement that a user's function is given groups of."""

Batches = Iterator[pa.RecordBatch]


@attrs.frozen
class Kept:
    """The lines of one arrangement: the columns that its values are in, their types, which are its key."""

    name: str
    columns: tuple[str, ...]
    types: tuple[DType, ...]
    keys: tuple[int, ...]
    weights: int


@attrs.frozen
class Layout:
    """The columns of what such a task takes and gives: kind, the input's row, what arrangements add, times, weights.

    A line has the columns of its kind; of the input's row, all have the key. The diff of a new update is weight 0.
    """

    given: Schema
    keys: tuple[int, ...]
    coordinates: int
    stores: tuple[Kept, ...]
    made: tuple[str, ...]
    """The columns of the output's rows, in lines of the last arrangement."""
    made_weight: int
    """Which weight of these lines is the output's diff."""
    sums: list[tuple[str, int | None]] | None
    """What is kept of the input, where that is sums of whole numbers alone; see `IntegerSums.weight_meanings`."""

    @property
    def fields(self) -> list[Field]:
        """All columns, as they are named inside."""
        values = {f"c{i}": f.dtype for i, f in enumerate(self.given)}
        for store in self.stores:
            values |= dict(zip(store.columns, store.types, strict=True))
        return [Field(KIND, INT32), *(Field(n, t) for n, t in values.items()), *(Field(n, INT64) for n in self.numbers)]

    @property
    def numbers(self) -> list[str]:
        """The columns of times and weights."""
        weights = max([1, *(s.weights for s in self.stores)])
        return [*(f"t{i}" for i in range(self.coordinates)), *(f"w{i}" for i in range(weights))]


def layout_of(node: Node) -> Layout:
    """Return the columns of a keyed operator's tables."""
    operator, stores = _operator(detached(node), Region(_schedule(1, Antichain()), None, -1), Interner())
    given: Schema = node.inputs[0].schema if node.inputs else node.schema
    keys = node.keys if isinstance(node, Reduce) else tuple(range(len(given)))
    kept = []
    for number, (name, spine) in enumerate(stores.items()):
        of = spine.layout
        at = dict(zip(of.keys, keys, strict=True)) if name != ARRANGED else {k: k for k in range(len(given))}
        columns = tuple(f"c{at[i]}" if i in at else f"x{number}_{i}" for i in range(len(of.types)))
        kept.append(Kept(name, columns, tuple(t or INT64 for t in of.types), of.keys, of.weights))
    made = kept[-1].columns[operator.dropped if isinstance(operator, ReduceOperator) else 0 :]
    logic = operator.logic if isinstance(operator, ReduceOperator) else None
    sums = logic.sums.weight_meanings if isinstance(logic, AggregateLogic) and logic.sums is not None else None
    return Layout(given, keys, node.scope.coordinates, tuple(kept), made, kept[-1].weights - 1, sums)


@attrs.frozen
class KeyedTask:
    """A round of a Threshold, a Reduce, or the check of a unique input, on a partition of its keys."""

    node: Any
    layout: Layout
    users: int
    now: Round
    lower: Antichain
    upper: Antichain
    keeps: bool
    """Whether what the arrangements hold more is wanted, to be kept for later; else only what changes the output is."""
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
            yield from _Round(self, table).run()


class _Round:
    """One call: the partition's table taken apart, the operator, and what it made."""

    def __init__(self, task: KeyedTask, table: pa.Table) -> None:
        self._task = task
        self._layout = task.layout
        self._interner = Interner()
        self._codes = {f.name: encode_column(table.column(f.name), f.dtype, self._interner) for f in self._fields}
        schedule = _schedule(task.users, task.lower)
        schedule.checks_frontiers = bool(task.upper.elements)
        self._region = _region(schedule, task.now)
        self._operator, self._stores = _operator(task.node, self._region, self._interner)
        self._operator.frontier.upper = task.upper

    def run(self) -> Iterator[pa.RecordBatch]:
        layout = self._layout
        keys = [f"c{k}" for k in layout.keys]
        for number, (kept, spine) in enumerate(zip(layout.stores, self._stores.values(), strict=True)):
            held = self._block(STORE + number, kept.columns, kept.weights)
            if held.shape[1]:
                spine.spilled = _like(spine)
                spine.spilled.append(held)
        self._put(keys)
        self._operator.run()
        for owed in self._operator.ports[1].outstanding():
            yield from self._lines(DUE, owed, keys, 0)
        for number, (kept, spine) in enumerate(zip(layout.stores, self._stores.values(), strict=True)):
            if self._task.keeps or number == len(layout.stores) - 1:
                yield from self._lines(
                    STORE + number, consolidated(spine.updates_in_memory(), kept.weights), kept.columns, kept.weights
                )

    def _put(self, keys: list[str]) -> None:
        """Give the operator what is new and what is due."""
        layout, operator, now = self._layout, self._operator, self._region.now
        if self._task.summed:
            new = fed_sums(layout, operator, self._block(NEW, keys, layout.stores[0].weights))
        else:
            new = self._block(NEW, [f"c{i}" for i in range(len(self._layout.given))], 1)
        if ARRANGED in self._stores:
            new = consolidated(new)
            self._stores[ARRANGED].append(new)
        operator.ports[0].put(new, now)
        operator.ports[1].put(self._block(DUE, keys, 0), now)

    @functools.cached_property
    def _fields(self) -> list[Field]:
        return self._layout.fields

    def _block(self, kind: int, names: Any, weights: int) -> UpdateArray:
        """Return the lines of a kind as a block of these columns, the time and some weights."""
        mask = self._codes[KIND] == kind
        wanted = [*names, *self._layout.numbers[: self._layout.coordinates + weights]]
        return np.array([self._codes[name][mask] for name in wanted], np.int64).reshape(len(wanted), -1)

    def _lines(self, kind: int, block: UpdateArray, names: Any, weights: int) -> Iterator[pa.RecordBatch]:
        """Give a block of these columns, the time and some weights as lines of a kind; what it has not is NULL."""
        count = block.shape[1]
        if not count:
            return
        wanted = [*names, *self._layout.numbers[: self._layout.coordinates + weights]]
        rows = dict(zip(wanted, block, strict=True))
        rows[KIND] = np.full(count, kind, np.int64)
        columns = {
            f.name: decode_column(rows[f.name], f.dtype, self._interner)
            if f.name in rows
            else pa.nulls(count, f.dtype.arrow)
            for f in self._fields
        }
        yield from pa.table(columns).to_batches(max_chunksize=100_000)


def fed_sums(layout: Layout, operator: KeyedOperator, sums: UpdateArray) -> UpdateArray:
    """Have a Reduce take sums (keys, times, weights), and return as many updates, with their keys and times."""
    assert isinstance(operator, ReduceOperator)
    logic, width = operator.logic, len(layout.keys)
    assert isinstance(logic, AggregateLogic)
    logic.take_presummed(sums)
    new = np.full((len(layout.given) + layout.coordinates + 1, sums.shape[1]), NULL, np.int64)
    new[list(layout.keys)] = sums[:width]
    new[len(layout.given) : -1] = sums[width : width + layout.coordinates]
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
    stores: dict[str, Spine] = {}
    arranged = None
    if isinstance(node.logic, UserReduce):
        schema: Schema = node.inputs[0].schema
        kept = Arrange(id=node.id, name=node.name, scope=node.scope, schema=schema, site=node.site, keys=node.keys)
        arranged = ArrangeOperator(kept, region)
        stores[ARRANGED] = arranged.spine
    operator = ReduceOperator(node, region, interner, arranged)
    operator.ports[1].refill(None)  # what is owed comes with the table
    out, *parts = operator.spines().items()
    stores |= dict([*parts, out])
    return operator, stores


def _like(spine: Spine) -> Spine:
    """Return an empty spine for updates of the same shape."""
    return Spine(spine.layout, spine.since, Transaction())


def _schedule(users: int, lower: Antichain) -> Schedule:
    return Schedule(users, lambda _: Frontier(lower))


def _region(schedule: Schedule, now: Round) -> Region:
    """Return the innermost of as many regions as there are loops, each in its round."""
    region = Region(schedule, None, -1)
    for i in range(len(now)):
        region = Region(schedule, region, 0)
        region.now = now[: i + 1]
    return region
