"""A step of a live run of which the large part is taken on the executors and the small part in the driver.

Operators are gone through in their order. One to which only small changes come is run by the embedded engine as in any
step. One to which a large change comes is rendered onto DataFrames, with what its arrangements hold on the disk; where
what it gives is known to be small, that is handed to the operators behind it in the driver. Sums of whole numbers are
made small by Spark and put together in the driver. A loop is run as a whole, by the one or the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Self, cast

import networkx as nx
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.collections.binding import BoundColumn
from tidemill.collections.schema import Field, Schema
from tidemill.collections.types import INT64, DType
from tidemill.dataflow.nodes import Arrange, Enter, Input, Join, Leave, Map, Node, Output, Reduce, Threshold
from tidemill.dataflow.scopes import Scope
from tidemill.renderer.embedded.aggregates import AggregateLogic
from tidemill.renderer.embedded.blocks import Block, stacked
from tidemill.renderer.embedded.blocks import consolidated as consolidated_block
from tidemill.renderer.embedded.codec import decode_column, encode_column
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.keyed import NEW as NEW_PORT
from tidemill.renderer.embedded.keyed import PENDING, KeyedOperator
from tidemill.renderer.embedded.linear import is_projection
from tidemill.renderer.embedded.reduce import ReduceOperator
from tidemill.renderer.embedded.schedule import Loops as Round
from tidemill.renderer.embedded.schedule import Operator
from tidemill.renderer.spark import linear, native
from tidemill.renderer.spark.frames import DIFF, Frame, columns, materialised, names, times, united
from tidemill.renderer.spark.keyed import KeyedRound, due_line, lines_of
from tidemill.renderer.spark.keyedtasks import ARRANGED, KIND, STORE, Kept, Layout, fed_sums, layout_of
from tidemill.renderer.spark.state import Loops, Trace
from tidemill.renderer.spark.step import Step
from tidemill.renderer.spark.types import struct

__all__ = ["LargeStep", "frame_of"]

Held = Callable[[str], DataFrame | None]
"""What an arrangement held before: values ``v0``, times ``t0``, weights ``w0`` and on; None of nothing."""


class LargeStep(Step):
    """See `Step`. Times are of one coordinate, and all updates at times that close in this step."""

    lives = True

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        spark: SparkSession,
        compiled: Compiled,
        given: Mapping[Input, Frame | None],
        held: Held,
        few: int,
        in_files: Collection[Input],
        *,
        carefully: bool = False,
    ) -> None:
        super().__init__(spark, compiled.graph, given, carefully=carefully)
        self.added: dict[str, list[DataFrame]] = defaultdict(list)
        """What arrangements hold more on the disk, by their names."""
        self.same: dict[str, tuple[Input, tuple[int, ...]]] = {}
        """Arrangements that hold just what came to an input more, and which of its columns."""
        self._in_files = in_files
        self._compiled = compiled
        self._held = held
        self._few = few
        """Up to so many rows a change is small."""
        frontier = next(iter(compiled.inputs.values())).frontier  # that of all: they advance together
        self._lower, self._upper = frontier.settled, frontier.upper
        self._small: dict[tuple[Node, int], Block] = {}
        """Small changes that came to an operator, by its input, to be taken in with large ones."""
        sources = [n.id for n, frame in given.items() if frame is not None]
        ids = set(sources).union(*(nx.descendants(self._graph.digraph, i) for i in sources))
        loops = {_outermost(n.scope) for n in self._graph.nodes if n.id in ids} - {None}
        self._reached = [n for n in self._graph.nodes if n.id in ids or _outermost(n.scope) in loops]
        """What the executors may have to do: what a large change can come to, and loops as a whole."""

    def _begin(self) -> None:
        """Look up what those operators hold that a large change may come to."""
        for node in self._reached:
            if isinstance(node, Join):
                for source in node.inputs:
                    self._traces[source] = Trace(self._users, self._arranged(source))
            elif isinstance(node, (Reduce, Threshold)):
                self._traces[node] = Trace(self._users, self._lines(node, f"{node.id}"))
            elif isinstance(node, Input) and node.unique:
                self._traces[node] = Trace(self._users, self._lines(node, f"{node.id + 0.5}"))

    # -- who does what ------------------------------------------------------------------------------------------------

    def _run(self, scope: Scope, now: Loops) -> None:
        if scope.parent is not None:
            super()._run(scope, now)
            return
        with _Gates(self._compiled) as gates:
            for item in self._graph.plan(scope):
                if isinstance(item, Scope):
                    self._run_loop(item, gates)
                elif self._is_large(item):
                    self._render(item)
                else:
                    self._run_here(self._compiled.operators[item])
                    if item in self._compiled.checks:
                        self._run_here(self._compiled.checks[item])

    def _is_large(self, node: Node) -> bool:
        if isinstance(node, Leave):
            return bool(self._left.get(node))
        if isinstance(node, Input):
            return self._given.get(node) is not None
        return any(self.deltas.get(source) is not None for source in node.inputs)

    def _run_loop(self, scope: Scope, gates: _Gates) -> None:
        entering = [n for n in self._needs.of(scope, Enter) if n.inputs[0].scope is scope.parent]
        if any(self.deltas.get(n.inputs[0]) is not None for n in entering):
            self._small |= gates.taken(entering)
            self._owe_due(scope)
            self._loop(scope, ())
            return
        gates.open(entering)
        region = self._compiled.region(scope)
        if region.queued:
            region.queued = False
            region.run()

    @staticmethod
    def _run_here(operator: Operator) -> None:
        if operator.queued:
            operator.queued = False
            operator.run()

    def _render(self, node: Node) -> None:
        """Have the executors do an operator's work, unless that proves to be small."""
        operator = self._compiled.operators[node]
        for i, port in enumerate(operator.ports):
            if i != PENDING or not isinstance(operator, KeyedOperator):
                block = port.take_consolidated()
                if block is not None:
                    self._small[node, i] = block
        self._owe_due_of(node)
        if isinstance(node, Reduce) and self._sum_here(node, cast("KeyedOperator", operator)):
            return
        self.deltas[node] = self._handed(node, self._shared(node, self._delta(node, ()), ()))

    def _handed(self, node: Node, frame: Frame | None) -> Frame | None:
        """Hand a change that is known to be small to the operators behind in the driver; return one that is not."""
        if isinstance(node, Leave) and frame is not None:
            frame = materialised(frame)
        if frame is None or frame.rows is None or frame.rows > self._few:
            return frame
        block = consolidated_block(self._block(node.schema, frame))
        self._compiled.operators[node].emit(block, ())
        return None

    def _sum_here(self, node: Reduce, operator: KeyedOperator) -> bool:
        """Have Spark sum up what comes to each group, and the driver do the rest, where there are few groups."""
        (frame,) = self._inputs(node)
        if frame is None or self._carefully or not self._few:
            return False
        layout = layout_of(node)
        sums = native.summed(node, frame, layout)
        if sums is None:
            return False
        wanted = [*(f"c{k}" for k in layout.keys), *layout.numbers[: layout.coordinates + layout.stores[0].weights]]
        table = sums.select(*wanted).limit(self._few + 1).toArrow()
        if len(table) > self._few:
            return False
        types = [*(node.inputs[0].schema.fields[k].dtype for k in layout.keys), *[INT64] * len(layout.numbers)]
        block = _encoded(table, types[: len(wanted)], self._compiled)
        if self._owed.pop((node, ()), None):  # that is for the driver as well
            operator.ports[PENDING].put(np.zeros((layout.coordinates, 1), np.int64), ())
        try:
            if len(table):
                operator.ports[NEW_PORT].put(fed_sums(layout, operator, block), ())
            self._run_here(operator)
        finally:
            cast("AggregateLogic", cast("ReduceOperator", operator).logic).take_sums(None)
        return True

    # -- small changes ------------------------------------------------------------------------------------------------

    def _inputs(self, node: Node) -> list[Frame | None]:
        found = super()._inputs(node)
        for i, frame in enumerate(found):
            block = self._small.get((node, i))
            if block is not None:
                some = frame_of(self._spark, self._compiled, node.inputs[i].schema, block)
                found[i] = some if frame is None else united([frame, some])
        return found

    def _comes(self, node: Enter) -> bool:
        return super()._comes(node) or (node, 0) in self._small

    def _owe_due(self, scope: Scope) -> None:
        for node in self._graph.nodes:
            if node.scope.within(scope):
                self._owe_due_of(node)

    def _owe_due_of(self, node: Node) -> None:
        """Have a group without keys looked at, whatever comes in, where that is still to be done."""
        operator = self._compiled.operators[node]
        if isinstance(operator, KeyedOperator) and operator.ports[PENDING].has_work:
            operator.ports[PENDING].clear()
            self._owe(node, (0,) * (node.scope.coordinates - self._users), due_line(self._spark, node))

    def _block(self, schema: Schema, frame: Frame) -> Block:
        """Return a DataFrame's updates, got into the driver."""
        types = [*(f.dtype for f in schema), *[INT64] * (frame.coordinates + 1)]
        return _encoded(frame.data.select(*names(frame.width, frame.coordinates)).toArrow(), types, self._compiled)

    # -- what there is ------------------------------------------------------------------------------------------------

    def _arranged(self, node: Node) -> list[Frame]:
        """Return what an arrangement holds, from wherever it was entered."""
        if isinstance(node, Enter):
            return [linear.entered(frame) for frame in self._arranged(node.inputs[0])]
        data = self._held(f"{node.id}/spine")
        width, coordinates = len(node.schema), node.scope.coordinates
        if data is None:
            return []
        row = [F.col(f"v{i}").alias(f"c{i}") for i in range(width)]
        return [Frame(data.select(*row, *times(coordinates), F.col("w0").alias(DIFF)), width, coordinates, cheap=True)]

    def _lines(self, node: Node, place: str) -> list[Frame]:
        """Return what the arrangements of a keyed operator hold, as lines of its tables."""
        layout = layout_of(node)
        found = []
        for number, kept in enumerate(layout.stores):
            if kept.name == ARRANGED:
                found += [_as_lines(layout, number, kept, frame) for frame in self._arranged(node.inputs[0])]
            elif (data := self._held(f"{place}/{kept.name}")) is not None:
                renamed = {f"v{i}": name for i, name in enumerate(kept.columns)}
                same = layout.numbers[: layout.coordinates + kept.weights]
                found.append(lines_of(layout, STORE + number, data, same, renamed))
        return [Frame(data, len(layout.fields), 0, cheap=True) for data in found]

    # -- what there is more -------------------------------------------------------------------------------------------

    def _shared(self, node: Node, frame: Frame | None, now: Loops) -> Frame | None:
        if frame is not None and isinstance(node, (Arrange, Output)):
            if not frame.cheap or isinstance(node, Output):
                frame = materialised(frame)
            source, picked = _origin(node)
            if isinstance(node, Arrange) and source in self._in_files and (source, 0) not in self._small:
                self.same[f"{node.id}/spine"] = cast("Input", source), picked
            elif frame is not None and not self._arrange_here(node, frame, now):
                self.added[f"{node.id}/spine"].append(self.values_of(frame))
        return super()._shared(node, frame, now)

    @staticmethod
    def values_of(frame: Frame) -> DataFrame:
        """Return updates as arrangements on the disk have them."""
        row = [F.col(name).alias(f"v{i}") for i, name in enumerate(columns(frame.width))]
        return frame.data.select(*row, *times(frame.coordinates), F.col(DIFF).alias("w0"))

    def _arrange_here(self, node: Node, frame: Frame, now: Loops) -> bool:
        """Have the driver take in a small change of an arrangement or output, unless that is in a loop."""
        if now or frame.rows is None or frame.rows > self._few:
            return False
        operator = self._compiled.operators[node]
        consumers, operator.consumers = operator.consumers, []  # they get it as from any other
        try:
            operator.ports[0].put(consolidated_block(self._block(node.schema, frame)), ())
            self._run_here(operator)
        finally:
            operator.consumers = consumers
        return True

    def _keep(self, around: KeyedRound, lines: Frame) -> None:
        node, layout = around.node, around.layout
        place = node.id + 0.5 if isinstance(node, Input) else node.id
        for number, kept in enumerate(layout.stores):
            if kept.name != ARRANGED:  # that is the arrangement's own
                row = [F.col(name).alias(f"v{i}") for i, name in enumerate(kept.columns)]
                numbers = layout.numbers[: layout.coordinates + kept.weights]
                data = lines.data.filter(F.col(KIND) == STORE + number).select(*row, *numbers)
                self.added[f"{place}/{kept.name}"].append(data)

    # -- rules that differ --------------------------------------------------------------------------------------------

    def of_input(self, node: Input, now: Loops) -> Frame | None:
        frame = self._given.get(node)
        block = self._small.get((node, 0))
        if block is not None:
            frame = united(
                [f for f in (frame, frame_of(self._spark, self._compiled, node.schema, block)) if f is not None]
            )
        if frame is not None and node.unique:
            around = KeyedRound(node, self._users, now, self._lower, self._upper)
            came = around.step(frame, self._trace(node).everything(), None)
            if came.kept is not None:
                self._keep(around, came.kept)
        return frame

    def of_threshold(self, node: Threshold, now: Loops) -> Frame | None:
        return self._looked_at(node, now)

    def of_reduce(self, node: Reduce, now: Loops) -> Frame | None:
        return self._looked_at(node, now)

    def _looked_at(self, node: Node, now: Loops) -> Frame | None:
        (frame,) = self._inputs(node)
        if frame is None and (node, now) not in self._owed:
            return None
        return self._keyed(node, frame, now)


