"""The schedule of a step: the order in which operators run, the ports that queue their updates, the rounds of loops.

A step goes through the operators once, in topological order, running those with work. A loop is one place in that
order: it repeats rounds, each handling exactly the updates at one iteration across all user times of the step, until
nothing is queued. Updates at a later iteration stay in their port until that round; those beyond the operator's
frontier are pending there until the step whose interval contains them.
"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.errors import CountOverflowError
from tidemill.renderer.embedded.kernels.memory import stack
from tidemill.renderer.embedded.kernels.times import beyond
from tidemill.renderer.embedded.kernels.updates import Ints, Rows, UpdateArray, consolidated, grouped, stacked
from tidemill.renderer.embedded.trace.pending import Alike, PendingState, PendingUpdates
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.embedded.tracer import Tracer
from tidemill.renderer.runs import failures

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.dataflow.nodes import Node
    from tidemill.renderer.embedded.trace.spine import Spine

Round: TypeAlias = tuple[int, ...]
"""The iteration of each loop around an operator, outermost first."""


class Schedule:
    """The shared state of a run's operators: the shape of times, the current step's transaction, pending updates."""

    def __init__(self, users: int, frontier_of: Callable[[Node], Frontier]) -> None:
        self.users = users
        self.frontier_of = frontier_of
        self.checks_frontiers = False
        """Whether updates beyond an operator's frontier may reach it, so that all have to be compared with it."""
        self.frontiers_differ = False
        """Whether operators differ in their frontiers, before or after the current step."""
        self.transaction = Transaction()
        """The changes of the current step."""
        self.pending: dict[Port, None] = {}
        """The ports with pending updates."""
        self.running: tuple[Operator, float] | None = None
        """The operator that had its turn last, and when that began."""
        self.tracer: Tracer | None = None
        """Takes down what operators do, while events are logged."""
        self.asked: Callable[[], None] | None = None
        """A request of somebody who watches: done before the next operator's turn, by the thread of the step."""
        self.kept_since: Antichain | None = None
        """Times beyond it stay distinguishable for operators to come, which are loaded; None where none are to come."""
        self.most_pairs: int | None = None
        """How many pairs a join may make at once, if there is a limit: more are an error, and are not made."""

    def kept(self, since: Antichain) -> Antichain:
        """Return up to where times may be compacted where operators need no more, but others to come may."""
        return since if self.kept_since is None else since.meet(self.kept_since)


class Frontier:
    """The user frontiers of operators that the same inputs reach in the same way: a step goes from lower to upper."""

    def __init__(self, least: Antichain) -> None:
        self.upper = least
        """The times of the current step are not beyond it."""
        self.lower = least
        """Where the last step ended: readers of state ask about times beyond it."""


class Region:
    """A scope at run time: its operators and inner loops, in topological order, and which of them have work."""

    def __init__(self, schedule: Schedule, parent: Region | None, place: float) -> None:
        self.schedule = schedule
        self.parent = parent
        self.place = place
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.items: dict[float, Operator | Region] = {}
        self.inner: list[Region] = []
        self.now: Round | None = () if parent is None else None
        """The current round; None while it is not running."""
        self.queued = False
        self._heap: list[float] = []
        self._rounds: dict[Round, list[int]] = {}
        """For each round around, the rounds to come within it, as a heap, some more than once."""
        self._due: dict[Round, list[Port]] = {}
        if parent is not None:
            parent.inner.append(self)

    def wake(self, item: Operator | Region) -> None:
        """Have an item run in the current round."""
        if not item.queued:
            item.queued = True
            heapq.heappush(self._heap, item.place)

    def await_round(self, loops: Round, port: Port) -> None:
        """Have a port begin a round, with the updates that are queued there for it, when that round comes."""
        self._due.setdefault(loops, []).append(port)
        self._announce(loops)

    def _announce(self, loops: Round) -> None:
        """Schedule a round here, and the rounds around it, as far out as they are not running."""
        if self.parent is None:
            return
        outside = loops[:-1]
        heapq.heappush(self._rounds.setdefault(outside, []), loops[-1])
        if self.now is not None and self.now[:-1] == outside:
            return  # running: the round will be seen
        if self.parent.now == outside:
            self.parent.wake(self)
        else:
            self.parent._announce(outside)  # noqa: SLF001 - the same class

    def run(self) -> None:
        """Run all rounds there are for the round of the region around, and those that come up meanwhile."""
        assert self.parent is not None
        assert self.parent.now is not None
        outside = self.parent.now
        rounds = self._rounds.get(outside)
        while rounds:
            i = heapq.heappop(rounds)
            while rounds and rounds[0] == i:
                heapq.heappop(rounds)
            self.now = (*outside, i)
            for port in self._due.pop(self.now, ()):
                port.begin_round(self.now)
            for region in self.inner:
                if region._rounds.get(self.now):  # noqa: SLF001 - the same class
                    self.wake(region)
            self.drain()
        self._rounds.pop(outside, None)
        self.now = None

    def drain(self) -> None:
        """Run whoever has work, in topological order."""
        heap, items, clock, schedule = self._heap, self.items, time.perf_counter, self.schedule
        tracer = schedule.tracer
        while heap:
            item = items[heapq.heappop(heap)]
            item.queued = False
            if isinstance(item, Operator):
                if tracer is not None:
                    tracer.ran(item.node, self.now)
                if schedule.asked is not None:
                    schedule.asked()
                start = clock()
                schedule.running = item, start
                try:
                    item.run()
                except CountOverflowError:
                    raise failures.count_overflow(item.node) from None
                except MemoryError as error:
                    raise failures.out_of_memory(item.node, error) from error
                item.seconds += clock() - start
                schedule.running = None
            else:
                item.run()

    def clear(self) -> None:
        """Forget all work, after a step that failed."""
        self.schedule.running = None
        self._heap.clear()
        self._rounds.clear()
        self._due.clear()
        self.now = () if self.parent is None else None
        self.queued = False
        for item in self.items.values():
            item.clear()


