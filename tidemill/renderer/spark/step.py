"""A step: the graph walked once in topological order, loops round by round, with a frame of updates for each node.

Frames are lazy until something has to be known: whether a round has work, what is stored for later rounds, what several
nodes read. A whole history is one step, over [minimum, {}) and from empty state.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.composites import AntiJoin, OrderedDynamicFilter, OuterJoin, PartneredJoin, SemiJoin
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Enter,
    Feedback,
    Input,
    Join,
    LateRows,
    Leave,
    Node,
    Output,
    Reduce,
    Retime,
    SortBuffer,
    Threshold,
    Variable,
    Watermark,
)
from tidemill.dataflow.scopes import Scope
from tidemill.errors import EngineError
from tidemill.expressions.windows.bound import Windows
from tidemill.expressions.windows.in_order import RENDERED
from tidemill.renderer.runs import failures
from tidemill.renderer.runs.registry import Registry
from tidemill.renderer.spark import linear, native
from tidemill.renderer.spark.dataframes import constant, rows_of
from tidemill.renderer.spark.driver_loops import entering, left_in_driver
from tidemill.renderer.spark.dynamic_filter import moves_of
from tidemill.renderer.spark.frames import Frame, consolidated, materialised, united
from tidemill.renderer.spark.join import joined, partnered
from tidemill.renderer.spark.keyed import KeyedRound, first_pending_line
from tidemill.renderer.spark.state import Round, Trace
from tidemill.renderer.spark.strategy import Strategy
from tidemill.renderer.spark.usage import Usage
from tidemill.renderer.spark.watermarks import Steps, extremes, sorted_out, steps_of

_RULES: Final = Registry[str]("Spark engine")
"""For each class of nodes, the name of the method that gives its updates of a round."""

M = TypeVar("M", bound=Callable[..., Frame | None])


def _rule(*kinds: type[Node]) -> Callable[[M], M]:
    def add(method: M) -> M:
        _RULES(*kinds)(method.__name__)
        return method

    return add


class Step:
    """One step of a graph on Spark. The strategy decides what Catalyst computes and what the kernels do."""

    keeps_state = False
    """Whether state is kept for steps after this one."""
    as_they_come = False
    """Whether outputs of rows that are there once each, equal ones too, are not consolidated."""
    loops_in_driver = 0
    """Up to how many updates that enter it the driver takes a loop."""

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        given: Mapping[Input, Frame | None],
        strategy: Strategy,
    ) -> None:
        """Prepare for a step on the updates ``given`` of inputs."""
        self.deltas: dict[Node, Frame | None] = {}
        self.rounds = 0
        """How many rounds of loops have run."""
        self._spark = spark
        self._graph = graph
        self._input_frames = dict(given)
        self._strategy = strategy
        self._users = len(graph.coordinates)
        self._usage = Usage(graph, whole=self.keeps_state)
        self._one_time = self._is_at_one_time()
        self._traces: dict[tuple[Node, int], Trace] = {}
        self._rounds_to_run: dict[Scope, set[Round]] = defaultdict(set)
        self._sent: dict[tuple[Node, Round], list[Frame]] = defaultdict(list)
        self._pending: dict[tuple[Node, Round], list[Callable[[], DataFrame]]] = defaultdict(list)
        self._leaving: dict[Node, list[Frame]] = defaultdict(list)
        self._running: dict[Scope, Round] = {}
        self._steps_of: dict[Node, Steps] = {}
        """How watermarks move."""

    def run(self) -> None:
        """Go through the whole graph."""
        self._begin()
        self._run(self._graph.root, ())

    def _begin(self) -> None:
        """Add the times at which operators have to act whatever comes in."""
        for node in self._graph.nodes:
            if isinstance(node, Reduce) and node.scalar and self._usage.is_used(node):  # its row is always there
                least = (0,) * (node.scope.coordinates - self._users)
                self._add_pending(node, least, functools.partial(first_pending_line, self._spark, node))

    def _trace(self, node: Node, side: int = 0) -> Trace:
        """Return a node's trace: of a join, that of one of its sides."""
        if (node, side) not in self._traces:
            self._traces[node, side] = Trace(self._users)
        return self._traces[node, side]

    def _interval(self, _node: Node) -> tuple[Antichain, Antichain]:
        """Return the frontiers between which the step takes a node's updates."""
        return Antichain.minimum(self._users), Antichain()

    def _is_at_one_time(self) -> bool:
        """Return whether all updates of all nodes, stored ones included, are known to be at one user time."""
        if self.keeps_state:
            return False
        found = {f.time for f in self._input_frames.values() if f is not None}
        for node in self._graph.nodes:
            if isinstance(node, (Retime, SortBuffer)):
                return False
            if (isinstance(node, Input) and node.rows) or (isinstance(node, Reduce) and node.scalar):
                found.add((0,) * self._users)
        return None not in found and len(found) <= 1

    # -- scopes and rounds ----------------------------------------------------------------------------------------

    def _run(self, scope: Scope, now: Round) -> None:
        for item in self._graph.plan(scope):
            if isinstance(item, Scope):
                if scope.parent is not None or not self._is_taken_in_driver(item):
                    self._loop(item, now)
            elif self._usage.is_used(item):
                self.deltas[item] = self._shared(item, self._delta(item, now), now)

    def _loop(self, scope: Scope, outside: Round) -> None:
        """Run all rounds within a round of the scope around, including those that these schedule."""
        if any(self.deltas.get(n.inputs[0]) is not None for n in self._usage.nodes_of(scope, Enter)):
            self._rounds_to_run[scope].add((*outside, 0))
        leaving = self._usage.leaving(scope)
        assert scope not in self._running, "a loop runs in one round of the loop around at a time"
        while here := [r for r in self._rounds_to_run[scope] if r[:-1] == outside]:
            now = min(here)
            self._rounds_to_run[scope].discard(now)
            self.rounds += 1
            self._running[scope] = now
            self._run(scope, now)
            for node in leaving:
                limit, delta = node.limits.return_at, self.deltas[node.inputs[0]]
                if delta is not None and (limit is None or now[-1] < limit):
                    self._leaving[node].append(linear.left_scope(delta))
        self._running.pop(scope, None)

    def _is_taken_in_driver(self, scope: Scope) -> bool:
        """Take a loop in the driver, where what comes into it is known to be little; return whether so."""
        came: dict[Node, Frame] = {}
        for source, sources in entering(scope, self._usage).items() if self.loops_in_driver else ():
            if (frame := self._counted(sources)) is not None:
                came[source] = frame
                if sum(f.rows or 0 for f in came.values()) > self.loops_in_driver:
                    return False
        if not came:
            return False
        left = left_in_driver(self._spark, self._graph, scope, self._usage, came, in_driver=self.loops_in_driver)
        if left is None:
            return False
        self._leaving.update({node: [frame] for node, frame in left.items()})
        self._rounds_to_run.pop(scope, None)
        return True

    def _counted(self, sources: list[Node]) -> Frame | None:
        """Return the updates of a collection, which several nodes have, counted; None where there are none."""
        found = next((f for n in sources if (f := self.deltas[n]) is not None and f.rows is not None), None)
        if found is not None:
            return found
        before = self.deltas[sources[0]]
        counted = before and materialised(before)
        self.deltas.update({n: counted for n in sources if self.deltas[n] is before})
        return counted

    def _schedule_round(self, scope: Scope, now: Round) -> None:
        """Schedule a round, and the rounds around it in outer loops as far as they are not running."""
        while now and self._running.get(scope) != now:
            self._rounds_to_run[scope].add(now)
            assert scope.parent is not None
            scope, now = scope.parent, now[:-1]

    def _send_later(self, node: Node, at: Round, frame: Frame) -> None:
        self._sent[node, at].append(frame)
        self._schedule_round(node.scope, at)

    def _add_pending(self, node: Node, at: Round, due: Callable[[], DataFrame]) -> None:
        self._pending[node, at].append(due)
        self._schedule_round(node.scope, at)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _delta(self, node: Node, now: Round) -> Frame | None:
        """Return a node's updates in a round; None where there are known to be none."""
        made: Frame | None = getattr(self, _RULES.of(node))(node, now)
        return united([f for f in (made, *self._sent.pop((node, now), ())) if f is not None])

    def _shared(self, node: Node, frame: Frame | None, now: Round) -> Frame | None:
        """Return the updates, materialised where several nodes or later rounds read them."""
        del now
        if frame is None:
            return None
        if self._usage.is_reread(node) or (self._usage.readers(node) > 1 and not frame.cheap):
            return materialised(frame)
        return frame

    def _inputs(self, node: Node) -> list[Frame | None]:
        """Return the updates that reach a node in the current round."""
        return [self.deltas.get(source) for source in node.inputs]

    @_rule(Input)
    def of_input(self, node: Input, _now: Round) -> Frame | None:
        return constant(self._spark, node, self._users) if node.rows is not None else self._input_frames.get(node)

    @_rule(Enter)
    def of_enter(self, node: Enter, now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        return linear.entered(frame) if frame is not None and now[-1] == 0 else None

    @_rule(Leave)
    def of_leave(self, node: Leave, _now: Round) -> Frame | None:
        return united(self._leaving.pop(node, []))

    @_rule(Variable)
    def of_variable(self, _node: Variable, _now: Round) -> None:
        """Return nothing: a variable's updates are sent to it by the round before."""

    @_rule(Feedback)
    def of_feedback(self, node: Feedback, now: Round) -> None:
        """Send a round's changes, consolidated, to the next round, unless the limit forbids it."""
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

    @_rule(Watermark)
    def of_watermark(self, node: Watermark, _now: Round) -> None:
        """Return nothing: how a watermark moves is known in the driver."""
        pairs = zip(self._inputs(node), node.marks, strict=True)
        self._steps_of[node] = steps_of(node, [extremes(frame, mark) for frame, mark in pairs])

    @_rule(SortBuffer, LateRows)
    def of_sorted(self, node: SortBuffer | LateRows, _now: Round) -> Frame | None:
        frame, _ = self._inputs(node)
        return None if frame is None else sorted_out(node, frame, self._steps_of[node.inputs[1]])

    @_rule(Concat)
    def of_concat(self, node: Node, _now: Round) -> Frame | None:
        return united([f for f in self._inputs(node) if f is not None])

    @_rule(Join)
    def of_join(self, node: Join, now: Round) -> Frame | None:
        """Return each side's new updates joined with the other's, and with those of earlier rounds."""
        inputs = self._inputs(node)
        left, right = (f if f is None else self._strategy.prepared(f) for f in inputs)
        first, second = (self._traces.get((node, side)) for side in (0, 1))
        pairs = [(left, right)]
        later: list[tuple[Frame | None, Frame | None]] = []
        if left is not None and second is not None:
            pairs += [(left, f) for f in self._stored(second, now)]
            later += [(left, f) for f in second.later(now)]
        if right is not None and first is not None:
            pairs += [(f, right) for f in self._stored(first, now)]
            later += [(f, right) for f in first.later(now)]
        for at, frame in self._by_round(_joined_pairs(node, later)):
            self._send_later(node, at, frame)
        for side, new in enumerate(inputs):
            if self._usage.reads_again(node, side) and new is not None and (batch := materialised(new)):
                self._trace(node, side).append(batch, now)
        return _joined_pairs(node, pairs)

    @_rule(OuterJoin, SemiJoin, AntiJoin)
    def of_partnered_join(self, node: PartneredJoin, _now: Round) -> Frame | None:
        condition = "true" if node.condition is None else self._strategy.sql(node.condition)
        left, right = self._inputs(node)
        return partnered(node, left, right, condition)

    def _stored(self, trace: Trace, now: Round) -> list[Frame]:
        trace.compact()
        return trace.before(now)

    def _by_round(self, frame: Frame | None) -> list[tuple[Round, Frame]]:
        """Return the updates of several rounds by round."""
        whole = materialised(frame) if frame is not None else None
        if whole is None:
            return []
        found = _rounds_in(whole.data, self._users, whole.coordinates)
        return [(at, whole.of(_at(whole.data, self._users, at), cheap=True)) for at in found]

    @_rule(OrderedDynamicFilter)
    def of_dynamic_filter(self, node: OrderedDynamicFilter, _now: Round) -> Frame | None:
        """Return the left updates that pass as the right value moves, which the driver has to know."""
        left, right = self._inputs(node)
        moves = moves_of(node, right)
        return None if left is None else moves.filtered(left)

    @_rule(Threshold)
    def of_threshold(self, node: Threshold, now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        if frame is None and (node, now) not in self._pending:
            return None
        if frame is not None and not self.keeps_state and self._strategy.is_native(node, frame):
            if frame.coordinates == 1:
                return native.distinct(frame)
            if self._one_time and len(now) == 1:
                return self._distinct(node, frame, now)
        return self._keyed(node, frame, now)

    def _distinct(self, node: Threshold, frame: Frame, now: Round) -> Frame | None:
        trace = self._trace(node)
        trace.compact()
        change, kept = native.distinct_in_round(frame, trace.everything())
        if kept is not None:
            trace.append(kept, now)
        return change

    @_rule(Reduce)
    def of_reduce(self, node: Reduce, now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        if frame is None and (node, now) not in self._pending:
            return None
        if isinstance(node.logic, Windows) and node.logic.only_in_order:
            raise EngineError(RENDERED)
        if frame is not None and not (now or self.keeps_state):
            if self._strategy.is_native(node, frame):
                return native.aggregated(node, frame)
            if (found := self._strategy.windows(node, frame)) is not None:
                return found
        return self._keyed(node, frame, now)

    def _keyed(self, node: Node, frame: Frame | None, now: Round) -> Frame | None:
        keyed = KeyedRound(node, self._users, now, *self._interval(node), one_time=self._one_time)
        due = _united_data(self._pending.pop((node, now), []))
        if not now and not self.keeps_state:
            return keyed.once(frame, due).change
        trace = self._trace(node)
        trace.compact()
        sums = None if frame is None else self._strategy.summed(node, frame, keyed.layout)
        result = keyed.step(frame, trace.everything(), due, sums)
        if result.kept is not None:
            trace.append(result.kept, now)
            self._store_lines(keyed, result.kept)
        if result.pending is not None:
            self._schedule_pending(node, result.pending)
        return result.change

    def _schedule_pending(self, node: Node, due: DataFrame) -> None:
        """Add pending times of a node's keys, given as lines of its table, to the rounds that they are in."""
        for at in _rounds_in(due, self._users, node.scope.coordinates):
            self._add_pending(node, at, functools.partial(_at, due, self._users, at))

    def _store_lines(self, keyed: KeyedRound, lines: Frame) -> None:
        """Store what a round adds to a keyed operator's arrangements, where state is kept."""

    @_rule(*linear.RULES)
    def of_linear(self, node: Node, _now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        return None if frame is None else linear.RULES.of(node)(node, frame, self._strategy)

    @_rule(Arrange)
    def of_arrange(self, node: Node, _now: Round) -> Frame | None:
        """Return the updates as they come, which joins can do with; consolidated for who else reads a union's."""
        (frame,) = self._inputs(node)
        if frame is None or not isinstance(node.inputs[0], Concat) or self._usage.is_only_joined(node):
            return frame
        return consolidated(frame)

    @_rule(Output)
    def of_output(self, node: Node, _now: Round) -> Frame | None:
        (frame,) = self._inputs(node)
        return frame if frame is None or (self.as_they_come and frame.inserted) else consolidated(frame)

    @_rule(Consolidate)
    def of_consolidate(self, node: Node, _now: Round) -> Frame | None:
        """Return the updates consolidated, and computed: often nothing is left of a union, which is good to know.

        Besides, Spark's optimizer fails with "key not found" on an aggregation of a union as a part of another one.
        """
        (frame,) = self._inputs(node)
        return frame if frame is None or frame.inserted else materialised(consolidated(frame))


JOINS: Final = frozenset((OuterJoin, SemiJoin, AntiJoin))
"""The composites that are Spark's own joins where all is rows at one time, and else have to be lowered."""
COMPOSITES: Final = _RULES.composites - JOINS
"""The composites that DataFrames are made of without lowering them, whatever the updates."""


def _joined_pairs(node: Join, pairs: list[tuple[Frame | None, Frame | None]]) -> Frame | None:
    return united([joined(node, a, b) for a, b in pairs if a is not None and b is not None])


def _united_data(found: list[Callable[[], DataFrame]]) -> DataFrame | None:
    """Return the lines of several tables as one; None where there are no tables."""
    return functools.reduce(DataFrame.union, [table() for table in found]) if found else None


def _rounds_in(data: DataFrame, users: int, coordinates: int) -> list[Round]:
    loops = [f"t{i}" for i in range(users, coordinates)]
    return sorted(tuple(row) for row in data.select(*loops).distinct().collect())


def _at(data: DataFrame, users: int, at: Round) -> DataFrame:
    here = F.lit(True)
    for i, iteration in enumerate(at):
        here &= F.col(f"t{users + i}") == iteration
    return data.filter(here)
