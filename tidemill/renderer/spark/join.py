"""Join: pairs of updates with equal keys, as an equi-join of DataFrames."""

from __future__ import annotations

import functools

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.nodes import Join, Node, arranged_keys
from tidemill.renderer.spark.failures import TOO_MANY
from tidemill.renderer.spark.frames import DIFF, Frame, is_small

__all__ = ["checked_count", "joined"]

_LARGE = 1 << 62


def joined(node: Join, left: Frame, right: Frame) -> Frame:
    """Return the pairs of updates of both sides: times joined, counts multiplied.

    A side that is known to be small is broadcast to the other; else Spark decides.
    """
    tables = [f.data.toDF(*(f"{side}_{name}" for name in f.data.columns)) for f, side in ((left, "l"), (right, "r"))]
    if (smaller := min((left, right), key=lambda f: _LARGE if f.rows is None else f.rows)) and is_small(smaller):
        tables[smaller is right] = F.broadcast(tables[smaller is right])
    pairs = zip(arranged_keys(node.inputs[0]), arranged_keys(node.inputs[1]), strict=True)
    conditions = [_equal(f"l_c{a}", f"r_c{b}", nulls_equal=node.nulls_equal) for a, b in pairs]
    both = tables[0].join(tables[1], functools.reduce(Column.__and__, conditions, F.lit(True)))
    picked = [f"l_c{i}" if i < left.width else f"r_c{i - left.width}" for i in node.output]
    row = [F.col(name).alias(f"c{i}") for i, name in enumerate(picked)]
    at = None
    if left.time is not None and right.time is not None:
        at = tuple(map(max, left.time, right.time))
    known = [F.lit(c).cast("bigint") for c in at or ()]  # then Spark need not group by it
    known += [F.greatest(f"l_t{i}", f"r_t{i}") for i in range(len(known), left.coordinates)]
    time = [column.alias(f"t{i}") for i, column in enumerate(known)]
    diff = checked_count(node, f"l_{DIFF}") * checked_count(node, f"r_{DIFF}")
    inserted = left.inserted and right.inserted
    return Frame(both.select(*row, *time, diff.alias(DIFF)), len(picked), left.coordinates, at, inserted=inserted)


def _equal(left: str, right: str, *, nulls_equal: bool) -> Column:
    return F.col(left).eqNullSafe(F.col(right)) if nulls_equal else F.col(left) == F.col(right)


def checked_count(node: Node, name: str) -> Column:
    """Return a column of counts that raises where one is so large that products of it could overflow."""
    count = F.col(name)
    fits = count.between(-COUNT_LIMIT, COUNT_LIMIT)
    return F.when(fits, count).otherwise(F.raise_error(F.lit(f"{TOO_MANY}{node.id}")).cast("bigint"))
