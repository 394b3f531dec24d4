"""Groups with aggregates, as a Reduce over what the aggregates read.

Distinct arguments reach the Reduce as rows of their own, so that a change of one row is a change of one value.
"""

from __future__ import annotations

from collections.abc import Container

import attrs

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import Aggregate
from tidemill.expressions.aggregate_functions import DISTINCT
from tidemill.expressions.aggregates import ORDERED, AggregateCall, Aggregates, BoundAggregate
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import col, lit
from tidemill.expressions.ordering import OrderColumn, OrderKey, hash_of_row
from tidemill.expressions.schema import Schema, unused_name
from tidemill.expressions.types import BOOL

Columns = list[tuple[str, Bound]]

_PRESENT = "present#"


@lowering(Aggregate)
def aggregate(node: Aggregate, source: Collection) -> Collection:
    """Return a Reduce over the keys and, each once, the arguments of the aggregates."""
    keys = len(node.keys)
    names = node.schema.names[keys:]
    columns: Columns = list(zip(node.schema.names, node.keys, strict=False))
    distinct: Columns = []
    bound: list[BoundAggregate] = []
    # Rows for distinct arguments have keys, too: what aggregates read is then in columns of its own, NULL in those.
    shared = 0 if any(call.function in DISTINCT for call in node.aggregates) else keys
    for name, call in zip(names, node.aggregates, strict=True):
        if call.argument is None:
            bound.append(BoundAggregate(call.function, None, None, call.output))
        elif call.function in DISTINCT:
            bound.append(BoundAggregate(call.function, None, call.argument.dtype, call.output))
            distinct.append((f"{name}#", call.argument))
        else:
            bound.append(_over_columns(call, name, columns, node.hashed, source.schema, keys=keys, shared=shared))
    if distinct:
        rows, logic = _with_distinct(source, keys, columns, distinct, bound=bound, names=names)
    else:
        rows = source.map_columns(columns or [("#", bind(lit(True), source.schema))])
        logic = Aggregates(tuple(bound), names)
    return rows.reduce_by(tuple(range(keys)), logic, node.schema, scalar=not keys)


def _over_columns(
    call: AggregateCall,
    name: str,
    columns: Columns,
    hashed: tuple[int, ...] | None,
    schema: Schema,
    *,
    keys: int,
    shared: int,
) -> BoundAggregate:
    """Return an aggregate over columns: of its argument, and those by which it orders and distinguishes rows.

    Of the keys' columns, the first ``shared`` may be its argument or its condition.
    """
    assert call.argument is not None, "one without an argument reads no column"
    hidden = range(shared, keys)
    column = _place(columns, f"{name}#", call.argument, hidden)
    made = BoundAggregate(call.function, column, call.argument.dtype, call.output)
    if call.function not in ORDERED:
        return attrs.evolve(made, tells_apart=(column,)) if call.function in ("min", "max") else made
    condition = None
    order: tuple[OrderColumn, ...] = (OrderColumn(column),)
    told_apart: tuple[int, ...] = (column,)
    if call.condition is not None:
        condition = _place(columns, f"{name}#if", call.condition, hidden)
    if call.order:
        order, told_apart = _total_order(call.order, name, columns, hashed, schema)
    order = tuple(o for o in order if o.column >= keys)  # in a group all rows have the same key
    told_apart = tuple(c for c in told_apart if c >= keys)
    return attrs.evolve(made, order=order, condition=condition, tells_apart=told_apart or (column,))


def _total_order(
    keys: tuple[OrderKey, ...], name: str, columns: Columns, hashed: tuple[int, ...] | None, schema: Schema
) -> tuple[tuple[OrderColumn, ...], tuple[int, ...]]:
    """Return a total order of rows, by their hash and then whole; and the columns of whole rows."""
    asked = [
        OrderColumn(_place(columns, f"{name}#order{i}", key.expression), key.descending, key.nulls_first)
        for i, key in enumerate(keys)
    ]
    tie = OrderColumn(_place(columns, "hash#", bind(hash_of_row(schema, hashed), schema)))
    rows = tuple(_place(columns, f"row#{n}", bind(col(n), schema)) for n in schema.names)
    return (*asked, tie, *map(OrderColumn, rows)), rows


def _place(columns: Columns, name: str, argument: Bound, hidden: Container[int] = ()) -> int:
    """Return the column that holds an argument: one that is there already, but for some, or a new one."""
    for i, (_, there) in enumerate(columns):
        if there == argument and i not in hidden:
            return i
    columns.append((_new_name(name, {n for n, _ in columns}), argument))
    return len(columns) - 1


def _new_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, which it is from now on."""
    name = unused_name(name, taken)
    taken.add(name)
    return name


def _with_distinct(
    source: Collection,
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
    schema, taken = source.schema, {name for name, _ in columns}
    mark = _new_name(_PRESENT, taken)
    distinct = [(_new_name(name, taken), argument) for name, argument in distinct]
    null = [(name, bind(lit(None).cast(b.dtype), schema)) for name, b in distinct]
    plain = source.map_columns([*columns, (mark, bind(lit(True), schema)), *null])
    parts = [plain]
    for name, argument in distinct:
        values = source.map_columns([*columns[:keys], (name, argument)]).filter(col(name).is_not_null()).distinct()
        parts.append(
            values.map_columns(
                [
                    (f.name, bind(col(f.name) if f.name in values.schema else lit(None).cast(f.dtype), values.schema))
                    for f in plain.schema
                ]
            )
        )
    present = plain.schema.index(mark)
    counted = iter(range(present + 1, len(plain.schema)))
    made = [
        attrs.evolve(b, function=DISTINCT[b.function], column=next(counted))
        if b.function in DISTINCT
        else attrs.evolve(b, column=present, input=BOOL)
        if b.column is None
        else attrs.evolve(b, condition=present)
        if b.function in ORDERED and b.condition is None
        else b
        for b in bound
    ]
    return parts[0].concat(*parts[1:]), Aggregates(tuple(made), names, present)
