"""Spark among the engines that `check_equivalent` compares: whole histories, and live runs, each in its own folder."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.results import Rows, Updates, arrow_table
from tidemill.boundary.rows import python_rows
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input, Node, Output
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.renderer.reference.upserts import Upserts
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.metrics import Memory, Metrics
from tidemill.renderer.runs.progress import OperatorProgress
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.step_events import OperatorTrace
from tidemill.renderer.runs.stepper import Stepper
from tidemill.renderer.runs.writes import Change, Queued, Writes
from tidemill.renderer.spark.live import Spark


@attrs.frozen
class SparkHistories:
    """An engine for whole histories only: its runs answer once their inputs are closed. On the active session.

    The driver takes loops into which no more than ``in_driver`` updates come.
    """

    whole_histories: ClassVar[bool] = True
    in_driver: int = 0

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run that renders when all inputs are closed."""
        graph = plan.without_passes()
        return Run(Stepper(_HistoryExecutor(graph, self.in_driver), Frontiers(graph, keep)))


@attrs.frozen
class SparkLive:
    """An engine of durable runs on the active session, whose state goes with them; checkpoints come often.

    Executors take changes of more than ``in_driver`` rows.
    """

    in_driver: int = 1_000_000

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run with a new folder for its state."""
        from tidemill.renderer.spark.local import active_session  # noqa: PLC0415 - needs the extra

        session = active_session()
        folder = tempfile.mkdtemp(prefix="tidemill-live-")
        try:
            run = Spark(session, folder, checkpoint_every=3, in_driver=self.in_driver).start(plan, keep)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
        return run


class _HistoryExecutor:
    """Collects updates; when the inputs are closed, renders them, and holds what came out."""

    is_replayable = True

    def __init__(self, graph: Graph, in_driver: int) -> None:
        self._graph = graph
        self._in_driver = in_driver
        self._users = len(graph.coordinates)
        inputs = graph.inputs.values()
        self._queued: dict[Input, list[Queued]] = {node: [] for node in inputs}
        self._upserts = {node: Upserts(node) for node in inputs if node.key}
        self._results: dict[Node, tuple[pa.Table, list[pa.ChunkedArray]]] = {}
        if not inputs:  # there is nothing to wait for
            self.step({})

    def queue(self, node: Input, change: Change) -> None:
        if isinstance(change, Writes):
            self._upserts[node].write(change)
        else:
            assert isinstance(change, Queued)
            self._queued[node].append(change)

    def step(self, frontiers: Mapping[Input, Antichain]) -> None:
        from tidemill.renderer.spark.dataframes import table_of, updates_of  # noqa: PLC0415
        from tidemill.renderer.spark.local import active_session  # noqa: PLC0415 - needs the extra
        from tidemill.renderer.spark.render import render  # noqa: PLC0415

        for node, upserts in self._upserts.items():
            self._queued[node].append(upserts.resolve(frontiers[node]))
            upserts.commit()
        if any(f.elements for f in frontiers.values()):
            return
        spark = active_session()
        assert spark is not None, "start a session first, as with tm.local_spark()"
        frames = {node.name: updates_of(spark, node, *self._listed(node)) for node in self._queued}
        for name, frame in render(lambda _: self._graph, spark, frames, *self._names, self._in_driver).items():
            output = self._graph.outputs[name]
            self._results[output] = table_of(output.schema, frame, self._users + 1)

    @property
    def _names(self) -> tuple[str | None, str]:
        return ("tidemill time" if self._users == 1 else None), "tidemill diff"

    def _listed(self, node: Input) -> tuple[list[tuple[object, ...]], list[str]]:
        """Return an input's updates as rows with time and diff, and the names of the columns of these."""
        lines = [(*row, *time, diff) for queued in self._queued[node] for row, time, diff in queued.listed()]
        time, diff = self._names
        return lines, [*([time] if time else self._graph.coordinates), diff]

    def _updates(self, node: Output) -> tuple[pa.Table, object, object]:
        table, whole = self._results[node]
        numbers = [column.to_numpy() for column in whole]
        return table, np.array(numbers[:-1], np.int64).reshape(self._users, -1), numbers[-1]

    def contents(self, node: Output, at: Time | None) -> Rows:
        assert at is None, "the inputs are closed"
        table, _, diffs = self._updates(node)
        counts: dict[tuple[object, ...], int] = {}
        for row, diff in zip(python_rows(table), diffs, strict=True):  # type: ignore[call-overload]
            counts[row] = counts.get(row, 0) + int(diff)
        found = {row: count for row, count in counts.items() if count}
        schema = node.schema
        return Rows(schema, arrow_table(schema, list(found)), np.array(list(found.values()), np.int64), at)

    def take_unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        table, times, diffs = self._updates(node)
        return Updates(node.schema, self._graph.coordinates, table, times, diffs, lower, upper)  # type: ignore[arg-type]

    def changed_since(self, node: Output, time: Time, since: Antichain, upper: Antichain) -> Updates:
        raise NotImplementedError

    def discard(self) -> None:
        for queued in self._queued.values():
            queued.clear()
        for upserts in self._upserts.values():
            upserts.discard()

    def queued(self, _node: Input | None = None) -> Any:
        raise NotImplementedError

    def requeue(self, queued: Any) -> None:
        raise NotImplementedError

    def commit(self, since: Mapping[Output, Antichain]) -> None:
        """Nothing: what comes out is worked out once."""

    def rollback(self) -> None:
        """Nothing: where the rendering fails, the run is of no more use."""

    def tidy(self) -> None:
        """Nothing."""

    def save(self, path: Path, header: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def compact(self) -> int:
        raise NotImplementedError

    def trace(self, *, on: bool, rows: int) -> None:
        """Nothing: Spark does not say what its operators do."""

    def take_traces(self) -> Mapping[int, OperatorTrace]:
        return {}

    def memory(self) -> Memory:
        return Memory()

    def progress(self) -> list[OperatorProgress]:
        return []

    def metrics(self) -> Metrics:
        return Metrics([])

    def close(self) -> None:
        self._results.clear()
