"""Expressions of aggregates: one Reduce computes the aggregates in them, and a Map after it the expressions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidemill.collections.aggregation import Columns, aggregate
from tidemill.errors import SchemaError, UnknownColumnError, did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.aggregates import with_expressions
from tidemill.expressions.binding import bind
from tidemill.expressions.display import display, literal_hint
from tidemill.expressions.expr import Column, Expr, col, lit
from tidemill.expressions.literals import table_called
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import as_expr
from tidemill.expressions.structure import key, replaced, resolve, walk
from tidemill.expressions.windows.calls import calls_in

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["aggregate_expressions"]


def aggregate_expressions(collection: Collection, keys: Columns, expressions: Mapping[str, Any]) -> Collection:
    """Return the groups' keys and, by name, the values of expressions of aggregates and keys."""
    key_names = [name for name, _ in keys]
    wanted = {name: _expression(name, value, collection.schema, key_names) for name, value in expressions.items()}
    computed = _each_once(wanted, taken={*key_names, *wanted})
    grouped = aggregate(collection, keys, dict(computed.values()))
    if [name for name, _ in computed.values()] == list(wanted):
        return grouped

    def column(part: Expr) -> Expr | None:
        return col(computed[key(part)][0]) if isinstance(part, Aggregate) else None

    after = [*((n, col(n)) for n in key_names), *((n, replaced(e, column)) for n, e in wanted.items())]
    return grouped.map_columns([(name, bind(e, grouped.schema)) for name, e in after])


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
                name = display(part)
                while name in taken:
                    name += "#"
                taken.add(name)
                found[key(part)] = (name, part)
    return found
