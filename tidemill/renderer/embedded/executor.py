"""The embedded engine at work: steps, their undoing, and what is read from the outputs."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tidemill.boundary.results import Rows, Updates
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, common
from tidemill.dataflow.nodes import Input, Node, Output
from tidemill.dataflow.progress import Progress
from tidemill.errors import ExpressionError
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.interned import InternedSweeper
from tidemill.renderer.embedded.kernels.codec import Interner, decode, decode_rows
from tidemill.renderer.embedded.kernels.few_in_order import few_in_order
from tidemill.renderer.embedded.kernels.pages import Reuse
from tidemill.renderer.embedded.kernels.threads import SETTING
from tidemill.renderer.embedded.kernels.times import advance
from tidemill.renderer.embedded.kernels.updates import Bools, Times, UpdateArray, consolidated
from tidemill.renderer.embedded.operators.input_output import ContentsOperator
from tidemill.renderer.embedded.operators.upsert_input import UpsertInputOperator
from tidemill.renderer.embedded.schedule import Frontier, Operator
from tidemill.renderer.embedded.state import operators_of, save
from tidemill.renderer.embedded.tracer import Tracer
from tidemill.renderer.runs.determinism import suspects, warn_of_ghosts
from tidemill.renderer.runs.frontiers import behind
from tidemill.renderer.runs.metrics import Memory, Metrics, OperatorMetrics
from tidemill.renderer.runs.progress import OperatorProgress
from tidemill.renderer.runs.step_events import OperatorTrace
from tidemill.renderer.runs.writes import Change, Queued, Writes


class EmbeddedExecutor:
    """See `Executor`. State is held in spines of NumPy batches in this process."""

    is_replayable = True

    def __init__(
        self,
        graph: Graph,
        progress: Progress,
        *,
        threads: int = 1,
        kept: Collection[str] = (),
        keep: int = 0,
        interner: Interner | None = None,
    ) -> None:
        """Make it. What the inputs hold that are ``kept`` can be loaded into others, at times that ``keep`` keeps."""
        self.graph = graph
        self._threads = threads
        self._keep = keep
        self._stepped: Mapping[Input, Antichain] = {}
        """The inputs' frontiers after the step at hand."""
        self.compiled = Compiled(graph, progress, kept=kept, interner=interner)
        self._sweeper = InternedSweeper(self.compiled)
        self._suspects = suspects(graph)
        self._delays = progress.delays
        self._outstanding: Mapping[Operator, int] = {}
        """How many updates operators had still to take, when the thread of the step last counted them."""
        self._counted: list[tuple[Operator, int, int]] = []
        """How many records had come and gone before the step, which count as nothing where it is not taken."""
        self._began = self._constants_done = not self.compiled.eager
        if self.compiled.eager:
            least = Antichain.minimum(len(graph.coordinates))
            self.step(dict.fromkeys(graph.inputs.values(), least))
            self.commit(dict.fromkeys(graph.outputs.values(), least))

    # -- inputs -------------------------------------------------------------------------------------------------------

    def queue(self, node: Input, change: Change) -> None:
        SETTING.threads = self._threads
        operator = self.compiled.inputs[node]
        if isinstance(change, Writes):
            assert isinstance(operator, UpsertInputOperator)
            operator.write(change)
        else:
            assert isinstance(change, Queued)
            operator.queue(change)

    def keyed_input(self, node: Input) -> UpsertInputOperator:
        """Return the operator of an input with a key."""
        operator = self.compiled.inputs[node]
        assert isinstance(operator, UpsertInputOperator)
        return operator

    def discard(self) -> None:
        for node, operator in self.compiled.inputs.items():
            if node.rows is None:
                operator.discard()

    def queued(self, node: Input | None = None) -> Any:
        operators = self.compiled.inputs.values() if node is None else [self.compiled.inputs[node]]
        return {o.ports[0]: o.ports[0].pending.state for o in operators}

    def requeue(self, queued: Any) -> None:
        for port, state in queued.items():
            port.rollback(state)

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(self, frontiers: Mapping[Input, Antichain]) -> None:
        SETTING.threads = self._threads
        with Reuse():
            try:
                self.release(frontiers)
                self.compiled.root.drain()
            except ExpressionError:
                self.rollback()
                if not self.widen():
                    raise
                self.release(frontiers)
                self.compiled.root.drain()

    def release(self, frontiers: Mapping[Input, Antichain]) -> None:
        """Begin a step: let go what is queued at times that are not beyond these frontiers."""
        self._outstanding, self._stepped = {}, frontiers
        self._counted = [(o, o.records_in, o.records_out) for o in self.compiled.operators.values()]
        self._set_uppers(self.compiled.uppers(frontiers))
        for port in list(self.compiled.schedule.pending):
            port.release()

    def widen(self) -> bool:
        """Have what is pending as whole rows, for an error to show, and return whether it was not."""
        widened = [operator.ports[0].pending.widen() for operator in self.compiled.inputs.values()]
        return any(widened)

    def commit(self, since: Mapping[Output, Antichain]) -> None:
        schedule = self.compiled.schedule
        self._constants_done = self._began
        self._began = True
        ended = False
        for frontier in self.compiled.frontiers.values():
            ended |= not frontier.upper.elements and frontier.lower != frontier.upper
            frontier.lower = frontier.upper
        for output, operator in self.compiled.outputs.items():
            operator.readers_since = since[output]
        if self.compiled.holders:
            self.keep_since(self._stepped)
        schedule.transaction.commit()
        if self.compiled.forgetting.marks:
            self.compiled.forgetting.end_step()
        if ended:
            self._drop_ended()

    def keep_since(self, frontiers: Mapping[Input, Antichain]) -> None:
        """Have times stay distinguishable for operators to come that are complete where these inputs are."""
        meet = Antichain([t for frontier in frontiers.values() for t in frontier.elements])
        if meet.elements:
            self.compiled.schedule.kept_since = behind(meet, self._keep)

    def rollback(self) -> None:
        schedule = self.compiled.schedule
        for frontier in self.compiled.frontiers.values():
            frontier.upper = frontier.lower
        self.compiled.root.clear()
        schedule.transaction.rollback()
        for operator, records_in, records_out in self._counted:
            operator.records_in, operator.records_out = records_in, records_out
        self.take_traces()

    def tidy(self) -> None:
        """Let go of interned values that nothing refers to; steps merge spines little by little."""
        self._sweeper.sweep_if_due()
        for output, operator in self.compiled.outputs.items():
            if operator.begins_to_pile_up():
                msg = (
                    f"{output.where}: {operator.unread_count:,} updates of {len(operator.unread)} steps were not read "
                    f"yet, and are held for run.changes({output.name!r}): read them now and then, or declare the "
                    "output with changes=False, or with changes=n to have old times folded together beyond n"
                )
                warnings.warn(msg, RuntimeWarning, stacklevel=5)

    def _drop_ended(self) -> None:
        """Drop the state of operators that get no more updates and whose readers do not need it."""
        for operator in operators_of(self.compiled.root):
            if not operator.since().elements:
                operator.drop_state()

    def _set_uppers(self, uppers: Mapping[Frontier, Antichain]) -> None:
        schedule = self.compiled.schedule
        for frontier, upper in uppers.items():
            frontier.upper = upper
        # Where frontiers differed before, updates held back since then come in this step. What hangs on constants alone
        # is done for good once the first step after it has been.
        live = self.compiled.live if self._constants_done else list(uppers)
        schedule.frontiers_differ = len(live) > 1 and (
            common([f.upper for f in live]) is None or common([f.lower for f in live]) is None
        )
        schedule.checks_frontiers = schedule.frontiers_differ or schedule.users > 1 or self._delays

    # -- outputs ------------------------------------------------------------------------------------------------------

    def contents(self, node: Output, at: Time | None) -> Rows:
        operator = self.compiled.outputs[node]
        found = self._accumulated(operator.schema, operator.spine.all_updates(), at)
        if node in self._suspects and (found[-1] < 0).any():
            at_fault = [int(found[-1].argmin())]
            (row,) = decode_rows(operator.schema, found[:-1].take(at_fault, axis=1), self.compiled.interner)
            warn_of_ghosts(node, self._suspects[node], row, int(found[-1].min()))
        return self._rows(operator.schema, found, at)

    def rows(self, schema: Schema, block: UpdateArray, at: Time | None) -> Rows:
        """Return the sums of updates at a time, or after all times."""
        return self._rows(schema, self._accumulated(schema, block, at), at)

    def _rows(self, schema: Schema, rows: UpdateArray, at: Time | None) -> Rows:
        in_order = few_in_order(schema, rows, self.compiled.interner)
        rows = rows if in_order is None else in_order
        columns = decode(schema, rows[:-1], self.compiled.interner)
        return Rows(schema, columns, rows[-1], at, is_sorted=in_order is not None)

    def _accumulated(self, schema: Schema, block: UpdateArray, at: Time | None) -> UpdateArray:
        """Return the codes of rows and their counts at a time, or after all times."""
        k, users = len(schema), len(self.graph.coordinates)
        if at is not None:
            block = block.compress(_at_or_before(block[k : k + users], at), axis=1)
        return consolidated(np.concatenate((block[:k], block[-1:])))

    def take_unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        operator = self.compiled.outputs[node]
        found = self.updates(operator.schema, operator.unread_updates(), lower, upper)
        operator.forget_unread()
        return found

    def changed_since(self, node: Output, time: Time | None, since: Antichain, upper: Antichain) -> Updates:
        operator = self.compiled.outputs[node]
        block = operator.spine.all_updates()
        k, users = len(operator.schema), len(self.graph.coordinates)
        # However much of it was compacted so far, times are distinguished as far as was promised, and no further.
        block = advance(block, k, users, since)
        if time is None:
            return self.updates(operator.schema, consolidated(block), Antichain.minimum(users), upper)
        block = consolidated(block.compress(~_at_or_before(block[k : k + users], time), axis=1))
        return self.updates(operator.schema, block, Antichain.after(time), upper)

    def follow(self, node: Output, *, on: bool) -> None:
        self.compiled.outputs[node].followers += 1 if on else -1

    def step_updates(self, node: Output) -> Updates:
        operator = self.compiled.outputs[node]
        return self.updates(operator.schema, operator.step_updates(), operator.frontier.lower, operator.frontier.upper)

    def updates(self, schema: Schema, block: UpdateArray, lower: Antichain, upper: Antichain) -> Updates:
        """Return updates by value."""
        k = len(schema)
        in_order = few_in_order(schema, block, self.compiled.interner)
        block = block if in_order is None else in_order
        columns = decode(schema, block[:k], self.compiled.interner)
        coordinates, is_sorted = self.graph.coordinates, in_order is not None
        return Updates(schema, coordinates, columns, block[k:-1], block[-1], lower, upper, is_sorted=is_sorted)

    # -- state --------------------------------------------------------------------------------------------------------

    def save(self, path: Path, header: Mapping[str, Any]) -> None:
        save(self.compiled, path, header)

    def compact(self) -> int:
        before = self.metrics().state_rows
        self._sweeper.sweep()
        return before - self.metrics().state_rows

    def trace(self, *, on: bool, rows: int) -> None:
        tracer = Tracer(len(self.graph.coordinates), self.compiled.interner, rows)
        self.compiled.schedule.tracer = tracer if on else None

    def take_traces(self) -> Mapping[int, OperatorTrace]:
        tracer = self.compiled.schedule.tracer
        return {} if tracer is None else tracer.take()

    def progress(self) -> list[OperatorProgress]:
        running, now = self.compiled.schedule.running, perf_counter()
        since = {} if running is None else {running[0]: now - running[1]}
        pending = self._outstanding
        self.compiled.schedule.asked = self._count_outstanding  # for the next look: queues are another thread's
        return [
            OperatorProgress(
                n, o.records_in, o.seconds + since.get(o, 0.0), o.region.now if o in since else None, pending.get(o)
            )
            for n, o in self.compiled.operators.items()
        ]

    def _count_outstanding(self) -> None:
        self.compiled.schedule.asked = None
        self._outstanding = {o: sum(p.outstanding_size for p in o.ports) for o in self.compiled.operators.values()}

    def memory(self) -> Memory:
        interner = self.compiled.interner
        outputs = {o.name: operator.unread_count for o, operator in self.compiled.outputs.items()}
        spines = [s for operator in operators_of(self.compiled.root) for s in operator.spines().values()]
        files = {name: size for s in spines for name, size in s.on_disk.items()}  # arrangements may share them
        return Memory(
            interned=interner.live,
            interned_bytes=interner.bytes,
            unread={name: count for name, count in outputs.items() if count},
            unread_bytes=sum(u.array.nbytes for operator in self.compiled.outputs.values() for u in operator.unread),
            held_bytes=sum(s.bytes for s in spines),
            spilled_bytes=sum(files.values()),
        )

    def metrics(self) -> Metrics:
        return Metrics([self._measure(node) for node in self.graph.nodes])

    def _measure(self, node: Node) -> OperatorMetrics:
        o = self.compiled.operators[node]
        waiting = sum(p.waiting for p in o.ports)
        check = self.compiled.checks.get(node)  # a unique input holds its rows, to check them
        holding = [o] if check is None else [o, check]
        holder = self.compiled.holders.get(node)
        holding += [holder] if isinstance(holder, ContentsOperator) else []
        return OperatorMetrics(
            node.id,
            node.kind,
            node.name,
            o.records_in,
            o.records_out,
            sum(h.state_rows for h in holding),
            sum(h.batches for h in holding),
            o.seconds,
            waiting,
            str(node.site),
            sum(h.bytes for h in holding),
            o.late,
        )

    def close(self) -> None:
        # Operators know each other in circles, which only the garbage collector takes apart: let go of what is large.
        for operator in operators_of(self.compiled.root):
            operator.drop_state()
            operator.clear()
            for port in operator.ports:
                port.refill(None)
        self.compiled.interner.forget()


def _at_or_before(times: Times, time: Time) -> Bools:
    seen: Bools = np.less_equal(times, np.array(time)[:, None]).all(axis=0)
    return seen
