"""DataFrames that are put into a run: small ones come to the driver, of large ones what is read is written to files."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.large_changes import LargeChange
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.spark.dataframes import Names, given, is_odd, taken
from tidemill.renderer.spark.frames import DIFF, Frame, columns, times
from tidemill.renderer.spark.live.on_disk import read_spilled
from tidemill.renderer.spark.live.state_files import written
from tidemill.renderer.spark.types import spark_type

__all__ = ["few_of", "frame_in_files", "refuse_several", "updates_of", "written_down"]


_FEW: Final = 100_000
"""Rows of a DataFrame that are got to see whether there are more: one job instead of two."""


_ODD: Final = "odd"
"""The column of files that says whether a row does not fit."""


def few_of(data: Any, most: int) -> pa.Table | None:
    """Return a DataFrame's rows as a table, where there are few."""
    most = min(most, _FEW)
    table = data.limit(most + 1).toArrow()
    return table if len(table) <= most else None


def written_down(  # noqa: PLR0917 - made in one place
    store: SpillFolder, node: Input, data: Any, time: Time, diff: int, read: Collection[int]
) -> LargeChange | None:
    """Check a DataFrame's rows and write those columns to files that are read; None where there are no rows.

    Of an input with a key: rows to put, or with a negative diff, keys or rows of which the keys are deleted.

    ``RowError`` where a row does not fit. So the DataFrame is not computed again when a step takes it, and an
    arrangement of the input needs not write it again.
    """
    schema: Schema = node.schema
    by = Names(tuple(f"tidemill time {i}" for i in range(len(time))), "tidemill diff")
    fitting, data = _by_key(node, data, diff) if node.key else (node, data)
    updates = given(fitting, data, by)
    kept = sorted(read) or [0]
    row = [F.col(f"c{i}").alias(f"v{i}") for i in kept]
    has_lists = any(schema.fields[i].dtype.element is not None for i in kept)
    checked = updates.select(*row, is_odd(fitting, len(time)).alias(_ODD))
    files = written(store, f"{node.id}/input", checked, has_lists=has_lists)
    if _may_have_odd(store.folder / f.name for f in files):
        for file in files:
            (store.folder / file.name).unlink(missing_ok=True)
        taken({fitting: updates}, by)
        msg = f"{node.where}: a row did not fit, and all do when they are computed again: cache what differs each time"
        raise RowError(msg)
    unread = tuple(i for i in range(len(schema)) if i not in kept)
    return LargeChange.in_files(node, time, diff, files, unread) if files else None


def _by_key(node: Input, data: Any, diff: int) -> tuple[Input, Any]:
    """Return an input that takes what is written by key, and a DataFrame with all columns."""
    schema: Schema = node.schema
    deletes = diff < 0
    fields = [attrs.evolve(f, nullable=i not in node.key and (deletes or f.nullable)) for i, f in enumerate(schema)]
    keys = [schema.names[i] for i in node.key]
    if deletes and sorted(data.columns) == sorted(keys):
        for field in schema:
            if field.name not in keys:
                data = data.withColumn(field.name, F.lit(None).cast(spark_type(field.dtype)))
    return attrs.evolve(node, schema=Schema(tuple(fields))), data


def refuse_several(spark: SparkSession, store: SpillFolder, change: LargeChange) -> None:
    """Raise where a key has two rows that differ: which is the last, a DataFrame does not say. Its files go."""
    node, data = change.node, frame_in_files(spark, store, change).data
    schema: Schema = node.schema
    key = [f"c{i}" for i in node.key]
    row = columns(len(schema))
    many = data.groupBy(*key).agg(F.count(F.lit(1)).alias("n")).filter("n > 1")
    if many.isEmpty():
        return
    found = data.join(many, on=key, how="left_semi").distinct().select(*row)
    several = found.groupBy(*key).agg(F.count(F.lit(1)).alias("n"), F.min(F.struct(*row)).alias("one")).filter("n > 1")
    for line in several.limit(1).select("n", "one", *(F.col(name).cast("string") for name in key)).collect():
        for file in change.files:
            (store.folder / file.name).unlink(missing_ok=True)
        count, one, *values = line
        shown = dict(zip([schema.names[i] for i in node.key], values, strict=True))
        msg = (
            f"{node.where}: the key {shown} has {count} different rows in one DataFrame, such as {tuple(one)}, and a "
            "DataFrame has no order that says which is the last: leave one for each key, as by dropDuplicates on the "
            "key or a window that picks the latest"
        )
        raise RowError(msg)


def _may_have_odd(paths: Iterable[Path]) -> bool:
    """Return whether a row may be marked as one that does not fit, by what the files say of the column."""
    for path in paths:
        about = pq.read_metadata(path)
        for group in map(about.row_group, range(about.num_row_groups)):
            seen = group.column(group.num_columns - 1).statistics
            if seen is None or not seen.has_min_max or seen.max:
                return True
    return False


def frame_in_files(spark: SparkSession, store: SpillFolder, change: LargeChange) -> Frame:
    """Return a large change as a DataFrame."""
    width, coordinates = len(change.node.schema), len(change.time)
    data = updates_of(read_spilled(spark, store, change.layout, change.files), width, coordinates)
    return Frame(data, width, coordinates, change.time, rows=change.rows, cheap=True)


def updates_of(data: DataFrame, width: int, coordinates: int) -> DataFrame:
    """Return what is read from files with the names that updates have in DataFrames."""
    row = [F.col(f"v{i}").alias(name) for i, name in enumerate(columns(width))]
    return data.select(*row, *times(coordinates), F.col("w0").alias(DIFF))
