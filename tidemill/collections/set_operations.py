"""SQL's set operations, which are composites, and small conveniences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidemill.collections.builder import either_nullable
from tidemill.dataflow.composites import SetOperation
from tidemill.errors import SchemaError, brief
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import col, lit

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["except_all", "except_distinct", "fill_null", "intersect"]


def except_all(left: Collection, right: Collection) -> Collection:
    """Return the left rows with counts lessened by the right ones, never below 0."""
    return _set_operation("except_all", left, right)


def except_distinct(left: Collection, right: Collection) -> Collection:
    """Return once each left row that is not among the right ones; NULL is a value like any other here."""
    return _set_operation("except_distinct", left, right)


def intersect(left: Collection, right: Collection) -> Collection:
    """Return once each left row that is among the right ones too; NULL is a value like any other here."""
    return _set_operation("intersect", left, right)


def _set_operation(operation: str, left: Collection, right: Collection) -> Collection:
    right = right.aligned_to(left.schema, operation)
    schema = either_nullable(left.schema, right.schema) if operation == "except_all" else left.schema
    builder = left.builder
    scope = builder.meeting_scope([left.node, right.node])
    inputs = (builder.enter(left.node, scope), builder.enter(right.node, scope))
    made = builder.graph.add(SetOperation, scope=scope, inputs=inputs, schema=schema, operation=operation)
    return builder.collection(made)


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
        msg = f"fill_null({brief(value)}): no column of {collection.schema} can hold that value"
        raise SchemaError(msg)
    return collection.with_columns(**filled)
