"""Bound aggregates: what a Reduce node computes for each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.aggregate_functions import DISTINCT, Aggregate
from tidemill.expressions.binding import bind, bind_predicate
from tidemill.expressions.bound import Bound, BoundCall, BoundLiteral
from tidemill.expressions.expr import Expr, lit
from tidemill.expressions.functions.choice import when
from tidemill.expressions.ordering import OrderColumn, OrderKey, bind_order
from tidemill.expressions.rewriting import can_fail
from tidemill.expressions.schema import Schema
from tidemill.expressions.sort_keys import SortKey
from tidemill.expressions.sql_text import as_expr, to_sql
from tidemill.expressions.types import BOOL, FLOAT64, INT64, DType, decimal_type, list_type

ORDERED: Final = frozenset(("first", "last", "list"))
"""Aggregates of the rows in an order, to which NULL is a value as any other."""
EXTREMES: Final = frozenset(("min", "max"))
SUMS_OF: Final = {
    "count": ("count",),
    **dict.fromkeys(("sum", "avg", "bool_or", "bool_and"), ("count", "total")),
    **dict.fromkeys(("variance", "stddev"), ("count", "total", "squares")),
}
"""The sums over the values that are not NULL of which aggregates are made: they add up, and can be taken away again."""

_DECIMAL_HEADROOM: Final = 10
_AVG_DIGITS: Final = 4


@attrs.frozen
class AggregateCall:
    """An aggregate bound to the rows it is of.

    ``condition`` says which rows take part, ``order`` in which order they are, in those that look at rows in an order;
    without one it is that of the values. The others have the condition in their argument.
    """

    function: str
    argument: Bound | None
    output: DType
    condition: Bound | None = None
    order: tuple[OrderKey, ...] = ()

    @property
    def nullable(self) -> bool:
        """Whether a group can have NULL here: all but counts and lists can."""
        return self.function not in ("count", "count_distinct", "list")

    def describe(self) -> str:
        """Return the aggregate as SQL has it."""
        of = "*" if self.argument is None else to_sql(self.argument)
        by = f" ORDER BY {', '.join(key.describe() for key in self.order)}" if self.order else ""
        where = "" if self.condition is None else f" FILTER (WHERE {to_sql(self.condition)})"
        return f"{self.function}({of}{by}){where}"


@attrs.frozen
class BoundAggregate:
    """An aggregate over a column of a Reduce's input; without a column, over the rows themselves.

    Those that need an order of rows have it in ``order``, and ``condition`` is a column that is true in those rows that
    take part. ``tells_apart`` are the columns by which rows, or values, are told apart none of which may have a
    negative count; where there are none, counts may be what they will.
    """

    function: str
    column: int | None
    input: DType | None
    output: DType
    order: tuple[OrderColumn, ...] = ()
    condition: int | None = None
    tells_apart: tuple[int, ...] = ()

    @property
    def sums(self) -> tuple[str, ...]:
        """The sums that it is made of: see `SUMS_OF`."""
        return SUMS_OF.get(self.function, ())

    def describe(self) -> str:
        """Return the function, and of those of ordered rows the columns and the order."""
        if self.function not in ORDERED:
            return self.function
        of = "" if self.condition is None else f" where #{self.condition}"
        return f"{self.function} #{self.column} by {', '.join(o.describe() for o in self.order)}{of}"


@attrs.frozen
class Aggregates:
    """What a Reduce computes for each group: one row, the key's columns followed by these.

    A group has its row where its count is not zero: that of all its rows, or of those where ``present`` is not NULL.
    """

    columns: tuple[BoundAggregate, ...]
    names: tuple[str, ...]
    present: int | None = None

    def describe(self) -> str:
        """Return the aggregates with their columns' names, as SQL would list them."""
        return ", ".join(f"{a.describe()} AS {n}" for a, n in zip(self.columns, self.names, strict=True))


