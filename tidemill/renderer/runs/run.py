"""The run of a dataflow as users hold it, whichever engine is behind it.

`Run` is what users read: what each method does is said here, and done by one of its parts. `Intake` checks what is put
in, `Stepper` takes steps, `Frontiers` knows how far the inputs and outputs are, and the executor answers.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Protocol, Self, TypeVar, cast, final, overload

import numpy as np

from tidemill.boundary.feed_formats import FeedFormat
from tidemill.boundary.feeds import Fed
from tidemill.boundary.files import file_path
from tidemill.boundary.results import Rows, Updates, following
from tidemill.boundary.rows import checked_rows
from tidemill.boundary.sorting_out import RefusedRow
from tidemill.boundary.values import canonical
from tidemill.completion import OfUsers
from tidemill.dataflow.fingerprint import function_prints
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input, Node, Output
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.errors import EngineError, StateError, TidemillError, TimeError, UnknownNameError, did_you_mean
from tidemill.late import Late
from tidemill.renderer.runs.executor import DataFrames
from tidemill.renderer.runs.intake import Intake, OnError, require_key
from tidemill.renderer.runs.metrics import Metrics
from tidemill.renderer.runs.progress import watch
from tidemill.renderer.runs.spans import span_of_each
from tidemill.renderer.runs.step_events import StepEvents, StepInfo, require_limits
from tidemill.renderer.runs.stepper import Stepper
from tidemill.renderer.runs.subscriptions import Subscription
from tidemill.renderer.runs.system_errors import advice

if TYPE_CHECKING:
    from tidemill.notebook import explorer, live_table
    from tidemill.renderer.diagram import scene, svg
    from tidemill.renderer.diagram import why as reasons
else:
    explorer = Late("tidemill.notebook.explorer")
    live_table = Late("tidemill.notebook.live_table")
    reasons = Late("tidemill.renderer.diagram.why")
    scene = Late("tidemill.renderer.diagram.scene")
    svg = Late("tidemill.renderer.diagram.svg")

F = TypeVar("F", bound=Callable[..., Any])


def alone(method: F) -> F:
    """Return a method that waits for other threads to be done with the run, and is refused where it is closed."""

    @functools.wraps(method)
    def waits(run: Run, /, *args: Any, **kwargs: Any) -> Any:
        lifecycle = run._stepper.lifecycle  # noqa: SLF001 - a part of the class
        lifecycle.check_process()  # before the lock, which a thread may hold that a forked child has not got
        with run._lock:  # noqa: SLF001
            lifecycle.check()
            return method(run, *args, **kwargs)

    return cast("F", waits)


@final
class Run(OfUsers):
    """A dataflow at work: takes updates, closes times, and answers what there is and what changed.

    Made by ``flow.start()``, or by ``tm.load``. Also a context manager, which closes it.

    Threads may share a run: calls wait for each other, so what is read is of whole steps. What a step calls, such as a
    function in the dataflow, may not use the run (``ReentrantUseError``), nor wait for a thread that does.

    With a folder for state, a step is taken when what was put in for it is on the disk. A run on the same folder goes
    on after the last step that was taken: with what was put in before that step, at times still open too, and without
    what was put in later. ``changes`` begin there; what must not miss any is written by `to_changelog`. A step that
    cannot be written down is not taken (``StateError``), and may be tried again. Damage to a file of the folder is an
    error that names it (``StateError``), when the file is read. Runs that have files are those of the process that
    started them: in a child forked from it they are refused (``ClosedRunError``).
    """

    _between_layers: ClassVar[frozenset[str]] = frozenset(("executor", "explain_by", "graph", "passes"))

    def __init__(self, stepper: Stepper, *, passes: Sequence[str] = (), dataframes: DataFrames | None = None) -> None:
        self._lock = stepper.subscriptions.run_lock
        self.executor = stepper.executor
        self.graph: Graph = stepper.frontiers.graph
        """What is run: as the passes left it."""
        self.passes = tuple(passes)
        """The names of the passes that it went through."""
        self.keep = stepper.frontiers.keep
        self._stepper = stepper
        self._frontiers = stepper.frontiers
        self._dataframes = dataframes
        self._intake = Intake(stepper, dataframes)
        self._inputs, self._outputs = self.graph.inputs, self.graph.outputs
        self._explained: tuple[Callable[..., reasons.Why], Callable[[str], str]] | None = None
        """What finds reasons, and the name of the output that holds what an input does; see `explain_by`."""
        self._fed: dict[Output, Fed] = {}

    # -- putting in -----------------------------------------------------------------------------------------------

    @overload
    def insert(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["raise"] = "raise") -> None: ...
    @overload
    def insert(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["collect"]) -> list[RefusedRow]: ...
    @alone
    def insert(self, name: str, rows: Any, *, time: Any = None, on_error: OnError = "raise") -> list[RefusedRow] | None:
        """Add rows to an input: tuples or dicts, files (`read_parquet` and its like), or any table that speaks Arrow.

        Tuples and lists go by position. What has names goes by these, in any order: dicts, named tuples, PySpark's
        rows, dataclasses, objects of attrs; and the columns of tables (Arrow, pandas, Polars, DuckDB's, other outputs'
        `Rows`). Whatever a value comes in, it is converted where that changes nothing of it, as ``1.0`` to an int64,
        and else refused. What pandas calls missing is NULL; NaN is a value of floats alone, and NULL in other columns
        and in frames of pandas.

        They get the given time, or the input's frontier where that is one time. They are queued: outputs change when
        their time closes. Refused whole, with no trace, if any row does not fit (``RowError``) or the time is final
        (``TimeError``). On an input with a key it is an upsert.

        With ``on_error="collect"`` the rows that fit are taken, and the others returned, each with its ``RowError``;
        files, and tables without the input's columns, are refused whole all the same.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("sums", flow.input("x", {"k": "string", "i": "int64"}).group_by("k").agg(total=tm.sum("i")))
        >>> with flow.start() as run:
        ...     run.insert("x", [("a", 1), {"i": 2, "k": "a"}])
        ...     run.advance()
        ...     list(run.snapshot("sums"))
        [('a', 3)]
        >>> with flow.start() as run:
        ...     refused = run.insert("x", [("a", 1), ("a", "two")], on_error="collect")
        >>> [(row, error.column) for row, error in refused]
        [(('a', 'two'), 'i')]
        """
        return self._intake.change(self._input(name), rows, time, +1, on_error)

    @overload
    def delete(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["raise"] = "raise") -> None: ...
    @overload
    def delete(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["collect"]) -> list[RefusedRow]: ...
    @alone
    def delete(self, name: str, rows: Any, *, time: Any = None, on_error: OnError = "raise") -> list[RefusedRow] | None:
        """Take rows from an input, as `insert` adds them. On an input with a key, rows of the key's columns do.

        Whether the rows are there is checked for unique inputs only: in others counts may become negative.
        """
        return self._intake.change(self._input(name), rows, time, -1, on_error)

    @overload
    def upsert(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["raise"] = "raise") -> None: ...
    @overload
    def upsert(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["collect"]) -> list[RefusedRow]: ...
    @alone
    def upsert(self, name: str, rows: Any, *, time: Any = None, on_error: OnError = "raise") -> list[RefusedRow] | None:
        """Put rows in the place of those with the same key; the last call in an epoch wins, and of its rows the last.

        The rows of a table are as many writes in their order. The current rows are held as an arrangement; cost: that
        of the rows given, not of those held. Refused whole, as by `insert`, and where a key has a NULL in it; with
        ``on_error="collect"`` as by `insert` too.

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
        require_key(node, "upsert")
        return self._intake.change(node, rows, time, +1, on_error)

    @alone
    def apply(self, name: str, feed: Any, *, op: str = "op", time: Any = None, format: FeedFormat = "op") -> None:  # noqa: A002 - the contract's name
        """Take a change feed for an input with a key: rows with a column ``op`` that says what to do with each.

        ``insert`` and ``update`` put the row in the place of that with its key, ``delete`` takes the row of its key; so
        do their first letters, in either case, and Debezium's. The last row of a key in an epoch wins. ``truncate``
        takes all rows, its columns being NULL or left out, at the cost of looking at them. A feed is whatever `insert`
        takes, with ``op`` after the input's columns where rows are tuples; deletions need no other column than the
        key's. ``time`` is one for all rows, as for `insert`, or the name of the feed's column of times.
        Refused whole, with no trace, if any row does not fit.

        ``format`` says how other systems write feeds; columns that the input does not have are left out then:

        - ``"debezium"``: envelopes with ``op`` (c, r, u, d, t), ``before`` and ``after``, as dicts or JSON text, with
          their schema around them or without; or pairs of a message's key and its value. Tombstones and messages are
          passed over. Zoned moments become UTC, days, microseconds and decimals what the schema says of them.
        - ``"maxwell"``: messages with ``type`` and ``data``.
        - ``"delta"``: Delta's change feed, a table or dicts with ``_change_type``, in the order of
          ``_commit_version`` where there is one.

        Where an update changes the key, the row of the old one goes.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("prices", flow.input("prices", {"item": "string", "price": "int64"}, key="item"))
        >>> with flow.start() as run:
        ...     run.apply("prices", [("tea", 3, "insert"), ("milk", 1, "insert"), ("tea", 4, "update")])
        ...     run.advance()
        ...     run.apply("prices", [{"op": "d", "item": "milk"}])
        ...     run.apply("prices", ['{"op": "c", "after": {"item": "rye", "price": 7, "id": 1}}'], format="debezium")
        ...     run.advance()
        ...     list(run.snapshot("prices"))
        [('rye', 7), ('tea', 4)]
        """
        self._intake.feed(self._input(name), feed, op, time, format)

    @alone
    def update(self, name: str, updates: Any, *, time: str | None = None, diff: str = "diff") -> None:
        """Add ``(row, time, diff)`` triples to an input, in any order, at times beyond its frontier.

        Or a table of them: anything that `insert` takes as one, with a column for each coordinate of time and one for
        the diff, called as those of ``changes(...).to_arrow()`` unless ``time`` and ``diff`` say otherwise. Refused
        whole, as by `insert`.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start() as run:
        ...     run.update("x", [((7,), 3, -1), ((7,), 0, 2)])
        ...     run.advance_to(5)
        ...     changes = run.changes("x")
        >>> list(changes)
        [((7,), 0, 2), ((7,), 3, -1)]
        >>> with flow.start() as run:
        ...     run.update("x", changes.to_pandas())
        ...     run.advance_to(5)
        ...     run.changes("x") == changes
        True
        """
        self._intake.updates(self._input(name), updates, time, diff)

    @alone
    def watermark(self, name: str, value: Any, *, time: Any = None) -> None:
        """Say that no rows of an input will come any more whose watermark column is below a value.

        For inputs opened with ``watermark=``; where that has a delay too, the greater of the two watermarks counts. It
        holds from the given time on, or from the input's frontier, and takes effect when that time closes: it is put in
        like a row, so it is part of the step, durable, and gone with `discard`. ``TimeError`` for one that goes back.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("sorted", flow.input("x", {"i": "int64"}, watermark="i").sort_buffer("i"))
        >>> with flow.start() as run:
        ...     run.insert("x", [(7,), (5,), (6,)])
        ...     run.watermark("x", 7)
        ...     run.advance()
        ...     list(run.snapshot("sorted"))
        [(5,), (6,)]
        """
        self._intake.watermark(self._input(name), value, time)

    @alone
    def deliver(self, source: str, batch: int, put: Callable[[Self], object], *, advance_to: Any = None) -> bool:
        """Take a numbered batch of a source exactly once: call ``put(run)``, which puts it in, and take a step.

        For sources that deliver again what may have got lost: their batches have numbers that grow, and the step
        commits the batch with its number. Returns False, and does nothing, where this number or a later one of the
        source has been committed. Where anything fails, what ``put`` put in is taken back. The step is ``advance()``,
        or ``advance_to(advance_to)``. Without durable state numbers are remembered in this process alone.
        """
        advance = self.advance if advance_to is None else lambda: self.advance_to(advance_to)
        try:
            return self._stepper.deliver(source, batch, lambda: put(self), advance)
        except BaseException:
            self._intake.forget_told()
            raise

    @alone
    def foreach_batch(
        self, name: str, *, source: str | None = None, op: str | None = None
    ) -> Callable[[Any, int], None]:
        """Return the function for Structured Streaming's ``foreachBatch`` that makes each batch an epoch of an input.

        The batch is inserted (on an input with a key: upserted; with ``op`` applied as a change feed, see `apply`),
        and the epoch is closed. A batch of more rows than `tm.Spark` has come to the driver stays on the executors.
        With durable state each batch counts exactly once, however often Spark delivers it: its number is committed
        with the step.

        ``source`` names the query, the input's name if nothing is said. Spark counts a query's batches from 0 where its
        ``checkpointLocation`` is new, and batches whose numbers were committed are passed over: a query with a new
        ``checkpointLocation`` needs a new name. The query calls it from a thread of its own, for which others wait that
        read the run. ``EngineError`` over Spark Connect, which runs it in another process.

        .. code-block:: python

            query = arriving.writeStream.foreachBatch(run.foreach_batch("flights"))
            query.option("checkpointLocation", "checkpoint/").start()
        """
        self._input(name)
        if self._dataframes is None:
            msg = "foreach_batch is for streams of Spark: start the run with tm.Spark(spark); others run.deliver(...)"
            raise EngineError(msg)
        self._dataframes.require_streams()

        def take(frame: Any, batch: int) -> None:
            def put(run: Self) -> None:
                if op is None:
                    run.insert(name, frame)
                else:
                    run.apply(name, frame, op=op)

            self.deliver(name if source is None else source, batch, put)

        return take

    # -- moving on --------------------------------------------------------------------------------------------------

    @alone
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
        some = None if input is None else self._frontiers.with_watermark(self._input(input))
        self._stepper.take(self._frontiers.advanced_to(time, some))

    @alone
    def advance(self) -> None:
        """Close the current epoch: of the inputs still open, the earliest. For times of one coordinate."""
        self._stepper.take(self._frontiers.next_epoch())

    async def aadvance_to(self, time: Any, *, input: str | None = None) -> None:  # noqa: A002 - as `advance_to`
        """Do what `advance_to` does in another thread, for programs of asyncio: the loop goes on meanwhile."""
        import asyncio  # noqa: PLC0415 - takes long to import, and its users have it

        await asyncio.to_thread(self.advance_to, time, input=input)

    async def aadvance(self) -> None:
        """Do what `advance` does in another thread, for programs of asyncio: the loop goes on meanwhile.

        Other methods of the run wait for the end of the step: call those that are not to block the loop in a thread
        too, as by ``asyncio.to_thread(run.insert, ...)``.
        """
        import asyncio  # noqa: PLC0415 - as above

        await asyncio.to_thread(self.advance)

    @alone
    def close_input(self, name: str) -> None:
        """Declare that an input will not change any more, and do the work this brings."""
        self._stepper.take(self._frontiers.closed(self._frontiers.with_watermark(self._input(name))))

    @alone
    def close_inputs(self) -> None:
        """Declare that no input will change any more, and do the work this brings."""
        self._stepper.take(self._frontiers.closed(self._inputs.values()))

    @alone
    def discard(self) -> None:
        """Forget all queued updates that no output shows yet: the way out when a step cannot be taken.

        Those are the updates at times not closed yet, and where an input is ahead of the others, those at times it has
        closed which wait for the others. The frontiers stay; until the next step is taken, updates at such times are
        accepted again, as they are to correct what was refused.
        """
        self._stepper.discard()
        self._intake.forget_told()

    # -- reading -------------------------------------------------------------------------------------------------------

    @alone
    def snapshot(self, name: str, *, at: Any = None) -> Rows:
        """Return an output's contents at its last complete time, or at an earlier one not compacted away.

        Before any time is complete there are none. With times of several coordinates ``at`` has to be given, until the
        inputs are closed.

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
        if at is None and self._frontiers.users == 1 and self._frontiers.of(node) == Antichain([0]):
            return Rows(node.schema, node.schema.to_arrow().empty_table(), np.empty(0, np.int64), None)
        return self.executor.contents(node, self._frontiers.readable_time(node, at))

    @alone
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
        upper = self._frontiers.of(node)
        if since is not None:
            time = self._frontiers.distinguishable_time(node, since)
            found = self.executor.changed_since(node, time, self._frontiers.since[node], upper)
        elif node.changes is False:
            msg = f"{node.where} keeps no changes: declare it with changes=True, or ask with since="
            raise TimeError(msg)
        else:
            found = self.executor.take_unread(node, self._frontiers.read[node], upper)
            self._frontiers.read[node] = upper
        return following(found, self._fed.setdefault(node, Fed(functools.partial(self._counts_before, node))))

    @alone
    def subscribe(
        self,
        output: str,
        /,
        *,
        name: str | None = None,
        since: Any = None,
        snapshot: bool = True,
        callback: Callable[[Updates], object] | None = None,
    ) -> Subscription:
        """Return a reader of an output: its contents as they are now, and from then on every change, each once.

        Any number of readers, each goes on by itself. ``for batch in subscription`` gives what there is, `follow` and
        ``async for`` wait for more; with a ``callback`` each batch is given to that after the step, and acknowledged
        when it returns. What was not acknowledged (``subscription.ack()``) comes again, in the next loop or call, so a
        sink that fails loses nothing. With ``snapshot=False`` it begins with what changes from now on, with ``since=t``
        with what changed after a time, as far back as ``keep`` reaches.

        One with a ``name`` goes on where it acknowledged, on a durable run after a restart too: then it is neither
        ``since`` nor a snapshot that it begins with, unless nothing was acknowledged. Changes that it has not
        acknowledged are kept on the disk for it until `unsubscribe`. A run without a folder keeps a million updates of
        an output: a reader that is further behind gets a ``MissedChangesError``, and begins again by ``resync()``.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
        >>> with flow.start() as run:
        ...     run.insert("x", [("a",)])
        ...     run.advance()
        ...     mailer = run.subscribe("n", name="mailer")
        ...     run.insert("x", [("a",), ("b",)])
        ...     run.advance()
        ...     for batch in mailer:
        ...         print(batch.lower, batch.upper, list(batch))
        ...         mailer.ack()
        Antichain(0) Antichain(1) [(('a', 1), 0, 1)]
        Antichain(1) Antichain(2) [(('a', 1), 1, -1), (('a', 2), 1, 1), (('b', 1), 1, 1)]
        """
        node = self._output(output)
        if callback is not None and not callable(callback):
            msg = f"subscribe({output!r}, callback={callback!r}): expected a function, which is called with each batch"
            raise TidemillError(msg)
        if name is not None and (not isinstance(name, str) or not name):
            msg = f"subscribe({output!r}, name={name!r}): expected a name for the reader, which is known by it later on"
            raise TidemillError(msg)
        time = None if since is None else self._frontiers.distinguishable_time(node, since)
        return self._stepper.subscriptions.add(node, name, time, callback, snapshot=snapshot)

    @alone
    def unsubscribe(self, name: str) -> None:
        """Forget a reader with a name: no changes are kept for it any more."""
        self._stepper.subscriptions.forget(name)

    @property
    @alone
    def subscriptions(self) -> dict[str, Antichain | None]:
        """Up to where each reader with a name has acknowledged, whether or not it is there; None for not at all."""
        return {name: cursor.upto for name, cursor in self._stepper.subscriptions.cursors().items()}

    @alone
    def _counts_before(self, node: Output, frontier: Antichain) -> dict[tuple[Any, ...], int]:
        """Return an output's contents at the last time before a frontier that it had."""
        at = frontier.elements[0][0] - 1 if frontier.elements else None
        try:
            return self.executor.contents(node, self._frontiers.readable_time(node, at)).counts()
        except TimeError as error:
            msg = f"{error}; or call to_feed before the run goes on, on all changes one after the other"
            raise TimeError(msg) from None

    @alone
    def why(self, name: str, row: Any, *, at: Any = None) -> reasons.Why:
        """Return why an output has a row, or why it has not, at its last complete time or at an earlier one.

        For a row that is there: input rows from which alone it follows, found by leaving out others and seeing that it
        is there still, until (within bounds) none can be left out; and on what way it follows from them, operator by
        operator, with the iterations of loops. It is one reason of several that there may be, and a least one: of a sum
        the rows that come to it, of a row of a top-k that row alone. For a row that is not there: backwards from the
        output what each operator had, and which input rows are missing. Printed it is a tree, in notebooks a picture.

        Needs a run started with ``why=True``. Cost: a run on the embedded engine, in this process, of the rows near to
        the one asked for, in the worst case of all; and some hundreds of steps of it. User functions are called again.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> edges = flow.input("edges", {"a": "string", "b": "string"})
        >>> roots = flow.input("roots", {"at": "string"})
        >>> flow.output("hops", tm.graphs.bfs(edges, roots))
        >>> run = flow.start(why=True)
        >>> run.insert("roots", [("x",)])
        >>> run.insert("edges", [("x", "y"), ("y", "w"), ("w", "x"), ("z", "w")])
        >>> run.advance()
        >>> run.why("hops", ("w", 2)).rows
        {'edges': [('x', 'y'), ('y', 'w')], 'roots': [('x',)]}
        """
        node = self._output(name)
        if self._explained is None:
            msg = f"why({name!r}, ...): this run keeps no inputs to look for reasons in: start it with why=True"
            raise EngineError(msg)
        (wanted,) = checked_rows(node.schema, [row], f"why({name!r}, ...)")
        (answer, kept_name), given, time = self._explained, {}, self._frontiers.readable_time(node, at)
        for source in self._frontiers.progress.sources(node):
            kept = self.graph.outputs[kept_name(source.name)]
            if time is not None:
                self._frontiers.readable_time(kept, time)
            given[source.name] = self._canonical_counts(kept, time)
        is_there = self._canonical_counts(node, time).get(wanted, 0) > 0
        return answer(given, name, wanted, time=time, is_there=is_there)

    def _canonical_counts(self, node: Output, time: Time | None) -> dict[Any, int]:
        """Return an output's rows written as those put in are: with the one NaN, which equals itself."""
        return {canonical(row): count for row, count in self.executor.contents(node, time).counts().items()}

    def explain_by(self, answer: Callable[..., reasons.Why], kept_name: Callable[[str], str]) -> None:
        """Have `why` answered: ``answer(what inputs hold, output, row, time=, is_there=)``, where outputs hold that.

        Called by whoever started the run so.
        """
        self._explained = answer, kept_name
        kept = set(map(kept_name, self._inputs))
        self._outputs = {name: output for name, output in self._outputs.items() if name not in kept}

    @alone
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
        node = self._outputs.get(name) or self._inputs.get(name)
        if node is None:
            msg = f"no output or input {name!r}: {did_you_mean(name, [*self._outputs, *self._inputs])}"
            raise UnknownNameError(msg)
        return self._frontiers.of(node)

    @alone
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
        if not callable(callback):
            msg = f"on_step({callback!r}): expected a function, which is called with a StepInfo after each step"
            raise TidemillError(msg)
        return self._stepper.listeners.add(callback)

    def to_opentelemetry(self, tracer: Any | None = None) -> Callable[[], None]:
        """Make each step that is taken a span of OpenTelemetry from now on; returns a function that ends this.

        Its attributes are the flow's name, the step's number, and the frontiers after it. It is a child of the span in
        which the step was taken. ``tracer`` is that named ``tidemill``, unless another one is given. Needs
        OpenTelemetry (``pip install 'tidemill[otel]'``), and the program sets up where spans go.
        """
        return self.on_step(span_of_each(self.graph.name, tracer))

    @alone
    def live(self, name: str, *, limit: int = 20) -> live_table.Live:
        """Display an output's contents in a notebook, as a table that is refreshed after each step.

        Needs IPython (``pip install 'tidemill[notebook]'``), and times of one coordinate. Each refreshing costs a
        `snapshot`; ``limit`` rows are shown.
        """
        from tidemill.notebook.live_table import Live  # noqa: PLC0415 - for notebooks alone

        return Live(self, self._output(name).name, limit)

    @alone
    def metrics(self) -> Metrics:
        """Return figures for each operator: records in and out, state rows, batches, seconds, bytes; and of memory.

        Printed it is a table; `to_pandas` makes a DataFrame of it, `to_prometheus` a page for Prometheus. ``memory``
        has what all of it takes: interned values, changes that nobody has read, what is held and what is on the disk.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("odd", flow.input("x", {"i": "int64"}).select(odd="i % 2 = 1").distinct())
        >>> with flow.start() as run:
        ...     run.insert("x", [(1,), (2,), (3,)])
        ...     run.advance()
        ...     [(o.kind, o.records_out) for o in run.metrics()]
        ...     run.metrics().memory.unread
        [('Input', 3), ('Map', 3), ('Threshold', 2), ('Output', 2)]
        {'odd': 2}
        """
        return Metrics(self.executor.metrics(), self.executor.memory())

    @alone
    def to_changelog(
        self, path: str | os.PathLike[str], *, outputs: Sequence[str] | None = None, keep: int | None = None
    ) -> None:
        """Write the updates of outputs (all, or those named) to Parquet files from now on, each exactly once.

        A folder for each output, of its name (with percent codes and a digest where that is no name for a folder, or
        differs from another output's in case alone), in it a file for each step that changes it, such as
        ``step-0000000012.parquet`` by the number of the step, with the columns of ``run.changes(name).to_arrow()``.
        What outputs hold before any step, as of constants, is in the files of the first step, if that is still to come.
        Files appear whole, and only when their step is committed; a run that goes on after a crash shows what was
        committed and not shown yet, and goes on writing without being told again. ``outputs=[]`` ends it. The folder
        belongs to this run's state: ``StateError`` where it is another's.

        With ``keep=n`` the files of the last ``n`` to ``2 * n`` steps stay as they are. Older ones are merged into a
        few such as ``steps-0000000001-0000000900.parquet``, in which what went again is left out, and times are the
        last one; so a changelog grows with the contents, not with the steps. Read it with `tm.read_changelog` then,
        which does not count twice what is just being merged.

        Cost: a file and its way to the disk for each step and output that changes. An output whose changes nobody reads
        in other ways had better be declared with ``changes=False``: they are kept in memory until they are read.
        """
        names = [self._output(name).name for name in (self._outputs if outputs is None else outputs)]
        if keep is not None and (not isinstance(keep, int) or isinstance(keep, bool) or keep < 1):
            msg = f"to_changelog(..., keep={keep!r}): expected a number of steps, 1 or more, or None for all"
            raise StateError(msg)
        self._stepper.recorder_for("to_changelog").to_changelog(path, names, keep)

    # -- showing -------------------------------------------------------------------------------------------------------

    @alone
    def log_events(self, limit: int = 1000, *, rows: int = 10) -> None:
        """Log what every operator does in each step from now on: the last ``limit`` steps, read as `events`; 0 ends it.

        Of the updates that an operator emits in a step the first ``rows`` are kept in full.

        Begin before rows are put in: of large tables that are queued already it shows what nothing reads as NULL.

        Cost: while events are logged, some microseconds for each operator and step, and for each of these updates; else
        nothing.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> edges = flow.input("edges", {"a": "int64", "b": "int64"})
        >>> start = flow.constant({"at": "int64"}, [(1,)])
        >>> step = lambda here: here.join(edges, on={"at": "a"}).select(at="b").concat(start).distinct()
        >>> flow.output("reached", start.iterate(step))
        >>> with flow.start() as run:
        ...     run.log_events()
        ...     run.insert("edges", [(1, 2), (2, 3)])
        ...     run.advance()
        ...     (distinct,) = (n for n in run.graph.nodes if n.kind == "Threshold")
        ...     work = run.events[-1].operators[distinct.id]
        ...     work.rounds, work.times
        (2, {(0, 0): 2, (0, 1): 1})
        """
        require_limits(limit, rows)
        self._stepper.log_events(limit, rows)

    @property
    @alone
    def events(self) -> StepEvents:
        """The last steps, oldest first, with what every operator did in each; see `log_events`."""
        if self._stepper.events is None:
            msg = "this run logs no events: begin with run.log_events(), before the steps that you want to see"
            raise EngineError(msg)
        return self._stepper.events

    @alone
    def to_svg(self, *, direction: svg.DirectionOrAuto = "auto") -> str:
        """Return the picture of the run as SVG: what is run, with records sent, rows held, and frontiers.

        ``direction`` as for `Dataflow.to_svg`. An edge on which nothing was ever sent is dashed.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("once", flow.input("x", {"i": "int64"}).distinct())
        >>> with flow.start() as run:
        ...     run.insert("x", [(1,), (2,)])
        ...     run.advance()
        ...     "2 held · frontier 1" in run.to_svg()
        True
        """
        from tidemill.renderer.diagram.svg import checked_direction, svg_of  # noqa: PLC0415 - slow to import

        return svg_of(self._scene(), checked_direction(direction))

    @alone
    def to_html(self) -> str:
        """Return the explorer of the run as one HTML page, which needs no network, no kernel and no Python.

        It has what `to_svg` has and the rows of outputs, and where events are logged (`log_events`) it steps through
        closed times: who had work at each, in which iterations, how many records went along each edge, and which
        operators had passed the time, held it back, or were waiting.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("once", flow.input("x", {"i": "int64"}).distinct())
        >>> with flow.start() as run:
        ...     run.log_events()
        ...     run.insert("x", [(1,), (2,)])
        ...     run.advance()
        ...     page = run.to_html()
        >>> "<!doctype html>" in page, "http://" in page.replace("http://www.w3.org/2000/svg", "")
        (True, False)
        """
        from tidemill.renderer.diagram.explorer_page import page_of  # noqa: PLC0415 - slow to import

        return page_of(self._data(), f"a run of {self.graph.name}")

    @alone
    def watch(self, *, after: float = 0.5) -> Callable[[], None]:
        """Show steps that take longer than ``after`` seconds while they are under way; returns a function that ends it.

        In a notebook below the cell that calls it: operators with the updates that came to them, their share of the
        time, their rate and the updates still to come to them, the loop and the iteration that it is in, and the graph
        coloured by where the time goes. In a terminal the table alone, by rich. Where nobody looks nothing is shown. It
        is in the place of the table that ``flow.start(progress=True)`` shows of itself.
        """
        return watch(self._stepper, self.graph, after)

    @alone
    def record(self, path: str | os.PathLike[str]) -> None:
        """Save what `to_html` shows to a file, which ``tidemill explore path`` makes a page of: a bug report in a file.

        It is JSON: the graph with the lines of code that made it, figures, logged events, and the first rows of
        outputs. Nothing is run to look at it.
        """
        from tidemill.renderer.diagram.explorer_page import record_of  # noqa: PLC0415 - slow to import

        text = record_of(self._data(), f"a run of {self.graph.name}")
        file = file_path(path, f"record({path!r})")
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            msg = f"record({path!r}): cannot be written ({error.strerror}): expected a path in a folder that is there"
            raise StateError(msg) from error

    @alone
    def explore(self, *, height: int = 560) -> explorer.Explorer:
        """Return the explorer as a widget for notebooks, where a click on an output shows its rows.

        At an earlier time rows are asked of the run, as far back as ``keep`` reaches. A click on another operator shows
        the last of its updates that `log_events` has kept. The widget shows the run up to here; see `to_html`. A saved
        notebook, which has no kernel, shows the picture of it instead. Needs anywidget
        (``pip install 'tidemill[notebook]'``).
        """
        from tidemill.notebook.explorer import explorer  # noqa: PLC0415 - for notebooks alone

        return explorer(self._data(), height, self._repr_mimebundle_(), self._records_at)

    def _records_at(self, id_: int, time: Sequence[int | str] | None) -> dict[str, Any]:
        """Return for the explorer an output's contents, at a time or now; for other nodes, the updates logged."""
        from tidemill.renderer.runs.pictures import records_of, updates_on_record  # noqa: PLC0415 - slow to import

        node, at = self.graph.nodes[id_], None if time is None else tuple(map(int, time))
        try:
            if isinstance(node, Output):
                return records_of(self.snapshot(node.name, at=at))
            return updates_on_record(self.events[:], node, at)
        except TidemillError as error:
            return {"note": str(error)}

    def _data(self) -> str:
        from tidemill.renderer.diagram.explorer_page import data_of  # noqa: PLC0415 - slow to import
        from tidemill.renderer.runs.pictures import READABLE, history_of  # noqa: PLC0415 - as above

        events = () if self._stepper.events is None else self._stepper.events
        held = {o.id: o.state_rows for o in self.executor.metrics()}
        large = {n: held[o.id] for n, o in self._outputs.items() if held[o.id] > READABLE}
        small = [name for name in self._outputs if name not in large]
        outputs = {name: rows for name in small if (rows := self._last_rows(name)) is not None}
        return data_of(self._scene(), self.graph, history_of(events, self._frontiers, outputs, large))

    def _last_rows(self, name: str) -> Rows | None:
        """Return what an output holds, or None where it cannot be said: nothing is complete, or not which time."""
        try:
            return self.snapshot(name)
        except TimeError:
            return None

    def _scene(self) -> scene.Scene:
        from tidemill.renderer.runs.pictures import run_scene  # noqa: PLC0415 - slow to import

        return run_scene(self.graph, self.executor.metrics(), self._frontiers)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        if self._stepper.lifecycle.is_closed or self._stepper.lifecycle.is_foreign:
            return {"text/plain": repr(self)}
        from tidemill.renderer.diagram.closed_scene import closed_scene  # noqa: PLC0415 - slow to import
        from tidemill.renderer.diagram.svg import bundle_of, svg_of  # noqa: PLC0415 - as above

        return bundle_of(repr(self), svg_of(closed_scene(self.graph, self._scene())), f"a run of {self.graph.name}")

    # -- state --------------------------------------------------------------------------------------------------------

    @alone
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a file, to go on from with ``tm.load(path, flow)``.

        That is also what is queued, what `changes` would give, and the numbers of `deliver`.
        Atomic: a crash while saving leaves what the file held before. No pickle: whole numbers, interned values, and a
        manifest with the version of the format, checksums, and what the dataflow is. Cost: the size of the state.
        """
        file = file_path(path, f"save({path!r})")
        try:
            self._stepper.save(file, {"passes": self.passes, "functions": function_prints(self.graph)})
        except OSError as error:
            expected = advice(error, "expected a path in a folder that is there")
            msg = f"save({path!r}): cannot be written ({error.strerror}): {expected}"
            raise StateError(msg) from error

    @alone
    def checkpoint(self) -> None:
        """Write the whole state, so that the next run on this folder need not repeat the steps before.

        This is done by itself after many steps or rows. Not while updates are queued that no step has taken yet. The
        state is compacted first, so what nobody can ask about is given up, in memory too. Cost: the size of the state.
        """
        self._stepper.checkpoint()

    @alone
    def compact(self) -> int:
        """Merge every arrangement into one batch, forgetting times that nobody can ask about any more.

        Strings and other interned values that nothing refers to any more are released. Returns how many updates were
        given up. For idle moments: steps merge the same little by little. Cost: the size of the state.
        """
        return self._stepper.compact()

    @alone
    def spill(self) -> None:
        """Write all state that is in memory to the disk, from where it is read again by key.

        This is done by itself where more updates than ``in_memory`` are held. Cost: the size of what is in memory.
        """
        self._stepper.spill()

    def close(self) -> None:
        """Release the state. Whatever is asked of the run afterwards is an error.

        A durable run writes a checkpoint first where it would take the next one longer to repeat the steps since the
        last.
        """
        if not self._stepper.lifecycle.is_foreign:  # a forked child has nothing to release
            with self._lock:
                self._stepper.close()

    @alone
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        head = f"Run of {self.graph.name!r}"
        if self._stepper.lifecycle.is_closed:
            return f"{head}, closed"
        inputs = (("input", node) for node in self._inputs.values())
        outputs = (("output", node) for node in self._outputs.values())
        ends: list[tuple[str, Node]] = [*inputs, *outputs]
        lines = [f"  {kind} {node.name!r}, complete up to {self._frontiers.of(node)}" for kind, node in ends]
        return "\n".join([f"{head}, {self._stepper.steps} steps taken", *lines])

    def __reduce__(self) -> Never:
        msg = (
            f"a run of {self.graph.name!r} is of this process alone and cannot be pickled or copied: run.save(path) "
            "writes its state, from which tm.load(path, flow) goes on; a dataflow can be pickled"
        )
        raise StateError(msg)

    # -- how it is done -----------------------------------------------------------------------------------------------

    def _input(self, name: str) -> Input:
        if name in self._inputs:
            return self._inputs[name]
        msg = f"no input {name!r}: {did_you_mean(name, self._inputs)}"
        raise UnknownNameError(msg)

    def _output(self, name: str) -> Output:
        if name in self._outputs:
            return self._outputs[name]
        msg = f"no output {name!r}: {did_you_mean(name, self._outputs)}"
        raise UnknownNameError(msg)


class Engine(Protocol):
    """What ``flow.start`` takes: something that makes a run of a graph."""

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run of a frozen graph, at its start or where saved state says; ``keep`` as for ``flow.start``."""
        ...
