"""A step: the graph gone through once in topological order, loops round by round, a DataFrame for each node's updates.

Frames are lazy until something has to be known: whether a round has work, what is stored for later rounds, what several
read. A whole history is one step, over [minimum, {}) and from empty state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow import nodes
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Enter, Feedback, Input, Join, Leave, Node, Reduce, Retime, Threshold, Variable
from tidemill.dataflow.scopes import Scope
from tidemill.renderer.runs import failures
from tidemill.renderer.spark import linear, native
from tidemill.renderer.spark.dataframes import constant, rows_of
from tidemill.renderer.spark.frames import Frame, consolidated, materialised, united
from tidemill.renderer.spark.graph_facts import Needs
from tidemill.renderer.spark.join import joined
from tidemill.renderer.spark.keyed import KeyedRound, due_line
from tidemill.renderer.spark.state import Round, Trace

__all__ = ["Step"]


class Step:
    """One step of a graph on Spark.

    With ``carefully``, what may fail is computed from consolidated updates and by the embedded engine's kernels, whose
    errors count: slower, and only done after Spark raised an error that may not.
    """

    lives = False
    """Whether there are steps after this one."""

    def __init__(
        self, spark: SparkSession, graph: Graph, given: Mapping[Input, Frame | None], *, carefully: bool = False
    ) -> None:
        self.deltas: dict[Node, Frame | None] = {}
        self.rounds = 0
        """How many rounds of loops were run."""
        self._spark = spark
        self._graph = graph
        self._given = given
        self._carefully = carefully
        self._users = len(graph.coordinates)
        self._needs = Needs(graph, whole=self.lives)
        self._one_time = self._is_at_one_time()
        self._traces: dict[tuple[Node, int], Trace] = {}
        self._work: dict[Scope, set[Round]] = defaultdict(set)
        self._later: dict[tuple[Node, Round], list[Frame]] = defaultdict(list)
        self._owed: dict[tuple[Node, Round], list[DataFrame]] = defaultdict(list)
        self._left: dict[Node, list[Frame]] = defaultdict(list)
        self._running: dict[Scope, Round] = {}

    def run(self) -> None:
        """Go through the whole graph."""
        self._begin()
        self._run(self._graph.root, ())

    def _begin(self) -> None:
        """Have looked at what has to be, whatever comes in."""
        for node in self._graph.nodes:
            if isinstance(node, Reduce) and node.scalar and self._needs.needed(node):  # its row is always there
                least = (0,) * (node.scope.coordinates - self._users)
                self._owe(node, least, due_line(self._spark, node))

    def _trace(self, node: Node, side: int = 0) -> Trace:
        """Return what is kept for a node, of one of its inputs where it joins them."""
        if (node, side) not in self._traces:
            self._traces[node, side] = Trace(self._users)
        return self._traces[node, side]

    def _interval(self, _node: Node) -> tuple[Antichain, Antichain]:
        """Return the frontiers from and to which the step brings a node."""
        return Antichain.minimum(self._users), Antichain()

    def _is_at_one_time(self) -> bool:
        """Return whether all updates in the whole graph, those stored too, are known to be at the same user time."""
        if self.lives:
            return False
        found = {f.time for f in self._given.values() if f is not None}
        for node in self._graph.nodes:
            if isinstance(node, Retime):
                return False
            if (isinstance(node, Input) and node.rows) or (isinstance(node, Reduce) and node.scalar):
                found.add((0,) * self._users)
        return None not in found and len(found) <= 1

    # -- scopes and rounds ----------------------------------------------------------------------------------------

    def _run(self, scope: Scope, now: Round) -> None:
        for item in self._graph.plan(scope):
            if isinstance(item, Scope):
                self._loop(item, now)
            elif self._needs.needed(item):
                self.deltas[item] = self._shared(item, self._delta(item, now), now)

    def _loop(self, scope: Scope, outside: Round) -> None:
        """Run all rounds there are for the round of the scope around, and those that come up meanwhile."""
        entering = [n for n in self._needs.of(scope, Enter) if self._comes(n)]
        if entering:
            self._work[scope].add((*outside, 0))
        leaving = self._needs.leaving(scope)
        assert scope not in self._running, "a loop runs in one round of the loop around at a time"
        while here := [r for r in self._work[scope] if r[:-1] == outside]:
            now = min(here)
            self._work[scope].discard(now)
            self.rounds += 1
            self._running[scope] = now
            self._run(scope, now)
            for node in leaving:
                limit, delta = node.limits.return_at, self.deltas[node.inputs[0]]
                if delta is not None and (limit is None or now[-1] < limit):
                    self._left[node].append(linear.left(delta))
        self._running.pop(scope, None)

    def _comes(self, node: Enter) -> bool:
        """Return whether something comes into a loop here."""
        return self.deltas.get(node.inputs[0]) is not None

    def _announce(self, scope: Scope, now: Round) -> None:
        """Have a round run, and those of the loops around that it is in, as far out as they are not running."""
        while now and self._running.get(scope) != now:
            self._work[scope].add(now)
            assert scope.parent is not None
            scope, now = scope.parent, now[:-1]

    def _send_later(self, node: Node, at: Round, frame: Frame) -> None:
        self._later[node, at].append(frame)
        self._announce(node.scope, at)

    def _owe(self, node: Node, at: Round, due: DataFrame) -> None:
        self._owed[node, at].append(due)
        self._announce(node.scope, at)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _delta(self, node: Node, now: Round) -> Frame | None:
        """Return a node's updates of a round; None where it is known that there are none."""
        made: Frame | None = getattr(self, _RULES[type(node)])(node, now)
        return united([f for f in (made, *self._later.pop((node, now), ())) if f is not None])

    def _shared(self, node: Node, frame: Frame | None, now: Round) -> Frame | None:
        """Return what several read, or later rounds ask for, worked out, so that it is not computed for each."""
        del now
        if frame is None:
            return None
        if self._needs.kept(node) or (self._needs.readers(node) > 1 and not frame.cheap):
            return materialised(frame)
        return frame

    def _inputs(self, node: Node) -> list[Frame | None]:
        """Return what comes to a node in the current round."""
        return [self.deltas.get(source) for source in node.inputs]

    def of_input(self, node: Input, _now: Round) -> Frame | None:
        return constant(self._spark, node, self._users) if node.rows is not None else self._given[node]

    def of_enter(self, node: Enter, now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        return linear.entered(frame) if frame is not None and now[-1] == 0 else None

    def of_leave(self, node: Leave, _now: Round) -> Frame | None:
        return united(self._left.pop(node, []))

    def of_variable(self, _node: Variable, _now: Round) -> None:
        """Return nothing: what comes is sent from the round before."""

    def of_feedback(self, node: Feedback, now: Round) -> None:
        """Send a round's changes, consolidated, to the next round, unless that is beyond the limit."""
        (frame,) = self._inputs(node)
        after, limits = now[-1] + 1, node.limits
        if frame is None or (limits.return_at is not None and after >= limits.return_at):
            return
        change = materialised(consolidated(frame))
        if change is None:
            return
        if limits.error_at is not None and after >= limits.error_at:
            (row,) = rows_of(node.schema, change.data.limit(1))
            raise failures.iteration_limit(node, row)
        moved = linear.moved(change, node.scope.coordinates - 1, 1)
        self._send_later(node.variable, (*now[:-1], after), moved)

    def of_concat(self, node: Node, _now: Round) -> Frame | None:
        return united([f for f in self._inputs(node) if f is not None])

    def of_join(self, node: Join, now: Round) -> Frame | None:
        """Each side's new updates meet the other's, and those that the other had from earlier rounds."""
        came = self._inputs(node)
        left, right = (consolidated(f) if f is not None and self._carefully else f for f in came)
        first, second = (self._traces.get((node, side)) for side in (0, 1))
        pairs = [(left, right)]
        late: list[tuple[Frame | None, Frame | None]] = []
        if left is not None and second is not None:
            pairs += [(left, f) for f in self._stored(second, now)]
            late += [(left, f) for f in second.later(now)]
        if right is not None and first is not None:
            pairs += [(f, right) for f in self._stored(first, now)]
            late += [(f, right) for f in first.later(now)]
        for at, frame in self._by_round(_met(node, late)):
            self._send_later(node, at, frame)
        for side, of_side in enumerate(came):
            if self._needs.asked_again(node, side) and of_side is not None and (new := materialised(of_side)):
                self._trace(node, side).append(new, now)
        return _met(node, pairs)

    def _stored(self, trace: Trace, now: Round) -> list[Frame]:
        trace.compact()
        return trace.before(now)

    def _by_round(self, frame: Frame | None) -> list[tuple[Round, Frame]]:
        """Return updates of various rounds, each round's by themselves."""
        whole = materialised(frame) if frame is not None else None
        if whole is None:
            return []
        found = _rounds_in(whole.data, self._users, whole.coordinates)
        return [(at, whole.of(_at(whole.data, self._users, at), cheap=True)) for at in found]

    def of_threshold(self, node: Threshold, now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        if frame is None and (node, now) not in self._owed:
            return None
        if frame is not None and not self._carefully and node.function is None:
            if frame.coordinates == 1:
                return native.distinct(frame)
            if self._one_time and len(now) == 1:
                return self._distinct(node, frame, now)
        return self._keyed(node, frame, now)

    def _distinct(self, node: Threshold, frame: Frame, now: Round) -> Frame | None:
        new, trace = materialised(consolidated(frame)), self._trace(node)
        if new is None:
            return None
        trace.compact()
        change = native.distinct_in_round(new, trace.everything())
        trace.append(new, now)
        return change

    def of_reduce(self, node: Reduce, now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        if frame is None and (node, now) not in self._owed:
            return None
        if frame is not None and not now and not self._carefully and native.is_native(node, frame):
            return native.aggregated(node, frame)
        return self._keyed(node, frame, now)

    def _keyed(self, node: Node, frame: Frame | None, now: Round) -> Frame | None:
        around = KeyedRound(node, self._users, now, *self._interval(node), one_time=self._one_time)
        due = _united_data(self._owed.pop((node, now), []))
        if not now and not self.lives:
            return around.once(frame, due).change
        trace = self._trace(node)
        trace.compact()
        sums = native.summed(node, frame, around.layout) if frame is not None and not self._carefully else None
        came = around.step(frame, trace.everything(), due, sums)
        if came.kept is not None:
            trace.append(came.kept, now)
            self._keep(around, came.kept)
        if came.owed is not None:
            self._owe_later(node, came.owed)
        return came.change

    def _owe_later(self, node: Node, due: DataFrame) -> None:
        """Have a node look at keys and times, as lines of its table say, in the rounds that these are of."""
        for at in _rounds_in(due, self._users, node.scope.coordinates):
            self._owe(node, at, _at(due, self._users, at))

    def _keep(self, around: KeyedRound, lines: Frame) -> None:
        """Take note of what a keyed operator's arrangements hold more."""

    def of_linear(self, node: Node, _now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        return None if frame is None else _LINEAR[type(node)](node, frame, self._carefully)

    def of_same(self, node: Node, _now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        return frame

    def of_consolidated(self, node: Node, _now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        return None if frame is None else consolidated(frame)


def _met(node: Join, pairs: list[tuple[Frame | None, Frame | None]]) -> Frame | None:
    return united([joined(node, a, b) for a, b in pairs if a is not None and b is not None])


def _united_data(found: list[DataFrame]) -> DataFrame | None:
    """Return the lines of several tables; None of none."""
    data = None
    for one in found:
        data = one if data is None else data.union(one)
    return data


def _rounds_in(data: DataFrame, users: int, coordinates: int) -> list[Round]:
    loops = [f"t{i}" for i in range(users, coordinates)]
    return sorted(tuple(row) for row in data.select(*loops).distinct().collect())


def _at(data: DataFrame, users: int, at: Round) -> DataFrame:
    here = F.lit(True)
    for i, iteration in enumerate(at):
        here &= F.col(f"t{users + i}") == iteration
    return data.filter(here)


_Linear = Callable[[Any, Frame, bool], Frame]
_LINEAR: Final[dict[type[Node], _Linear]] = {
    nodes.Map: lambda node, frame, carefully: linear.mapped(node, frame, carefully=carefully),
    nodes.Filter: lambda node, frame, carefully: linear.filtered(node, frame, carefully=carefully),
    nodes.FlatMap: lambda node, frame, carefully: linear.worked(node, frame, carefully=carefully),
    nodes.Inspect: lambda node, frame, carefully: linear.worked(node, frame, carefully=carefully),
    nodes.Retime: lambda node, frame, carefully: linear.retimed(node, frame, carefully=carefully),
    nodes.Negate: lambda _node, frame, _carefully: linear.negated(frame),
}

_RULES: Final[dict[type[Node], str]] = {
    nodes.Input: "of_input",
    nodes.Concat: "of_concat",
    nodes.Join: "of_join",
    nodes.Reduce: "of_reduce",
    nodes.Threshold: "of_threshold",
    nodes.Consolidate: "of_consolidated",
    nodes.Output: "of_consolidated",
    nodes.Arrange: "of_same",
    nodes.Enter: "of_enter",
    nodes.Leave: "of_leave",
    nodes.Variable: "of_variable",
    nodes.Feedback: "of_feedback",
    **dict.fromkeys(_LINEAR, "of_linear"),
}
