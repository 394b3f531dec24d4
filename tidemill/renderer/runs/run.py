"""What every run of a dataflow does alike, whichever engine renders it: inputs, times, frontiers, reading outputs."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import attrs

from tidemill.boundary.feeds import Feed
from tidemill.boundary.results import Rows, Updates
from tidemill.boundary.rows import COUNT_LIMIT, Batch, checked_batch, checked_rows
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, as_time, shown
from tidemill.dataflow.nodes import Input, Node, Output, Retime
from tidemill.dataflow.passes.pipeline import Passes
from tidemill.dataflow.progress import Progress
from tidemill.errors import ClosedRunError, RowError, StepError, TimeError, UnknownNameError, did_you_mean
from tidemill.renderer.runs.interrupts import Interrupts
from tidemill.renderer.runs.metrics import Metrics
from tidemill.renderer.runs.step_info import Listeners, StepInfo
from tidemill.renderer.runs.writes import Writes, writes_of

if TYPE_CHECKING:
    from tidemill.notebook.live_table import Live

__all__ = ["Engine", "PassingEngine", "Queued", "Run"]


class Engine(Protocol):
    """What ``flow.start`` takes: something that makes a run of a graph.

    Composites are lowered before it gets the graph, but for those whose classes are in its ``takes``, if it has one.
    """

    def start(self, graph: Graph, keep: int) -> Run:
        """Return a run of a frozen graph, before any input; ``keep`` as for ``flow.start``."""
        ...


@runtime_checkable
class PassingEngine(Protocol):
    """An engine that runs a graph as passes leave it, and says which: the state that it goes on from may have some."""

    def start_after(self, graph: Graph, keep: int, passes: Passes) -> Run:
        """Return a run of a frozen graph after these passes."""
        ...


@attrs.frozen
class Queued:
    """Checked updates to an input: one time and diff for all rows, or one for each."""

    batch: Batch
    times: Time | list[Time]
    diffs: int | list[int]


class Run(abc.ABC):
    """A dataflow at work: takes updates, closes times, and answers what there is and what changed.

    Made by ``flow.start()``. Also a context manager, which closes it. An engine supplies the methods at the end.
    """

    def __init__(self, graph: Graph, keep: int) -> None:
        self.graph = graph
        self.keep = keep
        self.progress = Progress(graph)
        self._users = len(graph.coordinates)
        least = Antichain.minimum(self._users)
        self._inputs = graph.inputs
        self._outputs = graph.outputs
        self._frontiers: Mapping[Input, Antichain] = dict.fromkeys(self._inputs.values(), least)
        self._since: dict[Output, Antichain] = dict.fromkeys(self._outputs.values(), least)
        self._read: dict[Output, Antichain] = dict.fromkeys(self._outputs.values(), least)
        self._retimes = any(isinstance(n, Retime) for n in graph.nodes)
        self._needed: Mapping[Input, Antichain] = self._frontiers
        """Up to where each input's updates have been worked in."""
        self._refused = False
        """Whether the last step could not be taken."""
        self._closed = False
        self._stepping = False
        self._steps = 0
        self._listeners = Listeners()
        self._interrupts = Interrupts()

    def begin(self) -> None:
        """Do what needs no input: outputs of constants alone are complete from the start."""
        if any(not self._output_frontier(output).elements for output in self._outputs.values()):
            with self._interrupts:
                self._step(self._frontiers)

    # -- putting in -----------------------------------------------------------------------------------------------

    def insert(self, name: str, rows: Any, *, time: Any = None) -> None:
        """Add rows to an input: tuples or dicts, `read_parquet` or `read_csv`, or any table that speaks Arrow.

        Tables (Arrow, pandas, Polars, DuckDB's, other outputs' `Rows`) go by column name, in any order; types are
        converted where that changes no value. What pandas calls missing is NULL, NaN in its floats with it; floats that
        it made of integers for that are integers again.

        They get the given time, or the input's frontier where that is one time. They are queued: outputs change when
        their time closes. Refused whole, with no trace, if any row does not fit (``RowError``) or the time is final
        (``TimeError``). On an input with a key it is an upsert.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("sums", flow.input("x", {"k": "string", "i": "int64"}).group_by("k").agg(total=tm.sum("i")))
        >>> with flow.start() as run:
        ...     run.insert("x", [("a", 1), {"i": 2, "k": "a"}])
        ...     run.advance()
        ...     list(run.snapshot("sums"))
        [('a', 3)]
        """
        self._change(name, rows, time, +1)

    def delete(self, name: str, rows: Any, *, time: Any = None) -> None:
        """Take rows from an input, as `insert` adds them. On an input with a key, rows of the key's columns do.

        Whether the rows are there is checked for unique inputs only: in others counts may become negative.
        """
        self._change(name, rows, time, -1)

    def upsert(self, name: str, rows: Any, *, time: Any = None) -> None:
        """Put rows in the place of those with the same key; the last call in an epoch wins, and of its rows the last.

        The rows of a table are as many writes in their order. The current rows are held as an arrangement; cost: that
        of the rows given, not of those held. Refused whole, as by `insert`, and where a key has a NULL in it.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("prices", flow.input("prices", {"item": "string", "price": "int64"}, key="item"))
        >>> with flow.start() as run:
        ...     run.upsert("prices", [("tea", 3), ("milk", 1)])
        ...     run.upsert("prices", [("tea", 4)])
        ...     run.advance()
        ...     list(run.snapshot("prices"))
        [('milk', 1), ('tea', 4)]
        """
        node = self._input(name)
        if not node.key:
            msg = f"{node.where} has no key to upsert by: declare it as flow.input(..., key=[...])"
            raise RowError(msg)
        self._change(name, rows, time, +1)

    def apply(self, name: str, feed: Any, *, op: str = "op", time: Any = None) -> None:
        """Take a change feed for an input with a key: rows with a column ``op`` that says what to do with each.

        ``insert`` and ``update`` put the row in the place of that with its key, ``delete`` takes the row of its key; so
        do their first letters, in either case, and Debezium's. The last row of a key in an epoch wins. A feed is
        whatever `insert` takes, with ``op`` after the input's columns where rows are tuples; deletions need no other
        column than the key's. ``time`` is one for all rows, as for `insert`, or the name of the feed's column of times.
        Refused whole, with no trace, if any row does not fit.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("prices", flow.input("prices", {"item": "string", "price": "int64"}, key="item"))
        >>> with flow.start() as run:
        ...     run.apply("prices", [("tea", 3, "insert"), ("milk", 1, "insert"), ("tea", 4, "update")])
        ...     run.advance()
        ...     run.apply("prices", [{"op": "d", "item": "milk"}])
        ...     run.advance()
        ...     list(run.snapshot("prices"))
        [('tea', 4)]
        """
        node = self._input(name)
        if not node.key:
            msg = f"{node.where} has no key to apply a feed by: declare it as flow.input(..., key=[...])"
            raise RowError(msg)
        column = time if isinstance(time, str) else None
        at = () if column else self._default_time(node) if time is None else self._open_time(node, time)
        given = Feed(node.schema, tuple(node.key), op, column).writes(feed, node.where)
        rows, deleted = [w.row for w in given if w.row is not None], [w.key for w in given if w.row is None]
        times = [self._open_time(node, w.time) for w in given] if column else at
        self._take_writes(node, Writes(rows, deleted, [w.row is not None for w in given], times))

    def update(self, name: str, updates: Iterable[Any]) -> None:
        """Add ``(row, time, diff)`` triples to an input, in any order, at times beyond its frontier.

        Refused whole, as by `insert`.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start() as run:
        ...     run.update("x", [((7,), 3, -1), ((7,), 0, 2)])
        ...     run.advance_to(5)
        ...     list(run.changes("x"))
        [((7,), 0, 2), ((7,), 3, -1)]
        """
        node = self._input(name)
        if node.key:
            msg = f"{node.where} has a key: use upsert and delete, which keep its rows unique"
            raise RowError(msg)
        triples = list(updates)
        for number, triple in enumerate(triples):
            if not (isinstance(triple, (tuple, list)) and len(triple) == 3 and _is_diff(triple[2])):  # noqa: PLR2004
                msg = f"{node.where}, update {number}: {triple!r} is not (row, time, diff), an integer of at most 2**31"
                raise RowError(msg)
        rows = checked_rows(node.schema, [row for row, _, _ in triples], node.where)
        times = [self._open_time(node, t) for _, t, _ in triples]
        if triples:
            self._queue(node, Queued(rows, times, [int(d) for _, _, d in triples]))

    # -- moving on --------------------------------------------------------------------------------------------------

    def advance_to(self, time: Any, *, input: str | None = None) -> None:  # noqa: A002 - the name of the contract
        """Close every time not beyond ``time`` (a time or an `Antichain`), and do the work this brings.

        All inputs move, or the one named; those already there stay, and it is an error where none moves. When the step
        cannot be taken, a ``StepError`` says why, and everything is as before the call: correct the updates at their
        times, or `discard` them. Updates of an input that is ahead of the others wait until an output shows them, and
        so do errors they bring. Cost: that of what changes; many times closed at once cost less than one by one.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow(time=("event", "correction"))
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start() as run:
        ...     run.advance_to(tm.Antichain([(4, 0), (0, 2)]))
        ...     run.frontier("x")
        Antichain((0, 2), (4, 0))
        """
        wanted = self._frontier_of(time)
        nodes = list(self._frontiers) if input is None else [self._input(input)]
        moved = {node: self._frontiers[node].join(wanted) for node in nodes}
        if all(moved[node] == self._frontiers[node] for node in nodes) and (nodes or self._users > 1):
            now = ", ".join(f"{n.name}: {self._frontiers[n]}" for n in nodes)
            msg = f"advance_to({time!r}) closes nothing: the inputs are there already or beyond ({now})"
            raise TimeError(msg)
        self._move(moved)

    def advance(self) -> None:
        """Close the current epoch: of the inputs still open, the earliest. For times of one coordinate."""
        if self._users != 1:
            msg = f"advance() is for times of one coordinate, here they are {self.graph.coordinates}: use advance_to"
            raise TimeError(msg)
        fronts = [f.elements[0][0] for f in self._frontiers.values() if f.elements]
        if not fronts and self._frontiers:
            msg = "advance() closes nothing: all inputs are closed"
            raise TimeError(msg)
        self.advance_to(min(fronts, default=0) + 1)

    def close_input(self, name: str) -> None:
        """Declare that an input will not change any more, and do the work this brings."""
        self._move({self._input(name): Antichain()})

    def close_inputs(self) -> None:
        """Declare that no input will change any more, and do the work this brings."""
        self._move(dict.fromkeys(self._frontiers, Antichain()))

    def discard(self) -> None:
        """Forget all queued updates that no output shows yet: the way out when a step cannot be taken.

        Those are the updates at times not closed yet, and where an input is ahead of the others, those at times it has
        closed which wait for the others. The frontiers stay; until the next step is taken, updates at such times are
        accepted again, as they are to correct what was refused.
        """
        self._check_open()
        self._refused = True
        self._discard()

    # -- reading ----------------------------------------------------------------------------------------------------

    def snapshot(self, name: str, *, at: Any = None) -> Rows:
        """Return an output's contents at its last complete time, or at an earlier one not compacted away.

        With times of several coordinates ``at`` has to be given, until the inputs are closed.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start(keep=1) as run:
        ...     run.update("x", [((7,), 0, 2), ((7,), 1, -1)])
        ...     run.advance_to(2)
        ...     list(run.snapshot("x")), list(run.snapshot("x", at=0))
        ([(7,)], [(7,), (7,)])
        """
        node = self._output(name)
        time = self._last_complete(node) if at is None else as_time(at, self._users)
        frontier = self._output_frontier(node)
        if time is not None and frontier.beyond(time):
            msg = f"{node.where} is not complete at {shown(time)}: its frontier is {frontier}; advance the inputs first"
            raise TimeError(msg)
        if time is not None and not self._since[node].beyond(time):
            msg = (
                f"{node.where} at {shown(time)} can no longer be told from later times: only times beyond "
                f"{self._since[node]} can; start the run with a larger keep= to look further back"
            )
            raise TimeError(msg)
        return self._contents(node, time)

    def changes(self, name: str, *, since: Any = None) -> Updates:
        """Return the updates of an output that became complete since they were last asked for, at their exact times.

        With ``since=t``: all updates at complete times other than those up to ``t``, whatever was read before; as far
        back as ``keep`` reaches.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start() as run:
        ...     run.update("x", [((7,), 0, 2), ((7,), 1, -1)])
        ...     run.advance_to(2)
        ...     run.changes("x")
        ...     len(run.changes("x"))
        i  time  diff
        -  ----  ----
        7  0     +2
        7  1     -1
        0
        """
        node = self._output(name)
        upper = self._output_frontier(node)
        if since is None:
            if node.changes is False:
                msg = f"{node.where} keeps no changes: declare it with changes=True, or ask with since="
                raise TimeError(msg)
            found = self._unread(node, self._read[node], upper)
            self._read[node] = upper
            return found
        time = as_time(since, self._users)
        if not self._since[node].beyond(time):
            msg = (
                f"{node.where}: changes since {shown(time)} can no longer be told apart, only since times beyond "
                f"{self._since[node]}; start the run with a larger keep="
            )
            raise TimeError(msg)
        return self._changed_since(node, time, upper)

    def frontier(self, name: str) -> Antichain:
        """Return the frontier of an output, or of an input: what is not beyond it is final.

        Of an output and an input of one name, the output's.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("later", flow.input("x", {"i": "int64"}).delay(2))
        >>> with flow.start() as run:
        ...     run.advance_to(3)
        ...     run.frontier("x"), run.frontier("later")
        (Antichain(3), Antichain(5))
        """
        self._check_open()
        if name in self._outputs:
            return self._output_frontier(self._outputs[name])
        if name in self._inputs:
            return self._frontiers[self._inputs[name]]
        msg = f"no output or input {name!r}: {did_you_mean(name, [*self._outputs, *self._inputs])}"
        raise UnknownNameError(msg)

    def on_step(self, callback: Callable[[StepInfo], object]) -> Callable[[], None]:
        """Call a function with a `StepInfo` after each step that was taken; returns a function that ends this.

        What it raises comes out of ``advance`` after the step, which is done all the same, and the other callbacks.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start() as run:
        ...     stop = run.on_step(lambda step: print(step.number, step.frontiers))
        ...     run.advance_to(3)
        ...     stop()
        ...     run.advance_to(4)
        1 {'x': Antichain(3)}
        """
        self._check_open()
        return self._listeners.add(callback)

    def live(self, name: str, *, limit: int = 20) -> Live:
        """Display an output's contents in a notebook, as a table that is refreshed after each step.

        Needs IPython (``pip install 'tidemill[notebook]'``), and times of one coordinate. Each refreshing costs a
        `snapshot`; ``limit`` rows are shown.
        """
        from tidemill.notebook.live_table import Live  # noqa: PLC0415 - for notebooks alone

        node = self._output(name)
        return Live(self, node.name, limit)

    def metrics(self) -> Metrics:
        """Return figures for each operator: records in and out, state rows, batches, seconds.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("odd", flow.input("x", {"i": "int64"}).select(odd="i % 2 = 1").distinct())
        >>> with flow.start() as run:
        ...     run.insert("x", [(1,), (2,), (3,)])
        ...     run.advance()
        ...     [(o.kind, o.records_out) for o in run.metrics()]
        [('Input', 3), ('Map', 3), ('Threshold', 2), ('Output', 2)]
        """
        self._check_open()
        return self._measured()

    def close(self) -> None:
        """Release the state. Whatever is asked of the run afterwards is an error."""
        if not self._closed:
            self._check_open()
            self._closed = True
            self._release()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- how it is done -----------------------------------------------------------------------------------------------

    def _change(self, name: str, rows: Any, time: Any, sign: int) -> None:
        node = self._input(name)
        at = self._default_time(node) if time is None else self._open_time(node, time)
        if node.key:
            self._take_writes(node, writes_of(node, rows, at, sign))
            return
        batch = checked_batch(node.schema, rows, node.where)
        if len(batch):
            self._queue(node, Queued(batch, at, sign))

    def _take_writes(self, node: Input, writes: Writes) -> None:
        self._check_times_of_key(node)
        if len(writes):
            self._write(node, writes)

    def _check_times_of_key(self, node: Input) -> None:
        if self._users != 1:  # of two writes at incomparable times neither is the last
            msg = f"{node.where} has a key, which needs times of one coordinate: here they are {self.graph.coordinates}"
            raise TimeError(msg)

    def _move(self, moved: Mapping[Input, Antichain]) -> None:
        self._check_open()
        start = perf_counter()
        after = {**self._frontiers, **moved}
        needed = self._needed_of(after)
        self._stepping = True
        with self._interrupts:
            try:
                self._step(needed)
                self._refused = False
                self._frontiers, self._needed = after, needed
                for output in self._since:
                    self._since[output] = self._kept(output, after)
                self._steps += 1
            except StepError:
                self._refused = True
                raise
            finally:
                self._stepping = False
        if self._listeners:
            outputs = {name: self._output_frontier(output) for name, output in self._outputs.items()}
            inputs = {name: after[node] for name, node in self._inputs.items()}
            self._listeners.tell(StepInfo(self._steps, perf_counter() - start, outputs, inputs))

    def _needed_of(self, frontiers: Mapping[Input, Antichain]) -> Mapping[Input, Antichain]:
        """Return up to where the inputs' updates have to be worked in when their frontiers are these.

        What no output shows yet waits at its input. There it can be corrected or discarded when a step is refused
        because of it; further on, operators would have taken it in for good.
        """
        if not self._retimes and len(set(frontiers.values())) < 2:  # noqa: PLR2004 - none is ahead
            return frontiers
        return self.progress.needed(self._outputs.values(), frontiers)

    def _kept(self, output: Output, frontiers: Mapping[Input, Antichain]) -> Antichain:
        """Return from where on an output's times stay distinguishable: the last complete ones, less ``keep``."""
        frontier = self.progress.user_frontier(output, frontiers)
        if not frontier.elements:
            return self._since[output]
        return Antichain(tuple(max(0, c - 1 - self.keep) for c in t) for t in frontier.elements)

    def _output_frontier(self, node: Node) -> Antichain:
        return self.progress.user_frontier(node, self._frontiers)

    def _last_complete(self, node: Output) -> Time | None:
        frontier = self._output_frontier(node).elements
        if not frontier:
            return None
        if self._users > 1:
            msg = f"{node.where}: with times {self.graph.coordinates} say which one: snapshot({node.name!r}, at=...)"
            raise TimeError(msg)
        if frontier[0][0] == 0:
            msg = f"{node.where} is complete at no time yet: advance the inputs first, as in run.advance()"
            raise TimeError(msg)
        return (frontier[0][0] - 1,)

    def _frontier_of(self, time: Any) -> Antichain:
        if isinstance(time, Antichain):
            return Antichain(as_time(t, self._users) for t in time)
        return Antichain([as_time(time, self._users)])

    def _default_time(self, node: Input) -> Time:
        frontier = self._frontiers[node].elements
        if len(frontier) == 1:
            return frontier[0]
        state = f"its frontier is {self._frontiers[node]}" if frontier else "it is closed"
        msg = f"{node.where}: no time given, and {state}: say time=..."
        raise TimeError(msg)

    def _open_time(self, node: Input, time: Any) -> Time:
        t = as_time(time, self._users)
        if not (self._frontiers[node].beyond(t) or (self._refused and self._needed[node].beyond(t))):
            msg = f"{node.where}: time {shown(t)} is not beyond its frontier {self._frontiers[node]}: it is final"
            raise TimeError(msg)
        return t

    def _input(self, name: str) -> Input:
        self._check_open()
        if name not in self._inputs:
            msg = f"no input {name!r}: {did_you_mean(name, self._inputs)}"
            raise UnknownNameError(msg)
        return self._inputs[name]

    def _output(self, name: str) -> Output:
        self._check_open()
        if name not in self._outputs:
            msg = f"no output {name!r}: {did_you_mean(name, self._outputs)}"
            raise UnknownNameError(msg)
        return self._outputs[name]

    def _check_open(self) -> None:
        if self._stepping:
            msg = (
                f"this run of {self.graph.name!r} is in the middle of a step: a function in the dataflow may not use it"
            )
            raise ClosedRunError(msg)
        if self._closed:
            msg = f"this run of {self.graph.name!r} is closed: start another with flow.start()"
            raise ClosedRunError(msg)

    # -- what an engine supplies --------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _queue(self, node: Input, queued: Queued) -> None:
        """Take checked updates at open times."""

    @abc.abstractmethod
    def _write(self, node: Input, writes: Writes) -> None:
        """Take checked writes to an input with a key at open times."""

    @abc.abstractmethod
    def _step(self, frontiers: Mapping[Input, Antichain]) -> None:
        """Bring operators to where inputs have these frontiers. On an error change none.

        When nothing can refuse it any more, interrupts are held back until the end of the caller's ``with``.
        """

    @abc.abstractmethod
    def _contents(self, node: Output, at: Time | None) -> Rows:
        """Return an output's accumulated rows at a complete time, or after all times."""

    @abc.abstractmethod
    def _unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        """Return, and forget, the updates kept since the last call."""

    @abc.abstractmethod
    def _changed_since(self, node: Output, time: Time, upper: Antichain) -> Updates:
        """Return the updates at complete times that are not at or before ``time``."""

    @abc.abstractmethod
    def _discard(self) -> None:
        """Forget all queued updates and writes."""

    @abc.abstractmethod
    def _measured(self) -> Metrics: ...

    @abc.abstractmethod
    def _release(self) -> None: ...


def _is_diff(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and abs(int(value)) <= COUNT_LIMIT
