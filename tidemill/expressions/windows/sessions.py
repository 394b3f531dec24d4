"""Sessions: runs of rows that follow one another closely, as an expression over a window."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.expr import Expr
from tidemill.expressions.structure import resolve, walk
from tidemill.expressions.windows.specification import Window


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
