"""Large writes to inputs with a key, turned into updates by the executors, from the current rows on the disk."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Input
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.durable.large_changes import LargeChange
from tidemill.renderer.durable.spill_files import SpillFile
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.operators.upsert_input import UpsertInputOperator
from tidemill.renderer.runs.writes import EMPTY, PUT
from tidemill.renderer.spark.frames import Frame
from tidemill.renderer.spark.live.incoming import frame_of_change
from tidemill.renderer.spark.live.spilled_state import SpilledState
from tidemill.renderer.spark.live.state_files import as_updates, remove_files
from tidemill.renderer.spark.live.state_frames import frame_of

_IS_PUT, _NUMBER = "puts", "number"
"""Whether a row is put, or else deleted; and the order of several writes to one key at one time."""


def upserted(
    state: SpilledState, node: Input, changes: Sequence[LargeChange], block: UpdateArray | None
) -> tuple[Frame | None, Sequence[SpillFile]]:
    """Take in writes to an input with a key, in files and in the driver; return what they change, and its files.

    Where that is little, it is handed to the input's operator in the driver: None, and no files.
    """
    name, operator = f"{node.id}/spine", state.compiled.inputs[node]
    assert isinstance(operator, UpsertInputOperator)
    writes = [_writes_in_files(state, change) for change in changes]
    empties: Mapping[int, int] = {}
    if block is not None:
        writes.append(_writes_in_driver(state, node, block))
        emptied = block[-2:, block[-3] == EMPTY]
        empties = {time: number for number, time in sorted(emptied.T.tolist())}  # the last one at each time
    if not writes:
        return None, []
    files = state.write(name, [_differences(node, writes, state.read(name), empties)])
    rows = sum(f.rows for f in files)
    operator.records_in += sum(c.rows for c in changes) + (0 if block is None else block.shape[1])
    if rows <= state.in_driver:
        if rows:
            changed = state.block(name, files)
            operator.rows.append(changed)
            operator.inject(changed)
        remove_files(state.store, files)
        return None, []
    state.add(name, files)
    width, coordinates = len(node.schema), node.scope.coordinates
    data = as_updates(state.read_files(name, files), width, coordinates)
    at = {c.time for c in changes} | ({(t,) for t in block[-1].tolist()} if block is not None else set())
    time = at.pop() if len(at) == 1 else None
    return Frame(data, width, coordinates, time, rows, cheap=True, consolidated=True), files


def _writes_in_files(state: SpilledState, change: LargeChange) -> DataFrame:
    """Return the writes of a DataFrame: rows ``c0, ...`` (of deletions the key), times ``t0``, and these columns."""
    data = frame_of_change(state.spark, state.store, change).data
    row = [f"c{i}" for i in range(len(change.node.schema))]
    return data.select(*row, "t0", F.lit(change.diff > 0).alias(_IS_PUT), F.lit(change.number).alias(_NUMBER))


def _writes_in_driver(state: SpilledState, node: Input, block: UpdateArray) -> DataFrame:
    """Return writes in the driver, as `UpsertInputOperator` holds them, with the same columns."""
    schema, k = node.schema, len(node.schema)
    more = Schema((*schema, Field(_IS_PUT, INT64), Field(_NUMBER, INT64)))
    data = frame_of(state.spark, state.compiled, more, np.concatenate((block, np.ones_like(block[:1])))).data
    row, kind = [f"c{i}" for i in range(k)], F.col(f"c{k}")
    written = data.filter(kind != EMPTY)
    return written.select(*row, "t0", (kind == PUT).alias(_IS_PUT), F.col(f"c{k + 1}").alias(_NUMBER))


def _differences(
    node: Input, writes: Sequence[DataFrame], stored: DataFrame | None, empties: Mapping[int, int]
) -> DataFrame:
    """Return the updates ``v0, ...``, ``t0``, ``w0`` that writes make of those stored, which have the same columns.

    The writes to a key come after its current row, in their order. Of several at one time the last counts. One that
    differs from the row before retracts that. Of the stored rows only those of written keys are read; or all, where the
    input is emptied, at times and by writes of numbers that ``empties`` has.
    """
    row = [f"c{i}" for i in range(len(node.schema))]
    key = [f"c{i}" for i in node.key]
    lines = functools.reduce(DataFrame.union, writes)
    if stored is not None:
        named = stored.select(*(F.col(f"v{i}").alias(name) for i, name in enumerate(row)), "w0")
    if empties:
        keys = (lines if stored is None else lines.select(*key).union(named.select(*key))).select(*key).distinct()
        for time, number in empties.items():
            values = [F.col(n) if n in key else F.lit(None).cast(lines.schema[n].dataType).alias(n) for n in row]
            at, place = F.lit(time).cast("bigint"), F.lit(number).cast("bigint")
            lines = lines.union(keys.select(*values, at, F.lit(False), place))
    if stored is not None:
        touched = named.join(lines.select(*key), on=key, how="left_semi")
        current = touched.groupBy(*row).agg(F.sum("w0").alias("w0")).filter("w0 > 0")
        before_all = F.lit(-1).cast("bigint")
        lines = lines.union(current.select(*row, before_all, F.lit(True), before_all))
    order = Window.partitionBy(*key).orderBy("t0", _NUMBER)
    lines = lines.withColumn("then", F.lead("t0").over(order)).filter(~F.col("t0").eqNullSafe(F.col("then")))
    lines = lines.select(*key, "t0", _NUMBER, F.when(F.col(_IS_PUT), F.struct(*row)).alias("new"))
    lines = lines.withColumn("old", F.lag("new").over(order))
    changed = lines.filter((F.col("t0") >= 0) & ~F.col("new").eqNullSafe(F.col("old")))
    both = F.array(*(F.struct(F.col(name).alias("row"), F.lit(d).alias("w0")) for name, d in (("old", -1), ("new", 1))))
    found = changed.select("t0", F.explode(both).alias("update")).filter("update.row IS NOT NULL")
    values = [F.col(f"update.row.{name}").alias(f"v{i}") for i, name in enumerate(row)]
    return found.select(*values, "t0", F.col("update.w0").cast("bigint").alias("w0"))
