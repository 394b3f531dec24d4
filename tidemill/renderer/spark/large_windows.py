"""Large partitions of window calls: cut into ranges of rows in their order, one task for each range.

Spark range-partitions the rows by partition and order. A first job summarises each range for the others: counts, exact
sums, the rows at its ends. The driver merges these summaries, which are small. A second job is given what surrounds
each range, and computes the calls' values.
"""

from __future__ import annotations

import itertools
import pickle
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

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
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.windows.affected import Reach
from tidemill.renderer.embedded.windows.range_partitions import (
    RangeSummary,
    Surroundings,
    can_be_divided,
    requested_summaries,
    surroundings_of,
)
from tidemill.renderer.spark.frames import DIFF, Frame, columns, is_planning, materialised, with_keys
from tidemill.renderer.spark.range_tasks import (
    RANGE,
    VERSION,
    Place,
    RangeKernel,
    RangeValuesKernel,
    Transport,
    row_order,
)
from tidemill.renderer.spark.tasks import applied
from tidemill.renderer.spark.types import struct

LARGE: Final = 1_000_000
"""Updates of a partition beyond which it takes more than one task."""
RANGE_ROWS: Final = 250_000
"""About how many updates make a range."""
MOST_VERSIONS: Final = 8
"""The most distinct times at which values are computed in ranges; with more, a partition is one task."""
MOST_BESIDE: Final = 4
"""A partition stays one task if frames reach more than ``RANGE_ROWS / MOST_BESIDE`` rows into a range beside."""


def is_divisible(node: Node) -> bool:
    """Return whether a node's calls can be computed range by range: from nearby rows, and summaries of all others."""
    logic = getattr(node, "logic", None)
    return isinstance(logic, Windows) and can_be_divided(logic, node.inputs[0].schema.dtypes)


def note_on_large_partitions() -> str:
    """Return a note for explain on large partitions of windows that can be divided."""
    return (
        f"Partitions of more than {LARGE:,} updates, counted by a job before this one, are cut by their order into "
        f"ranges of about {RANGE_ROWS:,} updates each: one job summarises the ranges, one computes their values."
    )


@attrs.define
class LargestPartition:
    """An upper bound on the largest partition of one node's windows: the last count, plus all updates since."""

    rows: int = 0
    """How many updates all partitions had together when this was last asked."""
    largest: int | None = None

    def may_be_large(self, node: Reduce, stored: DataFrame, new: DataFrame, before: int, more: int) -> bool:
        """Return whether a partition may be too large for one task; ``before`` updates are stored, ``more`` are new."""
        if self.largest is not None:
            self.largest += max(before - self.rows, 0) + more
        self.rows = before + more
        if self.rows <= LARGE or not is_divisible(node):
            return False
        if self.largest is None or self.largest > LARGE:
            self.largest = updates_of_largest(node, stored, new)
        return self.largest > LARGE


def updates_of_largest(node: Reduce, stored: DataFrame, new: DataFrame) -> int:
    """Return how many updates the largest partition has. Runs one job."""
    keys = [f"c{k}" for k in node.keys]
    counts = stored.select(*keys).union(new.select(*keys)).groupBy(*keys).count()
    ((largest,),) = counts.agg(F.max("count")).collect()
    return largest or 0


STORED: Final = "stored"
"""The column that tells stored updates from new ones."""


class _Apart(NamedTuple):
    """The updates of partitions that are too large, and those of all others."""

    large: Frame | None
    rows: int
    """How many updates the large partitions have."""
    rest: Frame | None


def windows_of_large(node: Reduce, frame: Frame, *, some_stored: bool = False) -> tuple[Frame | None, Frame | None]:
    """Return the output's updates for partitions too large for one task, and the input's updates of all others.

    With ``some_stored`` the column `STORED` marks updates that were there before, and whose output was. None for either
    if there are none.
    """
    large, rows, rest = _large_apart(node, frame)
    if large is None:
        return None, rest
    time = None if some_stored else large.time
    at: list[Time] | None = [time] if time is not None else None
    if at is None and large.coordinates == 1:
        at = _times_of(large.data.filter(~F.col(STORED)) if some_stored else large.data)
    if at is None:
        return None, frame
    version: Column = F.lit(0)  # the version of each update
    if time is None:
        known = F.array(*(F.lit(t).cast("bigint") for (t,) in at))
        version = F.array_position(known, F.col("t0")) - (0 if some_stored else 1)
    if some_stored:
        version = F.when(F.col(STORED), 0).otherwise(version)
    updates = large.data.select(*columns(large.width), version.cast("int").alias(VERSION), DIFF)
    found = in_ranges(node, updates, rows, [*([None] if some_stored else []), *at], inserted=large.inserted)
    if found is None:
        return None, frame
    return Frame(found, len(node.schema), large.coordinates, time), rest


