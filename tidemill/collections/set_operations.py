"""SQL's set operations and small conveniences, composed of other operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import col, lit

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["except_all", "except_distinct", "fill_null", "intersect"]


def except_all(left: Collection, right: Collection) -> Collection:
    """Return the left rows with counts lessened by the right ones, never below 0."""
    return left.concat(right.aligned_to(left.schema, "except_all").negate()).threshold(_not_below_zero)


def _not_below_zero(_row: Any, count: int) -> int:
    return max(count, 0)


def except_distinct(left: Collection, right: Collection) -> Collection:
    """Return once each left row that is not among the right ones; NULL is a value like any other here."""
    aligned = right.aligned_to(left.schema, "except_distinct")
    return left.distinct().antijoin(aligned, on=list(left.schema.names), nulls_equal=True)


def intersect(left: Collection, right: Collection) -> Collection:
    """Return once each left row that is among the right ones too; NULL is a value like any other here."""
    aligned = right.aligned_to(left.schema, "intersect")
    return left.distinct().semijoin(aligned, on=list(left.schema.names), nulls_equal=True)


def fill_null(collection: Collection, value: Any) -> Collection:
    """Return the rows with NULL replaced; which columns one value fits is said by their types, numbers fit numbers."""
    if isinstance(value, Mapping):
        filled = {name: col(name).fill_null(v) for name, v in value.items()}
    else:
        kind = bind(lit(value), collection.schema).dtype
        filled = {
            f.name: col(f.name).fill_null(value)
            for f in collection.schema
            if f.dtype == kind or (f.dtype.is_numeric and kind.is_numeric)
        }
    if not filled:
        msg = f"fill_null({value!r}): no column of {collection.schema} can hold that value"
        raise SchemaError(msg)
    return collection.with_columns(**filled)