class Port:
    """The updates queued for an operator: for its turn, for a later round, or pending for a later step."""

    __slots__ = ("_later", "_now", "_released", "_rows", "codes", "consolidated", "index", "operator", "pending")

    def __init__(self, operator: Operator, codes: int, weights: int = 1) -> None:
        self.operator = operator
        self.codes = codes
        """How many rows of codes updates have; those of the time follow."""
        self.consolidated = False
        """Whether each array that is put here is consolidated; several together need not be."""
        self._now: list[UpdateArray] = []
        self._rows: list[Ints] | None = None
        """Updates for the operator's turn, too: the rows of a matrix, which need not be contiguous."""
        self._later: dict[Round, list[UpdateArray]] = {}
        self.pending = PendingUpdates(codes, operator.schedule.users, weights)
        """Updates for later steps."""
        self.index: Spine | None = None
        """The updates that wait, by key, if the operator looks them up: until it takes them, even in a later round."""
        self._released: dict[Round, list[UpdateArray]] = {}
        """Updates for later rounds that are still in the index, by round."""

    def put(self, updates: UpdateArray, at: Round | None) -> None:
        """Take updates that are all at one iteration of each loop, or (None) at any."""
        if not updates.shape[1]:
            return
        schedule, region = self.operator.schedule, self.operator.region
        if schedule.checks_frontiers:
            beyond_upper = beyond(updates[self.codes : self.codes + schedule.users], self.operator.frontier.upper)
            if beyond_upper.any():
                self.postpone(updates.compress(beyond_upper, axis=1))
                updates = updates.compress(~beyond_upper, axis=1)
                if not updates.shape[1]:
                    return
        if at is None:
            self._sort_out(updates)
        elif at == region.now:
            self._now.append(updates)
            region.wake(self.operator)
        else:
            self._put_later(updates, at)

    def put_rows(self, rows: list[Ints], at: Round | None) -> None:
        """Take what `put` takes, as the rows of a matrix; not copied if the operator can work with rows."""
        region = self.operator.region
        if at != region.now or self._rows is not None or self.operator.schedule.checks_frontiers:
            self.put(stack(rows), at)
            return
        self._rows = rows
        region.wake(self.operator)

    def _sort_out(self, updates: UpdateArray, *, released: bool = False) -> None:
        """Put updates of various iterations where they belong; those ``released`` are still in the index."""
        region = self.operator.region
        first = self.codes + self.operator.schedule.users
        order, starts = grouped(updates[first : first + region.depth])
        if len(starts) > 1:
            updates = updates.take(order, axis=1)
        rounds = updates[first : first + region.depth].take(starts, axis=1).T.tolist()
        ends = [*starts[1:].tolist(), len(order)]
        for at, start, end in zip(map(tuple, rounds), starts.tolist(), ends, strict=True):
            part = updates[:, start:end]
            if at == region.now:
                if released:
                    self._leave_index(part)
                self._now.append(part)
                region.wake(self.operator)
                continue
            if released:
                self._released.setdefault(at, []).append(part)
            self._put_later(part, at)

    def _put_later(self, updates: UpdateArray, at: Round) -> None:
        if at not in self._later:
            self._later[at] = []
            self.operator.region.await_round(at, self)
        self._later[at].append(updates)

    def begin_round(self, at: Round) -> None:
        """Move what waited for this round to where its operator takes it."""
        self._now += self._later.pop(at)
        for updates in self._released.pop(at, ()):
            self._leave_index(updates)
        self.operator.region.wake(self.operator)

    @property
    def size(self) -> int:
        """How many updates are there for the operator's turn."""
        size: int = sum([updates.shape[1] for updates in self._now])
        return size if self._rows is None else size + len(self._rows[0])

    @property
    def outstanding_size(self) -> int:
        """How many updates are here in all: for the operator's turn, for later rounds, for later steps."""
        arrays = [*self._now, *(updates for arrays in self._later.values() for updates in arrays)]
        rows = 0 if self._rows is None else len(self._rows[0])
        size: int = sum(updates.shape[1] for updates in arrays) + rows + self.pending.size
        return size

    @property
    def rounds(self) -> dict[Round, list[UpdateArray]]:
        """The updates of this step, by their rounds."""
        now = self.operator.region.now
        if self._rows is not None:
            self._stack_rows()
        return {**({now: self._now} if self._now and now is not None else {}), **self._later}

    @property
    def waiting(self) -> int:
        """How many updates wait for later steps."""
        return self.pending.size

    def take(self) -> UpdateArray | None:
        """Return the updates for the operator's turn."""
        if self._rows is not None:
            self._stack_rows()
        if not self._now:
            return None
        updates = stacked(self._now)
        self._now = []
        return updates

    def take_rows(self) -> Rows | None:
        """Return the updates for the operator's turn: as rows, if that is how they came."""
        if self._rows is None or self._now:
            return self.take()
        rows, self._rows = self._rows, None
        return rows

    @property
    def has_only_rows(self) -> bool:
        """Whether what is there for the operator's turn came as rows, all of it."""
        return self._rows is not None and not self._now

    def take_consolidated_rows(self) -> Rows | None:
        """Like `take_consolidated`: as rows, if that is how they came, and consolidated."""
        return self.take_rows() if self.consolidated and self.has_only_rows else self.take_consolidated()

    def _stack_rows(self) -> None:
        assert self._rows is not None
        self._now.append(stack(self._rows))
        self._rows = None

    def take_consolidated(self) -> UpdateArray | None:
        """Return the updates for the operator's turn, consolidated; None where all of them cancelled."""
        if self._rows is not None:
            self._stack_rows()
        if self.consolidated and len(self._now) == 1:
            return self._now.pop()
        updates = self.take()
        if updates is None:
            return None
        updates = consolidated(updates)
        return updates if updates.shape[1] else None

    # -- pending for a later step ----------------------------------------------------------------------------------

    def postpone(self, updates: UpdateArray) -> None:
        """Have updates of the current step pending for a later one."""
        self.operator.schedule.transaction.join(self, self.pending.state)
        self.defer(updates)
        if self.index is not None:
            self.index.append(updates)

    def defer(self, updates: UpdateArray | Alike) -> None:
        """Have updates pending for a later step, whatever becomes of the current one."""
        self.pending.add(updates)
        self.operator.schedule.pending[self] = None

    def refill(self, updates: UpdateArray | None) -> None:
        """Have these updates pending, and no others."""
        self.pending.clear()
        if updates is not None:
            self.defer(updates)
        if self.index is not None:
            self.index.clear()
            if updates is not None:
                self.index.refill(updates)

    def outstanding(self) -> list[UpdateArray]:
        """Return all updates of later rounds and later steps."""
        return [*self.pending.arrays(), *(updates for arrays in self._later.values() for updates in arrays)]

    def release(self) -> None:
        """Move pending updates into the current step that are not beyond the operator's frontier any more."""
        self.operator.schedule.transaction.join(self, self.pending.state)
        due = self.pending.take_due(self.operator.frontier.upper)
        if not self.pending:
            self.operator.schedule.pending.pop(self, None)
        if due is None:
            return
        if isinstance(due, list):
            if not (self.consolidated or self.operator.region.depth or self.index is not None):
                self._rows = due
                self.operator.region.wake(self.operator)
                return
            due = stack(due)
        if self.consolidated:
            due = consolidated(due)
            if not due.shape[1]:
                return
        if self.operator.region.depth:
            self._sort_out(due, released=self.index is not None)
            return
        self._leave_index(due)
        self._now.append(due)
        self.operator.region.wake(self.operator)

    def _leave_index(self, updates: UpdateArray) -> None:
        if self.index is not None:
            gone = updates.copy()
            np.negative(updates[-1], out=gone[-1])
            self.index.append(gone)

    def commit(self) -> None:
        """Nothing is left to do."""

    def rollback(self, state: PendingState) -> None:
        """Have the pending updates there were in this state."""
        self.pending.state = state
        if self.pending:
            self.operator.schedule.pending[self] = None

    def clear(self) -> None:
        self._now = []
        self._rows = None
        self._later = {}
        self._released = {}


