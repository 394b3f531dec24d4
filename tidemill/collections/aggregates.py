"""Aggregate functions, as the user writes them and as a Reduce node carries them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from tidemill.collections.binding import Bound, bind
from tidemill.collections.expressions import Expr, as_expr, lit, when
from tidemill.collections.schema import Field, Schema
from tidemill.collections.types import BOOL, FLOAT64, INT64, DType, decimal_type
from tidemill.errors import SchemaError

__all__ = [
    "Aggregate", "Aggregates", "BoundAggregate", "UserReduce", "avg", "bool_and", "bool_or", "count", "count_distinct",
    "max", "min", "stddev", "sum", "variance",
]  # fmt: skip

# The public names are SQL's; `from tidemill import *` leaves those that would shadow a builtin out.

_DECIMAL_HEADROOM: Final = 10
_AVG_DIGITS: Final = 4


@attrs.frozen(eq=False)
class Aggregate:
    """An aggregate function of a group, not yet bound to a schema. Made by ``tm.count()``, ``tm.sum("x")`` and others.

    >>> sum("delay").filter("delay > 0")
    Aggregate(function='sum', argument='delay', condition='delay > 0')
    """

    function: str
    argument: Any = None
    condition: Any = None

    def filter(self, condition: Any) -> Aggregate:
        """Return the same aggregate over those rows of the group for which the condition is true (SQL's FILTER)."""
        return attrs.evolve(self, condition=condition)

    def input_expression(self, schema: Schema) -> Expr | None:
        """Return what is aggregated: NULL, which every aggregate skips, where the condition does not hold."""
        argument = None if self.argument is None else as_expr(self.argument, schema)
        if self.condition is None:
            return argument
        taken = lit(1) if argument is None else argument
        return when(as_expr(self.condition, schema), taken).otherwise(None)


def count(argument: Any = None) -> Aggregate:
    """Return the aggregate that counts a group's rows, or those in which the argument is not NULL. Type int64."""
    return Aggregate("count", argument)


def sum(argument: Any) -> Aggregate:  # noqa: A001 - SQL's name
    """Return the aggregate that adds up the values that are not NULL; NULL where there are none.

    int32 and int64 give int64, float64 gives float64 (exact, rounded once, as ``math.fsum``), decimal(p,s) gives
    decimal(p+10,s). Overflow is judged on the value at a time, never on partial sums.
    """
    return Aggregate("sum", argument)


def avg(argument: Any) -> Aggregate:
    """Return the aggregate for the mean of the values that are not NULL; NULL where there are none.

    Integers: the exact sum over the count, rounded once to float64. Floats: the correctly rounded sum over the count.
    decimal(p,s) gives decimal(p+4,s+4), halves rounded away from zero.
    """
    return Aggregate("avg", argument)


def min(argument: Any) -> Aggregate:  # noqa: A001 - SQL's name
    """Return the aggregate for the least value that is not NULL; NULL where there is none.

    NaN is the greatest float, False is less than True, strings go by code point. The type is the argument's.
    """
    return Aggregate("min", argument)


def max(argument: Any) -> Aggregate:  # noqa: A001 - SQL's name
    """Return the aggregate for the greatest value that is not NULL; NULL where there is none. Order as for `min`."""
    return Aggregate("max", argument)


def count_distinct(argument: Any) -> Aggregate:
    """Return the aggregate that counts the different values that are not NULL. Type int64.

    As `distinct` has it, a value counts where its own count is positive. Cost: a change of a row is a change of one
    value, whatever the size of the group.
    """
    return Aggregate("count_distinct", argument)


def bool_or(argument: Any) -> Aggregate:
    """Return the aggregate that is true where any value is; NULL where there are none that are not NULL."""
    return Aggregate("bool_or", argument)


def bool_and(argument: Any) -> Aggregate:
    """Return the aggregate that is true where no value is false; NULL where there are none that are not NULL."""
    return Aggregate("bool_and", argument)


def variance(argument: Any) -> Aggregate:
    """Return the aggregate for the sample variance, a float64: worked out exactly and rounded once.

    NULL for fewer than two values that are not NULL, NaN where a value is NaN or infinite.
    """
    return Aggregate("variance", argument)


def stddev(argument: Any) -> Aggregate:
    """Return the aggregate for the sample standard deviation, the root of the `variance`."""
    return Aggregate("stddev", argument)


@attrs.frozen
class BoundAggregate:
    """An aggregate over a column of a Reduce's input; without a column, over the rows themselves."""

    function: str
    column: int | None
    input: DType | None
    output: DType

    @property
    def nullable(self) -> bool:
        """Whether a group can have NULL here: all but counts can, where it has no value that is not NULL."""
        return self.function not in ("count", "count_distinct")


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
        return ", ".join(f"{a.function} AS {n}" for a, n in zip(self.columns, self.names, strict=True))


@attrs.frozen(eq=False)
class UserReduce:
    """What a Reduce computes for each group by a user's ``fn(key, [(row without key, count), ...])``."""

    function: Callable[..., Any]

    def describe(self) -> str:
        """Return the function's name, or its class where it has none."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)


def bind_aggregate(aggregate: Any, name: str, schema: Schema, column: int) -> tuple[BoundAggregate, Bound | None]:
    """Return a bound aggregate that reads ``column``, and the expression which that column has to hold."""
    if not isinstance(aggregate, Aggregate):
        msg = f"{name}={aggregate!r} is not an aggregate: expected something like tm.count() or tm.sum('x')"
        raise SchemaError(msg)
    expression = aggregate.input_expression(schema)
    if expression is None:
        return BoundAggregate(aggregate.function, None, None, INT64), None
    bound = bind(expression, schema)
    return BoundAggregate(aggregate.function, column, bound.dtype, _output(aggregate.function, bound, name)), bound


def _output(function: str, bound: Bound, name: str) -> DType:
    given = bound.dtype
    if function in ("count", "count_distinct"):
        return INT64
    if function in ("min", "max"):
        return given
    if function in ("bool_or", "bool_and"):
        if given != BOOL:
            msg = f"{name}: {function} of {bound.sql()} is of type {given}: expected bool"
            raise SchemaError(msg)
        return BOOL
    if not given.is_numeric:
        msg = f"{name}: {function} of {bound.sql()} is of type {given}: expected a number"
        raise SchemaError(msg)
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


def output_fields(aggregates: Aggregates) -> tuple[Field, ...]:
    """Return the columns that hold the aggregates, in their order."""
    pairs = zip(aggregates.names, aggregates.columns, strict=True)
    return tuple(Field(name, a.output, a.nullable) for name, a in pairs)
