"""Partitions of window calls that are too large for one task: cut into ranges of their order, a task for each.

Spark shares the rows out by partition and order. A first job over the ranges says what each is to others: counts, exact
sums, the rows at its ends; put together in the driver, that is little. A second one is told what there is around each
range, and computes the values.
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
    Around,
    RangePartition,
    around,
    can_be_divided,
    summaries_asked,
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
"""Rows of a partition beyond which it is more than one task."""
RANGE_ROWS: Final = 250_000
"""About so many rows are a range."""
MOST_VERSIONS: Final = 8
"""Times at which rows come up to which their values are computed at each."""
MOST_BESIDE: Final = 4
"""Where rows look at more than a range divided by this on either side, the partition is one task."""


def is_divisible(node: Node) -> bool:
    """Return whether values of some rows are worked out from the rows around them and from what others come to."""
    logic = getattr(node, "logic", None)
    return isinstance(logic, Windows) and can_be_divided(logic, node.inputs[0].schema.dtypes)


def on_large() -> str:
    """Return what becomes of large partitions of windows that are divisible, for who reads a plan."""
    return (
        f"Partitions of more than {LARGE:,} rows, which a job before this one counts, are cut into ranges of about "
        f"{RANGE_ROWS:,} rows each by their order: one job finds out what is around each, one computes the values."
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


STORED: Final = "stored"
"""The column that says whether an update is a stored one."""


class _Apart(NamedTuple):
    """Updates of partitions that are too large, and the others."""

    large: Frame | None
    rows: int
    """How many updates the large ones have."""
    rest: Frame | None


def windows_of_large(node: Reduce, frame: Frame, *, some_stored: bool = False) -> tuple[Frame | None, Frame | None]:
    """Return the output's updates for partitions that are too large for one task, and the updates of the others.

    With ``some_stored`` the column `STORED` says which updates are of what was there before, with its values. None for
    either where there are none.
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
    number: Column = F.lit(0)  # of its version
    if time is None:
        known = F.array(*(F.lit(t).cast("bigint") for (t,) in at))
        number = F.array_position(known, F.col("t0")) - (0 if some_stored else 1)
    if some_stored:
        number = F.when(F.col(STORED), 0).otherwise(number)
    lines = large.data.select(*columns(large.width), number.cast("int").alias(VERSION), DIFF)
    found = in_ranges(node, lines, rows, [*([None] if some_stored else []), *at], inserted=large.inserted)
    if found is None:
        return None, frame
    return Frame(found, len(node.schema), large.coordinates, time), rest


def _large_apart(node: Reduce, frame: Frame) -> _Apart:
    """Return the updates with those of large partitions apart: one job, of the keys' columns, which counts them."""
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
    """Return the times of updates over one coordinate, in their order; None where they are too many."""
    found = data.select("t0").distinct().limit(MOST_VERSIONS + 1).collect()
    return sorted((row.t0,) for row in found) if len(found) <= MOST_VERSIONS else None


def in_ranges(
    node: Reduce, lines: DataFrame, rows: int, times: Sequence[Time | None], *, inserted: bool
) -> DataFrame | None:
    """Return the output's updates for lines of rows, each with its version and diff; None where it cannot be so.

    A version has the rows of those before it, and its time, if its changes are wanted. With ``inserted`` all diffs are
    1. Not where rows look at many others, or are there less than no times, which is an error that others tell.
    """
    logic, schema = node.logic, node.inputs[0].schema
    assert isinstance(logic, Windows)
    given = read_by_calls(node, logic) if inserted else tuple(range(len(schema)))
    ranged = _ranged(node, logic, lines, -(-rows // RANGE_ROWS)).localCheckpoint()
    ranged = ranged.withColumn(RANGE, F.spark_partition_id())
    asked = summaries_asked(logic, schema.dtypes)
    kernel = RangeKernel(node, given, len(times), asked, int(RANGE_ROWS / MOST_BESIDE))
    found = put_together(node, applied(ranged, kernel).toArrow().to_pylist(), given)
    return None if found is None else applied(ranged, RangeValuesKernel(node, tuple(times), given, found))


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


def put_together(node: Reduce, said: Sequence[Mapping[str, Any]], given: Sequence[int]) -> dict[Place, Around] | None:
    """Return what is around each range, as it is sent; None where they are no ranges, or their ends many rows."""
    if any(line["summary"] is None for line in said):
        return None
    transport = Transport(node.inputs[0].schema.dtypes, given, Interner())
    partitions: dict[tuple[int, str], dict[int, RangePartition]] = defaultdict(dict)
    for line in sorted(said, key=lambda line: line[RANGE]):
        one: RangePartition = pickle.loads(line["summary"])  # noqa: S301 - of our own tasks
        partitions[line[VERSION], line["key"]][line[RANGE]] = transport.received(one, rows=False)
    found: dict[Place, Around] = {}
    for (version, key), some in partitions.items():
        ranges = list(some.values())
        if not _are_in_order(node, ranges, transport):
            return None
        for number, beside in zip(some, around(ranges), strict=True):
            found[number, version, key] = transport.sent(beside)
    return found


def _are_in_order(node: Reduce, ranges: Sequence[RangePartition], transport: Transport) -> bool:
    """Return whether each range begins behind the end of the one before, in our order: Spark has its own."""
    assert isinstance(node.logic, Windows)
    order = row_order(node.logic, transport.types, transport.interner)

    def key(edge: pa.Table, at: int) -> tuple[Any, ...]:
        return order.key(transport.codes(edge.slice(at, 1))[:, 0].tolist())

    return not any(key(b.head, 0) < key(a.tail, len(a.tail) - 1) for a, b in itertools.pairwise(ranges))
