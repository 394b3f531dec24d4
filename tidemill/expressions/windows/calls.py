"""Calls over windows, as expressions: of functions and aggregates, and the starts of sessions."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

import attrs

from tidemill.errors import SchemaError, did_you_mean
from tidemill.expressions.expr import Expr
from tidemill.expressions.structure import resolve, walk
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
    _meant: Expr | None = None
    """What users called, where it is done by another function."""

    @property
    def parts(self) -> tuple[Expr, ...]:
        return *self.function.parts, *self.window.parts

    @property
    def label(self) -> Hashable:
        return self.function.label, self.window.label, self.distinct, self.strategy

    def __repr__(self) -> str:
        function = repr(self.function if self._meant is None else self._meant)
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


@attrs.frozen(eq=False, repr=False)
class SessionCall(Expr):
    """The start of each row's session. Made by ``tm.session("ts", gap).over(w)``."""

    reads_text: ClassVar[bool] = True

    column: str
    gap: Any
    window: Window

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.window.parts

    @property
    def label(self) -> Hashable:
        return self.column, repr(self.gap), self.window.label

    def __repr__(self) -> str:
        return f"SESSION({self.column}, {self.gap}) OVER ({self.window.text})"


@attrs.frozen(eq=False)
class Session:
    """What `session` makes, to be called over a window."""

    column: str
    gap: Any

    def over(self, window: Window) -> SessionCall:
        """Return the call over a window, an expression for ``select`` and ``with_columns``."""
        if not isinstance(window, Window):
            msg = f"session: over({window!r}): expected a window, as in over(tm.Window.order_by('ts'))"
            raise SchemaError(msg)
        return SessionCall(self.column, self.gap, window)


def session(column: str, gap: Any) -> Session:
    """Return what gives each row the start of its session: the value of the column in the session's first row.

    A session goes on as long as each row of the window's partition is no more than ``gap`` after the one before. The
    window is ordered by the column, which is an integer, a date or a timestamp; a row that has NULL there is in no
    session. With ``emit="on_close"`` all rows of a session come at once, when the watermark is more than a gap behind
    the last one: those who group by partition and session see each session once, whole.

    >>> import tidemill as tm
    >>> from datetime import timedelta
    >>> flow = tm.Dataflow()
    >>> clicks = flow.input("clicks", {"user": "string", "minute": "int64"})
    >>> by_user = tm.Window.partition_by("user").order_by("minute")
    >>> sessions = clicks.with_columns(start=tm.session("minute", 5).over(by_user))
    >>> flow.output("sessions", sessions.group_by("user", "start").agg(end=tm.max("minute"), clicks=tm.count()))
    >>> with flow.start() as run:
    ...     run.insert("clicks", [("ann", 0), ("ann", 4), ("ann", 9), ("ann", 20), ("bob", 5)])
    ...     run.advance()
    ...     sorted(run.snapshot("sessions"))
    [('ann', 0, 9, 3), ('ann', 20, 20, 1), ('bob', 5, 5, 1)]
    """
    if not isinstance(column, str):
        msg = f"session({column!r}): expected the name of the column that the window is ordered by"
        raise SchemaError(msg)
    return Session(column, gap)


def sessions_in(expression: Expr) -> list[SessionCall]:
    """Return the sessions in an expression, in the order in which they stand in it."""
    return [part for part in map(resolve, walk(expression)) if isinstance(part, SessionCall)]
