"""Window functions as users write them: expressions that are called over a window."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Final, NoReturn

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.display import display
from tidemill.expressions.expr import Expr, Literal
from tidemill.expressions.structure import resolve
from tidemill.expressions.windows.calls import RANKINGS, WindowCall, window_call
from tidemill.expressions.windows.specification import Window

OF_VALUES: Final = ("lag", "lead", "first_value", "last_value", "nth_value")
"""Functions that give the value at another row, and can pass over NULL."""


@attrs.frozen(eq=False, repr=False)
class WindowFunction(Expr):
    """A function that is called over a window and nowhere else. Made by ``tm.row_number()``, ``tm.lag("x")`` and such.

    A string in it is a column or SQL text, but for a default, where it is a string.
    """

    reads_text: ClassVar[bool] = True

    function: str
    arguments: tuple[Any, ...] = ()
    ignore_nulls: bool = False

    @property
    def parts(self) -> tuple[Expr, ...]:
        return tuple(a for a in self.arguments if isinstance(a, Expr))

    @property
    def label(self) -> Hashable:
        given = tuple("" if isinstance(a, Expr) else (type(a).__name__, repr(a)) for a in self.arguments)
        return self.function, given, self.ignore_nulls

    def over(self, window: Window, *, strategy: str = "auto") -> WindowCall:
        """Return the call of this function over a window, an expression for ``select`` and ``with_columns``.

        ``strategy`` says how it is kept up to date: ``"recompute"`` computes the partitions that a change touches anew,
        which is best up to some ten thousand rows in each; ``"prefix_sum"`` works with sums over blocks of the order,
        where a change costs the values that it changes and the logarithm of the partition, and no partition has to fit
        in one task, but for ``list``, ``nth_value``, DISTINCT and EXCLUDE, which are recomputed. ``"auto"`` takes
        "recompute" or, in one process and outside of loops, keeps large partitions in their order and computes the rows
        around a change only: see docs/windows.md. ``"ordered"`` does that or, where it cannot be, is an error that says
        why. The values are the same. A row with a negative count is an error.

        >>> import tidemill as tm
        >>> rows, window = tm.Dataflow().input("rows", {"t": "int64", "x": "int64"}), tm.Window.order_by("t")
        >>> rows.with_columns(b=tm.lag("x", "t", ignore_nulls=True).over(window, strategy="ordered"))
        Traceback (most recent call last):
        ...
        tidemill.errors.SchemaError: b: over(strategy='ordered'): ... IGNORE NULLS by an offset that is another ...
        """
        self._check()
        return window_call(self, self.function, window, strategy)

    def filter(self, condition: Any) -> NoReturn:
        """Refuse a FILTER, which only aggregates have."""
        msg = f"{self.function} with FILTER (WHERE {condition}): only aggregates have one; filter the rows before"
        if self.function not in RANKINGS:
            msg += ", or give it an argument that is NULL where the condition is not true"
        raise SchemaError(msg)

    def _check(self) -> None:
        name = self.function
        if self.ignore_nulls and name in RANKINGS:
            msg = f"{name} IGNORE NULLS: it looks at no values; expected one of {', '.join(sorted(OF_VALUES))}"
            raise SchemaError(msg)
        if name not in ("ntile", "nth_value"):
            return
        given = self.arguments[-1]
        value = resolve(given) if isinstance(given, Expr) else given
        value = value.value if isinstance(value, Literal) else value
        if isinstance(value, int) and value < 1:
            msg = f"{name}({value}): {BELOW_ONE}"
            raise SchemaError(msg)

    def __repr__(self) -> str:
        given = [a for a in self.arguments if a is not None]
        arguments = ", ".join(display(a) if isinstance(a, (Expr, str)) else str(a) for a in given)
        return f"{self.function.upper()}({arguments}){' IGNORE NULLS' * self.ignore_nulls}"


BELOW_ONE: Final = "expected a number of at least 1"


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
