"""The specification, run: everything from scratch at every step, in plain dicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import attrs
import numpy as np

from tidemill.boundary.results import Rows, Updates, arrow_table
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, less_equal
from tidemill.dataflow.nodes import Arrange, Input, Inspect, LateRows, Node, Output, SortBuffer
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.dataflow.progress import Progress
from tidemill.errors import EngineError
from tidemill.renderer.reference.evaluation import Evaluation
from tidemill.renderer.reference.rules import RULES
from tidemill.renderer.reference.traces import Row, Trace, consolidated, contents
from tidemill.renderer.reference.upserts import Upserts
from tidemill.renderer.reference.watermarks import late_updates
from tidemill.renderer.runs import user_functions as functions
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.metrics import Memory, Metrics, OperatorMetrics
from tidemill.renderer.runs.progress import OperatorProgress
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.step_events import OperatorTrace
from tidemill.renderer.runs.stepper import Stepper
from tidemill.renderer.runs.writes import Change, Queued, Writes

Given: TypeAlias = dict[Input, list[tuple[Row, Time, int]]]
"""Updates of inputs, in the order in which they came."""


class Evaluated(Protocol):
    """The results computed from all updates."""

    traces: dict[Node, Trace]
    seconds: dict[Node, float]


class ReferenceExecutor:
    """See `Executor`. Remembers all updates ever closed, and computes everything anew from them."""

    is_replayable = True

    def __init__(
        self,
        graph: Graph,
        progress: Progress,
        evaluate: Callable[[Graph, Given, Mapping[Node, Antichain]], Evaluated] = Evaluation,
    ) -> None:
        self.graph = graph
        self._progress = progress
        self._evaluate = evaluate
        self._users = len(graph.coordinates)
        inputs, outputs = graph.inputs.values(), graph.outputs.values()
        self._closed_updates: Given = {node: [] for node in inputs}
        self._queued: Given = defaultdict(list)
        self._traces: dict[Node, Trace] = {node: {} for node in graph.nodes}
        self._news: dict[Output, Trace] = {node: {} for node in outputs}
        self._seconds: dict[Node, float] = defaultdict(float)
        self._upserts = {node: Upserts(node) for node in inputs if node.key}
        self._next: _Next | None = None
        self._tracing = False
        self._operator_traces: dict[int, OperatorTrace] = {}
        least = Antichain.minimum(self._users)
        self.step(dict.fromkeys(inputs, least))  # what hangs on constants alone is complete from the start
        self.commit(dict.fromkeys(outputs, least))

    def queue(self, node: Input, change: Change) -> None:
        if isinstance(change, Writes):
            self._upserts[node].write(change)
        else:
            assert isinstance(change, Queued)
            self._queued[node] += change.listed()

    def discard(self) -> None:
        self._queued.clear()
        for upserts in self._upserts.values():
            upserts.discard()

    def queued(self, _node: Input | None = None) -> Any:
        updates = {node: list(updates) for node, updates in self._queued.items()}
        return updates, {upserts: upserts.queued() for upserts in self._upserts.values()}

    def requeue(self, queued: Any) -> None:
        updates, writes = queued
        self._queued = defaultdict(list, updates)
        for upserts, of_input in writes.items():
            upserts.requeue(of_input)

    def step(self, frontiers: Mapping[Input, Antichain]) -> None:
        closing = {node: list(upserts.resolve(frontiers[node]).listed()) for node, upserts in self._upserts.items()}
        queued: Given = defaultdict(list)
        for node, updates in self._queued.items():
            for update in updates:
                beyond = frontiers[node].beyond(update[1])
                (queued[node] if beyond else closing.setdefault(node, [])).append(update)
        given = {node: [*updates, *closing.get(node, ())] for node, updates in self._closed_updates.items()}
        found = self._evaluate(self.graph, given, self._progress.user_frontiers(self.graph.nodes, frontiers))
        self._inspect(found.traces)
        self._next = _Next(given, queued, found)

    def commit(self, since: Mapping[Output, Antichain]) -> None:  # noqa: ARG002 - it keeps all
        assert self._next is not None
        found = self._next.evaluation
        for output, kept in self._news.items():
            if output.changes is not False:
                kept.update(_news(found.traces[output], self._traces[output]))
        if self._tracing:
            self._trace(found)
        self._closed_updates, self._queued, self._traces = self._next.given, self._next.queued, found.traces
        for upserts in self._upserts.values():
            upserts.commit()
        for node, seconds in found.seconds.items():
            self._seconds[node] += seconds
        self._next = None

    def rollback(self) -> None:
        self._next = None

    def tidy(self) -> None:
        """Nothing: all is computed anew in each step."""

    def _inspect(self, traces: Mapping[Node, Trace]) -> None:
        for node, trace in traces.items():
            if isinstance(node, Inspect):
                for (row, time), diff in _news(trace, self._traces[node]).items():
                    functions.inspect(node, row, time, diff)

    def contents(self, node: Output, at: Time | None) -> Rows:
        if at is None:
            counts = consolidated((row, (), diff) for (row, _), diff in self._traces[node].items())
            found = {row: count for (row, _), count in counts.items()}
        else:
            found = contents(self._traces[node], at)
        schema = node.schema
        return Rows(schema, arrow_table(schema, list(found)), np.array(list(found.values()), np.int64), at)

    def take_unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        found = self._updates(node, self._news[node], lower, upper)
        self._news[node] = {}
        return found

    def changed_since(self, node: Output, time: Time | None, since: Antichain, upper: Antichain) -> Updates:
        advanced = consolidated((row, since.advance(t), diff) for (row, t), diff in self._traces[node].items())
        if time is None:
            return self._updates(node, advanced, Antichain.minimum(self._users), upper)
        trace = {(row, t): diff for (row, t), diff in advanced.items() if not less_equal(t, time)}
        return self._updates(node, trace, Antichain.after(time), upper)

    def follow(self, node: Output, *, on: bool) -> None:
        """Nothing: it remembers all."""

    def step_updates(self, node: Output) -> Updates:
        assert self._next is not None
        least = Antichain.minimum(self._users)
        return self._updates(node, _news(self._next.evaluation.traces[node], self._traces[node]), least, least)

    def _updates(self, node: Output, trace: Trace, lower: Antichain, upper: Antichain) -> Updates:
        schema = node.schema
        rows = [row for row, _ in trace]
        times = np.array([time for _, time in trace], np.int64).reshape(-1, self._users).T
        diffs = np.array(list(trace.values()), np.int64)
        table = arrow_table(schema, rows)
        return Updates(schema, self.graph.coordinates, table, times, diffs, lower, upper)

    def trace(self, *, on: bool, rows: int) -> None:
        self._tracing, self._traced_rows = on, rows
        self._operator_traces = {}

    def take_traces(self) -> Mapping[int, OperatorTrace]:
        taken, self._operator_traces = self._operator_traces, {}
        return taken

    def _trace(self, found: Evaluated) -> None:
        for node, trace in found.traces.items():
            news = _news(trace, self._traces[node])
            if news:
                noted = self._operator_traces[node.id] = OperatorTrace()
                for _, time in news:
                    noted.emitted(time, 1)
                    noted.rounds.add(time[self._users :])
                first = islice(news.items(), self._traced_rows)
                noted.rows += [(row, time, diff) for (row, time), diff in first]

    def metrics(self) -> Metrics:
        return Metrics([self._operator_metrics(node) for node in self.graph.nodes])

    def memory(self) -> Memory:
        return Memory()

    def progress(self) -> list[OperatorProgress]:
        return []

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
            line=str(node.site),
            late=self._late(node),
        )

    def _late(self, node: Node) -> int:
        if not isinstance(node, (SortBuffer, LateRows)):
            return 0
        late = late_updates(node, *(self._traces[source] for source in node.inputs))
        return sum(abs(diff) for _, _, diff in late)

    def save(self, path: Path, header: Mapping[str, Any]) -> None:  # noqa: ARG002 - as all executors
        msg = "the reference engine does not save state: start the run on the embedded engine, as flow.start() does"
        raise EngineError(msg)

    def compact(self) -> int:
        return 0

    def close(self) -> None:
        for held in (self._closed_updates, self._queued, self._traces, self._news):
            held.clear()


@attrs.frozen
class _Next:
    """The result of a step, until it is made final."""

    given: Given
    queued: Given
    evaluation: Evaluated


def _news(now: Trace, before: Trace) -> Trace:
    """Return the updates that were not there before; what is complete does not change any more."""
    return {update: diff for update, diff in now.items() if update not in before}


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

    def start(self, plan: GraphPlan, keep: int = 0) -> Run:
        """Return a run of the graph as it was built."""
        graph = plan.taking(RULES.composites).without_passes()
        frontiers = Frontiers(graph, keep)
        return Run(Stepper(ReferenceExecutor(graph, frontiers.progress), frontiers))
