"""The whole play at once: the history and all epochs as DataFrames of updates, rendered by Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from tidemill.boundary.rows import python_rows
from tidemill.demo.check import Contents
from tidemill.demo.flow import INPUTS
from tidemill.demo.script import FlightChange
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rendered(
    flow: tm.Dataflow, spark: SparkSession, dimensions: Mapping[str, pa.Table], changes: Sequence[FlightChange]
) -> dict[str, Contents]:
    """Return the updates of each output, as diffs by row and time, when each of the changes is an epoch."""
    inputs = {name: _frame(spark, name, _at(table, 0, 1)) for name, table in dimensions.items()}
    flights = [
        _at(table, time, diff)
        for time, change in enumerate(changes)
        for table, diff in ((change.inserted, 1), (change.deleted, -1))
    ]
    inputs["flights"] = _frame(spark, "flights", pa.concat_tables(flights))
    outputs = tm.render(flow, spark, inputs)
    return {
        name: Counter({tuple(update): diff for *update, diff in python_rows(frame.toArrow())})
        for name, frame in outputs.items()
    }


def _at(table: pa.Table, time: int, diff: int) -> pa.Table:
    for name, value in (("time", time), ("diff", diff)):
        table = table.append_column(name, pa.array(np.full(len(table), value, np.int64)))
    return table


def _frame(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    from tidemill.renderer.spark.types import struct  # noqa: PLC0415 - imports pyspark, of another extra

    schema: Any = struct(Schema((*Schema.of(INPUTS[name]), Field("time", INT64), Field("diff", INT64))))
    return spark.createDataFrame(table.combine_chunks(), schema)  # PySpark 4.3 drops what follows an empty chunk
