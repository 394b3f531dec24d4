"""Partitions of window calls that are too large for one task: cut into ranges of their order, a task for each.

Spark shares the rows out by partition and order. A first job over the ranges says what each is to others: counts, exact
sums, the rows at its ends; put together in the driver, that is little. A second one is told what there is around each
range, and computes the values.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.boundary.exact_sums import Exact
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Node, Reduce
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.bound import (
    AggregateCall,
    BoundWindowCall,
    OffsetCall,
    RankingCall,
    ValueCall,
    Windows,
)
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, encode_column
from tidemill.renderer.embedded.windows.affected import Reach
from tidemill.renderer.embedded.windows.range_partitions import (
    Around,
    RangePartition,
    around,
    can_be_divided,
    summaries_asked,
)
from tidemill.renderer.embedded.windows.summaries import Summary
from tidemill.renderer.spark.frames import DIFF, Frame, is_planning, materialised
from tidemill.renderer.spark.stretch_tasks import (
    RANGE,
    SUMMARY,
    VERSION,
    StretchTask,
    StretchValuesTask,
    read_stretch,
    row_order,
)
from tidemill.renderer.spark.tasks import done_in_executors
from tidemill.renderer.spark.types import struct

LARGE: Final = 1_000_000
"""Rows of a partition beyond which it is more than one task."""
STRETCH: Final = 250_000
"""About so many rows are a range."""
MOST_VERSIONS: Final = 8
"""Times at which rows come up to which their values are computed at each."""
MOST_BESIDE: Final = 4
"""Where rows look at more than a stretch divided by this on either side, the partition is one task."""


def is_divisible(node: Node) -> bool:
    """Return whether values of some rows are worked out from the rows around them and from what others come to."""
    logic = getattr(node, "logic", None)
    return isinstance(logic, Windows) and can_be_divided(logic, node.inputs[0].schema.dtypes)


def on_large() -> str:
    """Return what becomes of large partitions of windows that are divisible, for who reads a plan."""
    return (
        f"Partitions of more than {LARGE:,} rows, which a job before this one counts, are cut into ranges of about "
        f"{STRETCH:,} rows each by their order: one job finds out what ranges are to others, one computes the values."
    )


@attrs.define
class LargestPartition:
    """How large partitions of a run's windows are at the most: counted, and what has come since may all be of one."""

    rows: int = 0
    """How many updates there were in the last step that asked, in all of them."""
    largest: int | None = None

    def may_be_large(self, node: Reduce, stored: DataFrame, new: DataFrame, before: int, more: int) -> bool:
        """Return whether a partition of stored and new updates, so many of each, may be too large for one task."""
        if self.largest is not None:
            self.largest += max(before - self.rows, 0) + more
        self.rows = before + more
        if self.rows <= LARGE or not is_divisible(node):
            return False
        if self.largest is None or self.largest > LARGE:
            self.largest = rows_of_largest(node, stored, new)
        return self.largest > LARGE


def rows_of_largest(node: Reduce, stored: DataFrame, new: DataFrame) -> int:
    """Return how many updates the largest partition has. One job."""
    keys = [f"c{k}" for k in node.keys]
    counts = stored.select(*keys).union(new.select(*keys)).groupBy(*keys).count()
    ((largest,),) = counts.agg(F.max("count")).collect()
    return largest or 0


class _Apart(NamedTuple):
    """Updates of partitions that are too large, and the others."""

    large: Frame | None
    rows: int
    """How many updates the large ones have."""
    rest: Frame | None


def large_apart(node: Reduce, frame: Frame) -> _Apart:
    """Return the updates with those of large partitions apart: one job, of the keys' columns, which counts them."""
    none = _Apart(None, 0, frame)
    if is_planning() or not is_divisible(node) or (frame.rows is not None and frame.rows <= LARGE):
        return none
    whole = frame if frame.cheap else materialised(frame)
    if whole is None or (whole.rows is not None and whole.rows <= LARGE):
        return _Apart(None, 0, whole)
    keys = [f"c{k}" for k in node.keys]
    if not keys:
        rows = whole.data.count() if whole.rows is None else whole.rows
        return _Apart(whole, rows, None) if rows > LARGE else _Apart(None, 0, whole)
    counts = whole.data.groupBy(*keys).agg(F.count(F.lit(1)).alias("rows"))
    large = counts.filter(F.col("rows") > LARGE).collect()
    if not large:
        return _Apart(None, 0, whole)
    fields = tuple(attrs.evolve(node.inputs[0].schema.fields[k], name=f"c{k}") for k in node.keys)
    wanted = whole.data.sparkSession.createDataFrame([row[:-1] for row in large], struct(Schema(fields)))
    rows = sum(row["rows"] for row in large)
    if rows == (whole.data.count() if whole.rows is None else whole.rows):
        return _Apart(whole, rows, None)
    known = {"inserted": whole.inserted, "consolidated": whole.consolidated}
    parts = [whole.of(_same_keys(whole.data, wanted, keys, how), **known) for how in ("left_semi", "left_anti")]
    return _Apart(parts[0], rows, parts[1])


def _same_keys(data: DataFrame, keys: DataFrame, names: Sequence[str], how: str) -> DataFrame:
    """Return rows that have, or have not, one of a few keys."""
    renamed = F.broadcast(keys.toDF(*(f"k_{name}" for name in names)))
    same = [F.col(name).eqNullSafe(F.col(f"k_{name}")) for name in names]
    return data.join(renamed, functools.reduce(Column.__and__, same), how)


def times_of(data: DataFrame) -> list[Time] | None:
    """Return the times of updates over one coordinate, in their order; None where they are too many."""
    found = data.select("t0").distinct().limit(MOST_VERSIONS + 1).collect()
    return sorted((row.t0,) for row in found) if len(found) <= MOST_VERSIONS else None