class _Gates:
    """Holds back what operators in the driver send into loops, until it is known who runs these."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._before: list[tuple[Operator, list[tuple[Operator, int]]]] = []
        self._gates: dict[Node, _Gate] = {}

    def __enter__(self) -> Self:
        for node, operator in self._compiled.operators.items():
            if node.scope.parent is None and any(isinstance(c.node, Enter) for c, _ in operator.consumers):
                self._before.append((operator, operator.consumers))
                operator.consumers = [self._gated(c, port) for c, port in operator.consumers]
        return self

    def __exit__(self, *_: object) -> None:
        for operator, consumers in self._before:
            operator.consumers = consumers

    def taken(self, entering: Iterable[Enter]) -> dict[tuple[Node, int], Block]:
        """Return what was held back."""
        return {(n, 0): consolidated_block(stacked(blocks)) for n in entering if (blocks := self._gates[n].blocks)}

    def open(self, entering: Iterable[Enter]) -> None:
        """Let in what was held back."""
        for node in entering:
            for block in self._gates[node].blocks:
                self._compiled.operators[node].accept(0, block, ())

    def _gated(self, consumer: Operator, port: int) -> tuple[Operator, int]:
        if not isinstance(consumer.node, Enter):
            return consumer, port
        gate = self._gates[consumer.node] = _Gate()
        return cast("Operator", gate), port


class _Gate:
    """Stands in for what brings updates into a loop."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []

    def accept(self, port: int, block: Block, at: Round | None) -> None:
        """Hold back an update."""
        del port, at
        self.blocks.append(block)