@attrs.frozen(eq=False)
class UserReduce:
    """What a Reduce computes for each group by a user's ``fn(key, [(row without key, count), ...])``."""

    function: Callable[..., Any]
    version: str | None = None
    """What the user calls this version of the function, where its code does not say whether it is the same."""

    def describe(self) -> str:
        """Return the function's name, or its class where it has none."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)


class OneRow:
    """The function of a Reduce that passes its only row on: engines call it for no other group, and tell of two."""

    def __call__(self, _key: Any, rows: Sequence[tuple[Any, int]]) -> Sequence[tuple[Any, int]]:
        """Return the row."""
        return rows


def with_expressions(aggregate: Aggregate, schema: Schema) -> Aggregate:
    """Return an aggregate with the texts in it as the expressions that they stand for over a schema."""
    return attrs.evolve(
        aggregate,
        argument=_expression(aggregate.argument, schema),
        condition=_expression(aggregate.condition, schema),
        order_by=aggregate.order_by and tuple(_sort_key(k.over(schema), schema) for k in aggregate.order_by),
    )


def _sort_key(key: SortKey, schema: Schema) -> SortKey:
    return attrs.evolve(key, expression=as_expr(key.expression, schema), text=None)


def _expression(operand: Expr | str | None, schema: Schema) -> Expr | None:
    return None if operand is None else as_expr(operand, schema)


def bind_aggregate(aggregate: Aggregate, name: str, schema: Schema) -> AggregateCall:
    """Return an aggregate bound to the rows of a schema; ``name``, its column's, is for errors."""
    condition = None
    if aggregate.condition is not None:
        condition = bind_predicate(aggregate.condition, schema, f"{name}: {aggregate!r}")
    expression = _input(aggregate, schema)
    if expression is None:
        return AggregateCall(aggregate.function, None, INT64)
    bound = bind(expression, schema)
    output = _output(aggregate.function, bound, name)
    if aggregate.function not in ORDERED:
        return AggregateCall(aggregate.function, bound, output)
    by_value = aggregate.function == "list" and aggregate.order_by is None
    order = () if by_value else bind_order(aggregate.order_by, schema)
    order = tuple(attrs.evolve(key, expression=_guarded(key.expression, condition)) for key in order)
    return AggregateCall(aggregate.function, _guarded(bound, condition), output, condition, order)


def _input(aggregate: Aggregate, schema: Schema) -> Expr | None:
    """Return what is aggregated: NULL where the condition does not hold, if the aggregate skips NULL."""
    argument = _expression(aggregate.argument, schema)
    if aggregate.condition is None or aggregate.function in ORDERED:
        return argument
    taken = lit(1) if argument is None else argument
    return when(as_expr(aggregate.condition, schema), taken).otherwise(None)


def _guarded(bound: Bound, condition: Bound | None) -> Bound:
    """Return an expression that is no error in rows which take no part."""
    if condition is None or not can_fail(bound):
        return bound
    return BoundCall("case", (condition, bound, BoundLiteral(None, bound.dtype)), bound.dtype)


def _output(function: str, bound: Bound, name: str) -> DType:
    given, function = bound.dtype, DISTINCT.get(function, function)
    if function == "count":
        return INT64
    if function in ("min", "max", "first", "last"):
        return given
    if function == "list":
        return list_type(given)
    if function in ("bool_or", "bool_and"):
        if given != BOOL:
            msg = f"{name}: {function} of {to_sql(bound)} is of type {given}: expected bool"
            raise SchemaError(msg)
        return BOOL
    if not given.is_numeric:
        msg = f"{name}: {function} of {to_sql(bound)} is of type {given}: expected a number"
        raise SchemaError(msg)
    return aggregate_type(function, given)


def aggregate_type(function: str, given: DType) -> DType:
    """Return the type of an aggregate of numbers of a type: sum, avg, variance or stddev."""
    if function in ("variance", "stddev"):
        return FLOAT64
    if given.is_decimal:
        more, scale = (
            (_DECIMAL_HEADROOM, given.scale) if function == "sum" else (_AVG_DIGITS, given.scale + _AVG_DIGITS)
        )
        return decimal_type(_at_most_38(given.precision + more), _at_most_38(scale))
    return INT64 if function == "sum" and given.is_integer else FLOAT64


def _at_most_38(digits: int) -> int:
    return 38 if digits > 38 else digits  # noqa: PLR2004, FURB136 - `min` is the aggregate here
