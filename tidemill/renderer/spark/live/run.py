"""A durable run beside a Spark session: results as DataFrames, and batches of Structured Streaming exactly once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.boundary.results import Rows, Updates
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, shown
from tidemill.dataflow.nodes import Input, Output
from tidemill.dataflow.passes.columns import columns_read
from tidemill.dataflow.passes.pipeline import Passes
from tidemill.errors import EngineError
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.large_change import LargeChange
from tidemill.renderer.durable.run import DurableRun
from tidemill.renderer.durable.spill_files import ColdFile
from tidemill.renderer.durable.spilled import Cold
from tidemill.renderer.embedded.operators.input_output import InputOperator
from tidemill.renderer.embedded.operators.upsert_input import UpsertInputOperator
from tidemill.renderer.runs.run import schema_of
from tidemill.renderer.spark.dataframes import Names
from tidemill.renderer.spark.frames import Frame, united
from tidemill.renderer.spark.live.exchange import frame_of
from tidemill.renderer.spark.live.incoming import few_of, frame_in_files, refuse_several, written_down
from tidemill.renderer.spark.live.large import LargeWork
from tidemill.renderer.spark.live.on_disk import DiskRows, DiskUpdates, Parts, contents, folded, pin, read_cold, summed
from tidemill.renderer.spark.live.state_files import written
from tidemill.renderer.spark.retries import attempted
from tidemill.renderer.spark.session import check_session, is_connected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkRun"]


class SparkRun(DurableRun):
    """See `Run` and `DurableRun`. Made by ``flow.start(tm.Spark(spark, state="folder/"))``."""

    def __init__(  # noqa: PLR0917 - made by its engine alone
        self,
        graph: Graph,
        keep: int,
        passes: Passes,
        spark: SparkSession,
        state: str | os.PathLike[str] | None,
        checkpoint_every: int,
        in_memory: int,
        in_driver: int,
    ) -> None:
        self._spark = spark
        self._in_driver = in_driver
        self._taken_now: list[LargeChange] = []
        """The large changes that the current step takes."""
        self._by_executors = self._carefully = False
        """Of the current step."""
        self._shown: dict[Output, tuple[ColdFile, ...]] = {}
        self._unread_files: dict[Output, tuple[ColdFile, ...]] = {}
        """Changes of outputs on the disk: of the current step, and those that were not read yet."""
        self._unread_room: dict[Output, int] = {}
        """From how many on these are added up, where that was done before and left many."""
        self._untidy = False
        """Whether executors took a step since the disk was tidied up last."""
        super().__init__(graph, keep, passes, state, checkpoint_every, in_memory)

    def foreach_batch(
        self, name: str, *, source: str | None = None, op: str | None = None
    ) -> Callable[[DataFrame, int], None]:
        """Return the function for Structured Streaming's ``foreachBatch`` that makes each batch an epoch of an input.

        The batch is collected to the driver, inserted (on an input with a key: upserted; with ``op`` applied as a
        change feed, see `apply`), and the epoch is closed. With durable state each batch counts exactly once, however
        often Spark delivers it: its number is committed with the step.

        ``source`` names the query, the input's name if nothing is said. Spark counts a query's batches from 0 where its
        ``checkpointLocation`` is new, and batches whose numbers were committed are passed over: a query with a new
        ``checkpointLocation`` needs a new name. The query calls it from a thread of its own: read the run in `on_step`,
        or when the query has stopped. ``EngineError`` over Spark Connect, which runs it in another process.

        .. code-block:: python

            run = flow.start(tm.Spark(spark, state="state/"))
            query = arriving.writeStream.foreachBatch(run.foreach_batch("flights"))
            query.option("checkpointLocation", "checkpoint/").start()
        """
        self._input(name)
        if is_connected(self._spark):
            msg = (
                "foreach_batch: Spark Connect calls the function in a process of its server, where this run is not: "
                "use a session that is not remote, or number what comes and run.deliver(source, number, put)"
            )
            raise EngineError(msg)
        known = name if source is None else source

        def take(frame: DataFrame, batch: int) -> None:
            def put(run: SparkRun) -> None:
                if op is None:
                    run.insert(name, frame)
                else:
                    run.apply(name, frame.toArrow(), op=op)

            self.deliver(known, batch, put)

        return take

    # -- large changes ------------------------------------------------------------------------------------------------

    def _change(self, name: str, rows: Any, time: Any, sign: int) -> None:
        node = self._input(name)
        if hasattr(rows, "localCheckpoint"):  # a Spark DataFrame
            at = self._default_time(node) if time is None else self._open_time(node, time)
            if not rows.columns:  # nothing but how many there are
                count = rows.count()
                self.update(name, [((), shown(at), sign * count)] if count else [])
                return
            table = few_of(rows, self._in_driver)
            if table is None:
                self._change_large(node, rows, at, sign)
                return
            rows = table
        super()._change(name, rows, time, sign)

    def _change_large(self, node: Input, rows: Any, at: Time, sign: int) -> None:
        """Have a DataFrame of many rows in files, and in the driver after all where it is not that many."""
        check_session(self._spark)
        if node.key:
            self._check_times_of_key(node)
        store = self._memory.store
        change = written_down(store, node, rows, at, sign, self._read_of(node, sign))
        if change is None:
            return
        if change.rows > self._in_driver:
            if node.key and sign > 0:
                refuse_several(self._spark, store, change)
            self._queue_large(change)
            return
        if node.key:
            self._write(node, change.writes(store.folder))
        else:
            self._queue(node, change.queued(store.folder))
        for file in change.files:
            (store.folder / file.name).unlink(missing_ok=True)

    def _read_of(self, node: Input, sign: int) -> Collection[int]:
        """Return which columns of an input are to be kept of what comes."""
        if node.key and sign < 0:
            return node.key
        return range(len(schema_of(node))) if node.unique or node.key else columns_read(self.graph, node)

    def _step(self, frontiers: Mapping[Input, Antichain]) -> None:
        def take(carefully: bool) -> None:
            self._carefully, self._shown = carefully, {}
            super(SparkRun, self)._step(frontiers)

        try:
            attempted(self.graph, take)
            is_new = self._by_executors
        finally:
            if self._by_executors:
                self._memory.drop_derived()
            self._taken_now, self._by_executors = [], False
        for output, files in self._shown.items():
            self._memory.store.pin(f.name for f in files)
            self._unread_files[output] = (*self._unread_files.get(output, ()), *files)
        self._shown = {}
        if is_new:
            self._sweep()
            self._untidy = True

    def _move(self, moved: Mapping[Input, Antichain]) -> None:
        super()._move(moved)
        if self._untidy and not self._closed:
            self._untidy = False
            self._tidy_up()

    def _tidy_up(self) -> None:
        """Merge and add up what is on the disk. The step is taken, whatever becomes of this."""
        try:
            self._memory.tidy()
            for output in list(self._unread_files):
                self._fold(output)
            self._memory.sweep()
        except Exception as error:  # noqa: BLE001 - whatever Spark may raise
            warnings.warn(f"the step was taken, what is on the disk is not merged: {error}", RuntimeWarning, 4)

    def _fold(self, output: Output) -> None:
        """Add up changes that were not read at times that nobody tells apart, if they are many."""
        files = self._unread_files[output]
        limit = self._unread_room.get(output, int(output.changes))
        if output.changes is True or sum(f.rows for f in files) <= limit:
            return
        store, cold = self._memory.store, self._memory.cold(output)
        assert cold is not None
        kept = self.compiled.outputs[output].readers_since
        data = folded(read_cold(self._spark, store, cold.layout, files), len(schema_of(output)), kept)
        found = tuple(written(store, f"{output.id}/unread", data, has_lists=cold.layout.has_lists))
        store.pin(f.name for f in found)
        self._unread_files[output] = found
        store.unpin(f.name for f in files)
        self._unread_room[output] = max(int(output.changes), 2 * sum(f.rows for f in found))

    def _close_large(self, changes: Sequence[LargeChange]) -> None:
        if self._repeating:  # steps of executors are not on the log, but what they came to
            super()._close_large(changes)
        else:
            self._taken_now = list(changes)

    def _waiting_in_files(self) -> list[LargeChange]:
        return [c for c in self._waiting_large if c not in self._taken_now]

    def _work(self) -> None:
        comes = self._taken_now or any(map(self._is_large, self.compiled.inputs.values()))
        if self._repeating or not comes:
            super()._work()
            return
        check_session(self._spark)
        store, spines = self._memory.store, self._memory.spines
        work = LargeWork(self._spark, self.compiled, store, spines, self._in_driver, carefully=self._carefully)
        given, files = self._large_inputs(work)
        self._by_executors = bool(given or self._taken_now)
        if not given:  # what large writes change is little
            super()._work()
            return
        work.run(given, files)
        self._shown = work.unread
        self.compiled.root.clear()

    def _is_large(self, operator: InputOperator) -> bool:
        return operator.ports[0].size > self._in_driver

    def _large_inputs(self, work: LargeWork) -> tuple[dict[Input, Frame], dict[Input, Sequence[ColdFile]]]:
        """Return the changes of this step that are too large for the driver, and which are just what is in files."""
        found: dict[Input, Frame] = {}
        files: dict[Input, Sequence[ColdFile]] = {}
        for node, operator in self.compiled.inputs.items():
            changes = [c for c in self._taken_now if c.node is node]
            if node.key and changes:
                frame, files[node] = work.overwrite(node, changes, operator.ports[0].take())
            else:
                frames = [frame_in_files(self._spark, self._memory.store, c) for c in changes]
                block = operator.take_step_updates() if self._is_large(operator) else None
                if block is None:
                    files[node] = [f for c in changes for f in c.files]
                elif block.shape[1] > self._in_driver or not isinstance(operator, UpsertInputOperator):
                    frames.append(frame_of(self._spark, self.compiled, schema_of(node), block))
                else:
                    operator.inject(block)
                frame = united(frames)
            if frame is not None:
                found[node] = frame
        return found, {node: in_files for node, in_files in files.items() if in_files}

    def _write_down(self) -> None:
        super()._write_down()
        self._waiting_large = self._waiting_in_files()  # whatever comes from now on, these are not to be taken again

    def _is_recorded(self) -> bool:
        return not self._by_executors

    # -- out ----------------------------------------------------------------------------------------------------------

    def _contents(self, node: Output, at: Time | None) -> Rows:
        cold = self._memory.cold(node)
        if cold is not None and cold.size > self._in_driver:
            return self._contents_on_disk(node, at, cold)
        found = super()._contents(node, at)
        found.to_frame = self._frame
        return found

    def _contents_on_disk(self, node: Output, at: Time | None, cold: Cold) -> Rows:
        schema, operator = schema_of(node), self.compiled.outputs[node]
        files = tuple(f for batch in cold.cold_batches for f in batch.files)
        here = cold.layout.decoded(operator.spine.updates_in_memory(), self.compiled.interner)
        parts = Parts(self._spark, self._memory.store, cold, files, here)
        names = list(schema.names)
        found = DiskRows(
            schema,
            at,
            lambda: self._rows(schema, parts.updates(), at),
            lambda: contents(parts.frame(), len(schema), at).toDF(*names),
        )
        pin(self._memory.store, files, found)
        return found

    def _unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        if self._unread_files.get(node):
            return self._unread_on_disk(node, lower, upper)
        found = super()._unread(node, lower, upper)
        found.to_frame = self._frame
        return found

    def _unread_on_disk(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        schema, store, operator = schema_of(node), self._memory.store, self.compiled.outputs[node]
        cold, files = self._memory.cold(node), self._unread_files[node]
        assert cold is not None
        here = cold.layout.decoded(operator.unread_updates(), self.compiled.interner)
        parts = Parts(self._spark, store, cold, files, here)
        names = [*schema.names, *Names.of(self.graph.coordinates, None, "diff").times, "diff"]
        found = DiskUpdates(
            schema,
            self.graph.coordinates,
            lower,
            upper,
            lambda: self._updates(schema, parts.updates(), lower, upper),
            lambda: summed(parts.frame(), len(schema), self._users).toDF(*names),
        )
        pin(store, files, found)
        operator.unread = []
        del self._unread_files[node]
        store.unpin(f.name for f in files)
        return found

    def _changed_since(self, node: Output, time: Time, upper: Antichain) -> Updates:
        found = super()._changed_since(node, time, upper)
        found.to_frame = self._frame
        return found

    def _frame(self, schema: Schema, table: pa.Table) -> Any:
        """Return Arrow columns as a DataFrame: the schema's, then those of times and diffs."""
        from pyspark.sql import types as T  # noqa: N812, PLC0415 - what everybody calls it

        from tidemill.renderer.spark.types import struct  # noqa: PLC0415 - imports pyspark

        more = [T.StructField(name, T.LongType(), False) for name in table.column_names[len(schema) :]]
        whole = T.StructType([*struct(schema).fields, *more])
        return self._spark.createDataFrame(table.combine_chunks(), schema=whole)  # PySpark 4.3 ends at an empty chunk
