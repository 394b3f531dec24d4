"""From the aggregates of groups to the node that computes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.dataflow import composites
from tidemill.dataflow.added_columns import columns_before_added
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.aggregates import bind_aggregate
from tidemill.expressions.bound import Bound
from tidemill.expressions.schema import Field, Schema

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["Columns", "aggregate"]

Columns = list[tuple[str, Bound]]


def aggregate(collection: Collection, keys: Columns, aggregates: Mapping[str, Aggregate]) -> Collection:
    """Return the groups' keys and aggregates; without keys, one row in any case."""
    calls = {name: bind_aggregate(one, name, collection.schema) for name, one in aggregates.items()}
    columns = [Field(name, bound.dtype, bound.nullable) for name, bound in keys]
    columns += [Field(name, call.output, call.nullable) for name, call in calls.items()]
    made = collection.builder.graph.add(
        composites.Aggregate,
        scope=collection.node.scope,
        inputs=(collection.node,),
        schema=Schema(tuple(columns)),
        keys=tuple(bound for _, bound in keys),
        aggregates=tuple(calls.values()),
        hashed=columns_before_added(collection.node) if any(call.order for call in calls.values()) else None,
    )
    return collection.builder.collection(made)
