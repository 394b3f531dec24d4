"""The reference engine: the specification, run. Everything from scratch at every step, in plain dicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar

import attrs
import numpy as np

from tidemill.boundary.results import Rows, Updates, arrow_table
from tidemill.boundary.rows import python_rows
from tidemill.dataflow.composites import Composite
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, less_equal
from tidemill.dataflow.nodes import Arrange, Input, Inspect, Node, Output
from tidemill.renderer.reference.evaluation import Evaluation
from tidemill.renderer.reference.rules import RULES
from tidemill.renderer.reference.traces import Row, Trace, consolidated, contents, triples
from tidemill.renderer.reference.upserts import Upserts
from tidemill.renderer.runs import user_functions as functions
from tidemill.renderer.runs.metrics import Metrics, OperatorMetrics
from tidemill.renderer.runs.run import Queued, Run
from tidemill.renderer.runs.writes import Writes

__all__ = ["Reference", "ReferenceRun"]


@attrs.frozen
class Reference:
    """The engine that says what is right: slow, obvious, and what all others are tested against.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow("counts")
    >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    >>> with flow.start(tm.Reference()) as run:
    ...     run.insert("x", [("a",), ("a",), ("b",)])
    ...     run.advance()
    ...     sorted(run.snapshot("n"))
    [('a', 2), ('b', 1)]
    """

    takes: ClassVar[frozenset[type]] = frozenset(kind for kind in RULES if issubclass(kind, Composite))

    def start(self, graph: Graph, keep: int = 0) -> Run:
        return ReferenceRun(graph, keep)


class ReferenceRun(Run):
    """A run that remembers all updates ever closed, and computes everything anew from them."""

    def __init__(self, graph: Graph, keep: int) -> None:
        super().__init__(graph, keep)
        self._closed_updates: dict[Input, Trace] = {node: {} for node in self._inputs.values()}
        self._queued: dict[Input, list[tuple[Row, Time, int]]] = defaultdict(list)
        self._traces: dict[Node, Trace] = {node: {} for node in graph.nodes}
        self._news: dict[Output, Trace] = {node: {} for node in self._outputs.values()}
        self._seconds: dict[Node, float] = defaultdict(float)
        self._upserts = {node: Upserts(node) for node in self._inputs.values() if node.key}
        with self._interrupts:
            self._step(self._frontiers)  # what hangs on constants alone is complete from the start

    def _queue(self, node: Input, queued: Queued) -> None:
        self._queued[node] += _listed(queued)

    def _write(self, node: Input, writes: Writes) -> None:
        self._upserts[node].write(writes)

    def _step(self, frontiers: Mapping[Input, Antichain]) -> None:
        closing = {node: _listed(upserts.resolve(frontiers[node])) for node, upserts in self._upserts.items()}
        waiting: dict[Input, list[tuple[Row, Time, int]]] = defaultdict(list)
        for node, updates in self._queued.items():
            for update in updates:
                beyond = frontiers[node].beyond(update[1])
                (waiting[node] if beyond else closing.setdefault(node, [])).append(update)
        given = {
            node: consolidated([*triples(trace), *closing.get(node, ())])
            for node, trace in self._closed_updates.items()
        }
        found = Evaluation(self.graph, given, lambda node: self.progress.user_frontier(node, frontiers))
        self._inspect(found.traces)
        self._commit(given, waiting, found)

    def _inspect(self, traces: Mapping[Node, Trace]) -> None:
        for node, trace in traces.items():
            if isinstance(node, Inspect):
                for (row, time), diff in _news(trace, self._traces[node]).items():
                    functions.inspect(node, row, time, diff)

    def _commit(
        self, given: dict[Input, Trace], waiting: dict[Input, list[tuple[Row, Time, int]]], found: Evaluation
    ) -> None:
        self._interrupts.hold()
        for output, kept in self._news.items():
            if output.changes is not False:
                kept.update(_news(found.traces[output], self._traces[output]))
        self._closed_updates, self._queued, self._traces = given, waiting, found.traces
        for upserts in self._upserts.values():
            upserts.commit()
        for node, seconds in found.seconds.items():
            self._seconds[node] += seconds

    def _contents(self, node: Output, at: Time | None) -> Rows:
        if at is None:
            counts = consolidated((row, (), diff) for (row, _), diff in self._traces[node].items())
            found = {row: count for (row, _), count in counts.items()}
        else:
            found = contents(self._traces[node], at)
        schema = node.schema
        return Rows(schema, arrow_table(schema, list(found)), np.array(list(found.values()), np.int64), at)

    def _unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        found = self._updates(node, self._news[node], lower, upper)
        self._news[node] = {}
        return found

    def _changed_since(self, node: Output, time: Time, upper: Antichain) -> Updates:
        kept = self._since[node]
        advanced = consolidated((row, kept.advance(t), diff) for (row, t), diff in self._traces[node].items())
        trace = {(row, t): diff for (row, t), diff in advanced.items() if not less_equal(t, time)}
        return self._updates(node, trace, Antichain.after(time), upper)

    def _updates(self, node: Output, trace: Trace, lower: Antichain, upper: Antichain) -> Updates:
        schema = node.schema
        rows = [row for row, _ in trace]
        times = np.array([time for _, time in trace], np.int64).reshape(-1, self._users).T
        diffs = np.array(list(trace.values()), np.int64)
        table = arrow_table(schema, rows)
        return Updates(schema, self.graph.coordinates, table, times, diffs, lower, upper)

    def _discard(self) -> None:
        self._queued.clear()
        for upserts in self._upserts.values():
            upserts.discard()

    def _measured(self) -> Metrics:
        return Metrics([self._operator_metrics(node) for node in self.graph.nodes])

    def _operator_metrics(self, node: Node) -> OperatorMetrics:
        out = len(self._traces[node])
        return OperatorMetrics(
            id=node.id,
            kind=node.kind,
            name=node.name,
            records_in=sum(len(self._traces[source]) for source in node.inputs),
            records_out=out,
            state_rows=out if isinstance(node, Arrange) else 0,
            batches=1 if isinstance(node, Arrange) and out else 0,
            seconds=self._seconds[node],
            waiting=len(self._queued.get(node, ())) if isinstance(node, Input) else 0,
        )

    def _release(self) -> None:
        for held in (self._closed_updates, self._queued, self._traces, self._news):
            held.clear()


def _listed(queued: Queued) -> list[tuple[Row, Time, int]]:
    rows = python_rows(queued.batch)
    times = queued.times if isinstance(queued.times, list) else [queued.times] * len(rows)
    diffs = queued.diffs if isinstance(queued.diffs, list) else [queued.diffs] * len(rows)
    return list(zip(rows, times, diffs, strict=True))


def _news(now: Trace, before: Trace) -> Trace:
    """Return the updates that were not there before; what is complete does not change any more."""
    return {update: diff for update, diff in now.items() if update not in before}
