"""OrderedDynamicFilter: how the right value moves is known in the driver, and broadcast to where the left rows are.

A left update meets each value that there is while it holds. One that comes while a value holds passes if it compares;
one that was there before a value moves is given, or taken back, if it compares with the new value otherwise than with
the old one. So of rows that are there already only those between the two values have to be read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.composites import ComparingFilter
from tidemill.dataflow.lattice import MAX_COORDINATE
from tidemill.expressions.bound import Bound, BoundColumn, BoundLiteral
from tidemill.expressions.rewriting import moved, substituted
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, decode_rows, encode_column
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.operators.comparing import Value, truth
from tidemill.renderer.embedded.operators.one_row import Move, OneRow
from tidemill.renderer.spark.frames import DIFF, Frame, columns, consolidated, names
from tidemill.renderer.spark.linear import schema_of_updates
from tidemill.renderer.spark.scalars import native_sql
from tidemill.renderer.spark.tasks import detached, done_in_executors, encoded
from tidemill.renderer.spark.types import struct

_AT: Final = "at"
"""From when on a value holds."""
_UNTIL: Final = "until"


def moves_of(node: ComparingFilter, right: Frame | None) -> Moves:
    """Return how updates of the right side have its value move, from none: they are brought to the driver.

    `StepError` where it has two rows.
    """
    interner = Interner()
    moves: list[Move] = []
    if right is not None:
        table = consolidated(right).data.select(*names(right.width, 1)).toArrow()
        types = [*node.inputs[1].schema.dtypes, INT64, INT64]
        if len(table):
            moves, _ = OneRow(node, interner).moves({}, encoded(table.columns, types, interner))
    return Moves(node, interner, None, moves)


@attrs.frozen(eq=False)
class Moves:
    """How the value that a dynamic filter compares with moves, as codes: what it is before, and each move in order."""

    node: ComparingFilter
    interner: Interner
    before: Value
    moves: Sequence[Move]

    def filtered(self, left: Frame) -> Frame | None:
        """Return the new left updates that pass: as they arrive, and as the value moves."""
        if left.time is None or (self.moves and self.moves[-1].time > left.time[0]):
            return self._met(left, is_new=True)
        return self._compared(left, self.moves[-1].new if self.moves else self.before)

    def passed(self, stored: Frame) -> Frame | None:
        """Return the output for updates that came before all moves."""
        return self._met(stored, is_new=False) if self.moves else None

    def is_kept(self) -> Column:
        """Return whether a left row may ever pass: it has no NULL where it is compared."""
        compared = sorted({l for l, _, _ in self.node.conditions})
        return functools.reduce(Column.__and__, [F.col(f"c{l}").isNotNull() for l in compared])

    # -- in Catalyst ---------------------------------------------------------------------------------------------------

    def _compared(self, left: Frame, value: Value) -> Frame | None:
        """Return the updates that compare with the one value there is; None where none can."""
        if value is None:
            return None
        text = native_sql(self._with_value(value))
        if text is None:
            return self._met(left, is_new=True)
        known = {"cheap": left.cheap, "consolidated": left.consolidated, "inserted": left.inserted}
        return left.of(left.data.filter(F.expr(text)), **known)

    def _met(self, left: Frame, *, is_new: bool) -> Frame | None:
        """Return the updates for each value that they meet: at the later of both times."""
        values = self._values(is_new=is_new)
        if not values:
            return None
        new, old = native_sql(self.node.predicate), native_sql(self._of_old_value())
        if new is None or old is None:
            task = _task(self.node, self._decoded(values), is_new=is_new)
            data = done_in_executors(left.data, task, schema_of_updates(self.node.schema, 1))
            return Frame(data, left.width, 1)
        spark = left.data.sparkSession
        return Frame(_pairs(left, self._table(spark, values), new, old, is_new=is_new), left.width, 1)

    def _values(self, *, is_new: bool) -> list[Move]:
        """Return each value that updates may meet, as a move to it."""
        if not is_new or self.before is None:
            return list(self.moves)
        return [Move(-1, None, self.before), *self.moves]

    def _with_value(self, value: tuple[int, ...]) -> Bound:
        """Return the predicate of a left row and this right one."""
        width, right = len(self.node.schema), self.node.inputs[1].schema
        (row,) = decode_rows(right, np.array(value, np.int64)[:, None], self.interner)

        def put(c: BoundColumn) -> Bound:
            return c if c.index < width else BoundLiteral(row[c.index - width], c.dtype)

        return substituted(self.node.predicate, put)

    def _of_old_value(self) -> Bound:
        """Return the predicate of a left row and the second of two right ones after it."""
        width, more = len(self.node.schema), len(self.node.inputs[1].schema)
        return moved(self.node.predicate, lambda i: i + more * (i >= width))

    def _table(self, spark: SparkSession, values: Sequence[Move]) -> DataFrame:
        """Return the values with the one before each, from when on they hold, and until when."""
        width, right = len(self.node.schema), self.node.inputs[1].schema
        made = columns(width + 2 * len(right))[width:]
        fields = [Field(name, f.dtype) for name, f in zip(made, (*right, *right), strict=True)]
        fields += [Field(_AT, INT64), Field(_UNTIL, INT64)]
        times = [pa.array(numbers) for numbers in _held(values)]
        table = pa.table([*self._decoded(values).columns[2:], *times], names=[f.name for f in fields])
        return spark.createDataFrame(table, schema=struct(Schema(tuple(fields))))

    def _decoded(self, values: Sequence[Move]) -> pa.Table:
        """Return when values begin and end to hold, then their columns, then those of the values before."""
        dtypes = self.node.inputs[1].schema.dtypes
        found = [pa.array(numbers) for numbers in _held(values)]
        for side in (2, 1):
            rows = [move[side] or (NULL,) * len(dtypes) for move in values]
            codes = np.array(rows, np.int64).T
            found += [decode_column(c, t, self.interner) for c, t in zip(codes, dtypes, strict=True)]
        return pa.table(found, names=[str(i) for i in range(len(found))])


def _held(values: Sequence[Move]) -> tuple[Ints, Ints]:
    """Return from when on values hold, and until when."""
    times = np.array([move.time for move in values], np.int64)
    return times, np.append(times[1:], MAX_COORDINATE)


def _pairs(left: Frame, values: DataFrame, new: str, old: str, *, is_new: bool) -> DataFrame:
    now, then = (F.coalesce(F.expr(text), F.lit(False)) for text in (new, old))
    time, at = F.col("t0"), F.col(_AT)
    before = time < at if is_new else F.lit(True)  # times of what is kept may have been compacted, up to the first move
    meets = before & (now != then)
    if is_new:
        meets |= ~before & (time < F.col(_UNTIL)) & now
    sign = F.when(before & then, F.lit(-1)).otherwise(F.lit(1)).cast("bigint")
    both = left.data.join(F.broadcast(values), meets)
    return both.select(*columns(left.width), F.greatest(time, at).alias("t0"), (F.col(DIFF) * sign).alias(DIFF))


# -- in the executors' Python, for values that Catalyst compares otherwise ---------------------------------------------


def _task(
    node: ComparingFilter, values: pa.Table, *, is_new: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    node = detached(node)  # executors get what is captured, and no functions of other operators
    left, right = (source.schema for source in node.inputs)
    compared = {l for l, _, _ in node.conditions}

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            interner = Interner()
            codes = np.full((len(left), batch.num_rows), NULL, np.int64)
            for l in compared:
                codes[l] = encode_column(batch.column(l), left.fields[l].dtype, interner)
            rows = zip(values.columns[2:], (*right.dtypes, *right.dtypes), strict=True)
            sides = np.array([encode_column(column, t, interner) for column, t in rows]).T.tolist()
            comparisons = OneRow(node, interner).comparisons
            time, diff = (batch.column(len(left) + i).to_numpy() for i in (0, 1))
            for at, until, row in zip(*(c.to_pylist() for c in values.columns[:2]), sides, strict=True):
                now, then = (
                    truth(comparisons, codes, tuple(side), interner).all().astype(np.int64)
                    for side in (row[: len(right)], row[len(right) :])
                )
                sign = np.where(time < at, now - then, now * (time < until)) if is_new else now - then
                (some,) = sign.nonzero()
                rest = [np.maximum(time, at).take(some), (diff * sign).take(some)]
                found = [*batch.take(pa.array(some)).columns[: len(left)], *map(pa.array, rest)]
                yield pa.RecordBatch.from_arrays(found, names=batch.schema.names)

    return task
