"""DataFrames put into a run: small ones are collected; of large ones, the columns that are read go to files."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.boundary.update_tables import Names
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.large_changes import LargeChange
from tidemill.renderer.durable.spill_files import SpillFile
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.spark.dataframes import checked_inputs, is_invalid, typed_updates
from tidemill.renderer.spark.failures import is_too_large_to_fetch
from tidemill.renderer.spark.frames import Frame, columns
from tidemill.renderer.spark.live.file_tasks import INVALID
from tidemill.renderer.spark.live.state_files import as_updates, read_files, remove_files, written_files
from tidemill.renderer.spark.types import spark_type

_FEW: Final = 100_000
"""Rows that are fetched to see whether a DataFrame has more: one job instead of two."""


def collected_if_few(data: Any, most: int) -> pa.Table | None:
    """Return a DataFrame's rows as a table, where they are at most ``most``, and the driver may fetch as many bytes."""
    most = min(most, _FEW)
    try:
        table = data.limit(most + 1).toArrow()
    except Exception as error:
        if is_too_large_to_fetch(error):  # few rows, or the first of many, of long texts
            return None
        raise
    return table if len(table) <= most else None


def written_to_files(  # noqa: PLR0917 - made in one place
    store: SpillFolder, node: Input, data: Any, time: Time, diff: int, read: Collection[int]
) -> LargeChange | None:
    """Check a DataFrame's rows and write the columns that are read to files; None where there are no rows.

    For an input with a key these are rows to put, or with a negative diff, keys to delete, or rows with such keys.

    ``RowError`` where a row is invalid. So the DataFrame is not computed again when a step takes it, and an arrangement
    of the input need not write it again.
    """
    schema = node.schema
    named = Names(tuple(f"tidemill time {i}" for i in range(len(time))), "tidemill diff")
    fitting, data = _by_key(node, data, diff) if node.key else (node, data)
    updates = typed_updates(fitting, data, named)
    kept = sorted(read) or [0]
    row = [F.col(f"c{i}").alias(f"v{i}") for i in kept]
    checked = updates.select(*row, is_invalid(fitting, len(time)).alias(INVALID))
    files = files_of_valid(store, node, checked, lambda: checked_inputs({fitting: updates}, named))
    unread = tuple(i for i in range(len(schema)) if i not in kept)
    return LargeChange.in_files(node, time, diff, files, unread) if files else None


def files_of_valid(
    store: SpillFolder, node: Input, checked: DataFrame, refuse: Callable[[], object]
) -> list[SpillFile]:
    """Write rows to files, the last column of which says whether a row is invalid; if one is, ``refuse`` says what."""
    has_lists = any(f.dtype.is_nested for f in node.schema)
    written = written_files(store, f"{node.id}/input", checked, has_lists=has_lists)
    files = [file for file, _ in written]
    if any(may_have_invalid for _, may_have_invalid in written):
        remove_files(store, files)
        refuse()
        msg = f"{node.where}: a row did not fit, and all do when they are computed again: cache what differs each time"
        raise RowError(msg)
    return files


def _by_key(node: Input, data: Any, diff: int) -> tuple[Input, Any]:
    """Return the input as it takes writes by key, and the DataFrame with all of its columns."""
    schema = node.schema
    deletes = diff < 0
    fields = [attrs.evolve(f, nullable=i not in node.key and (deletes or f.nullable)) for i, f in enumerate(schema)]
    keys = [schema.names[i] for i in node.key]
    if deletes and sorted(data.columns) == sorted(keys):
        for field in schema:
            if field.name not in keys:
                data = data.withColumn(field.name, F.lit(None).cast(spark_type(field.dtype)))
    return attrs.evolve(node, schema=Schema(tuple(fields))), data


def refuse_ambiguous_keys(spark: SparkSession, store: SpillFolder, change: LargeChange) -> None:
    """Raise where a key has two different rows, since a DataFrame does not say which is the last; its files go."""
    node, data = change.node, frame_of_change(spark, store, change).data
    schema = node.schema
    key = [f"c{i}" for i in node.key]
    row = columns(len(schema))
    many = data.groupBy(*key).agg(F.count(F.lit(1)).alias("n")).filter("n > 1")
    if many.isEmpty():
        return
    found = data.join(many, on=key, how="left_semi").distinct().select(*row)
    several = found.groupBy(*key).agg(F.count(F.lit(1)).alias("n"), F.min(F.struct(*row)).alias("one")).filter("n > 1")
    for line in several.limit(1).select("n", "one", *(F.col(name).cast("string") for name in key)).collect():
        remove_files(store, change.files)
        count, one, *values = line
        shown = dict(zip([schema.names[i] for i in node.key], values, strict=True))
        msg = (
            f"{node.where}: the key {shown} has {count} different rows in one DataFrame, such as {tuple(one)}, and a "
            "DataFrame has no order that says which is the last: leave one for each key, as by dropDuplicates on the "
            "key or a window that picks the latest"
        )
        raise RowError(msg)


def frame_of_change(spark: SparkSession, store: SpillFolder, change: LargeChange) -> Frame:
    """Return a large change as a DataFrame."""
    width, coordinates = len(change.node.schema), len(change.time)
    data = as_updates(read_files(spark, store, change.layout, change.files), width, coordinates)
    return Frame(data, width, coordinates, change.time, rows=change.rows, cheap=True)
