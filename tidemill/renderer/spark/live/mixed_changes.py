"""Large DataFrames of updates, and of change feeds, whose rows are at several times, inserted and deleted.

They are written to files as they come, so that they are computed once, and then again, apart by time and diff: what is
alike is a `LargeChange`, as if it had been put in by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.boundary.feeds import NO_OPERATION, OPS, Feed
from tidemill.boundary.tables import mismatch
from tidemill.boundary.update_tables import Names
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input
from tidemill.errors import EngineError, RowError
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.durable.large_changes import LargeChange
from tidemill.renderer.durable.spill_files import Layout, SpillFile, read_file
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.runs.writes import DELETE, PUT, Change, Queued, Writes
from tidemill.renderer.spark.dataframes import checked_inputs, is_invalid, typed_updates
from tidemill.renderer.spark.frames import DIFF, times
from tidemill.renderer.spark.live.file_tasks import INVALID
from tidemill.renderer.spark.live.incoming import files_of_valid
from tidemill.renderer.spark.live.state_files import read_files, remove_files, write_files

_MOST_TIMES: Final = 100
"""Times with their diffs that a large DataFrame may have: each of them is files of its own, which steps read."""

OpenTimes: TypeAlias = Callable[[npt.NDArray[np.int64]], list[Time]]


@attrs.frozen(eq=False)
class Mixed:
    """Checked updates in files of values, times and diffs; of a feed the numbers of its rows too, as the last value."""

    spark: SparkSession
    store: SpillFolder
    node: Input
    files: Sequence[SpillFile]
    kept: Sequence[int]
    """The columns of rows that are there, which are those that are read."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(f.rows for f in self.files)

    def remove(self) -> None:
        """Delete the files."""
        remove_files(self.store, self.files)

    def in_memory(self, open_times: OpenTimes) -> Change:
        """Return all of it in the driver."""
        table = pa.concat_tables([read_file(self.store.folder, self._layout, f) for f in self.files])
        width, key = len(self.node.schema), list(self.node.key)
        if key:
            table = table.take(np.argsort(table.column(width).to_numpy()))
        at = open_times(
            np.stack([table.column(name).to_numpy() for name in times(self.node.scope.coordinates)], axis=1)
        )
        columns = [table.column(i).cast(f.dtype.arrow) for i, f in enumerate(self.node.schema)]
        rows = pa.Table.from_arrays(columns, names=list(self.node.schema.names))
        diffs = table.column("w0").to_numpy()
        if not key:
            return Queued(rows, at, diffs.tolist())
        puts = diffs > 0
        kinds = np.where(puts, PUT, DELETE).tolist()
        return Writes(rows.filter(puts), rows.filter(~puts).select(key), kinds, at)

    def apart(self, open_times: OpenTimes) -> list[LargeChange]:
        """Return what is alike, in other files. Of a feed's rows of one key at one time the last is left."""
        node, alike = self.node, [*times(self.node.scope.coordinates), "w0"]
        data = read_files(self.spark, self.store, self._layout, self.files)
        several = data.select(*alike).distinct().limit(_MOST_TIMES + 1).collect()
        if len(several) > _MOST_TIMES:
            msg = (
                f"{node.where}: a DataFrame of {self.rows} rows with more than {_MOST_TIMES} different times and "
                "diffs: put in fewer of them at once, or have it collected on the driver, as with in_driver= of as "
                "many rows; tm.render takes whole histories"
            )
            raise EngineError(msg)
        open_times(np.array(several, np.int64)[:, :-1])
        if node.key:
            order = Window.partitionBy(*(f"v{i}" for i in node.key), *times(1)).orderBy(F.desc(f"v{len(node.schema)}"))
            data = data.withColumn("place", F.row_number().over(order)).filter("place = 1")
        data = data.select(*(f"v{i}" for i in self.kept), *alike).hint("rebalance", *alike)
        found: defaultdict[tuple[Time, int], list[SpillFile]] = defaultdict(list)
        has_lists = self._layout.has_lists
        for file in write_files(self.store, f"{node.id}/input", data, has_lists=has_lists, apart=alike):
            *time, diff = (int(number or 0) for _, number in file.constants)
            found[tuple(time), diff].append(file)
        unread = tuple(i for i in range(len(node.schema)) if i not in self.kept)
        return [LargeChange.in_files(node, time, diff, found[time, diff], unread) for time, diff in found]

    @property
    def _layout(self) -> Layout:
        numbers = [INT64] if self.node.key else []
        types = (*(f.dtype for f in self.node.schema), *numbers)
        coordinates = self.node.scope.coordinates
        return Layout((), types, coordinates, coordinates, 1)


