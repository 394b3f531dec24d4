"""Updates on their way between the driver's operators, where they are blocks, and the executors' DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Node
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64, DType
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.codec import decode_column, encode_column
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.spark.frames import DIFF, Frame, names, times
from tidemill.renderer.spark.keyed import lines_of
from tidemill.renderer.spark.keyed_tasks import DUE, Layout, layout_of
from tidemill.renderer.spark.types import struct

__all__ = ["block_of", "due_block", "due_lines", "encoded", "frame_of"]


def frame_of(spark: SparkSession, compiled: Compiled, schema: Schema, block: UpdateArray) -> Frame:
    """Return updates in the driver as a DataFrame, in which Spark knows what is the same in all of them."""
    width, coordinates = len(schema), len(block) - len(schema) - 1
    inside = names(width, coordinates)
    numbers = dict(zip(inside[width:], block[width:], strict=True))
    same = {name: int(of[0]) for name, of in numbers.items() if len(of) and (of == of[0]).all()}
    if not width:
        same.pop(DIFF, None)  # a table without columns has no rows
    types = [*(f.dtype for f in schema), *[INT64] * (coordinates + 1)]
    left = [i for i, name in enumerate(inside) if name not in same]
    data = _data(spark, compiled, _fields([inside[i] for i in left], [types[i] for i in left]), block[left])
    literals = {name: F.lit(number).cast("bigint") for name, number in same.items()}
    data = data.select(*(literals.get(name, F.col(name)).alias(name) for name in inside))
    user = inside[width : width + compiled.schedule.users]
    time = tuple(same[name] for name in user) if same.keys() >= {*user} else None
    return Frame(data, width, coordinates, time, block.shape[1], cheap=True, consolidated=True)


def block_of(compiled: Compiled, schema: Schema, frame: Frame) -> UpdateArray:
    """Return a DataFrame's updates, got into the driver."""
    types = [*(f.dtype for f in schema), *[INT64] * (frame.coordinates + 1)]
    return encoded(frame.data.select(*names(frame.width, frame.coordinates)).toArrow(), types, compiled)


def due_lines(spark: SparkSession, compiled: Compiled, node: Node, block: UpdateArray) -> DataFrame:
    """Return keys and times that a keyed operator is to look at as lines of its table."""
    layout = layout_of(node)
    wanted, types = _owed(layout)
    return lines_of(layout, DUE, _data(spark, compiled, _fields(wanted, types), block), wanted)


def due_block(compiled: Compiled, node: Node, lines: DataFrame) -> UpdateArray:
    """Return such lines as keys and times, got into the driver."""
    wanted, types = _owed(layout_of(node))
    return encoded(lines.select(*wanted).toArrow(), types, compiled)


def encoded(table: pa.Table, types: Sequence[DType], compiled: Compiled) -> UpdateArray:
    """Return a table's columns as codes."""
    block = np.empty((len(types), len(table)), np.int64)
    for i, dtype in enumerate(types):
        block[i] = encode_column(table.column(i).cast(dtype.arrow), dtype, compiled.interner)
    return block


def _owed(layout: Layout) -> tuple[list[str], list[DType]]:
    """Return the columns of what is owed: keys and times."""
    wanted = [*(f"c{k}" for k in layout.keys), *times(layout.coordinates)]
    return wanted, [*(layout.given.fields[k].dtype for k in layout.keys), *[INT64] * layout.coordinates]


def _fields(wanted: Sequence[str], types: Sequence[DType]) -> Schema:
    return Schema(tuple(Field(name, dtype) for name, dtype in zip(wanted, types, strict=True)))


def _data(spark: SparkSession, compiled: Compiled, fields: Schema, block: UpdateArray) -> DataFrame:
    arrays = [decode_column(codes, f.dtype, compiled.interner) for codes, f in zip(block, fields, strict=True)]
    return spark.createDataFrame(pa.table(dict(zip(fields.names, arrays, strict=True))), schema=struct(fields))