def _outermost(scope: Scope) -> Scope | None:
    """Return the loop that is in no other, of those that a scope is in."""
    found = None
    while scope.parent is not None:
        scope, found = scope.parent, scope
    return found


def _origin(node: Node) -> tuple[Node, tuple[int, ...]]:
    """Return what a node shows some columns of, as it is, and which these are."""
    picked = tuple(range(len(node.schema)))
    source = node.inputs[0]
    while isinstance(source, Map) and is_projection(source):
        columns_of = [cast("BoundColumn", c).index for c in source.columns]
        picked = tuple(columns_of[i] for i in picked)
        (source,) = source.inputs
    return source, picked


def frame_of(spark: SparkSession, compiled: Compiled, schema: Schema, block: Block) -> Frame:
    """Return updates in the driver as a DataFrame."""
    users = compiled.schedule.users
    inside = names(len(schema), users)
    types = [*(f.dtype for f in schema), *[INT64] * (users + 1)]
    arrays = [decode_column(c, t, compiled.interner) for c, t in zip(block, types, strict=True)]
    fields = Schema(tuple(Field(n, t) for n, t in zip(inside, types, strict=True)))
    data = spark.createDataFrame(pa.table(dict(zip(inside, arrays, strict=True))), schema=struct(fields))
    return Frame(data, len(schema), users, rows=block.shape[1], cheap=True, consolidated=True)


def _encoded(table: pa.Table, types: Sequence[DType], compiled: Compiled) -> Block:
    block = np.empty((len(types), len(table)), np.int64)
    for i, dtype in enumerate(types):
        block[i] = encode_column(table.column(i).cast(dtype.arrow), dtype, compiled.interner)
    return block


def _as_lines(layout: Layout, number: int, kept: Kept, frame: Frame) -> DataFrame:
    return lines_of(layout, STORE + number, frame.data, [*kept.columns, *times(layout.coordinates)], {DIFF: "w0"})
