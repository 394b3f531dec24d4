"""Lists of what is in groups, where a column is known to tell the rows of a group apart."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.collections.collection import Collection
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregates import Aggregates, BoundAggregate
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import list_type


def ordered_lists(collection: Collection, keys: Sequence[str], order: str, columns: Sequence[str]) -> Collection:
    """Return for each group the lists of these columns, in the order of one that must tell its different rows apart.

    As ``agg(tm.list(column, order_by=order), ...)``, but for ties, which need no hash here.
    """
    rows = collection.select(*keys, *dict.fromkeys((order, *columns)))
    own = range(len(keys), len(rows.schema))
    lists = tuple(
        BoundAggregate(
            "list",
            rows.schema.index(name),
            rows.schema.field(name).dtype,
            list_type(rows.schema.field(name).dtype),
            order=(OrderColumn(rows.schema.index(order)),),
            tells_apart=tuple(own),
        )
        for name in columns
    )
    made = tuple(Field(name, one.output, False) for name, one in zip(columns, lists, strict=True))
    node = rows.builder.add(
        Reduce,
        rows.node,
        schema=Schema((*rows.schema.fields[: len(keys)], *made)),
        keys=tuple(range(len(keys))),
        logic=Aggregates(lists, tuple(columns)),
    )
    return Collection(rows.builder, node)