def updates_in_files(
    spark: SparkSession, store: SpillFolder, node: Input, data: Any, *, named: Names, read: Sequence[int]
) -> Mixed:
    """Check a DataFrame of updates and write the columns that are read to files."""
    if wrong := mismatch(list(data.columns), (*node.schema.names, *named.times, named.diff)):
        raise RowError(f"{node.where}: the DataFrame has the columns {data.columns}: {wrong}")
    updates = typed_updates(node, data, named)
    invalid = is_invalid(node, len(named.times))
    files = _written(store, node, updates, read, invalid, lambda: checked_inputs({node: updates}, named))
    return Mixed(spark, store, node, files, read)


def feed_in_files(spark: SparkSession, store: SpillFolder, node: Input, data: Any, *, feed: Feed, time: Time) -> Mixed:
    """Check a DataFrame that is a change feed and write it to files, its rows numbered in its order."""
    schema, named = node.schema, Names((feed.time or "tidemill time",), "tidemill diff")
    if wrong := mismatch(list(data.columns), (*schema.names, feed.op, *([feed.time] if feed.time else []))):
        raise RowError(f"{node.where}: the DataFrame has the columns {data.columns}: {wrong}")
    op = F.lower(F.col("`" + feed.op.replace("`", "``") + "`"))
    words = {puts: [word for word, does in OPS.items() if does == puts] for puts in (True, False)}
    diff = F.when(op.isin(words[True]), 1).when(op.isin(words[False]), -1).cast("bigint")
    given = data.withColumn(named.diff, diff)
    if feed.time is None:
        given = given.withColumn(named.times[0], F.lit(time[0]).cast("bigint"))
    fields = [attrs.evolve(f, nullable=i not in node.key) for i, f in enumerate(schema)]
    of_keys = attrs.evolve(node, schema=Schema(tuple(fields)))
    updates = typed_updates(of_keys, given.drop(feed.op), named)

    def refuse() -> None:
        for (word,) in data.filter(diff.isNull()).select(op).limit(1).collect():
            raise RowError(f"{node.where}: {word!r} {NO_OPERATION}").about(column=feed.op)
        checked_inputs({of_keys: updates}, named)
        checked_inputs({node: updates.filter(f"{DIFF} > 0")}, named)

    invalid = is_invalid(of_keys, 1) | ((F.col(DIFF) > 0) & is_invalid(node, 1))
    numbered = updates.withColumn("number", F.monotonically_increasing_id())
    kept = range(len(schema))
    return Mixed(spark, store, node, _written(store, node, numbered, kept, invalid, refuse), kept)


def _written(  # noqa: PLR0917 - for the two above
    store: SpillFolder,
    node: Input,
    updates: DataFrame,
    kept: Sequence[int],
    invalid: Column,
    refuse: Callable[[], object],
) -> list[SpillFile]:
    width = len(node.schema)
    row = [F.col(f"c{i}").alias(f"v{i}") for i in kept]
    numbers = [F.col("number").alias(f"v{width}")] if node.key else []
    rest = [*times(node.scope.coordinates), F.col(DIFF).alias("w0"), invalid.alias(INVALID)]
    files = files_of_valid(store, node, updates.select(*row, *numbers, *rest), refuse)
    unread = tuple((f"v{i}", None) for i in range(width) if i not in kept)
    return [attrs.evolve(f, constants=unread) for f in files]
