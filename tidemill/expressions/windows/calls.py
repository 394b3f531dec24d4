"""Calls over windows, as expressions."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, Final, Literal, TypeAlias, cast, get_args

import attrs

from tidemill.errors import SchemaError, did_you_mean
from tidemill.expressions.expr import Expr
from tidemill.expressions.structure import walk
from tidemill.expressions.windows.specification import Window

Strategy: TypeAlias = Literal["auto", "ordered", "recompute", "prefix_sum"]
"""How window calls are computed: see ``.over``."""
ONCE_IS_ENOUGH: Final = ("min", "max", "bool_and", "bool_or")
"""Aggregates to which it is the same how often a value is there."""
RANKINGS: Final = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
"""Functions of where a row is in its partition."""
WITHOUT_A_FRAME: Final = (*RANKINGS, "lag", "lead")


@attrs.frozen(eq=False, repr=False)
class WindowCall(Expr):
    """A window function or an aggregate, called over a window. Made by ``tm.lag("x").over(w)``."""

    reads_text: ClassVar[bool] = True

    function: Expr
    name: str
    """The function's name."""
    window: Window
    distinct: bool = False
    """Whether an aggregate takes each value once."""
    strategy: Strategy = "auto"

    @property
    def parts(self) -> tuple[Expr, ...]:
        return *self.function.parts, *self.window.parts

    @property
    def label(self) -> Hashable:
        return self.function.label, self.window.label, self.distinct, self.strategy

    def __repr__(self) -> str:
        function = repr(self.function)
        if self.distinct:
            function = function.replace("(", "(DISTINCT ", 1)
        return f"{function} OVER ({self.window.text})"


def holds_its_frame(call: WindowCall) -> bool:
    """Return whether a sum over an order would have to hold the values of a frame, or a hole in it moves row by row."""
    if call.name in ("list", "nth_value"):
        return True
    each_once = call.distinct and call.name not in ONCE_IS_ENOUGH
    return each_once or (call.name not in WITHOUT_A_FRAME and call.window.frame.exclusion != "no others")


def window_call(function: Expr, name: str, window: Window, strategy: str, *, distinct: bool = False) -> WindowCall:
    """Return the call of a function over a window; ``SchemaError`` for what no rows can make right."""
    if not isinstance(window, Window):
        msg = f"{name}: over({window!r}): expected a window, as in over(tm.Window.partition_by('k'))"
        raise SchemaError(msg)
    if any(calls_in(part) for inside in (function.parts, window.parts) for part in inside):
        msg = (
            f"{name}: a window call inside a window call: compute the inner one by with_columns first, and use its "
            "column"
        )
        raise SchemaError(msg)
    window.frame  # noqa: B018 - an error where it needs another ORDER BY
    if strategy not in get_args(Strategy):
        msg = f"{name}: over(strategy={strategy!r}): {did_you_mean(str(strategy), get_args(Strategy))}"
        raise SchemaError(msg)
    return WindowCall(function, name, window, distinct, cast("Strategy", strategy))


def calls_in(expression: Expr) -> list[WindowCall]:
    """Return the window calls in an expression, in the order in which they stand in it."""
    parts = walk(expression, into=lambda part: not isinstance(part, WindowCall))
    return [part for part in parts if isinstance(part, WindowCall)]
