"""The run of a dataflow as users hold it, whichever engine is behind it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Never, Self, final, overload

from tidemill.boundary.paths import file_path
from tidemill.boundary.sorting_out import RefusedRow
from tidemill.dataflow.fingerprint import function_prints
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Node
from tidemill.errors import EngineError, StateError
from tidemill.renderer.runs.intake import OnError, require_key
from tidemill.renderer.runs.run_base import alone
from tidemill.renderer.runs.run_pictures import RunPictures
from tidemill.renderer.runs.system_errors import advice


@final
class Run(RunPictures):
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

    # -- putting in -----------------------------------------------------------------------------------------------

    @overload
    def insert(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["raise"] = "raise") -> None: ...
    @overload
    def insert(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["collect"]) -> list[RefusedRow]: ...
    def insert(self, name: str, rows: Any, *, time: Any = None, on_error: OnError = "raise") -> list[RefusedRow] | None:
        """Add rows to an input: tuples or dicts, `read_parquet` or `read_csv`, or any table that speaks Arrow.

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
        return self._change(name, rows, time, +1, on_error)

    @overload
    def delete(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["raise"] = "raise") -> None: ...
    @overload
    def delete(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["collect"]) -> list[RefusedRow]: ...
    def delete(self, name: str, rows: Any, *, time: Any = None, on_error: OnError = "raise") -> list[RefusedRow] | None:
        """Take rows from an input, as `insert` adds them. On an input with a key, rows of the key's columns do.

        Whether the rows are there is checked for unique inputs only: in others counts may become negative.
        """
        return self._change(name, rows, time, -1, on_error)

    @overload
    def upsert(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["raise"] = "raise") -> None: ...
    @overload
    def upsert(self, name: str, rows: Any, *, time: Any = None, on_error: Literal["collect"]) -> list[RefusedRow]: ...
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
        return self._upsert(name, rows, time, on_error)

    @alone
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
        self._intake.feed(self._input(name), feed, op, time)

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
        self._stepper.move(self._frontiers.advanced_to(time, some))

    @alone
    def advance(self) -> None:
        """Close the current epoch: of the inputs still open, the earliest. For times of one coordinate."""
        self._stepper.move(self._frontiers.advanced_to(self._frontiers.next_epoch()))

    @alone
    def close_input(self, name: str) -> None:
        """Declare that an input will not change any more, and do the work this brings."""
        self._stepper.move(dict.fromkeys(self._frontiers.with_watermark(self._input(name)), Antichain()))

    @alone
    def close_inputs(self) -> None:
        """Declare that no input will change any more, and do the work this brings."""
        self._stepper.move(dict.fromkeys(self._inputs.values(), Antichain()))

    @alone
    def discard(self) -> None:
        """Forget all queued updates that no output shows yet: the way out when a step cannot be taken.

        Those are the updates at times not closed yet, and where an input is ahead of the others, those at times it has
        closed which wait for the others. The frontiers stay; until the next step is taken, updates at such times are
        accepted again, as they are to correct what was refused.
        """
        self._stepper.discard()
        self._intake.forget_told()

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
        """Release the state. Whatever is asked of the run afterwards is an error."""
        if not self._stepper.lifecycle.is_foreign:  # a forked child has nothing to release
            with self._lock:
                self._stepper.lifecycle.close()

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

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if n not in {"executor", "graph", "passes"}]

    def __reduce__(self) -> Never:
        msg = (
            f"a run of {self.graph.name!r} is of this process alone and cannot be pickled or copied: run.save(path) "
            "writes its state, from which tm.load(path, flow) goes on; a dataflow can be pickled"
        )
        raise StateError(msg)

    # -- how it is done -----------------------------------------------------------------------------------------------

    @alone
    def _change(self, name: str, rows: Any, time: Any, sign: int, on_error: OnError) -> list[RefusedRow] | None:
        return self._intake.change(self._input(name), rows, time, sign, on_error)

    @alone
    def _upsert(self, name: str, rows: Any, time: Any, on_error: OnError) -> list[RefusedRow] | None:
        node = self._input(name)
        require_key(node, "upsert")
        return self._intake.change(node, rows, time, +1, on_error)
