"""From aggregates as the user wrote them to a Reduce and what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.aggregates import ORDERED, Aggregates, BoundAggregate, bind_aggregate, output_fields
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import col, lit
from tidemill.expressions.ordering import OrderColumn, bind_order, hash_of_row
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.sql_text import as_expr
from tidemill.expressions.types import BOOL

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["aggregate"]

Columns = list[tuple[str, Bound]]

_PRESENT = "present#"


def aggregate(collection: Collection, keys: Columns, aggregates: Mapping[str, Any]) -> Collection:
    """Return the groups' keys and aggregates; without keys, one row in any case.

    The Reduce reads the keys and, each once, the arguments. Distinct arguments come to it as rows of their own, so that
    a change of one row is a change of one value: see `_with_distinct`.
    """
    columns: Columns = list(keys)
    distinct: Columns = []
    bound: list[BoundAggregate] = []
    for name, one in aggregates.items():
        made, argument = bind_aggregate(one, name, collection.schema, len(columns))
        if made.function == "count_distinct":
            assert argument is not None, "count_distinct takes an argument"
            distinct.append((f"{name}#", argument))
        elif argument is not None:
            made = attrs.evolve(made, column=_place(columns, f"{name}#", argument))
            made = _with_rows(made, one, name, columns, schema=collection.schema, keys=len(keys))
        bound.append(made)
    if distinct:
        rows, logic = _with_distinct(collection, len(keys), columns, distinct, bound=bound, names=tuple(aggregates))
    else:
        rows = collection.map_columns(columns or [("#", bind(lit(True), collection.schema))])
        logic = Aggregates(tuple(bound), tuple(aggregates))
    fields = tuple(Field(name, b.dtype, b.nullable) for name, b in keys)
    node = rows.builder.graph.add(
        Reduce,
        scope=rows.node.scope,
        inputs=(rows.node,),
        schema=Schema((*fields, *output_fields(logic))),
        keys=tuple(range(len(keys))),
        logic=logic,
        scalar=not keys,
    )
    return rows.builder.collection(node)


def _with_rows(
    made: BoundAggregate, one: Aggregate, name: str, columns: Columns, *, schema: Schema, keys: int
) -> BoundAggregate:
    """Return an aggregate with the columns by which it orders rows, takes part of them, and tells them apart."""
    assert made.column is not None
    if made.function not in ORDERED:
        return attrs.evolve(made, tells_apart=(made.column,)) if made.function in ("min", "max") else made
    condition = None
    order: tuple[OrderColumn, ...] = (OrderColumn(made.column),)
    told_apart: tuple[int, ...] = (made.column,)
    if one.condition is not None:
        condition = _place(columns, f"{name}#if", bind(as_expr(one.condition, schema), schema, expected=BOOL))
    if one.order_by is not None or made.function != "list":
        order, told_apart = _total_order(one.order_by, name, columns, schema)
    order = tuple(o for o in order if o.column >= keys)  # in a group all rows have the same key
    told_apart = tuple(c for c in told_apart if c >= keys)
    return attrs.evolve(made, order=order, condition=condition, tells_apart=told_apart or (made.column,))


def _total_order(
    order_by: Any, name: str, columns: Columns, schema: Schema
) -> tuple[tuple[OrderColumn, ...], tuple[int, ...]]:
    """Return an order that tells any two rows apart, by their hash and then whole; and the columns of whole rows."""
    asked = [
        OrderColumn(_place(columns, f"{name}#order{i}", b), key.descending, key.nulls_first)
        for i, (b, key) in enumerate(bind_order(order_by, schema))
    ]
    tie = OrderColumn(_place(columns, "hash#", bind(hash_of_row(schema), schema)))
    rows = tuple(_place(columns, f"row#{n}", bind(col(n), schema)) for n in schema.names)
    return (*asked, tie, *map(OrderColumn, rows)), rows


def _place(columns: Columns, name: str, argument: Bound) -> int:
    """Return the column that holds an argument: one that is there already, or a new one."""
    for i, (_, there) in enumerate(columns):
        if there == argument:
            return i
    columns.append((name, argument))
    return len(columns) - 1


def _with_distinct(
    collection: Collection,
    keys: int,
    columns: Columns,
    distinct: Columns,
    *,
    bound: list[BoundAggregate],
    names: tuple[str, ...],
) -> tuple[Collection, Aggregates]:
    """Return the rows to aggregate, beside them a row for each distinct argument of each group, and what to compute.

    Only the former have a mark that they are present: counting them counts the group. The latter have all arguments
    NULL but their own, which is NULL in the former, so that counting what is not NULL counts the distinct ones. Where
    NULL is a value as any other, the mark says which rows take part.
    """
    schema = collection.schema
    null = [(name, bind(lit(None).cast(b.dtype), schema)) for name, b in distinct]
    plain = collection.map_columns([*columns, (_PRESENT, bind(lit(True), schema)), *null])
    parts = [plain]
    for name, argument in distinct:
        values = collection.map_columns([*columns[:keys], (name, argument)]).filter(col(name).is_not_null()).distinct()
        parts.append(
            values.map_columns(
                [
                    (f.name, bind(col(f.name) if f.name in values.schema else lit(None).cast(f.dtype), values.schema))
                    for f in plain.schema
                ]
            )
        )
    present = plain.schema.index(_PRESENT)
    counted = iter(range(present + 1, len(plain.schema)))
    made = [
        attrs.evolve(b, function="count", column=next(counted))
        if b.function == "count_distinct"
        else attrs.evolve(b, column=present, input=BOOL)
        if b.column is None
        else attrs.evolve(b, condition=present)
        if b.function in ORDERED and b.condition is None
        else b
        for b in bound
    ]
    return parts[0].concat(*parts[1:]), Aggregates(tuple(made), names, present)
