"""Combinations for sums over an order: ``combine.sum("x")``, ``combine.last("x")`` and others, to be passed by name.

Each is associative and has a zero; none needs to commute, nor an inverse. Values go in by the order of their places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tidemill.algorithms.prefix_sums.combiners import Choice, Combiner, Count, WholeSum
from tidemill.algorithms.prefix_sums.python_combiners import Concatenation, ExactSum, UserCombiner
from tidemill.algorithms.prefix_sums.quotients import DistinctValues, Quotient
from tidemill.collections.collection import as_version
from tidemill.errors import SchemaError
from tidemill.expressions.aggregates import aggregate_type
from tidemill.expressions.types import BOOL, DType, list_type

__all__ = [
    "Combination", "avg", "bool_and", "bool_or", "by", "count", "distinct", "first", "groups", "last", "list", "max",
    "min", "rows", "stddev", "sum", "variance",
]  # fmt: skip


@attrs.frozen
class Combination:
    """A combiner and its argument, for a sum over an order. Made by the functions of this module."""

    name: str
    argument: Any
    """A column or an expression; None for the rows themselves."""
    combiner: Callable[[DType], Combiner]
    """Returns how values of a type are combined."""
    each_place: bool = False
    """Whether it is about places, however many rows there are at one."""
    condition: Any = None
    """Which rows take part: those for which it is true."""

    def filter(self, condition: Any) -> Combination:
        """Return the same combination of those rows alone for which the condition is true (SQL's FILTER)."""
        return attrs.evolve(self, condition=condition)


def count(argument: Any) -> Combination:
    """Return the combination that counts the values that are not NULL."""
    return Combination("count", argument, lambda _: Count())


def rows() -> Combination:
    """Return the combination that counts rows."""
    return Combination("rows", None, lambda _: Count())


def groups() -> Combination:
    """Return the combination that counts different places, that is, peer groups."""
    return Combination("groups", None, lambda _: Count(), each_place=True)


def sum(argument: Any) -> Combination:  # noqa: A001 - SQL's name
    """Return the combination that adds up the values that are not NULL; NULL for none.

    Types are those of ``tm.sum``, and so is exactness: floats are rounded once, and only the sum itself may overflow.
    """
    return Combination("sum", argument, _sum)


def min(argument: Any) -> Combination:  # noqa: A001 - SQL's name
    """Return the combination for the least value that is not NULL; NULL for none."""
    return Combination("min", argument, lambda t: Choice("min", (t,)))


def max(argument: Any) -> Combination:  # noqa: A001 - SQL's name
    """Return the combination for the greatest value that is not NULL; NULL for none."""
    return Combination("max", argument, lambda t: Choice("max", (t,)))


def first(argument: Any, *, ignore_nulls: bool = False) -> Combination:
    """Return the combination for the first value, or the first that is not NULL; NULL for none."""
    return Combination("first", argument, lambda t: Choice("first", (t,) if ignore_nulls else (BOOL, t)))


def last(argument: Any, *, ignore_nulls: bool = False) -> Combination:
    """Return the combination for the last value, or the last that is not NULL; NULL for none.

    The last value before a row is what SQL calls its LAG.
    """
    return Combination("last", argument, lambda t: Choice("last", (t,) if ignore_nulls else (BOOL, t)))


def list(argument: Any, *, first: int | None = None, last: int | None = None) -> Combination:  # noqa: A001 - SQL's name
    """Return the combination for the list of all values in order, NULLs among them; empty for none.

    With ``first=k`` or ``last=k`` it is that of k values: the last k are what a frame of k rows before the
    current one holds.
    """
    if any(k is not None and k < 1 for k in (first, last)) or (first and last):
        msg = f"combine.list: first={first!r}, last={last!r}: expected one of them at most, of at least 1"
        raise SchemaError(msg)
    return Combination("list", argument, lambda t: Concatenation((list_type(t),), first, last))


def distinct(argument: Any, *, of: Callable[[Any], Combination]) -> Combination:
    """Return the combination ``of`` each different value that is not NULL, once: ``combine.distinct("x", of=sum)``.

    It holds the different values: a sum over a block has as many as there are in it.
    """
    try:
        made = of(argument)
    except TypeError:
        made = None
    if not isinstance(made, Combination):
        msg = f"combine.distinct: of={of!r}: expected a function of one column, such as combine.sum"
        raise SchemaError(msg)
    return Combination("distinct", argument, lambda t: DistinctValues(made.combiner(t), t))


def by(
    function: Callable[[Any, Any], Any], argument: Any, *, zero: Any = None, version: str | int | None = None
) -> Combination:
    """Return the combination by a user's function of two values, the earlier one first; ``zero`` for no values.

    The function must be pure and associative: ``f(f(a, b), c) == f(a, f(b, c))``. Values that are NULL take no part. It
    returns a value of the argument's type. ``version`` is as for `Collection.map_rows`.
    """
    if not callable(function):
        msg = f"combine.by: {function!r}: expected a function of two values"
        raise SchemaError(msg)
    called, name = as_version(version), getattr(function, "__name__", "function")
    return Combination(name, argument, lambda t: UserCombiner(function, zero, (t,), called))


def avg(argument: Any) -> Combination:
    """Return the combination for the mean of the values that are not NULL, of ``tm.avg``'s type; NULL for none."""
    return Combination("avg", argument, lambda given: Quotient.avg(given, aggregate_type("avg", _number(given, "avg"))))


def variance(argument: Any) -> Combination:
    """Return the combination for the sample variance, rounded once; NULL for fewer than two values."""
    return Combination("variance", argument, lambda t: Quotient.spread(_number(t, "variance"), root=False))


def stddev(argument: Any) -> Combination:
    """Return the combination for the sample standard deviation; NULL for fewer than two values."""
    return Combination("stddev", argument, lambda t: Quotient.spread(_number(t, "stddev"), root=True))


def bool_and(argument: Any) -> Combination:
    """Return the combination for whether all values that are not NULL are true; NULL for none."""
    return min(argument)


def bool_or(argument: Any) -> Combination:
    """Return the combination for whether some value is true; NULL for none that is not NULL."""
    return max(argument)


def _sum(given: DType) -> Combiner:
    result = aggregate_type("sum", _number(given, "sum"))
    return WholeSum() if given.is_integer else ExactSum(given, result)


def _number(given: DType, name: str) -> DType:
    if not given.is_numeric:
        msg = f"combine.{name}: values are of type {given}: expected numbers"
        raise SchemaError(msg)
    return given
