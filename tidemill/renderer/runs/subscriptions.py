"""Readers of a run's outputs that lose no change: a snapshot and what follows it, each from where it acknowledged.

The changes of every step are kept for those who have not acknowledged them: the last ones in memory, and of a durable
run as many as are wanted on the disk. A run without a folder keeps so many and no more: who is further behind is told.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from tidemill.boundary.feeds import Fed
from tidemill.boundary.results import Updates, changes_beyond, following
from tidemill.completion import OfUsers
from tidemill.dataflow.lattice import Antichain, Time, as_time
from tidemill.dataflow.nodes import Output
from tidemill.errors import MissedChangesError, StateError, TimeError, UnknownNameError, did_you_mean
from tidemill.renderer.runs.executor import Cursor, Executor, Recorder
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.lifecycle import Lifecycle

if TYPE_CHECKING:
    import asyncio

MOST_KEPT: Final = 1_000_000
"""Updates of an output that a run without a folder keeps for subscribers that have not acknowledged them."""
MOST_IN_MEMORY: Final = 100_000
"""Updates of an output that are in memory where all of them are on the disk; and those read from there at once."""


class Subscription(OfUsers):
    """A reader of an output: `Run.subscribe` makes it. Iterates over batches, each the `Updates` of some time.

    ``for batch in subscription`` gives what there is and ends; `follow` and ``async for`` wait for more until the run
    is closed. Each batch begins at the frontier at which the one before ended (``batch.lower``, ``batch.upper``). The
    first one may be the contents; it begins at the least time then.

    A batch counts as taken when it is acknowledged (`ack`): a new loop begins with the first one that was not. Without
    a name asking for the next batch acknowledges those before. One thread or task at a time may use it.
    """

    _between_layers: ClassVar[frozenset[str]] = frozenset(
        ("begin", "call", "changes_after", "due", "go_on_from", "hub", "is_over", "wanted")
    )

    def __init__(
        self, hub: Subscriptions, node: Output, name: str | None, callback: Callable[[Updates], object] | None
    ) -> None:
        self.name = name
        self.output = node.name
        self.hub = hub
        self._node = node
        self._callback = callback
        self._first: Updates | None = None
        """The first batch, until it is acknowledged: the contents, or what changed since some time."""
        self._given: Antichain | None = None
        """Up to where changes were handed out; None before the first batch."""
        self._acknowledged: Antichain | None = None
        """Up to where they were acknowledged; None before the first batch is."""
        self._read: deque[Updates] = deque()
        """What was read from the disk and not handed out."""
        self.is_over = False
        """Whether it was closed."""
        self._fed = Fed(functools.partial(hub.counts_before, self))
        """What feeds made of the batches have come to (`Updates.to_feed`)."""
        self._is_anew = False
        """Whether it had something else before the first batch: it is told, be it that there is nothing now."""

    # -- where it is ------------------------------------------------------------------------------------------------

    @property
    def frontier(self) -> Antichain:
        """Up to where it was given all there is: what is not beyond it was in some batch, or did not change."""
        return self._begun if self._given is None else self._given

    @property
    def acknowledged(self) -> Antichain:
        """Up to where it acknowledged, from where it goes on after a restart if it has a name."""
        return self._begun if self._acknowledged is None else self._acknowledged

    @property
    def _begun(self) -> Antichain:
        assert self._first is not None
        return self._first.lower

    @property
    def wanted(self) -> Antichain:
        """From where on changes have to be kept for it."""
        if self._acknowledged is not None:
            return self._acknowledged
        assert self._first is not None
        return self._first.upper

    def __repr__(self) -> str:
        called = "" if self.name is None else f" of {self.name!r}"
        over = ", closed" if self.is_over else ""
        upto = f"given up to {self.frontier}, acknowledged up to {self.acknowledged}"
        return f"Subscription{called} to {self.output!r}, {upto}{over}"

    # -- reading ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Updates]:
        """Give the batches there are, from the first that was not acknowledged on."""
        self._rewind()
        while (batch := self._next()) is not None:
            yield batch
            self._taken()
        self._taken()

    def follow(self, timeout: float | None = None) -> Iterator[Updates]:
        """Give batches as they come, until the run is closed or there was none for ``timeout`` seconds.

        For threads of their own: another one has to take the steps.
        """
        self._rewind()
        while True:
            batch = self._next()
            if batch is None:
                if not self.hub.wait(self, timeout):
                    return
                continue
            yield batch
            self._taken()

    async def __aiter__(self) -> AsyncIterator[Updates]:
        """Give batches as they come, until the run is closed. The loop is not blocked meanwhile."""
        import asyncio  # noqa: PLC0415 - takes long to import, and its users have it

        await asyncio.to_thread(self._rewind)
        while True:
            batch = await asyncio.to_thread(self._next)
            if batch is None:
                if not await self.hub.wait_async(self):
                    return
                continue
            yield batch
            self._taken()

    def _next(self) -> Updates | None:
        """Return the next batch, None where there is none yet; `MissedChangesError` where it is gone."""
        if self._given is None:
            assert self._first is not None
            self._given = self._first.upper
            if len(self._first) or self._is_anew:
                return following(self._first, self._fed)
        while not self.is_over:
            if self._read:
                found: Updates | None = self._read.popleft()
            else:
                found, upper, is_missing = self.hub.next(self._node, self._given)
                if is_missing:
                    self._read.extend(self.hub.on_disk(self, self._given))
                    if not self._read:
                        self._given = self._given.join(upper)
                    continue
                if found is None:
                    self._given = self._given.join(upper)
                    return None
            assert found is not None
            batch = following(changes_beyond(found, self._given), self._fed)
            self._given = self._given.join(batch.upper)
            if len(batch):
                return batch
        return None

    def _taken(self) -> None:
        """Acknowledge what was given, where nobody else does."""
        if self.name is None:
            self.ack()

    def _rewind(self) -> None:
        """Begin with the first batch that was not acknowledged."""
        self._given = self._acknowledged
        self._read.clear()

    # -- having read ------------------------------------------------------------------------------------------------

    def ack(self, time: Any = None) -> None:
        """Acknowledge all that was given, or what of it is up to a time: it is not given again.

        With a name on a durable run it is on the disk when this returns, for one call of fsync.
        """
        ack_together([self], time)

    def due(self, time: Any = None) -> Antichain | None:
        """Return up to where `ack` acknowledges; None where that is nothing new."""
        if self._given is None:
            if time is None:
                return None  # nothing was given
            msg = f"ack({time!r}): nothing was given yet"
            raise TimeError(msg)
        upto = self._given
        if time is not None:
            upto = Antichain.after(as_time(time, self.hub.frontiers.users))
            if not self._given.dominates(upto):
                msg = f"ack({time!r}): given was what is not beyond {self._given}: expected a time that is not"
                raise TimeError(msg)
            upto = upto if self._acknowledged is None else upto.join(self._acknowledged)
        if self._acknowledged is None:
            assert self._first is not None
            if not upto.dominates(self._first.upper):
                return None  # of the first batch all or nothing
        return None if upto == self._acknowledged else upto

    def resync(self) -> None:
        """Begin again with the contents as they are now, as after `MissedChangesError`: the next batch has them."""
        self.hub.resync(self)

    def close(self) -> None:
        """End it in this process. One with a name may be gone on with by another `Run.subscribe`."""
        self.hub.end(self)

    def begin(self, at: Antichain | Updates, *, anew: bool = False) -> None:
        """Be where changes up to a frontier are acknowledged, or before a first batch. Called by `Subscriptions`."""
        self._first, upto = (None, at) if isinstance(at, Antichain) else (at, None)
        self._given = self._acknowledged = upto
        self._is_anew = anew
        self._read.clear()

    def changes_after(self, frontier: Antichain) -> Iterator[Updates]:
        """Give what came beyond a frontier, to somebody else than who reads it. Called by `Subscriptions`."""
        another = Subscription(self.hub, self._node, None, None)
        another.begin(frontier)
        while (batch := another._next()) is not None:
            yield batch

    def go_on_from(self, upto: Antichain) -> None:
        """Have what is up to a frontier not be given again. Called by `Subscriptions`."""
        self._acknowledged, self._first = upto, None

    def call(self) -> None:
        """Give the callback, if there is one, all batches; what it raises it gets again the next time."""
        if self._callback is None:
            return
        self._rewind()
        while (batch := self._next()) is not None:
            self._callback(batch)
            self.ack()
        self._taken()


def ack_together(subscriptions: Sequence[Subscription], time: Any = None) -> None:
    """Acknowledge what each of some subscriptions of a run was given, as `Subscription.ack` does, in one commit."""
    moves = {s: upto for s in subscriptions if (upto := s.due(time)) is not None}
    if moves:
        next(iter(moves)).hub.acknowledge(moves)


@attrs.define
class _Window:
    """The last changes of an output, in memory."""

    lower: Antichain
    """Up to where changes have been let go of."""
    upper: Antichain
    batches: deque[Updates] = attrs.field(factory=deque)
    size: int = 0

    def forget_first(self) -> None:
        """Let go of the oldest batch."""
        first = self.batches.popleft()
        self.size -= len(first)
        self.lower = first.upper


class Subscriptions:
    """Those of a run, and the changes that are kept for them."""

    def __init__(
        self, executor: Executor, frontiers: Frontiers, lifecycle: Lifecycle, on_disk: Recorder | None
    ) -> None:
        self.run_lock = threading.RLock()
        """Held by whoever uses the run."""
        self.frontiers = frontiers
        self._executor = executor
        self._lifecycle = lifecycle
        self._on_disk = on_disk
        self._live: list[Subscription] = []
        self.windows: dict[Output, _Window] = {}
        """The last changes of each output that anybody follows; nothing has to be told where there are none."""
        self._cursors: dict[str, Cursor] = {} if on_disk is None else dict(on_disk.cursors())
        self._changed = threading.Condition()
        """For the windows and those who wait for more in them. Never held while anybody waits for the run."""
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        if on_disk is not None:
            on_disk.keep_for(self.wanted)
        for cursor in self._cursors.values():
            self._keep(cursor, on=True)

    # -- for the run ------------------------------------------------------------------------------------------------

    def add(
        self,
        node: Output,
        name: str | None,
        since: Time | None,
        callback: Callable[[Updates], object] | None,
        *,
        snapshot: bool,
    ) -> Subscription:
        """Return a subscription: where its name acknowledged, or else since a time, at the contents, or here."""
        cursor = None if name is None else self._cursors.get(name)
        self._require_free(node, name, cursor)
        if node not in self.windows:
            self._follow(node)
        upto = None if cursor is None else cursor.upto
        subscription = Subscription(self, node, name, callback)
        if upto is not None and not self._is_gone(node, upto):
            subscription.begin(upto)
        elif since is not None:
            subscription.begin(self._since(node, since))
        elif snapshot or cursor is not None:
            subscription.begin(self._contents(node), anew=cursor is not None)
        else:
            upto = self.frontiers.of(node)
            subscription.begin(upto)
        if name is not None and cursor is None:
            self._write_down({name: Cursor(node.name, upto)})
        self._live.append(subscription)
        try:
            subscription.call()
        except BaseException:  # nobody else could close it
            self.end(subscription)
            raise
        return subscription

    def _follow(self, node: Output) -> None:
        now = self.frontiers.of(node)
        self._executor.follow(node, on=True)
        with self._changed:
            self.windows[node] = _Window(now, now)

    def _require_free(self, node: Output, name: str | None, cursor: Cursor | None) -> None:
        if name is None:
            return
        if any(s.name == name for s in self._live):
            msg = f"subscribe(..., name={name!r}): there is a subscription of this name: close it first, or share it"
            raise StateError(msg)
        if cursor is not None and cursor.output != node.name:
            msg = (
                f"subscribe({node.name!r}, name={name!r}): the name is that of a reader of {cursor.output!r}: take "
                f"another one, or run.unsubscribe({name!r}) first"
            )
            raise StateError(msg)

    def _is_gone(self, node: Output, upto: Antichain) -> bool:
        """Return whether changes from here on are not there: what is kept in memory alone went with its readers."""
        return self._on_disk is None and not upto.dominates(self.windows[node].lower)

    def _since(self, node: Output, time: Time) -> Updates:
        """Return what changed since a time, as far back as the run tells times apart."""
        return self._executor.changed_since(node, time, self.frontiers.since[node], self.frontiers.of(node))

    def _contents(self, node: Output) -> Updates:
        """Return what an output holds as updates, at the last complete time where there is one."""
        now, since = self.frontiers.of(node), self.frontiers.since[node]
        last = Antichain(tuple(max(0, c - 1) for c in t) for t in now.elements)
        return self._executor.changed_since(node, None, last.join(since) if last.elements else since, now)

    def counts_before(self, subscription: Subscription, frontier: Antichain) -> dict[tuple[Any, ...], int]:
        """Return what an output held before a frontier: what it holds, less what a reader is given beyond it."""
        if not frontier.dominates(subscription.wanted):
            msg = (
                f"to_feed: {subscription!r} has acknowledged these changes, and what was there before is not kept: "
                "call to_feed before ack, on all batches one after the other"
            )
            raise TimeError(msg)
        node = self.frontiers.graph.outputs[subscription.output]
        with self._alone():
            counts = Counter[tuple[Any, ...]]()
            for row, _, diff in self._contents(node):
                counts[row] += diff
            for batch in subscription.changes_after(frontier):
                for row, _, diff in batch:
                    counts[row] -= diff
        return {row: count for row, count in counts.items() if count}

    def forget(self, name: str) -> None:
        """Forget a name, for which nothing is kept any more."""
        for subscription in [s for s in self._live if s.name == name]:
            self.end(subscription)
        if name not in self._cursors:
            msg = f"unsubscribe({name!r}): no subscription of this name: {did_you_mean(name, self._cursors)}"
            raise UnknownNameError(msg)
        self._write_down({name: None})

    def cursors(self) -> Mapping[str, Cursor]:
        """Return what readers with a name have acknowledged."""
        return dict(self._cursors)

    def wanted(self) -> dict[str, list[Antichain]]:
        """Return from where on each output's changes are wanted, by readers that are there and by those to come."""
        found: dict[str, list[Antichain]] = {}
        for subscription in self._live:
            found.setdefault(subscription.output, []).append(subscription.wanted)
        live = {s.name for s in self._live}
        for name, cursor in self._cursors.items():
            if name not in live and cursor.upto is not None:
                found.setdefault(cursor.output, []).append(cursor.upto)
        return found

    # -- steps ------------------------------------------------------------------------------------------------------

    def collect(self) -> dict[Output, Updates]:
        """Return the changes of the step at hand that anybody follows."""
        return {node: self._executor.step_updates(node) for node in self.windows}

    def publish(self, changes: Mapping[Output, Updates]) -> None:
        """Show changes of a step that was taken."""
        with self._changed:
            for node, updates in changes.items():
                window = self.windows[node]
                updates.lower, updates.upper = window.upper, self.frontiers.of(node)
                window.upper = updates.upper
                if len(updates):
                    window.batches.append(updates)
                    window.size += len(updates)
                self._shrink(node, window)
            self._tell()

    def _shrink(self, node: Output, window: _Window) -> None:
        """Let go of what all have acknowledged, and of what is too much."""
        wanted = [s.wanted for s in self._live if s.output == node.name]
        most = MOST_KEPT if self._on_disk is None else MOST_IN_MEMORY
        while window.batches:
            first = window.batches[0]
            if window.size <= most and not all(w.dominates(first.upper) for w in wanted):
                return
            window.forget_first()

    def call(self) -> None:
        """Call callbacks, all of them, and only then raise what the first of them raised."""
        first: Exception | None = None
        for subscription in list(self._live):
            try:
                subscription.call()
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are called too
                first = first or error
        if first is not None:
            first.add_note("raised by a subscriber's callback, which gets this batch again; the step itself was taken")
            raise first

    def close(self) -> None:
        """Have those who wait for more know that there will be none."""
        with self._changed:
            self._tell()

    def _tell(self) -> None:
        self._changed.notify_all()
        for loop, event in self._waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    # -- for subscriptions ------------------------------------------------------------------------------------------

    def next(self, node: Output, given: Antichain) -> tuple[Updates | None, Antichain, bool]:
        """Return the first changes in memory beyond a frontier, how far these go, and whether some are missing."""
        with self._changed:
            window = self.windows.get(node)
            if window is None:  # closed meanwhile
                return None, given, False
            if not given.dominates(window.lower):
                return None, window.upper, True
            found = next((batch for batch in window.batches if not given.dominates(batch.upper)), None)
            return found, window.upper, False

    def on_disk(self, subscription: Subscription, given: Antichain) -> list[Updates]:
        """Return the next changes, read from the disk."""
        if self._on_disk is None:
            msg = (
                f"{subscription!r} is too far behind: changes from {given} on are not kept any more, of which a run "
                f"without state= has the last {MOST_KEPT:,}: begin again with the contents, by resync()"
            )
            raise MissedChangesError(msg)
        with self._alone():
            return self._on_disk.changes_since(subscription.output, given, MOST_IN_MEMORY)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Within the block nobody else uses the run."""
        self._lifecycle.check_process()
        with self.run_lock:
            self._lifecycle.check()
            yield

    def acknowledge(self, moves: Mapping[Subscription, Antichain]) -> None:
        """Take note of what subscriptions have acknowledged, in one commit."""
        cursors = {s.name: Cursor(s.output, upto) for s, upto in moves.items() if s.name is not None}
        if cursors:
            with self._alone():
                self._write_down(cursors)
        for subscription, upto in moves.items():
            subscription.go_on_from(upto)

    def resync(self, subscription: Subscription) -> None:
        """Have a subscription begin again with the contents."""
        node = self.frontiers.graph.outputs[subscription.output]
        with self._alone():
            if subscription.name is not None:
                self._write_down({subscription.name: Cursor(subscription.output, None)})
            subscription.begin(self._contents(node), anew=True)

    def end(self, subscription: Subscription) -> None:
        """End a subscription in this process."""
        with self.run_lock:
            with self._changed:  # who reads meanwhile finds that it is over, or its window
                subscription.is_over = True
            if subscription in self._live:
                self._live.remove(subscription)
                node = self.frontiers.graph.outputs[subscription.output]
                if not any(s.output == node.name for s in self._live):
                    with self._changed:
                        del self.windows[node]
                    self._executor.follow(node, on=False)
        with self._changed:
            self._tell()

    def wait(self, subscription: Subscription, timeout: float | None) -> bool:
        """Wait until there may be more for a subscription; return False where there will not be, or not in time."""
        with self._changed:
            is_news = self._changed.wait_for(lambda: self._is_news(subscription), timeout)
            return is_news and self._may_go_on(subscription)

    async def wait_async(self, subscription: Subscription) -> bool:
        """Wait until there may be more for a subscription; return False where there will not be."""
        import asyncio  # noqa: PLC0415 - as above

        event = asyncio.Event()
        waiting = asyncio.get_running_loop(), event
        with self._changed:
            self._waiting.add(waiting)
            is_news = self._is_news(subscription)
        try:
            while not is_news:
                await event.wait()
                event.clear()
                with self._changed:
                    is_news = self._is_news(subscription)
        finally:
            with self._changed:
                self._waiting.discard(waiting)
        with self._changed:
            return self._may_go_on(subscription)

    def _may_go_on(self, subscription: Subscription) -> bool:
        """Return whether there may be more: after the end what is in memory, for readers that nobody goes on with."""
        if not self._is_end(subscription):
            return True
        is_left = not subscription.is_over and subscription.name is None
        return is_left and not subscription.frontier.dominates(self._upper(subscription))

    def _is_news(self, subscription: Subscription) -> bool:
        return self._is_end(subscription) or not subscription.frontier.dominates(self._upper(subscription))

    def _upper(self, subscription: Subscription) -> Antichain:
        window = self.windows.get(self.frontiers.graph.outputs[subscription.output])
        return subscription.frontier if window is None else window.upper

    def _is_end(self, subscription: Subscription) -> bool:
        return subscription.is_over or self._lifecycle.is_closed

    def _write_down(self, moves: Mapping[str, Cursor | None]) -> None:
        if self._on_disk is not None:
            self._on_disk.move_cursors(moves)
        for name, cursor in moves.items():
            before = self._cursors.pop(name, None)
            if cursor is not None:
                self._cursors[name] = cursor
            for changed, on in (cursor, True), (before, False):
                if changed is not None:
                    self._keep(changed, on=on)

    def _keep(self, cursor: Cursor, *, on: bool) -> None:
        """Begin or end having the changes of every step, for a reader with a name who is not there."""
        node = self.frontiers.graph.outputs.get(cursor.output)
        if node is not None:
            self._executor.follow(node, on=on)
