"""Large writes to inputs with a key: what they change, worked out on the executors against the rows on the disk."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Input
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.durable.large_change import LargeChange
from tidemill.renderer.durable.spilled import ColdStore
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.runs.run import schema_of
from tidemill.renderer.spark.live.exchange import frame_of
from tidemill.renderer.spark.live.incoming import frame_in_files

__all__ = ["differences", "writes_here", "writes_in_files"]

_PUTS, _NUMBER = "puts", "number"
"""Whether a row is put, or else deleted; and which of several writes to one key at one time is the last."""


def writes_in_files(spark: SparkSession, store: ColdStore, change: LargeChange) -> DataFrame:
    """Return the writes of a DataFrame: rows ``c0, ...``, of deletions the key alone, times ``t0``, and the rest."""
    data = frame_in_files(spark, store, change).data
    row = [f"c{i}" for i in range(len(change.node.schema))]
    return data.select(*row, "t0", F.lit(change.diff > 0).alias(_PUTS), F.lit(change.number).alias(_NUMBER))


def writes_here(spark: SparkSession, compiled: Compiled, node: Input, block: UpdateArray) -> DataFrame:
    """Return the same of writes in the driver, as `UpsertInputOperator` holds them."""
    schema, k = schema_of(node), len(schema_of(node))
    more = Schema((*schema, Field(_PUTS, INT64), Field(_NUMBER, INT64)))
    data = frame_of(spark, compiled, more, np.concatenate((block, np.ones_like(block[:1])))).data
    row = [f"c{i}" for i in range(k)]
    return data.select(*row, "t0", (F.col(f"c{k}") > 0).alias(_PUTS), F.col(f"c{k + 1}").alias(_NUMBER))


def differences(node: Input, writes: Sequence[DataFrame], held: DataFrame | None) -> DataFrame:
    """Return the updates ``v0, ...``, ``t0``, ``w0`` that writes come to, given those that are held of the same shape.

    The writes to a key stand behind its current row in their order. Of those at one time the last is kept, and each
    that differs from the one before takes that away. Of what is held only the written keys are looked at.
    """
    row = [f"c{i}" for i in range(len(node.schema))]
    key = [f"c{i}" for i in node.key]
    lines = functools.reduce(DataFrame.union, writes)
    if held is not None:
        named = held.select(*(F.col(f"v{i}").alias(name) for i, name in enumerate(row)), "w0")
        touched = named.join(lines.select(*key), on=key, how="left_semi")
        current = touched.groupBy(*row).agg(F.sum("w0").alias("w0")).filter("w0 > 0")
        before_all = F.lit(-1).cast("bigint")
        lines = lines.union(current.select(*row, before_all, F.lit(True), before_all))
    order = Window.partitionBy(*key).orderBy("t0", _NUMBER)
    lines = lines.withColumn("then", F.lead("t0").over(order)).filter(~F.col("t0").eqNullSafe(F.col("then")))
    lines = lines.select(*key, "t0", _NUMBER, F.when(F.col(_PUTS), F.struct(*row)).alias("new"))
    lines = lines.withColumn("old", F.lag("new").over(order))
    changed = lines.filter((F.col("t0") >= 0) & ~F.col("new").eqNullSafe(F.col("old")))
    both = F.array(*(F.struct(F.col(name).alias("row"), F.lit(d).alias("w0")) for name, d in (("old", -1), ("new", 1))))
    found = changed.select("t0", F.explode(both).alias("update")).filter("update.row IS NOT NULL")
    values = [F.col(f"update.row.{name}").alias(f"v{i}") for i, name in enumerate(row)]
    return found.select(*values, "t0", F.col("update.w0").cast("bigint").alias("w0"))
