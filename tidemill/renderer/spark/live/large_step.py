"""A step of a live run of which the large part is taken on the executors and the small part in the driver.

Operators are gone through in their order. One to which only small changes come is run by the embedded engine as in any
step. One to which a large change comes is rendered onto DataFrames, with what its arrangements hold on the disk; where
what it gives is known to be small, that is handed to the operators behind it in the driver. Sums of whole numbers are
made small by Spark and put together in the driver. A loop is run as a whole, by the one or the other. What the
executors make for later steps waits where it waits in any step: at the ports of the operators in the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Arrange, Enter, Input, Join, Leave, Map, Node, Output, Reduce, Threshold, Variable
from tidemill.dataflow.scopes import Scope
from tidemill.expressions.binding import BoundColumn
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.updates import UpdateArray, stacked
from tidemill.renderer.embedded.kernels.updates import consolidated as consolidated_block
from tidemill.renderer.embedded.operators.keyed import NEW as NEW_PORT
from tidemill.renderer.embedded.operators.keyed import PENDING, KeyedOperator
from tidemill.renderer.embedded.operators.linear import is_projection
from tidemill.renderer.embedded.reduce.aggregates import AggregateLogic
from tidemill.renderer.embedded.reduce.operator import ReduceOperator
from tidemill.renderer.embedded.schedule import Operator, Port
from tidemill.renderer.spark import native
from tidemill.renderer.spark.frames import DIFF, Frame, columns, materialised, times, united
from tidemill.renderer.spark.graph_facts import outermost, reached
from tidemill.renderer.spark.keyed import KeyedRound
from tidemill.renderer.spark.keyed_tasks import ARRANGED, KIND, STORE, fed_sums, layout_of
from tidemill.renderer.spark.live.exchange import block_of, due_block, due_lines, encoded
from tidemill.renderer.spark.live.held import Held, Stored
from tidemill.renderer.spark.live.late import Late, is_beyond
from tidemill.renderer.spark.state import Round, Trace
from tidemill.renderer.spark.step import Step

__all__ = ["LargeStep"]


class LargeStep(Step):
    """See `Step`. What comes at times beyond the frontiers of operators waits at their ports in the driver."""

    lives = True

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        spark: SparkSession,
        compiled: Compiled,
        given: Mapping[Input, Frame | None],
        stored: Stored,
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
        self._there = Held(spark, compiled, stored)
        self._few = few
        """Up to so many rows a change is small."""
        self._late = Late(compiled)
        self._small: dict[tuple[Node, int, Round], list[UpdateArray]] = defaultdict(list)
        """Small changes that came to an operator, by its input and the round, to be taken in with large ones."""
        self._reached = reached(self._graph, [n.id for n, frame in given.items() if frame is not None])
        """What the executors may have to do."""

    def _begin(self) -> None:
        """Look up what those operators hold that a large change may come to."""
        for node in self._reached:
            if isinstance(node, Join):
                for side in (0, 1):
                    self._traces[node, side] = Trace(self._users, self._there.met(node, side))
            elif isinstance(node, (Reduce, Threshold)):
                self._traces[node, 0] = Trace(self._users, self._there.lines(node, f"{node.id}"))
            elif isinstance(node, Input) and node.unique:
                self._traces[node, 0] = Trace(self._users, self._there.lines(node, f"{node.id + 0.5}"))

    def _interval(self, node: Node) -> tuple[Antichain, Antichain]:
        frontier = self._compiled.operators[node].frontier
        return frontier.lower, frontier.upper

    # -- who does what ------------------------------------------------------------------------------------------------

    def _run(self, scope: Scope, now: Round) -> None:
        if scope.parent is not None:
            super()._run(scope, now)
            return
        for item in self._graph.plan(scope):
            if isinstance(item, Scope):
                self._run_loop(item)
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

    def _run_loop(self, scope: Scope) -> None:
        entering = [n for n in self._needs.of(scope, Enter) if n.inputs[0].scope is scope.parent]
        if any(self.deltas.get(n.inputs[0]) is not None for n in entering):
            self._take_in(scope)
            self._loop(scope, ())
            return
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
        keyed = isinstance(operator, KeyedOperator)
        for i, port in enumerate(operator.ports):
            if i != PENDING or not keyed:
                block = port.take_consolidated()
                if block is not None:
                    self._small[node, i, ()].append(block)
        if isinstance(node, Reduce) and self._sum_here(node, cast("KeyedOperator", operator)):
            return
        if keyed:
            self._owe_due(node, operator.ports[PENDING])
        self.deltas[node] = self._shared(node, self._delta(node, ()), ())

    def _handed(self, node: Node, frame: Frame | None) -> Frame | None:
        """Hand a change that is known to be small to the operators behind in the driver; return one that is not."""
        if isinstance(node, Leave) and frame is not None:
            frame = materialised(frame)
        if frame is None or frame.rows is None or frame.rows > self._few:
            return frame
        if isinstance(node, Arrange) and self._is_added(node):  # operators in the driver would not find it there
            return frame
        block = consolidated_block(block_of(self._compiled, node.schema, frame))
        self._compiled.operators[node].emit(block, ())
        return None

    def _is_added(self, node: Node) -> bool:
        """Return whether what comes to an arrangement is going to be on the disk, and not in the driver's spine."""
        return f"{node.id}/spine" in self.added or f"{node.id}/spine" in self.same

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
        block = encoded(table, types[: len(wanted)], self._compiled)
        try:
            if len(table):
                operator.ports[NEW_PORT].put(fed_sums(layout, operator, block), ())
            self._run_here(operator)
        finally:
            cast("AggregateLogic", cast("ReduceOperator", operator).logic).take_presummed(None)
        return True

    # -- small changes ------------------------------------------------------------------------------------------------

    def _inputs(self, node: Node) -> list[Frame | None]:
        found = super()._inputs(node)
        now = self._running.get(node.scope, ())
        for i, frame in enumerate(found):
            if blocks := self._small.get((node, i, now)):
                some = [self._there.frame(node.inputs[i], block) for block in blocks]
                found[i] = united(some if frame is None else [frame, *some])
        return found

    def _take_in(self, scope: Scope) -> None:
        """Have a loop that the executors run take in what came to its operators in the driver, each round its own."""
        for node in self._graph.nodes:
            if not node.scope.within(scope):
                continue
            operator = self._compiled.operators[node]
            for i, port in enumerate(operator.ports):
                if i == PENDING and isinstance(operator, KeyedOperator):
                    self._owe_due(node, port)
                    continue
                for at, blocks in port.rounds.items():
                    self._small[node, i, at].append(consolidated_block(stacked(blocks)))
                    self._announce(node.scope, at)
        self._compiled.region(scope).clear()

    def _owe_due(self, node: Node, port: Port) -> None:
        """Have looked at what is due, in the rounds that it is of."""
        for at, blocks in port.rounds.items():
            self._owe(node, at, due_lines(self._spark, self._compiled, node, stacked(blocks)))
        port.clear()

    # -- what is for later steps ----------------------------------------------------------------------------------

    def _hold_back(self, node: Node, frame: Frame, now: Round) -> Frame | None:
        """Have what some that read a node have to wait with wait at their ports, and return the rest."""
        rest, late = self._late.parted(node, frame)
        if late is not None:
            self._compiled.operators[node].emit(late, now)
            if now:  # others that read it need not wait
                self._take_in(cast("Scope", outermost(node.scope)))
        return rest

    def _send_later(self, node: Node, at: Round, frame: Frame) -> None:
        rest = self._hold_back(node, frame, at) if isinstance(node, Variable) else frame
        if rest is not None:
            super()._send_later(node, at, rest)

    def _owe_later(self, node: Node, due: DataFrame) -> None:
        upper = self._interval(node)[1]
        if upper.elements and self._users > 1:  # else no two times join to another
            self._hold_due(node, self._compiled.operators[node], due.filter(is_beyond(upper)))
            due = due.filter(~is_beyond(upper))
        if node.scope.parent is not None:
            super()._owe_later(node, due)

    def _hold_due(self, node: Node, operator: Operator, due: DataFrame) -> None:
        block = due_block(self._compiled, node, due)
        if block.shape[1]:
            operator.ports[PENDING].postpone(block)

    # -- what there is more -------------------------------------------------------------------------------------------

    def _shared(self, node: Node, frame: Frame | None, now: Round) -> Frame | None:
        if frame is not None and isinstance(node, (Arrange, Output)):
            frame = self._kept(node, frame, now)
        if frame is not None and self._compiled.operators[node].ports:  # others only pass on what was looked at
            frame = self._hold_back(node, frame, now)
        frame = super()._shared(node, frame, now)
        frame = frame if now else self._handed(node, frame)
        self._compiled.operators[node].records_out += _known([frame])
        return frame

    def _kept(self, node: Node, frame: Frame, now: Round) -> Frame | None:
        """Have what comes to an arrangement or output kept, in the driver or on the disk; return it, worked out."""
        cheap = frame.cheap and isinstance(node, Arrange)
        kept = frame if cheap else materialised(frame)
        source, picked = _origin(node)
        if isinstance(node, Arrange) and source in self._in_files and not self._is_more(node, source):
            self.same[f"{node.id}/spine"] = cast("Input", source), picked
        elif kept is not None and not self._arrange_here(node, kept, now):
            self.added[f"{node.id}/spine"].append(self.values_of(kept))
        return kept

    def _delta(self, node: Node, now: Round) -> Frame | None:
        if not (isinstance(node, Input) and node.key):  # these count writes
            came = [self._given.get(node)] if isinstance(node, Input) else super()._inputs(node)
            small = [b.shape[1] for i in range(len(came)) for b in self._small.get((node, i, now), ())]
            self._compiled.operators[node].records_in += _known(came) + sum(small)
        return super()._delta(node, now)

    def _is_more(self, node: Node, source: Node) -> bool:
        """Return whether more came to an arrangement than what is in files, from the driver."""
        return (source, 0, ()) in self._small or (node, 0, ()) in self._small

    @staticmethod
    def values_of(frame: Frame) -> DataFrame:
        """Return updates as arrangements on the disk have them."""
        row = [F.col(name).alias(f"v{i}") for i, name in enumerate(columns(frame.width))]
        return frame.data.select(*row, *times(frame.coordinates), F.col(DIFF).alias("w0"))

    def _arrange_here(self, node: Node, frame: Frame, now: Round) -> bool:
        """Have the driver take in a small change of an arrangement or output, unless that is in a loop."""
        if now or frame.rows is None or frame.rows > self._few:
            return False
        operator = self._compiled.operators[node]
        consumers, operator.consumers = operator.consumers, []  # they get it as from any other
        try:
            operator.ports[0].put(consolidated_block(block_of(self._compiled, node.schema, frame)), ())
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

    def of_input(self, node: Input, now: Round) -> Frame | None:
        frame = self._given.get(node)
        small = [self._there.frame(node, block) for block in self._small.get((node, 0, now), ())]
        frame = united(small if frame is None else [frame, *small])
        if frame is not None and node.unique:
            self._check(node, frame, now)
        return frame

    def _check(self, node: Input, frame: Frame, now: Round) -> None:
        """Have checked that an input is unique."""
        around, check = KeyedRound(node, self._users, now, *self._interval(node)), self._compiled.checks[node]
        self._owe_due(node, check.ports[PENDING])
        due = self._owed.pop((node, now), [None])[0]
        came = around.step(frame, self._trace(node).everything(), due)
        if came.kept is not None:
            self._keep(around, came.kept)
        if came.owed is not None:
            self._hold_due(node, check, came.owed)

    def of_threshold(self, node: Threshold, now: Round) -> Frame | None:
        return self._looked_at(node, now)

    def of_reduce(self, node: Reduce, now: Round) -> Frame | None:
        return self._looked_at(node, now)

    def _looked_at(self, node: Node, now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        if frame is None and (node, now) not in self._owed:
            return None
        return self._keyed(node, frame, now)


def _known(frames: Iterable[Frame | None]) -> int:
    """Return how many updates there are, as far as Spark had to count them."""
    return sum(f.rows or 0 for f in frames if f is not None)


def _origin(node: Node) -> tuple[Node, tuple[int, ...]]:
    """Return what a node shows some columns of, as it is, and which these are."""
    picked = tuple(range(len(node.schema)))
    source = node.inputs[0]
    while isinstance(source, Map) and is_projection(source):
        columns_of = [cast("BoundColumn", c).index for c in source.columns]
        picked = tuple(columns_of[i] for i in picked)
        (source,) = source.inputs
    return source, picked