class Operator:
    """A node at run time. Subclasses take the updates in their ports when they are run, and emit what follows."""

    consolidated = False
    """Whether each array it emits is consolidated, and all of one round."""
    takes_rows = False
    """Whether it can do with the rows of a matrix, wherever they lie."""

    def __init__(self, node: Node, region: Region, codes: tuple[int, ...]) -> None:
        self.node = node
        self.region = region
        self.schedule = region.schedule
        self.frontier = region.schedule.frontier_of(node)
        self.place: float = node.id
        self.ports = [Port(self, c) for c in codes]
        self.consumers: list[tuple[Operator, int]] = []
        self.queued = False
        self.records_in = 0
        self.records_out = 0
        self.seconds = 0.0

    def accept(self, port: int, updates: UpdateArray, at: Round | None) -> None:
        """Take updates from an operator before this one."""
        self.records_in += updates.shape[1]
        self.ports[port].put(updates, at)

    def accept_rows(self, port: int, rows: list[Ints], at: Round | None) -> None:
        """Take what `accept` does, as the rows of a matrix, in a list of one's own."""
        self.records_in += len(rows[0])
        self.ports[port].put_rows(rows, at)

    def emit(self, updates: UpdateArray, at: Round | None) -> None:
        """Send updates to all that read this operator."""
        if updates.shape[1]:
            self.records_out += updates.shape[1]
            if self.schedule.tracer is not None:
                self.schedule.tracer.emitted(self.node, updates)
            for operator, port in self.consumers:
                operator.accept(port, updates, at)

    def emit_rows(self, rows: list[Ints], at: Round | None) -> None:
        """Send updates, given as the rows of a matrix, to all that read this operator, which can do with that."""
        self.records_out += len(rows[0])
        for operator, port in self.consumers:
            operator.accept_rows(port, list(rows), at)

    @property
    def readers_take_rows(self) -> bool:
        """Whether all that read this operator can do with the rows of a matrix, and nobody else looks at updates."""
        return self.schedule.tracer is None and all(operator.takes_rows for operator, _ in self.consumers)

    def run(self) -> None:
        """Do the work of the current round."""
        raise NotImplementedError

    def clear(self) -> None:
        self.queued = False
        for port in self.ports:
            port.clear()

    def since(self) -> Antichain:
        """Return the frontier up to which times may be compacted: this operator asks about none before it."""
        return self.frontier.lower

    def spines(self) -> dict[str, Spine]:
        """Return the operator's traces, by name."""
        return {}

    def drop_state(self) -> None:
        """Hold nothing any more: nobody will ask for it."""
        for store in self.spines().values():
            store.clear()
        for port in self.ports:
            if port.index is not None:
                port.index.clear()
        self.drop_derived()

    def drop_derived(self) -> None:
        """Drop state derived from the traces, such as indexes, since these were given other contents."""

    @property
    def late(self) -> int:
        """How many updates came when a watermark had passed them."""
        return 0

    @property
    def state_rows(self) -> int:
        return sum(store.size for store in self.spines().values())

    @property
    def bytes(self) -> int:
        """How much memory its traces take, and what is pending."""
        pending = sum([port.pending.bytes for port in self.ports])
        return pending + sum(store.bytes for store in self.spines().values())

    @property
    def batches(self) -> int:
        return sum(store.batches for store in self.spines().values())
