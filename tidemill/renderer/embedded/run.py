"""A run on the embedded engine: steps, their undoing, and what is read from the outputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tidemill.boundary.results import Rows, Updates
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input, Node, Output
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.codec import decode
from tidemill.renderer.embedded.kernels.times import advance
from tidemill.renderer.embedded.kernels.updates import Bools, Times, UpdateArray, consolidated
from tidemill.renderer.embedded.operators.input_output import OutputOperator
from tidemill.renderer.embedded.operators.upsert_input import UpsertInputOperator
from tidemill.renderer.embedded.schedule import Frontier
from tidemill.renderer.embedded.state import operators_of, save
from tidemill.renderer.runs.metrics import Metrics, OperatorMetrics
from tidemill.renderer.runs.run import Queued, Run
from tidemill.renderer.runs.writes import Writes

__all__ = ["EmbeddedRun"]


class EmbeddedRun(Run):
    """See `Run`. State is held in spines of NumPy batches in this process."""

    def __init__(self, graph: Graph, keep: int, passes: Sequence[str] = ()) -> None:
        super().__init__(graph, keep)
        self.passes = tuple(passes)
        """The names of the passes that the graph went through."""
        self.compiled = Compiled(graph, self.progress)
        self._began = not self.compiled.eager
        self._constants_done = not self.compiled.eager
        self.begin()

    @property
    def input_frontiers(self) -> Mapping[Input, Antichain]:
        return self._frontiers

    def go_on_from(self, frontiers: Mapping[Input, Antichain]) -> None:
        """Be where the inputs have these frontiers."""
        self._frontiers = frontiers
        self._needed = self._needed_of(frontiers)
        for frontier, upper in self.compiled.uppers(dict(self._needed)).items():
            frontier.upper = frontier.lower = upper

    @property
    def since(self) -> dict[Output, Antichain]:
        return self._since

    def since_at(self, frontiers: Mapping[Input, Antichain]) -> dict[Output, Antichain]:
        """Return the same for when the inputs have these frontiers."""
        return {output: self._kept(output, frontiers) for output in self._since}

    @property
    def read(self) -> dict[Output, Antichain]:
        return self._read

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a file, to go on from with ``tm.load(path, flow)``.

        Atomic: a crash while saving leaves what the file held before. No pickle: whole numbers, interned values, and a
        manifest with the version of the format, checksums, and what the dataflow is. Cost: the size of the state.
        """
        self._check_open()
        save(self, Path(path))

    def compact(self) -> int:
        """Merge every arrangement into one batch, forgetting times that nobody can ask about any more.

        Strings and other interned values that nothing refers to any more are released. Returns how many updates were
        given up. For idle moments: steps merge the same little by little. Cost: the size of the state.
        """
        self._check_open()
        before = self.metrics().state_rows
        used = np.zeros(len(self.compiled.interner), np.bool_)
        for block in self._arrays():
            # Any whole number may be the number of an interned value: at worst too much is kept.
            used[block[(block >= 0) & (block < len(used))]] = True
        self.compiled.interner.release(used)
        return before - self.metrics().state_rows

    def _arrays(self) -> Iterator[UpdateArray]:
        """Merge all arrangements, and give all blocks that are held."""
        for operator in operators_of(self.compiled.root):
            for store in operator.spines().values():
                store.exert()
                yield store.updates_in_memory()
                if store.spilled is not None:
                    yield store.spilled.updates_in_memory()
            for port in operator.ports:
                yield from port.pending.arrays()
                if port.index is not None:
                    port.index.exert()
            if isinstance(operator, OutputOperator):
                yield from operator.unread

    def _queue(self, node: Input, queued: Queued) -> None:
        self.compiled.inputs[node].queue(queued)

    def _write(self, node: Input, writes: Writes) -> None:
        self._keyed(node).write(writes)

    def _keyed(self, node: Input) -> UpsertInputOperator:
        operator = self.compiled.inputs[node]
        assert isinstance(operator, UpsertInputOperator)
        return operator

    def _step(self, frontiers: Mapping[Input, Antichain]) -> None:
        schedule = self.compiled.schedule
        self._set_uppers(self.compiled.uppers(dict(frontiers)))
        try:
            for port in list(schedule.pending):
                port.release()
            self._work()
            self._write_down()
            self._interrupts.hold()
        except BaseException:
            with self._interrupts:
                self._interrupts.hold()
                self._undo()
            raise
        self._constants_done = self._began
        self._began = True
        ended = False
        for frontier in self.compiled.frontiers.values():
            ended |= frontier.lower != frontier.upper and not frontier.upper.elements
            frontier.lower = frontier.upper
        for output, operator in self.compiled.outputs.items():
            operator.readers_since = self._kept(output, frontiers)
        schedule.transaction.commit()
        if ended:
            self._drop_ended()

    def _work(self) -> None:
        """Work in what has come to the operators."""
        self.compiled.root.drain()

    def _write_down(self) -> None:
        """Do what has to be done for a step to count as taken, its work being done. On an error the step is undone."""

    def _drop_ended(self) -> None:
        """Give up the state of operators to which nothing can come any more, and which none that reads them needs."""
        for operator in operators_of(self.compiled.root):
            if not operator.since().elements:
                operator.drop_state()

    def _set_uppers(self, uppers: Mapping[Frontier, Antichain]) -> None:
        schedule = self.compiled.schedule
        for frontier, upper in uppers.items():
            frontier.upper = upper
        # Where frontiers differed before, updates held back since then come in this step. What hangs on constants alone
        # is done for good once the first step after it has been.
        live = self.compiled.live(uppers) if self._constants_done else list(uppers)
        schedule.frontiers_differ = len({uppers[f] for f in live}) > 1 or len({f.lower for f in live}) > 1
        schedule.checks_frontiers = schedule.frontiers_differ or schedule.users > 1 or self._retimes

    def _undo(self) -> None:
        """Put everything back to where it was before the step."""
        schedule = self.compiled.schedule
        for frontier in self.compiled.frontiers.values():
            frontier.upper = frontier.lower
        self.compiled.root.clear()
        schedule.transaction.rollback()

    def _contents(self, node: Output, at: Time | None) -> Rows:
        operator = self.compiled.outputs[node]
        return self._rows(operator.schema, operator.spine.all_updates(), at)

    def _rows(self, schema: Schema, block: UpdateArray, at: Time | None) -> Rows:
        """Return what updates come to at a time, or after all times."""
        k, users = len(schema), len(self.graph.coordinates)
        if at is not None:
            block = block.compress(_at_or_before(block[k : k + users], at), axis=1)
        rows = consolidated(np.concatenate((block[:k], block[-1:])))
        return Rows(schema, decode(schema, rows[:k], self.compiled.interner), rows[-1], at)

    def _unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        operator = self.compiled.outputs[node]
        found = self._updates(operator.schema, operator.unread_updates(), lower, upper)
        operator.unread = []
        return found

    def _changed_since(self, node: Output, time: Time, upper: Antichain) -> Updates:
        operator = self.compiled.outputs[node]
        block = operator.spine.all_updates()
        k, users = len(operator.schema), len(self.graph.coordinates)
        # However much of it was compacted so far, times are told apart as far as was promised, and no further.
        block = advance(block, k, users, self._since[node])
        block = consolidated(block.compress(~_at_or_before(block[k : k + users], time), axis=1))
        return self._updates(operator.schema, block, Antichain.after(time), upper)

    def _updates(self, schema: Schema, block: UpdateArray, lower: Antichain, upper: Antichain) -> Updates:
        k = len(schema)
        table = decode(schema, block[:k], self.compiled.interner)
        return Updates(schema, self.graph.coordinates, table, block[k:-1], block[-1], lower, upper)

    def _discard(self) -> None:
        for node, operator in self.compiled.inputs.items():
            if node.rows is None:
                operator.discard()

    def _measured(self) -> Metrics:
        return Metrics([self._measure(node) for node in self.graph.nodes])

    def _measure(self, node: Node) -> OperatorMetrics:
        o = self.compiled.operators[node]
        waiting = sum(p.pending.size for p in o.ports)
        check = self.compiled.checks.get(node)  # a unique input holds its rows, to check them
        holding = [o] if check is None else [o, check]
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
        )

    def _release(self) -> None:
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