def in_stretches(
    node: Reduce, lines: DataFrame, rows: int, times: Sequence[Time | None], *, inserted: bool
) -> DataFrame | None:
    """Return the output's updates for lines of rows, each with its version and diff; None where it cannot be so.

    A version has the rows of those before it, and its time, if its changes are wanted. With ``inserted`` all diffs are
    1. Not where rows look at many others, or are there less than no times, which is an error that others tell.
    """
    logic, schema = node.logic, node.inputs[0].schema
    assert isinstance(logic, Windows)
    given = read_by_calls(node, logic) if inserted else tuple(range(len(schema)))
    ranged = (
        _ranged(node, logic, lines, -(-rows // STRETCH)).localCheckpoint().withColumn(RANGE, F.spark_partition_id())
    )
    asked = summaries_asked(logic, schema.dtypes)
    wanted = [RANGE, VERSION, *(f"c{i}" for i in given), DIFF]
    say = StretchTask.of(node, given, len(times), asked, int(STRETCH / MOST_BESIDE))
    said = done_in_executors(ranged.select(*wanted), say.run, struct(Schema(SUMMARY))).toArrow().to_pylist()
    found = put_together(node, said, asked, given)
    if found is None:
        return None
    compute = StretchValuesTask.of(node, times, found)
    return done_in_executors(ranged, compute.run, struct(Schema(tuple(compute.made))))


def _ranged(node: Reduce, windows: Windows, lines: DataFrame, ranges: int) -> DataFrame:
    """Return lines in so many tasks, each with those between two places of the order, peers that matter together."""
    reach = Reach.of(windows, node.inputs[0].schema.dtypes)
    assert reach is not None
    is_column = all(o.column < len(node.inputs[0].schema) for o in windows.ties)  # else it is the rows' hash
    by = (*windows.order, *windows.ties) if is_column and not reach.peers else windows.order
    return lines.repartitionByRange(max(ranges, 2), *(f"c{k}" for k in node.keys), *map(_sorted_by, by))


def _sorted_by(by: OrderColumn) -> Column:
    column = F.col(f"c{by.column}")
    if by.descending:
        return column.desc_nulls_first() if by.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if by.nulls_first else column.asc_nulls_last()


def read_by_calls(node: Reduce, windows: Windows) -> tuple[int, ...]:
    """Return the columns of rows that calls read, and those of the partitioning and the order."""
    found = {*node.keys, *(o.column for o in (*windows.order, *windows.ties))}
    width = len(node.inputs[0].schema)
    if any(column >= width for column in found):  # ties are broken by the hash of whole rows
        return tuple(range(width))
    for call in windows.calls:
        found |= {argument for argument in _arguments(call) if isinstance(argument, int)}
    return tuple(sorted(found))


def _arguments(call: BoundWindowCall) -> tuple[int | BoundLiteral | None, ...]:
    if isinstance(call, RankingCall):
        return (call.buckets,)
    if isinstance(call, OffsetCall):
        return call.column, call.offset, call.default
    if isinstance(call, ValueCall):
        return call.column, call.n
    assert isinstance(call, AggregateCall)
    return call.aggregate.column, call.aggregate.condition, *(o.column for o in call.aggregate.order)


def put_together(
    node: Reduce, said: Sequence[Mapping[str, Any]], asked: Sequence[Summary], given: Sequence[int]
) -> dict[tuple[int, int, str], Around] | None:
    """Return what is around each stretch; None where they are no stretches, or their ends many rows."""
    if any(line["facts"] is None for line in said):
        return None
    types, interner = node.inputs[0].schema.dtypes, Interner()
    partitions: dict[tuple[int, str], list[tuple[int, RangePartition]]] = defaultdict(list)
    for line in sorted(said, key=lambda line: line[RANGE]):
        partitions[line[VERSION], line["key"]].append((line[RANGE], read_stretch(line, asked, types, interner)))
    found: dict[tuple[int, int, str], Around] = {}
    for (version, key), some in partitions.items():
        stretches = [one for _, one in some]
        if not _are_in_order(node, stretches, given, interner):
            return None
        for (number, _), beside in zip(some, around(stretches), strict=True):
            found[number, version, key] = _to_send(beside, types, interner)
    return found


def _are_in_order(node: Reduce, stretches: Sequence[RangePartition], given: Sequence[int], interner: Interner) -> bool:
    """Return whether each stretch begins behind the end of the one before, in our order: Spark has its own."""
    schema = node.inputs[0].schema
    assert isinstance(node.logic, Windows)
    order = row_order(node.logic, schema.dtypes, interner)

    def key(edge: pa.Table, at: int) -> tuple[Any, ...]:
        row = [0] * len(schema)
        for i, column in zip(given, edge.columns, strict=True):
            row[i] = int(encode_column(column.slice(at, 1), schema.dtypes[i], interner)[0])
        return order.key(row)

    return not any(key(b.head, 0) < key(a.tail, len(a.tail) - 1) for a, b in itertools.pairwise(stretches))


def _to_send(beside: Around, types: Sequence[Any], interner: Interner) -> Around:
    """Return what is around a stretch with columns for codes that only this process knows."""

    def sent(known: Mapping[Summary, Any]) -> dict[Summary, Any]:
        return {
            wanted: decode_column(np.array(value, np.int64), types[wanted.column], interner)
            if isinstance(value, tuple) and not isinstance(value, Exact)
            else value
            for wanted, value in known.items()
        }

    return attrs.evolve(beside, of_rows_before=sent(beside.of_rows_before), of_rows_behind=sent(beside.of_rows_behind))
