"""Windows as users build them: how rows are partitioned and ordered, and the frame around each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec

import attrs

from tidemill.completion import OfUsers
from tidemill.errors import SchemaError
from tidemill.expressions.display import display
from tidemill.expressions.expr import Expr
from tidemill.expressions.sort_keys import SortKey, asc
from tidemill.expressions.windows.frames import Exclusion, Frame, checked_exclusion

P = ParamSpec("P")


class _OnClassToo(Generic[P]):
    """A method that on the class itself begins with an empty window."""

    def __init__(self, method: Callable[Concatenate[Window, P], Window]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, window: Window | None, owner: type[Window]) -> Callable[P, Window]:
        given = self._method
        bound = functools.partial(given, owner() if window is None else window)
        return functools.update_wrapper(bound, given)


@attrs.frozen(eq=False, repr=False)
class Window(OfUsers):
    """What a window call is over: a partitioning of the rows, their order in a partition, and a frame around each row.

    Immutable: each method returns another window, so that windows can be named and reused, and may be called on the
    class or on a window, in any order. Without an ORDER BY the frame is the whole partition, with one it reaches from
    the partition's start to the last row that is the current row's peer, unless told otherwise.

    >>> import tidemill as tm
    >>> w = Window.partition_by("tailnum").order_by("time_hour", tm.desc("flight", nulls="last"))
    >>> w.rows_between(-4, 0)
    Window(PARTITION BY tailnum ORDER BY time_hour, flight DESC ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)
    """

    _between_layers: ClassVar[frozenset[str]] = frozenset(  # what it was given is in its text
        ("exclusion", "frame", "given_frame", "label", "order", "partition", "parts", "text")
    )

    partition: tuple[Any, ...] = ()
    """Columns or expressions; rows of one partition have equal values of all, NULL being equal to NULL."""
    order: tuple[SortKey, ...] = ()
    """What rows of a partition are sorted by."""
    given_frame: Frame | None = None
    exclusion: Exclusion = "no others"

    @_OnClassToo
    def partition_by(self, *columns: Any) -> Window:
        """Return the window with these columns or expressions to partition by, in the place of others."""
        return attrs.evolve(self, partition=columns)

    @_OnClassToo
    def order_by(self, *columns: Any) -> Window:
        """Return the window with these to order by, in the place of others: columns, expressions, tm.asc, tm.desc."""
        return attrs.evolve(self, order=tuple(c if isinstance(c, SortKey) else asc(c) for c in columns))

    @_OnClassToo
    def rows_between(self, start: Any, end: Any) -> Window:
        """Return the window with a frame that reaches from some rows before (negative) or after to some other ones.

        0 is the current row, and ``tm.UNBOUNDED`` the start or the end of the partition. A row that is there n times
        is n rows. A frame that begins behind its end is empty; of such there is a warning, ``EmptyFrameWarning``.
        """
        return attrs.evolve(self, given_frame=Frame.of("rows", start, end))

    @_OnClassToo
    def groups_between(self, start: Any, end: Any) -> Window:
        """Return the window with a frame counted in peer groups: in rows that the ORDER BY does not tell apart."""
        return attrs.evolve(self, given_frame=Frame.of("groups", start, end))

    @_OnClassToo
    def range_between(self, start: Any, end: Any) -> Window:
        """Return the window with a frame of the rows whose ORDER BY value is between two distances from this row's.

        Distances are numbers, or intervals for dates and timestamps (``tm.interval(months=1)``, a ``timedelta``), and
        take exactly one column to order by. A row without a value has its peers for a bound that is a distance.
        """
        return attrs.evolve(self, given_frame=Frame.of("range", start, end))

    @_OnClassToo
    def exclude(self, what: str) -> Window:
        """Return the window whose frames leave some rows out: "current row", "group", "ties" or "no others"."""
        return attrs.evolve(self, exclusion=checked_exclusion(what))

    @property
    def frame(self) -> Frame:
        """The frame; ``SchemaError`` where it needs another ORDER BY."""
        frame = self.given_frame or Frame("range", None, 0 if self.order else None)
        if frame.mode == "groups" and not self.order:
            msg = f"{frame} without ORDER BY: peer groups are those of an order; add order_by(...) to the window"
            raise SchemaError(msg)
        if frame.mode == "range" and frame.offsets and len(self.order) != 1:
            given = f"{len(self.order)} columns to order by" if self.order else "no ORDER BY"
            msg = f"{frame} with {given}: an offset is a difference in the value of exactly one column"
            raise SchemaError(msg)
        return attrs.evolve(frame, exclusion=self.exclusion)

    @property
    def _operands(self) -> tuple[Any, ...]:
        return *self.partition, *(k.expression for k in self.order)

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions in it."""
        return tuple(o for o in self._operands if isinstance(o, Expr))

    @property
    def label(self) -> Hashable:
        """What it says besides its parts."""
        operands = tuple("" if isinstance(o, Expr) else repr(o) for o in self._operands)
        how = tuple((k.descending, k.nulls_first) for k in self.order)
        return len(self.partition), operands, how, self.given_frame, self.exclusion

    @property
    def text(self) -> str:
        """What SQL writes into the parentheses of OVER."""
        parts = []
        if self.partition:
            parts.append("PARTITION BY " + ", ".join(map(_text, self.partition)))
        if self.order:
            parts.append("ORDER BY " + ", ".join(_text(k.expression) + k.direction for k in self.order))
        if self.given_frame is not None:
            parts.append(str(attrs.evolve(self.given_frame, exclusion=self.exclusion)))
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Window({self.text})"


def _text(expression: Any) -> str:
    return display(expression) if isinstance(expression, (Expr, str)) else repr(expression)
