"""Spark among the engines that `check_equivalent` compares: whole histories, rendered when all inputs are closed."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.results import Rows, Updates, arrow_table
from tidemill.boundary.rows import python_rows
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input, Node, Output
from tidemill.renderer.reference.upserts import Upserts
from tidemill.renderer.runs.metrics import Metrics
from tidemill.renderer.runs.run import Queued, Run, schema_of
from tidemill.renderer.runs.writes import Writes

__all__ = ["SparkHistories"]


@attrs.frozen
class SparkHistories:
    """An engine for whole histories only: its runs answer once their inputs are closed. On the active session."""

    whole_histories = True

    def start(self, graph: Graph, keep: int) -> Run:
        """Return a run that renders when all inputs are closed."""
        return _HistoryRun(graph, keep)


class _HistoryRun(Run):
    """Collects updates; when the inputs are closed, renders them, and holds what came out."""

    def __init__(self, graph: Graph, keep: int) -> None:
        super().__init__(graph, keep)
        self._queued: dict[Input, list[Queued]] = {node: [] for node in self._inputs.values()}
        self._upserts = {node: Upserts(node) for node in self._inputs.values() if node.key}
        self._results: dict[Node, tuple[pa.Table, list[pa.ChunkedArray]]] = {}
        self.begin()

    def begin(self) -> None:
        """Wait for the inputs; without any there is nothing to wait for."""
        if not self._inputs:
            super().begin()

    def _queue(self, node: Input, queued: Queued) -> None:
        self._queued[node].append(queued)

    def _write(self, node: Input, writes: Writes) -> None:
        self._upserts[node].write(writes)

    def _step(self, frontiers: Mapping[Input, Antichain]) -> None:
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
        for name, frame in render(self.graph, spark, frames, *self._names).items():
            output = self._outputs[name]
            self._results[output] = table_of(schema_of(output), frame, self._users + 1)

    @property
    def _names(self) -> tuple[str | None, str]:
        return ("tidemill time" if self._users == 1 else None), "tidemill diff"

    def _listed(self, node: Input) -> tuple[list[tuple[object, ...]], list[str]]:
        """Return an input's updates as rows with time and diff, and the names of the columns of these."""
        lines = []
        for queued in self._queued[node]:
            rows = python_rows(queued.batch)
            times = queued.times if isinstance(queued.times, list) else [queued.times] * len(rows)
            diffs = queued.diffs if isinstance(queued.diffs, list) else [queued.diffs] * len(rows)
            lines += [(*row, *time, diff) for row, time, diff in zip(rows, times, diffs, strict=True)]
        time, diff = self._names
        return lines, [*([time] if time else self.graph.coordinates), diff]

    def _updates(self, node: Output) -> tuple[pa.Table, object, object]:
        table, whole = self._results[node]
        numbers = [column.to_numpy() for column in whole]
        return table, np.array(numbers[:-1], np.int64).reshape(self._users, -1), numbers[-1]

    def _contents(self, node: Output, at: Time | None) -> Rows:
        assert at is None, "the inputs are closed"
        table, _, diffs = self._updates(node)
        counts: dict[tuple[object, ...], int] = {}
        for row, diff in zip(python_rows(table), diffs, strict=True):  # type: ignore[call-overload]
            counts[row] = counts.get(row, 0) + int(diff)
        found = {row: count for row, count in counts.items() if count}
        schema = schema_of(node)
        return Rows(schema, arrow_table(schema, list(found)), np.array(list(found.values()), np.int64), at)

    def _unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        table, times, diffs = self._updates(node)
        return Updates(schema_of(node), self.graph.coordinates, table, times, diffs, lower, upper)  # type: ignore[arg-type]

    def _changed_since(self, node: Output, time: Time, upper: Antichain) -> Updates:
        raise NotImplementedError

    def _discard(self) -> None:
        for queued in self._queued.values():
            queued.clear()
        for upserts in self._upserts.values():
            upserts.discard()

    def _measured(self) -> Metrics:
        return Metrics([])

    def _release(self) -> None:
        self._results.clear()
