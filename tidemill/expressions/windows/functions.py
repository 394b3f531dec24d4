"""Window functions as users write them, and their calls over a window."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.aggregates import ORDERED, Aggregate
from tidemill.expressions.expr import Alias, Call, Cast, Expr, Literal, When, resolve
from tidemill.expressions.windows.specification import Window

__all__ = [
    "RANKINGS", "WindowCall", "WindowFunction", "cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead",
    "nth_value", "ntile", "over", "percent_rank", "rank", "row_number",
]  # fmt: skip

RANKINGS: Final = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
"""Functions of where a row is in its partition."""
OF_VALUES: Final = ("lag", "lead", "first_value", "last_value", "nth_value")
"""Functions that give the value at another row, and can pass over NULL."""


@attrs.frozen(eq=False)
class WindowFunction:
    """A function that is called over a window and nowhere else. Made by ``tm.row_number()``, ``tm.lag("x")`` and such.

    What aggregates have over a window is made of the aggregates themselves.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    ignore_nulls: bool = False

    def over(self, window: Window) -> WindowCall:
        """Return the call of this function over a window, an expression."""
        return over(self, window)

    def filter(self, condition: Any) -> NoReturn:
        """Refuse a FILTER, which only aggregates have."""
        msg = (
            f"{self.function} with FILTER (WHERE {condition}): only aggregates have one; filter the rows before, or "
            "give it an argument that is NULL where the condition is not true"
        )
        raise SchemaError(msg)


@attrs.frozen(eq=False)
class WindowCall(Expr):
    """A window function or an aggregate, called over a window."""

    function: WindowFunction | Aggregate
    window: Window
    distinct: bool = False
    """Whether an aggregate takes each value once."""

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.function


def over(function: WindowFunction | Aggregate, window: Window, *, distinct: bool = False) -> WindowCall:
    """Return a call over a window; ``SchemaError`` for what no rows can make right."""
    if not isinstance(window, Window):
        msg = f"{function.function}: over({window!r}): expected a window, as in over(tm.Window.partition_by('k'))"
        raise SchemaError(msg)
    if isinstance(function, Aggregate):
        _check_aggregate(function, distinct=distinct)
    else:
        _check_function(function)
    inside = (*_operands(function), *window.partition, *(k.expression for k in window.order))
    if any(map(_has_window, inside)):
        msg = (
            f"{function.function}: a window call inside a window call: compute the inner one by with_columns first, "
            "and use its column"
        )
        raise SchemaError(msg)
    window.frame  # noqa: B018 - an error where it needs another ORDER BY
    return WindowCall(function, window, distinct)


def _check_aggregate(aggregate: Aggregate, *, distinct: bool) -> None:
    name = aggregate.function
    if name in ORDERED and aggregate.order_by is not None:
        other = "the list is in the window's order" if name == "list" else f"use tm.{name}_value(...)"
        msg = f"{name} with order_by= over a window: the window has the order; {other}"
        raise SchemaError(msg)
    if distinct and (name == "list" or aggregate.argument is None):
        why = "its values are in an order, in which those that are equal would have no one place"
        msg = f"{name} DISTINCT over a window: " + (why if name == "list" else "it needs an argument")
        raise SchemaError(msg)


def _check_function(function: WindowFunction) -> None:
    if function.ignore_nulls and function.function in RANKINGS:
        msg = f"{function.function} IGNORE NULLS: it looks at no values; expected one of {', '.join(sorted(OF_VALUES))}"
        raise SchemaError(msg)
    if function.function not in ("ntile", "nth_value"):
        return
    given = function.arguments[-1]
    value = resolve(given) if isinstance(given, Expr) else given
    value = value.value if isinstance(value, Literal) else value
    if isinstance(value, int) and value < 1:
        msg = f"{function.function}({value}): {BELOW_ONE}"
        raise SchemaError(msg)


BELOW_ONE: Final = "expected a number of at least 1"


def _operands(function: WindowFunction | Aggregate) -> tuple[Any, ...]:
    return function.arguments if isinstance(function, WindowFunction) else (function.argument, function.condition)


def _has_window(value: Any) -> bool:
    if isinstance(value, WindowCall):
        return True
    if isinstance(value, Call):
        return any(map(_has_window, value.args))
    if isinstance(value, When):
        return any(map(_has_window, value.branches))
    return isinstance(value, (Alias, Cast)) and _has_window(value.arg)


# Where a row is in its partition.


def row_number() -> WindowFunction:
    """Return the window function that numbers a partition's rows from 1 on; ties go as everywhere. Type int64."""
    return WindowFunction("row_number")


def rank() -> WindowFunction:
    """Return the window function for one more than the number of rows before the row's peers. Type int64."""
    return WindowFunction("rank")


def dense_rank() -> WindowFunction:
    """Return the window function that numbers peer groups from 1 on. Type int64."""
    return WindowFunction("dense_rank")


def percent_rank() -> WindowFunction:
    """Return the window function for ``(rank - 1) / (rows - 1)``, 0 for a row that is alone. Type float64."""
    return WindowFunction("percent_rank")


def cume_dist() -> WindowFunction:
    """Return the window function for the part of the rows that are before the row or its peers. Type float64."""
    return WindowFunction("cume_dist")


def ntile(buckets: Any) -> WindowFunction:
    """Return the window function that shares a partition's rows out to so many buckets, the first ones larger by one.

    ``buckets`` is a number or an expression of the row; NULL gives NULL, a number below 1 is an error. Type int64.
    """
    return WindowFunction("ntile", (buckets,))


# The value at another row.


def lag(value: Any, offset: Any = 1, default: Any = None, *, ignore_nulls: bool = False) -> WindowFunction:
    """Return the window function for the value in the row so many rows before; the default where there is none.

    ``offset`` is a number or an expression of the row: 0 is the row itself, a negative one goes the other way, and
    NULL gives NULL. ``default`` is a literal or an expression of the row, of the value's type. With ``ignore_nulls``
    only rows with a value are counted.
    """
    return WindowFunction("lag", (value, offset, default), ignore_nulls)


def lead(value: Any, offset: Any = 1, default: Any = None, *, ignore_nulls: bool = False) -> WindowFunction:
    """Return the window function for the value in the row so many rows after; all else is as for `lag`."""
    return WindowFunction("lead", (value, offset, default), ignore_nulls)


# Values of the frame's rows.


def first_value(value: Any, *, ignore_nulls: bool = False) -> WindowFunction:
    """Return the window function for the value in the frame's first row, or its first value that is not NULL."""
    return WindowFunction("first_value", (value,), ignore_nulls)


def last_value(value: Any, *, ignore_nulls: bool = False) -> WindowFunction:
    """Return the window function for the value in the frame's last row, or its last value that is not NULL."""
    return WindowFunction("last_value", (value,), ignore_nulls)


def nth_value(value: Any, n: Any, *, ignore_nulls: bool = False) -> WindowFunction:
    """Return the window function for the value in the frame's nth row, counted from 1; NULL where there is none.

    ``n`` is a number or an expression of the row; NULL gives NULL, a number below 1 is an error.
    """
    return WindowFunction("nth_value", (value, n), ignore_nulls)
