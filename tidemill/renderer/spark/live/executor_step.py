"""A step of a live run, taken by the executors where changes are large, and by the driver where they are small.

It goes through the operators in their order. One that only small changes reach is run by the embedded engine, as in
any step. One that a large change reaches is rendered onto DataFrames, with what its arrangements hold on the disk; if
its output is known to be small, that goes to the operators after it in the driver. Sums of whole numbers are made
small by Spark and put together in the driver. A loop is run as a whole, by the one or the other. Updates and times for
later steps are pending where they are in any step: at the ports of the operators in the driver.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import attrs
import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.composites import OrderedDynamicFilter
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import (
    Arrange,
    Enter,
    Input,
    Join,
    LateRows,
    Leave,
    Map,
    Node,
    Output,
    Reduce,
    SortBuffer,
    Threshold,
    Variable,
    Watermark,
)
from tidemill.dataflow.scopes import Scope
from tidemill.expressions.types import INT64
from tidemill.renderer.durable.spill_files import SpillFile
from tidemill.renderer.embedded.kernels.updates import UpdateArray, stacked
from tidemill.renderer.embedded.kernels.updates import consolidated as consolidated_block
from tidemill.renderer.embedded.operators.dynamic_filter import DynamicFilterOperator
from tidemill.renderer.embedded.operators.keyed import NEW as NEW_PORT
from tidemill.renderer.embedded.operators.keyed import PENDING, KeyedOperator
from tidemill.renderer.embedded.operators.one_row import Move
from tidemill.renderer.embedded.reduce.aggregates import AggregateLogic
from tidemill.renderer.embedded.reduce.operator import ReduceOperator
from tidemill.renderer.embedded.reduce.ordered_windows import OrderedWindowsOperator
from tidemill.renderer.embedded.schedule import Operator, Port
from tidemill.renderer.spark.dynamic_filter import Moves
from tidemill.renderer.spark.frames import Frame, consolidated, materialised, united
from tidemill.renderer.spark.keyed import KeyedRound
from tidemill.renderer.spark.keyed_tasks import ARRANGED, KIND, STORE, feed_sums, layout_of
from tidemill.renderer.spark.live.frontier_split import FrontierSplit, is_beyond
from tidemill.renderer.spark.live.spilled_state import SpilledState
from tidemill.renderer.spark.live.state_files import as_updates, file_columns
from tidemill.renderer.spark.live.state_frames import OperatorState, block_of, encoded, pending_block, pending_lines
from tidemill.renderer.spark.state import Round, Trace
from tidemill.renderer.spark.step import Step
from tidemill.renderer.spark.strategy import Strategy
from tidemill.renderer.spark.usage import affected, outermost_loop
from tidemill.renderer.spark.watermarks import extremes
from tidemill.renderer.spark.windows import changed_windows


class ExecutorStep(Step):
    """A `Step` of a run that goes on. The run's state is changed at the end only, and that can be rolled back."""

    keeps_state = True

    def __init__(
        self,
        state: SpilledState,
        given: Mapping[Input, Frame | None],
        files: Mapping[Input, Sequence[SpillFile]],
        strategy: Strategy,
    ) -> None:
        """Make the step that takes these changes of inputs; of some, the changes are just what is in files."""
        super().__init__(state.spark, state.compiled.graph, given, strategy)
        self.unread: dict[Output, tuple[SpillFile, ...]] = {}
        """Changes of outputs that stay on the disk until they are read."""
        self._spilled = state
        self._files = files
        self._compiled = state.compiled
        self._in_driver = state.in_driver
        self._state = OperatorState(state.spark, state.compiled, functools.cache(state.read))
        self._frontier_split = FrontierSplit(state.compiled)
        self._driver_updates: dict[tuple[Node, int, Round], list[UpdateArray]] = defaultdict(list)
        """Updates in the driver for an operator that executors run, by its port and the round."""
        self._additions: dict[str, list[DataFrame]] = defaultdict(list)
        """Updates to be written below arrangements, by the names of these."""
        self._shared_files: dict[str, tuple[Input, tuple[int, ...]]] = {}
        """Arrangements that share an input's files, since just its updates reach them, and their columns of these."""
        self._affected = affected(self._graph, [n.id for n, frame in given.items() if frame is not None])
        """The nodes that executors may have to compute."""

    def run(self) -> None:
        """Take the changes, and what else reached the operators."""
        super().run()
        added: dict[str, list[SpillFile]] = {n: self._spilled.write(n, frames) for n, frames in self._additions.items()}
        for name, (source, picked) in self._shared_files.items():
            added[name] = [attrs.evolve(f, columns=picked) for f in self._files[source]]
        for name, files in added.items():
            if files:
                self._spilled.add(name, files)
        for output in self._compiled.outputs:
            self._publish(output, added.get(_spine(output), []))

    def _publish(self, output: Output, files: Sequence[SpillFile]) -> None:
        """Show changes to those who read an output: from the disk, where they are many."""
        operator = self._compiled.outputs[output]
        if not files or (output.changes is False and not operator.followers):
            return
        if sum(f.rows for f in files) > self._in_driver and not operator.followers:
            self.unread[output] = tuple(files)
        else:
            operator.publish(self._spilled.block(_spine(output), files))

    def _begin(self) -> None:
        """Look up what the operators hold that a large change may reach."""
        for node in self._affected:
            if isinstance(node, Join):
                for side in (0, 1):
                    self._traces[node, side] = Trace(self._users, self._state.joined(node, side))
            elif isinstance(self._compiled.operators[node], OrderedWindowsOperator):
                pass  # of its rows only those are looked up that are in partitions which change
            elif isinstance(node, (Reduce, Threshold)) or (isinstance(node, Input) and node.unique):
                self._traces[node, 0] = Trace(self._users, self._state.lines(node, _place(node)))

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
            elif self._is_on_executors(item):
                self._render(item)
            else:
                self._run_in_driver(self._compiled.operators[item])
                if item in self._compiled.checks:
                    self._run_in_driver(self._compiled.checks[item])

    def _is_on_executors(self, node: Node) -> bool:
        if isinstance(node, Leave):
            return bool(self._leaving.get(node))
        if isinstance(node, Input):
            return self._input_frames.get(node) is not None
        return any(self.deltas.get(source) is not None for source in node.inputs)

    def _run_loop(self, scope: Scope) -> None:
        entering = [n for n in self._usage.nodes_of(scope, Enter) if n.inputs[0].scope is scope.parent]
        if any(self.deltas.get(n.inputs[0]) is not None for n in entering):
            self._take_from_driver(scope)
            self._loop(scope, ())
            return
        region = self._compiled.region(scope)
        if region.queued:
            region.queued = False
            region.run()

    @staticmethod
    def _run_in_driver(operator: Operator) -> None:
        if operator.queued:
            operator.queued = False
            operator.run()

    def _render(self, node: Node) -> None:
        """Run an operator on the executors; or in the driver where Spark gains little from its input."""
        operator = self._compiled.operators[node]
        if isinstance(node, (Watermark, SortBuffer, LateRows)):
            self._sort_out_in_driver(node)
            return
        keyed = isinstance(operator, KeyedOperator)
        for i, port in enumerate(operator.ports):
            if i != PENDING or not keyed:
                block = port.take_consolidated()
                if block is not None:
                    self._driver_updates[node, i, ()].append(block)
        if isinstance(operator, ReduceOperator) and self._reduced_in_driver(cast("Reduce", node), operator):
            return
        if keyed:
            self._take_pending(node, operator.ports[PENDING])
        self.deltas[node] = self._shared(node, self._delta(node, ()), ())

    def _handed_to_driver(self, node: Node, frame: Frame | None) -> Frame | None:
        """Give a change that is known to be small to the operators after it in the driver; return one that is not."""
        if isinstance(node, Leave) and frame is not None:
            frame = materialised(frame)
        if frame is None or frame.rows is None or frame.rows > self._in_driver:
            return frame
        if isinstance(node, Arrange) and self._is_spilled(node):  # operators in the driver would not find it there
            return frame
        block = consolidated_block(block_of(self._compiled, node.schema, frame))
        self._compiled.operators[node].emit(block, ())
        return None

    def _is_spilled(self, node: Node) -> bool:
        """Return whether an arrangement's updates go to the disk, and not to the driver's spine."""
        return _spine(node) in self._additions or _spine(node) in self._shared_files

    def _reduced_in_driver(self, node: Reduce, operator: ReduceOperator) -> bool:
        """Reduce in the driver what Spark has summed for each group, where groups are few; return whether so."""
        (frame,) = self._inputs(node)
        if frame is None or not self._in_driver:
            return False
        layout = layout_of(node)
        sums = self._strategy.summed(node, frame, layout)
        if sums is None:
            return False
        numbers = layout.times_and_weights(layout.arrangements[0].weights)
        table = sums.select(*(f"c{k}" for k in layout.keys), *numbers).limit(self._in_driver + 1).toArrow()
        if len(table) > self._in_driver:
            return False
        types = [*(layout.row.fields[k].dtype for k in layout.keys), *[INT64] * len(numbers)]
        block = encoded(table, types, self._compiled)
        try:
            if len(table):
                operator.ports[NEW_PORT].put(feed_sums(layout, operator, block), ())
            self._run_in_driver(operator)
        finally:
            cast("AggregateLogic", operator.logic).take_presummed(None)
        return True

    def _sort_out_in_driver(self, node: Watermark | SortBuffer | LateRows) -> None:
        """Have rows wait for a watermark in the driver, which holds what waits; of a watermark, bring values only."""
        operator = self._compiled.operators[node]
        for number, source in enumerate(node.inputs):
            frame = self.deltas.get(source)
            if frame is None:
                continue
            if isinstance(node, Watermark):
                mark = node.marks[number]
                found = extremes(frame, mark)
                block = np.zeros((len(source.schema) + 2, 2 * len(found)), np.int64)
                block[mark.column] = [value for _, *values in found for value in values]
                block[-2], block[-1] = np.repeat([time for time, _, _ in found], 2), 1
            else:
                block = consolidated_block(block_of(self._compiled, source.schema, frame))
            operator.accept(number, block, ())
        self._run_in_driver(operator)

    # -- updates in the driver -----------------------------------------------------------------------------------------

    def _inputs(self, node: Node) -> list[Frame | None]:
        found = super()._inputs(node)
        now = self._running.get(node.scope, ())
        for i, frame in enumerate(found):
            if blocks := self._driver_updates.get((node, i, now)):
                some = [self._state.frame(node.inputs[i], block) for block in blocks]
                found[i] = united(some if frame is None else [frame, *some])
        return found

    def _take_from_driver(self, scope: Scope) -> None:
        """Take the updates and pending times of a loop's operators from the driver, for its rounds on the executors."""
        for node in self._graph.nodes:
            if not node.scope.within(scope):
                continue
            operator = self._compiled.operators[node]
            for i, port in enumerate(operator.ports):
                if i == PENDING and isinstance(operator, KeyedOperator):
                    self._take_pending(node, port)
                    continue
                for at, blocks in port.rounds.items():
                    self._driver_updates[node, i, at].append(consolidated_block(stacked(blocks)))
                    self._schedule_round(node.scope, at)
        self._compiled.region(scope).clear()

    def _take_pending(self, node: Node, port: Port) -> None:
        """Take the pending times that are due from the driver, each to its round."""
        for at, blocks in port.rounds.items():
            due = functools.partial(pending_lines, self._spark, self._compiled, node, stacked(blocks))
            self._add_pending(node, at, due)
        port.clear()

    # -- updates for later steps ----------------------------------------------------------------------------------

    def _hold_back(self, node: Node, frame: Frame, now: Round) -> Frame | None:
        """Leave updates beyond the frontier of a reader pending in the driver, and return the others."""
        rest, beyond = self._frontier_split.split(node, frame)
        if beyond is not None:
            self._compiled.operators[node].emit(beyond, now)
            if now:  # other readers take them in this step
                self._take_from_driver(cast("Scope", outermost_loop(node.scope)))
        return rest

    def _send_later(self, node: Node, at: Round, frame: Frame) -> None:
        rest = self._hold_back(node, frame, at) if isinstance(node, Variable) else frame
        if rest is not None:
            super()._send_later(node, at, rest)

    def _schedule_pending(self, node: Node, due: DataFrame) -> None:
        upper = self._interval(node)[1]
        if upper.elements and self._users > 1:  # else no two times join to another
            self._hold_pending(node, due.filter(is_beyond(upper)))
            due = due.filter(~is_beyond(upper))
        if node.scope.parent is not None:
            super()._schedule_pending(node, due)

    def _hold_pending(self, node: Node, due: DataFrame) -> None:
        block = pending_block(self._compiled, node, due)
        if block.shape[1]:
            operator = self._compiled.checks[node] if isinstance(node, Input) else self._compiled.operators[node]
            operator.ports[PENDING].postpone(block)

    # -- arrangements and outputs --------------------------------------------------------------------------------------

    def _shared(self, node: Node, frame: Frame | None, now: Round) -> Frame | None:
        if frame is not None and isinstance(node, (Arrange, Output)):
            frame = self._arranged(node, frame, now)
        if frame is not None and self._compiled.operators[node].ports:  # others only pass on what was looked at
            frame = self._hold_back(node, frame, now)
        frame = super()._shared(node, frame, now)
        frame = frame if now else self._handed_to_driver(node, frame)
        self._compiled.operators[node].records_out += _known_rows([frame])
        return frame

    def _arranged(self, node: Node, frame: Frame, now: Round) -> Frame | None:
        """Add updates to an arrangement or output, in the driver or on the disk; return them, materialised."""
        cheap = frame.cheap and isinstance(node, Arrange)
        change = frame if cheap else materialised(frame)
        source, picked = _origin(node)
        if isinstance(node, Arrange) and source in self._files and not self._has_driver_updates(node, source):
            self._shared_files[_spine(node)] = cast("Input", source), picked
        elif change is not None and not self._arranged_in_driver(node, change, now):
            self._additions[_spine(node)].append(file_columns(change))
        return change

    def _delta(self, node: Node, now: Round) -> Frame | None:
        if not (isinstance(node, Input) and node.key):  # these count writes
            came = [self._input_frames.get(node)] if isinstance(node, Input) else super()._inputs(node)
            small = [b.shape[1] for i in range(len(came)) for b in self._driver_updates.get((node, i, now), ())]
            self._compiled.operators[node].records_in += _known_rows(came) + sum(small)
        return super()._delta(node, now)

    def _has_driver_updates(self, node: Node, source: Node) -> bool:
        """Return whether updates in the driver reached an arrangement, besides those in files."""
        return (source, 0, ()) in self._driver_updates or (node, 0, ()) in self._driver_updates

    def _arranged_in_driver(self, node: Node, frame: Frame, now: Round) -> bool:
        """Add a small change to an arrangement or output in the driver, unless in a loop; return whether so."""
        if now or frame.rows is None or frame.rows > self._in_driver:
            return False
        operator = self._compiled.operators[node]
        consumers, operator.consumers = operator.consumers, []  # they get it when the change is handed on
        try:
            operator.ports[0].put(consolidated_block(block_of(self._compiled, node.schema, frame)), ())
            self._run_in_driver(operator)
        finally:
            operator.consumers = consumers
        return True

    def _store_lines(self, keyed: KeyedRound, lines: Frame) -> None:
        node, layout = keyed.node, keyed.layout
        for number, arrangement in enumerate(layout.arrangements):
            if arrangement.name != ARRANGED:  # that is the arrangement's own
                row = [F.col(name).alias(f"v{i}") for i, name in enumerate(arrangement.columns)]
                numbers = layout.times_and_weights(arrangement.weights)
                data = lines.data.filter(F.col(KIND) == STORE + number).select(*row, *numbers)
                self._additions[f"{_place(node)}/{arrangement.name}"].append(data)

    # -- rules that differ --------------------------------------------------------------------------------------------

    def of_reduce(self, node: Reduce, now: Round) -> Frame | None:
        operator = self._compiled.operators[node]
        if not isinstance(operator, OrderedWindowsOperator):
            return super().of_reduce(node, now)
        (frame,) = self._inputs(node)
        new = frame if frame is None or frame.cheap else materialised(frame)
        if new is None:
            return None
        (name,) = (f"{node.id}/{name}" for name in operator.spines())
        stored = self._spilled.read(name)
        self._additions[name].append(file_columns(new))
        if stored is None:
            return KeyedRound(node, self._users, now, *self._interval(node)).once(new, None).change
        old = as_updates(stored, new.width, new.coordinates)
        rows = self._spilled.rows(name), new.rows or 0
        is_large = self._spilled.largest[node].may_be_large(node, old, new.data, *rows)
        return changed_windows(node, self._interval(node), new, old, may_be_large=is_large)

    def of_input(self, node: Input, now: Round) -> Frame | None:
        frame = self._input_frames.get(node)
        small = [self._state.frame(node, block) for block in self._driver_updates.get((node, 0, now), ())]
        frame = united(small if frame is None else [frame, *small])
        if frame is not None and node.unique:
            self._take_pending(node, self._compiled.checks[node].ports[PENDING])
            self._keyed(node, frame, now)
        return frame

    def of_dynamic_filter(self, node: OrderedDynamicFilter, _now: Round) -> Frame | None:
        """Return the output for left rows, new ones and those that are kept on the disk, and keep the new ones there.

        The right side is the driver's, as in any step.
        """
        operator = cast("DynamicFilterOperator", self._compiled.operators[node])
        left, right = self._inputs(node)
        before = operator.value
        block = None if right is None else block_of(self._compiled, node.inputs[1].schema, consolidated(right))
        came = operator.take_right(block) if block is not None and block.shape[1] else []
        moves = Moves(node, self._compiled.interner, before, came)
        found = [moves.passed(f) for f in self._stored_between(node, operator, came)]
        new = left if left is None or left.cheap else materialised(left)
        if new is not None:
            kept = new.data.filter(moves.is_kept())
            for name in operator.indexes:
                self._additions[f"{node.id}/{name}"].append(file_columns(new.of(kept)))
            found.append(moves.filtered(new))
        return united([f for f in found if f is not None])

    def _stored_between(self, node: Node, operator: DynamicFilterOperator, came: Sequence[Move]) -> list[Frame]:
        """Return the left rows that are kept and that moves of the value may pass."""
        scan = operator.scan_of(came)
        return [] if scan is None else self._state.ordered(node, f"{node.id}/{scan[0]}", scan[1])


def _spine(node: Node) -> str:
    """Return the name of the spine of an arrangement or output."""
    return f"{node.id}/spine"


def _place(node: Node) -> str:
    """Return the prefix of the names of a keyed operator's spines, or of those of a unique input's check."""
    return f"{node.id + 0.5 if isinstance(node, Input) else node.id}"


def _known_rows(frames: Iterable[Frame | None]) -> int:
    """Return how many updates there are, as far as they were counted."""
    return sum(f.rows or 0 for f in frames if f is not None)


def _origin(node: Node) -> tuple[Node, tuple[int, ...]]:
    """Return the node of which another one, through projections alone, shows columns, and which these are."""
    picked = tuple(range(len(node.schema)))
    source = node.inputs[0]
    while isinstance(source, Map) and source.picked is not None:
        picked = tuple(source.picked[i] for i in picked)
        (source,) = source.inputs
    return source, picked
