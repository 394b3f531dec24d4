"""Outputs of a run beside Spark: what is read of them gives DataFrames, and what is large of it stays on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.boundary.results import Rows, Updates
from tidemill.boundary.update_tables import Names
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Output
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.spill_files import SpillFile
from tidemill.renderer.durable.spill_store import SpillStore
from tidemill.renderer.durable.spilled import SpilledSpine
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.spark.live.spilled_results import (
    SpilledOutput,
    SpilledRows,
    SpilledUpdates,
    compacted,
    contents_at,
    pin,
    summed,
)
from tidemill.renderer.spark.live.state_files import read_files, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Outputs:
    """Reads outputs for an executor; holds the changes that are in files until they are read."""

    def __init__(
        self, spark: SparkSession, embedded: EmbeddedExecutor, spill_store: SpillStore, in_driver: int
    ) -> None:
        self._spark = spark
        self._embedded = embedded
        self._spill_store = spill_store
        self._in_driver = in_driver
        self.fresh: Mapping[Output, tuple[SpillFile, ...]] = {}
        """Changes that are in files: those of the step at hand."""
        self._unread: dict[Output, tuple[SpillFile, ...]] = {}
        """Those that were not read yet."""
        self._unread_room: dict[Output, int] = {}
        """From how many on these are added up, where that was done before and left many."""

    def commit(self) -> None:
        """Keep the changes of the step at hand until they are read."""
        for output, files in self.fresh.items():
            self._spill_store.store.pin(f.name for f in files)
            self._unread[output] = (*self._unread.get(output, ()), *files)
        self.fresh = {}

    def rollback(self) -> None:
        """Forget the changes of the step at hand."""
        self.fresh = {}

    def tidy(self) -> None:
        """Add up changes that were not read at times that nobody distinguishes, where they are many."""
        for output in list(self._unread):
            self._fold(output)

    def _fold(self, output: Output) -> None:
        files = self._unread[output]
        limit = self._unread_room.get(output, int(output.changes))
        if output.changes is True or sum(f.rows for f in files) <= limit:
            return
        store, spilled = self._spill_store.store, self._spill_store.spilled(output)
        assert spilled is not None
        kept = self._embedded.compiled.outputs[output].readers_since
        data = compacted(read_files(self._spark, store, spilled.layout, files), len(output.schema), kept)
        found = tuple(write_files(store, f"{output.id}/unread", data, has_lists=spilled.layout.has_lists))
        store.pin(f.name for f in found)
        self._unread[output] = found
        store.unpin(f.name for f in files)
        self._unread_room[output] = max(int(output.changes), 2 * sum(f.rows for f in found))

    # -- reading ------------------------------------------------------------------------------------------------------

    def contents(self, node: Output, at: Time | None) -> Rows:
        """See `Executor`."""
        spilled = self._spill_store.spilled(node)
        if spilled is not None and spilled.size > self._in_driver:
            return self._contents_on_disk(node, at, spilled)
        found = self._embedded.contents(node, at)
        found.to_frame = self._frame
        return found

    def _contents_on_disk(self, node: Output, at: Time | None, spilled: SpilledSpine) -> Rows:
        schema, operator = node.schema, self._embedded.compiled.outputs[node]
        files = tuple(f for batch in spilled.spilled_batches for f in batch.files)
        here = spilled.layout.decoded(operator.spine.updates_in_memory(), self._embedded.compiled.interner)
        parts = SpilledOutput(self._spark, self._spill_store.store, spilled, files, here)
        names = list(schema.names)
        found = SpilledRows(
            schema,
            at,
            lambda: self._embedded.rows(schema, parts.updates(), at),
            lambda: contents_at(parts.frame(), len(schema), at).toDF(*names),
        )
        pin(self._spill_store.store, files, found)
        return found

    def bring_in(self) -> None:
        """Have in memory what was not read of changes that are in files."""
        for node, files in list(self._unread.items()):
            spilled, operator = self._spill_store.spilled(node), self._embedded.compiled.outputs[node]
            assert spilled is not None
            here = spilled.layout.decoded(operator.unread_updates(), self._embedded.compiled.interner)
            operator.forget_unread(SpilledOutput(self._spark, self._spill_store.store, spilled, files, here).updates())
            del self._unread[node]
            self._spill_store.store.unpin(f.name for f in files)

    def take_unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        """See `Executor`."""
        if self._unread.get(node):
            return self._take_unread_on_disk(node, lower, upper)
        found = self._embedded.take_unread(node, lower, upper)
        found.to_frame = self._frame
        return found

    def _take_unread_on_disk(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        embedded, store = self._embedded, self._spill_store.store
        schema, operator, coordinates = node.schema, embedded.compiled.outputs[node], embedded.graph.coordinates
        spilled, files = self._spill_store.spilled(node), self._unread[node]
        assert spilled is not None
        here = spilled.layout.decoded(operator.unread_updates(), embedded.compiled.interner)
        parts = SpilledOutput(self._spark, store, spilled, files, here)
        names = [*schema.names, *Names.of(coordinates, None, "diff").times, "diff"]
        found = SpilledUpdates(
            schema,
            coordinates,
            lower,
            upper,
            lambda: embedded.updates(schema, parts.updates(), lower, upper),
            lambda: summed(parts.frame(), len(schema), len(coordinates)).toDF(*names),
        )
        pin(store, files, found)
        operator.forget_unread()
        del self._unread[node]
        store.unpin(f.name for f in files)
        return found

    def changed_since(self, node: Output, time: Time | None, since: Antichain, upper: Antichain) -> Updates:
        """See `Executor`."""
        found = self._embedded.changed_since(node, time, since, upper)
        found.to_frame = self._frame
        return found

    def _frame(self, schema: Schema, table: pa.Table) -> Any:
        """Return Arrow columns as a DataFrame: the schema's, then those of times and diffs."""
        from pyspark.sql import types as T  # noqa: N812, PLC0415 - what everybody calls it

        from tidemill.renderer.spark.types import struct  # noqa: PLC0415 - imports pyspark

        more = [T.StructField(name, T.LongType(), False) for name in table.column_names[len(schema) :]]
        whole = T.StructType([*struct(schema).fields, *more])
        return self._spark.createDataFrame(table.combine_chunks(), schema=whole)  # PySpark 4.3 ends at an empty chunk
