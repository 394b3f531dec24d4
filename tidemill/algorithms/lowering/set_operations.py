"""SQL's set operations, by counts and by joins on whole rows."""

from __future__ import annotations

from typing import Any

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import SetOperation


@lowering(SetOperation)
def set_operation(node: SetOperation, left: Collection, right: Collection) -> Collection:
    """Return the differences of counts, or once each left row that is, or is not, among the right ones."""
    if node.operation == "except_all":
        return left.concat(right.negate()).threshold(_not_below_zero)
    how = left.distinct().semijoin if node.operation == "intersect" else left.distinct().antijoin
    return how(right, on=left.schema.names, nulls_equal=True)


def _not_below_zero(_row: Any, count: int) -> int:
    return max(count, 0)
