"""Aggregate functions, as the user writes them and as a Reduce node carries them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.binding import Bound, bind
from tidemill.expressions.expr import Expr, as_expr, lit, when
from tidemill.expressions.ordering import OrderColumn, OrderKey, bind_order
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import BOOL, FLOAT64, INT64, DType, decimal_type, list_type

__all__ = [
    "ORDERED", "Aggregate", "AggregateCall", "Aggregates", "BoundAggregate", "UserReduce", "avg", "bool_and",
    "bool_or", "count", "count_distinct", "first", "last", "list", "max", "min", "stddev", "sum", "variance",
]  # fmt: skip

# The public names are SQL's; `from tidemill import *` leaves those that would shadow a builtin out.

_DECIMAL_HEADROOM: Final = 10
_AVG_DIGITS: Final = 4

ORDERED: Final = frozenset(("first", "last", "list"))
"""Aggregates of the rows in an order, to which NULL is a value as any other."""


@attrs.frozen(eq=False)
class Aggregate:
    """An aggregate function of a group, not yet bound to a schema. Made by ``tm.count()``, ``tm.sum("x")`` and others.

    >>> sum("delay").filter("delay > 0")
    Aggregate(function='sum', argument='delay', condition='delay > 0', order_by=None)
    """

    function: str
    argument: Any = None
    condition: Any = None
    order_by: Any = None

    def filter(self, condition: Any) -> Aggregate:
        """Return the same aggregate over those rows of the group for which the condition is true (SQL's FILTER)."""
        return attrs.evolve(self, condition=condition)

    def input_expression(self, schema: Schema) -> Expr | None:
        """Return what is aggregated: NULL where the condition does not hold, if the aggregate skips NULL."""
        argument = None if self.argument is None else as_expr(self.argument, schema)
        if self.condition is None or self.function in ORDERED:
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

    NaN is the greatest float, False is less than True, strings go by code point, lists by their values. The type is
    the argument's.
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


def first(argument: Any, *, order_by: Any) -> Aggregate:
    """Return the aggregate for the value in the first row of the group, in an order. The type is the argument's.

    ``order_by`` is a column, an expression, ``tm.asc(...)`` or ``tm.desc(...)``, or a list of them; ties are broken by
    a fixed hash of the row, then by the row. NULL is a value as any other: where the first row has NULL, that is the
    result; to pass over such rows, ``.filter("x IS NOT NULL")``. Rows for which a filter's condition is not true take
    no part; where none is left, the result is NULL. A row with a negative count is an error. Cost: at top level a
    change costs the logarithm of the group's size.
    """
    return Aggregate("first", argument, order_by=order_by)


def last(argument: Any, *, order_by: Any) -> Aggregate:
    """Return the aggregate for the value in the last row of the group, in an order. All else is as for `first`."""
    return Aggregate("last", argument, order_by=order_by)


def list(argument: Any, *, order_by: Any = None) -> Aggregate:  # noqa: A001 - SQL's name
    """Return the aggregate for the list of the values of all rows, NULLs among them: type ``list<T>``, never NULL.

    A row that is there n times is in it n times. The list is sorted by value, NULL first, unless ``order_by`` is given,
    which is as for `first`. Rows for which a filter's condition is not true take no part; where none is left, the list
    is empty, as Spark's ``collect_list`` has it (which leaves NULLs out, as ``.filter("x IS NOT NULL")`` does here;
    DuckDB's ``list`` keeps NULLs, and is NULL where no row is left). In rows lists are tuples, in Arrow lists. A value
    (with ``order_by`` a row) with a negative count is an error. Cost: a change makes the lists of the groups it is in
    anew; lists that were there before are held until ``run.compact()``.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"k": "string", "t": "int64", "x": "int64"}, [("a", 1, 5), ("a", 3, 2), ("a", 2, None)])
    >>> found = c.group_by("k").agg(l=tm.list("x"), m=tm.list("x", order_by="t"), last=tm.last("x", order_by="t"))
    >>> flow.output("lists", found)
    >>> flow.start().snapshot("lists")
    k  l             m             last
    -  ------------  ------------  ----
    a  [NULL, 2, 5]  [5, NULL, 2]  2
    """
    return Aggregate("list", argument, order_by=order_by)


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
        of = "*" if self.argument is None else self.argument.sql()
        by = f" ORDER BY {', '.join(key.describe() for key in self.order)}" if self.order else ""
        where = "" if self.condition is None else f" FILTER (WHERE {self.condition.sql()})"
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

    def describe(self) -> str:
        """Return the function's name, or its class where it has none."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)


def bind_aggregate(aggregate: Any, name: str, schema: Schema) -> AggregateCall:
    """Return an aggregate bound to the rows of a schema; ``name``, its column's, is for errors."""
    if not isinstance(aggregate, Aggregate):
        msg = f"{name}={aggregate!r} is not an aggregate: expected something like tm.count() or tm.sum('x')"
        raise SchemaError(msg)
    expression = aggregate.input_expression(schema)
    if expression is None:
        return AggregateCall(aggregate.function, None, INT64)
    bound = bind(expression, schema)
    output = _output(aggregate.function, bound, name)
    if aggregate.function not in ORDERED:
        return AggregateCall(aggregate.function, bound, output)
    condition = None
    if aggregate.condition is not None:
        condition = bind(as_expr(aggregate.condition, schema), schema, expected=BOOL)
    by_value = aggregate.function == "list" and aggregate.order_by is None
    order = () if by_value else bind_order(aggregate.order_by, schema)
    return AggregateCall(aggregate.function, bound, output, condition, order)


def _output(function: str, bound: Bound, name: str) -> DType:  # noqa: PLR0911 - one line a family of functions
    given = bound.dtype
    if function in ("count", "count_distinct"):
        return INT64
    if function in ("min", "max", "first", "last"):
        return given
    if function == "list":
        return list_type(given)
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
