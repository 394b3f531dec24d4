"""One pass over a graph, from scratch: the trace of every node, loops round by round."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tidemill.boundary.values import INT64_LIMIT
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, join_closure
from tidemill.dataflow.nodes import Feedback, Input, Node, Variable
from tidemill.dataflow.scopes import Scope
from tidemill.expressions.functions.values import row_order
from tidemill.renderer.reference import composites, operators, watermarks  # noqa: F401 - they fill the table of rules
from tidemill.renderer.reference.rules import RULES
from tidemill.renderer.reference.traces import Row, Trace, complete, consolidated, contents
from tidemill.renderer.runs import failures


class Evaluation:
    """The traces of all nodes, each up to its own frontier, when the inputs are given.

    ``frontiers`` say for each node which user times are final there; nothing is computed at others.
    """

    def __init__(
        self, graph: Graph, given: Mapping[Input, Iterable[tuple[Row, Time, int]]], frontiers: Mapping[Node, Antichain]
    ) -> None:
        self.traces: dict[Node, Trace] = {}
        self.seconds: dict[Node, float] = defaultdict(float)
        self._graph = graph
        self._given = given
        self._users = len(graph.coordinates)
        self._frontiers = frontiers
        self._run(graph.root)

    def _run(self, scope: Scope) -> None:
        for item in self._graph.plan(scope):
            if isinstance(item, Scope):
                self._loop(item)
            elif not isinstance(item, Variable):
                start = time.perf_counter()
                try:
                    self.traces[item] = self._evaluated(item)
                except MemoryError as error:
                    raise failures.out_of_memory(item, error) from error
                self.seconds[item] += time.perf_counter() - start

    def _loop(self, scope: Scope) -> None:
        """Run the loop's body, for all outer times at once, until the feedback does not change.

        After k passes the variables, and so everything in the body, are right in the iterations before k, and what is
        in them is of those iterations only. So a pass that leaves the feedback as it was has found the fixed points.
        """
        feedback = [item for item in self._graph.plan(scope) if isinstance(item, Feedback)]
        for node in feedback:
            self.traces[node.variable] = {}
        lower = False
        while not lower:
            self._run(scope)
            for node in feedback:
                _check_limit(node, self.traces[node])
            lower = all(self.traces[node.variable] == self.traces[node] for node in feedback)
            for node in feedback:
                self.traces[node.variable] = self.traces[node]

    def _evaluated(self, node: Node) -> Trace:
        frontier = self._frontiers[node]
        if isinstance(node, Input):
            return self._input(node, frontier)
        sources = [self.traces[source] for source in node.inputs]
        if len(sources) > 1:  # one input may be further than the other
            sources = [complete(trace, frontier, self._users) for trace in sources]
        made = RULES.of(node)(node, lambda t: not frontier.beyond(t[: self._users]), *sources)
        made = complete(made, frontier, self._users)
        _check_sums(node, made)
        return made

    def _input(self, node: Input, frontier: Antichain) -> Trace:
        if node.rows is not None:
            least = self._graph.minimum(node.scope)
            return consolidated((row, least, 1) for row in node.rows)
        trace = complete(consolidated(self._given[node]), frontier, self._users)
        if node.unique:
            _check_unique(node, trace, frontier)
        return trace


def _check_sums(node: Node, trace: Trace) -> None:
    """Refuse counts that the 64 bits of other engines do not hold, whether of an update or of a row in the end."""
    totals: dict[Row, int] = defaultdict(int)
    for (row, _), diff in trace.items():
        totals[row] += diff
        if abs(diff) > INT64_LIMIT:
            raise failures.count_overflow(node)
    if any(abs(total) > INT64_LIMIT for total in totals.values()):
        raise failures.count_overflow(node)


def _check_limit(node: Feedback, trace: Trace) -> None:
    limit = node.limits.error_at
    late = [row for row, time in trace if limit is not None and time[-1] >= limit]
    if late:
        raise failures.iteration_limit(node, min(late, key=row_order))


def _check_unique(node: Input, trace: Trace, frontier: Antichain) -> None:
    for t in join_closure(t for _, t in trace):
        if frontier.beyond(t):
            continue
        for row, count in contents(trace, t).items():
            if count != 1:
                raise failures.not_unique(node, row, count, t)