def _large_apart(node: Reduce, frame: Frame) -> _Apart:
    """Return the updates of large partitions apart: one job counts by key, a second counts all if that is not known."""
    if is_planning() or not is_divisible(node) or (frame.rows is not None and frame.rows <= LARGE):
        return _Apart(None, 0, frame)
    whole = frame if frame.cheap else materialised(frame)
    if whole is None or (whole.rows is not None and whole.rows <= LARGE):
        return _Apart(None, 0, whole)
    keys = [f"c{k}" for k in node.keys]
    counts = whole.data.groupBy(*keys).agg(F.count(F.lit(1)).alias("rows"))
    large = counts.filter(F.col("rows") > LARGE).collect()
    rows = sum(row["rows"] for row in large)
    if not large:
        return _Apart(None, 0, whole)
    if not keys or rows == (whole.data.count() if whole.rows is None else whole.rows):
        return _Apart(whole, rows, None)
    fields = tuple(attrs.evolve(node.inputs[0].schema.fields[k], name=f"c{k}") for k in node.keys)
    wanted = F.broadcast(whole.data.sparkSession.createDataFrame([row[:-1] for row in large], struct(Schema(fields))))
    known = {"inserted": whole.inserted, "consolidated": whole.consolidated}
    parts = [whole.of(with_keys(whole.data, wanted, keys, how), **known) for how in ("left_semi", "left_anti")]
    return _Apart(parts[0], rows, parts[1])


def _times_of(data: DataFrame) -> list[Time] | None:
    """Return the distinct times of updates over one coordinate, in order; None if they are too many."""
    found = data.select("t0").distinct().limit(MOST_VERSIONS + 1).collect()
    return sorted((row.t0,) for row in found) if len(found) <= MOST_VERSIONS else None


def in_ranges(
    node: Reduce, updates: DataFrame, rows: int, times: Sequence[Time | None], *, inserted: bool
) -> DataFrame | None:
    """Return the output's updates for rows with a version and a diff, computed in ranges; None if that cannot be done.

    A version has all rows of the versions before it. Its changes come out at its time; those of time None do not. With
    ``inserted`` all diffs are 1. None if frames reach too far, or if a count is negative: the other path reports that.
    """
    logic, schema = node.logic, node.inputs[0].schema
    assert isinstance(logic, Windows)
    given = read_by_calls(node, logic) if inserted else tuple(range(len(schema)))
    ranged = _range_partitioned(node, logic, updates, -(-rows // RANGE_ROWS)).localCheckpoint()
    ranged = ranged.withColumn(RANGE, F.spark_partition_id())
    requested = requested_summaries(logic, schema.dtypes)
    kernel = RangeKernel(node, given, len(times), requested, int(RANGE_ROWS / MOST_BESIDE))
    found = surroundings(node, applied(ranged, kernel).toArrow().to_pylist(), given)
    return None if found is None else applied(ranged, RangeValuesKernel(node, tuple(times), given, found))


def _range_partitioned(node: Reduce, windows: Windows, updates: DataFrame, ranges: int) -> DataFrame:
    """Return the rows range-partitioned by key and order, one task a range, peers in one range where they matter."""
    reach = Reach.of(windows, node.inputs[0].schema.dtypes)
    assert reach is not None
    ties_are_columns = all(o.column < len(node.inputs[0].schema) for o in windows.ties)  # else by the rows' hash
    by = (*windows.order, *windows.ties) if ties_are_columns and not reach.peers else windows.order
    return updates.repartitionByRange(max(ranges, 2), *(f"c{k}" for k in node.keys), *map(_sorted_by, by))


def _sorted_by(by: OrderColumn) -> Column:
    column = F.col(f"c{by.column}")
    if by.descending:
        return column.desc_nulls_first() if by.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if by.nulls_first else column.asc_nulls_last()


def read_by_calls(node: Reduce, windows: Windows) -> tuple[int, ...]:
    """Return the columns that calls read, and those of the partitioning and the order."""
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


def surroundings(
    node: Reduce, summaries: Sequence[Mapping[str, Any]], given: Sequence[int]
) -> dict[Place, Surroundings] | None:
    """Return the surroundings of each range, encoded; None if one has no summary, or if they are out of order."""
    if any(row["summary"] is None for row in summaries):
        return None
    transport = Transport(node.inputs[0].schema.dtypes, given, Interner())
    partitions: dict[tuple[int, str], dict[int, RangeSummary]] = defaultdict(dict)
    for row in sorted(summaries, key=lambda row: row[RANGE]):
        one: RangeSummary = pickle.loads(row["summary"])  # noqa: S301 - of our own tasks
        partitions[row[VERSION], row["key"]][row[RANGE]] = transport.received(one, rows=False)
    found: dict[Place, Surroundings] = {}
    for (version, key), some in partitions.items():
        ranges = list(some.values())
        if not _are_in_order(node, ranges, transport):
            return None
        for number, near in zip(some, surroundings_of(ranges), strict=True):
            found[number, version, key] = transport.sent(near)
    return found


def _are_in_order(node: Reduce, ranges: Sequence[RangeSummary], transport: Transport) -> bool:
    """Return whether no range begins before the end of the one before it, in our order, which Spark's may not be."""
    assert isinstance(node.logic, Windows)
    order = row_order(node.logic, transport.types, transport.interner)

    def key(edge: pa.Table, at: int) -> tuple[Any, ...]:
        return order.key(transport.codes(edge.slice(at, 1))[:, 0].tolist())

    return not any(key(b.head, 0) < key(a.tail, len(a.tail) - 1) for a, b in itertools.pairwise(ranges))
