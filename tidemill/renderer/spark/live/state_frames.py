"""Updates of the driver's operators as DataFrames: blocks turned into these and back, and what operators hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Enter, Join, Node
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64, DType
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.codec import decode_column
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.trace.elsewhere import Range
from tidemill.renderer.spark import linear
from tidemill.renderer.spark.frames import DIFF, Frame, names, times
from tidemill.renderer.spark.keyed import as_lines
from tidemill.renderer.spark.keyed_tasks import ARRANGED, DUE, STORE, Layout, layout_of
from tidemill.renderer.spark.live.state_files import as_updates
from tidemill.renderer.spark.tasks import encoded as codes_of
from tidemill.renderer.spark.types import struct


class OperatorState:
    """The state of operators before a step, on the disk and in the driver, as DataFrames for the executors to read."""

    def __init__(self, spark: SparkSession, compiled: Compiled, read: Callable[..., DataFrame | None]) -> None:
        self._spark = spark
        self._compiled = compiled
        self._read = read
        """Return the stored updates of the arrangement with a name, as `SpilledState.read` does."""

    def frame(self, source: Node, block: UpdateArray) -> Frame:
        """Return updates of a node that the driver holds."""
        return frame_of(self._spark, self._compiled, source.schema, block)

    def joined(self, node: Join, side: int) -> list[Frame]:
        """Return the updates of one side that a join has joined: those arranged less those pending at its port."""
        port = self._compiled.operators[node].ports[side]
        later = [] if port.index is None else [port.index.all_updates()]
        pending = [*later, *(block for blocks in port.rounds.values() for block in blocks)]
        source = node.inputs[side]
        return [*self._arranged(source), *(linear.negated(self.frame(source, b)) for b in pending if b.shape[1])]

    def lines(self, node: Node, place: str) -> list[Frame]:
        """Return the contents of a keyed operator's arrangements, as lines of its tables."""
        layout = layout_of(node)
        found = []
        for number, arrangement in enumerate(layout.arrangements):
            if arrangement.name == ARRANGED:
                same = [*arrangement.columns, *times(layout.coordinates)]
                arranged = self._arranged(node.inputs[0])
                found += [as_lines(layout, STORE + number, frame.data, same, {DIFF: "w0"}) for frame in arranged]
            elif (data := self._read(f"{place}/{arrangement.name}")) is not None:
                renamed = {f"v{i}": name for i, name in enumerate(arrangement.columns)}
                same = layout.times_and_weights(arrangement.weights)
                found.append(as_lines(layout, STORE + number, data, same, renamed))
        return [Frame(data, len(layout.fields), 0, cheap=True) for data in found]

    def ordered(self, node: Node, name: str, ranges: Sequence[Range] | None) -> list[Frame]:
        """Return the contents of an index in order of a column in some ranges, and maybe more; None is all of them."""
        data = self._read(name, None if ranges is None else tuple(ranges))
        width = len(node.schema)
        return [] if data is None else [Frame(as_updates(data, width, 1), width, 1, cheap=True)]

    def _arranged(self, node: Node) -> list[Frame]:
        """Return the contents of an arrangement, from wherever it was entered."""
        if isinstance(node, Enter):
            return [linear.entered(frame) for frame in self._arranged(node.inputs[0])]
        data = self._read(f"{node.id}/spine")
        width, coordinates = len(node.schema), node.scope.coordinates
        return [] if data is None else [Frame(as_updates(data, width, coordinates), width, coordinates, cheap=True)]


def frame_of(spark: SparkSession, compiled: Compiled, schema: Schema, block: UpdateArray) -> Frame:
    """Return updates in the driver as a DataFrame; what is the same in all of them is a literal, which Spark uses."""
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
    """Return a DataFrame's updates, brought to the driver."""
    types = [*(f.dtype for f in schema), *[INT64] * (frame.coordinates + 1)]
    return encoded(frame.data.select(*names(frame.width, frame.coordinates)).toArrow(), types, compiled)


def pending_lines(spark: SparkSession, compiled: Compiled, node: Node, block: UpdateArray) -> DataFrame:
    """Return pending times of a keyed operator's keys as lines of its table."""
    layout = layout_of(node)
    wanted, types = _keys_and_times(layout)
    return as_lines(layout, DUE, _data(spark, compiled, _fields(wanted, types), block), wanted)


def pending_block(compiled: Compiled, node: Node, lines: DataFrame) -> UpdateArray:
    """Return such lines as keys and times, brought to the driver."""
    wanted, types = _keys_and_times(layout_of(node))
    return encoded(lines.select(*wanted).toArrow(), types, compiled)


def encoded(table: pa.Table, types: Sequence[DType], compiled: Compiled) -> UpdateArray:
    """Return a table's columns as codes."""
    return codes_of(table.columns, types, compiled.interner)


def _keys_and_times(layout: Layout) -> tuple[list[str], list[DType]]:
    wanted = [*(f"c{k}" for k in layout.keys), *times(layout.coordinates)]
    return wanted, [*(layout.row.fields[k].dtype for k in layout.keys), *[INT64] * layout.coordinates]


def _fields(wanted: Sequence[str], types: Sequence[DType]) -> Schema:
    return Schema(tuple(Field(name, dtype) for name, dtype in zip(wanted, types, strict=True)))


def _data(spark: SparkSession, compiled: Compiled, fields: Schema, block: UpdateArray) -> DataFrame:
    arrays = [decode_column(codes, f.dtype, compiled.interner) for codes, f in zip(block, fields, strict=True)]
    return spark.createDataFrame(pa.table(dict(zip(fields.names, arrays, strict=True))), schema=struct(fields))
