"""The embedded engine beside a Spark session: steps that are too large for the driver are taken on the executors."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.boundary.results import Rows, Updates
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input, Node, Output
from tidemill.errors import ExpressionError
from tidemill.renderer.durable.large_changes import LargeChange
from tidemill.renderer.durable.spill_files import SpillFile
from tidemill.renderer.durable.start import State
from tidemill.renderer.embedded.operators.input_output import InputOperator
from tidemill.renderer.embedded.operators.upsert_input import UpsertInputOperator
from tidemill.renderer.runs.metrics import Memory, Metrics
from tidemill.renderer.runs.progress import OperatorProgress
from tidemill.renderer.runs.step_events import OperatorTrace
from tidemill.renderer.runs.writes import Change
from tidemill.renderer.spark.frames import Frame, united
from tidemill.renderer.spark.large_windows import LargestPartition
from tidemill.renderer.spark.live.executor_step import ExecutorStep
from tidemill.renderer.spark.live.file_tasks import WorkOnExecutors
from tidemill.renderer.spark.live.incoming import frame_of_change
from tidemill.renderer.spark.live.outputs import Outputs
from tidemill.renderer.spark.live.spilled_state import SpilledState
from tidemill.renderer.spark.live.state_frames import frame_of
from tidemill.renderer.spark.live.upserts import upserted
from tidemill.renderer.spark.retries import retried
from tidemill.renderer.spark.session import check_session
from tidemill.renderer.spark.strategy import Strategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkExecutor:
    """See `Executor`. Small steps are those of an `EmbeddedExecutor`, whose state it shares."""

    def __init__(self, spark: SparkSession, state: State, in_driver: int) -> None:
        self._spark = spark
        self._embedded = state.executor
        self._spill_store = state.spill_store
        store = state.spill_store.store
        store.work = WorkOnExecutors.beside(spark, store, in_driver)
        self._large_changes = state.large_changes
        self._in_driver = in_driver
        self._outputs = Outputs(spark, state.executor, state.spill_store, in_driver)
        self._largest: defaultdict[Node, LargestPartition] = defaultdict(LargestPartition)
        self._on_executors = False
        """Whether the step at hand is taken on the executors."""
        self._untidy = False
        """Whether they took a step since the disk was tidied up last."""

    # -- inputs -------------------------------------------------------------------------------------------------------

    def queue(self, node: Input, change: Change) -> None:
        if isinstance(change, LargeChange):
            self._large_changes.queue(change)
        else:
            self._embedded.queue(node, change)

    def discard(self) -> None:
        self._embedded.discard()
        self._large_changes.discard()

    def queued(self, node: Input | None = None) -> Any:
        return self._embedded.queued(node), self._large_changes.pending[:]

    def requeue(self, queued: Any) -> None:
        in_memory, self._large_changes.pending = queued
        self._embedded.requeue(in_memory)

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(self, frontiers: Mapping[Input, Antichain]) -> None:
        def take(strategy: Strategy) -> None:
            self._large_changes.taken = self._large_changes.due(frontiers)
            try:
                self._embedded.release(frontiers)
                self._work(strategy)
            except Exception as error:  # it may be tried again
                self.rollback()
                if not (isinstance(error, ExpressionError) and self._embedded.widen()):
                    raise
                take(strategy)

        retried(self._embedded.graph, take)

    @property
    def is_replayable(self) -> bool:
        return not self._on_executors

    def commit(self, since: Mapping[Output, Antichain]) -> None:
        self._large_changes.commit()
        self._embedded.commit(since)
        self._outputs.commit()
        if self._on_executors:
            self._spill_store.drop_derived()
            self._large_changes.checkpointed()
            self._spill_store.checkpointed()
            self._on_executors, self._untidy = False, True

    def rollback(self) -> None:
        self._embedded.rollback()
        self._large_changes.rollback()
        self._outputs.rollback()
        if self._on_executors:
            self._spill_store.drop_derived()
            self._on_executors = False

    def tidy(self) -> None:
        self._embedded.tidy()
        if not self._untidy:
            return
        self._untidy = False
        try:
            self._spill_store.tidy()
            self._outputs.tidy()
            self._spill_store.sweep()
        except Exception as error:  # noqa: BLE001 - whatever Spark may raise
            warnings.warn(f"the step was taken, what is on the disk is not merged: {error}", RuntimeWarning, 4)

    def _work(self, strategy: Strategy) -> None:
        compiled, taken = self._embedded.compiled, self._large_changes.taken
        if not taken and not any(map(self._is_large, compiled.inputs.values())):
            compiled.root.drain()
            return
        check_session(self._spark, files=True)
        store, spines = self._spill_store.store, self._spill_store.spines
        state = SpilledState(self._spark, compiled, store, spines, self._in_driver, self._largest)
        given, files = self._large_inputs(state)
        self._on_executors = bool(given or taken)
        if not given:  # what large writes change is little
            compiled.root.drain()
            return
        step = ExecutorStep(state, given, files, strategy)
        step.run()
        self._outputs.fresh = step.unread
        compiled.root.clear()

    def _is_large(self, operator: InputOperator) -> bool:
        return operator.ports[0].size > self._in_driver or self._empties_much(operator)

    def _empties_much(self, operator: InputOperator) -> bool:
        if not isinstance(operator, UpsertInputOperator):
            return False
        return operator.rows.size > self._in_driver and operator.is_emptied

    def _large_inputs(self, state: SpilledState) -> tuple[dict[Input, Frame], dict[Input, Sequence[SpillFile]]]:
        """Return the changes of this step that are too large for the driver, and which are just what is in files."""
        compiled = self._embedded.compiled
        found: dict[Input, Frame] = {}
        files: dict[Input, Sequence[SpillFile]] = {}
        for node, operator in compiled.inputs.items():
            changes = [c for c in self._large_changes.taken if c.node is node]
            if node.key and (changes or self._empties_much(operator)):
                frame, files[node] = upserted(state, node, changes, operator.ports[0].take())
            else:
                frames = [frame_of_change(self._spark, self._spill_store.store, c) for c in changes]
                block = operator.take_step_updates() if self._is_large(operator) else None
                if block is None:
                    files[node] = [f for c in changes for f in c.files]
                elif block.shape[1] > self._in_driver or not isinstance(operator, UpsertInputOperator):
                    frames.append(frame_of(self._spark, compiled, node.schema, block))
                else:
                    operator.inject(block)
                frame = united(frames)
            if frame is not None:
                found[node] = frame
        return found, {node: in_files for node, in_files in files.items() if in_files}

    # -- outputs and state --------------------------------------------------------------------------------------------

    def contents(self, node: Output, at: Time | None) -> Rows:
        return self._outputs.contents(node, at)

    def take_unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        return self._outputs.take_unread(node, lower, upper)

    def changed_since(self, node: Output, time: Time | None, since: Antichain, upper: Antichain) -> Updates:
        return self._outputs.changed_since(node, time, since, upper)

    def follow(self, node: Output, *, on: bool) -> None:
        self._embedded.follow(node, on=on)

    def step_updates(self, node: Output) -> Updates:
        return self._embedded.step_updates(node)

    def metrics(self) -> Metrics:
        return self._embedded.metrics()

    def memory(self) -> Memory:
        return self._embedded.memory()

    def progress(self) -> Sequence[OperatorProgress]:
        return self._embedded.progress()

    def trace(self, *, on: bool, rows: int) -> None:
        self._embedded.trace(on=on, rows=rows)

    def take_traces(self) -> Mapping[int, OperatorTrace]:
        return self._embedded.take_traces()

    def save(self, path: Path, header: Mapping[str, Any]) -> None:
        """Large changes that are pending, or were not read, come into the driver's memory for it."""
        self._outputs.bring_in()
        self._large_changes.bring_in(self._large_changes.pending[:])
        self._embedded.save(path, header)

    def compact(self) -> int:
        return self._embedded.compact()

    def close(self) -> None:
        self._embedded.close()
