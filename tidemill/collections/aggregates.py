"""What is computed of groups: aggregates and expressions of them, the first rows, a user's reduce.

Of expressions, one Aggregate computes the aggregates in them, and a Map after it the expressions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from tidemill.collections.builder import Builder, Named
from tidemill.dataflow import composites
from tidemill.dataflow.added_columns import columns_before_added
from tidemill.dataflow.nodes import Node, Reduce
from tidemill.errors import SchemaError, UnknownColumnError, did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.aggregates import UserReduce, bind_aggregate, with_expressions
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.display import display, literal_hint
from tidemill.expressions.expr import Column, Expr, col, lit
from tidemill.expressions.literals import table_called
from tidemill.expressions.ordering import bind_order
from tidemill.expressions.schema import Field, Schema, unused_name
from tidemill.expressions.sql_text import as_expr
from tidemill.expressions.structure import key, replaced, resolve, walk
from tidemill.expressions.windows.calls import calls_in

Keys = Sequence[tuple[str, Bound]]
"""What groups have in common, by name."""


def aggregate(builder: Builder, node: Node, keys: Keys, expressions: Mapping[str, Any]) -> Node:
    """Return the groups' keys and, by name, the values of expressions of aggregates and keys."""
    key_names = [name for name, _ in keys]
    wanted = {name: _expression(name, value, node.schema, key_names) for name, value in expressions.items()}
    computed = _each_once(wanted, taken={*key_names, *wanted})
    grouped = _aggregates(builder, node, keys, dict(computed.values()))
    if [name for name, _ in computed.values()] == list(wanted):
        return grouped

    def column(part: Expr) -> Expr | None:
        return col(computed[key(part)][0]) if isinstance(part, Aggregate) else None

    after: Named = [*((n, col(n)) for n in key_names), *((n, replaced(e, column)) for n, e in wanted.items())]
    return builder.compute(grouped, after)


def _aggregates(builder: Builder, node: Node, keys: Keys, aggregates: Mapping[str, Aggregate]) -> Node:
    """Return the groups' keys and aggregates; without keys, one row in any case."""
    calls = {name: bind_aggregate(one, name, node.schema) for name, one in aggregates.items()}
    columns = [Field(name, bound.dtype, bound.nullable) for name, bound in keys]
    columns += [Field(name, call.output, call.nullable) for name, call in calls.items()]
    return builder.add(
        composites.Aggregate,
        node,
        schema=Schema(tuple(columns)),
        keys=tuple(bound for _, bound in keys),
        aggregates=tuple(calls.values()),
        hashed=columns_before_added(node) if any(call.order for call in calls.values()) else None,
    )


def top_k(builder: Builder, node: Node, keys: Keys, k: int, order_by: Any) -> Node:
    """Return the first k rows of each group in an order."""
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        msg = f"top_k: k={k!r}: expected a number of rows, at least 1"
        raise SchemaError(msg)
    return builder.add(
        composites.TopK,
        node,
        keys=tuple(bound for _, bound in keys),
        order=bind_order(order_by, node.schema),
        count=k,
        hashed=columns_before_added(node),
    )


def reduce(  # noqa: PLR0917 - what a user's function is, and what it gives
    builder: Builder, node: Node, keys: Keys, function: Any, schema: Schema, version: str | None
) -> Node:
    """Return the rows that a Python function makes of each group."""
    names = [name for name, _ in keys]
    if not all(isinstance(b, BoundColumn) and b.name == name for name, b in keys):
        rest = [(n, bind(col(n), node.schema)) for n in node.schema.names if n not in names]
        node = builder.map(node, [*keys, *rest])
    places = tuple(node.schema.index(name) for name in names)
    logic = UserReduce(function, version)
    return builder.add(Reduce, builder.arrange(node, places), schema=schema, keys=places, logic=logic)


def _expression(name: str, value: Any, schema: Schema, keys: list[str]) -> Expr:
    """Return what was given as an expression, once it is known to be one of aggregates and keys."""
    if table_called(value):
        lit(value)  # refused, with what to do
    if not isinstance(value, (str, Expr)):
        raise _no_aggregate(name, value)
    given = as_expr(value, schema)
    for call in calls_in(given):
        bind(call, schema)  # refused, with what to do
    for part in _outside_aggregates(given):
        if isinstance(part, Column) and part.name not in keys:
            _refuse(name, part, schema, keys)
    if not any(isinstance(part, Aggregate) for part in _outside_aggregates(given)):
        raise _no_aggregate(name, value)
    return replaced(given, lambda part: with_expressions(part, schema) if isinstance(part, Aggregate) else None)


def _outside_aggregates(expression: Expr) -> Iterator[Expr]:
    """Iterate over an expression and its parts, down to the aggregates in it."""
    return walk(expression, into=lambda part: not isinstance(part, Aggregate))


def _no_aggregate(name: str, value: Any) -> SchemaError:
    return SchemaError(f"{name}={value!r} is not an aggregate: expected something like tm.count() or tm.sum('x')")


def _refuse(name: str, refused: Column, schema: Schema, keys: list[str]) -> None:
    column = refused.name
    if column not in schema:
        known = [*keys, *(n for n in schema.names if n not in keys)]
        msg = f"{name}: no column `{column}` in {schema}: {did_you_mean(column, known)}{literal_hint(refused)}"
        raise UnknownColumnError(msg).about(column=column)
    msg = (
        f"{name}: column `{column}` is neither a key of the groups nor inside an aggregate: group by it too, or say "
        f"which of its values, as in tm.max({column!r})"
    )
    raise SchemaError(msg)


def _each_once(wanted: Mapping[str, Expr], taken: set[str]) -> dict[Hashable, tuple[str, Aggregate]]:
    """Return the aggregates by their structure, named as the user did or, inside of an expression, by their text."""
    found: dict[Hashable, tuple[str, Aggregate]] = {}
    for name, expression in wanted.items():
        plain = resolve(expression)
        if isinstance(plain, Aggregate):
            found.setdefault(key(plain), (name, plain))
    for expression in wanted.values():
        for part in _outside_aggregates(expression):
            if isinstance(part, Aggregate) and key(part) not in found:
                name = unused_name(display(part), taken)
                taken.add(name)
                found[key(part)] = (name, part)
    return found
