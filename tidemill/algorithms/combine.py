"""What sums over an order add up: ``combine.sum("x")``, ``combine.last("x")`` and others, made to be passed by name.

Each is associative and has a zero; none needs to commute, nor an inverse. Values go in by the order of their places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tidemill.algorithms.prefix_sums.combiners import Choice, Combiner, Count, WholeSum
from tidemill.algorithms.prefix_sums.python_combiners import Concatenation, ExactSum, UserCombiner
from tidemill.errors import SchemaError
from tidemill.expressions.types import BOOL, FLOAT64, DType, decimal_type, list_type

__all__ = ["Combination", "by", "count", "first", "groups", "last", "list", "max", "min", "rows", "sum"]

_MOST_DIGITS = 38
_HEADROOM = 10


@attrs.frozen
class Combination:
    """What a sum over an order adds up, and of what. Made by the functions of this module."""

    name: str
    argument: Any
    """A column or an expression; None for the rows themselves."""
    combiner: Callable[[DType], Combiner]
    """Returns how values of a type are combined."""
    each_place: bool = False
    """Whether it is about places, however many rows there are at one."""


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


def list(argument: Any, *, last: int | None = None) -> Combination:  # noqa: A001 - SQL's name
    """Return the combination for the list of all values in order, NULLs among them; empty for none.

    With ``last=k`` it is that of the last k values: what a frame of k rows before the current one holds.
    """
    if last is not None and last < 1:
        msg = f"combine.list: last={last!r}: expected at least 1"
        raise SchemaError(msg)
    return Combination("list", argument, lambda t: Concatenation((list_type(t),), last))


def by(function: Callable[[Any, Any], Any], argument: Any, *, zero: Any = None) -> Combination:
    """Return the combination by a user's function of two values, the earlier one first; ``zero`` for no values.

    The function must be pure and associative: ``f(f(a, b), c) == f(a, f(b, c))``. Values that are NULL take no part. It
    returns a value of the argument's type.
    """
    return Combination(
        getattr(function, "__name__", "function"), argument, lambda t: UserCombiner(function, zero, (t,))
    )


def _sum(given: DType) -> Combiner:
    if given.is_integer:
        return WholeSum()
    if given == FLOAT64:
        return ExactSum(given, FLOAT64)
    if given.is_decimal:
        digits = given.precision + _HEADROOM
        return ExactSum(given, decimal_type(digits if digits < _MOST_DIGITS else _MOST_DIGITS, given.scale))  # noqa: FURB136 - `min` is another here
    msg = f"combine.sum: values are of type {given}: expected numbers"
    raise SchemaError(msg)
