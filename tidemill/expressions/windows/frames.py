"""Frames: the rows around each row that a window call looks at."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from tidemill.errors import EmptyFrameWarning, SchemaError, did_you_mean
from tidemill.expressions.expr import Expr
from tidemill.expressions.expr import Literal as LiteralExpr
from tidemill.expressions.intervals import (
    DAYS,
    MONTHS,
    Interval,
    interval_text,
    microseconds_of,
    of_timedelta,
)
from tidemill.expressions.literals import INT64_MAX
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import DATE, TIMESTAMP, DType
from tidemill.site import warn_at_user

Mode: TypeAlias = Literal["rows", "groups", "range"]
Exclusion: TypeAlias = Literal["no others", "current row", "group", "ties"]

Offset: TypeAlias = "int | float | decimal.Decimal | Interval"
"""How far a frame's end is from the current row: negative for rows before, 0 for the current row."""


class Unbounded(enum.Enum):
    """The end of a frame that is where its partition ends."""

    UNBOUNDED = "UNBOUNDED"

    def __repr__(self) -> str:
        return "tm.UNBOUNDED"


UNBOUNDED: Final = Unbounded.UNBOUNDED


@attrs.frozen(cache_hash=True)
class Frame:
    """Which rows of its partition a row's window call looks at; ``start`` and ``end`` are None where unbounded.

    In mode ``rows`` offsets count rows, in ``groups`` peer groups, and in ``range`` they are differences in the value
    of the one ORDER BY column; 0 is the current row, in the last two modes with all its peers. A frame whose start is
    after its end is empty.

    >>> print(Frame.of("rows", -4, 0))
    ROWS BETWEEN 4 PRECEDING AND CURRENT ROW
    >>> print(Frame.of("range", UNBOUNDED, dt.timedelta(minutes=5)))
    RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '5' MINUTE FOLLOWING
    """

    mode: Mode
    start: Offset | None = None
    end: Offset | None = None
    exclusion: Exclusion = "no others"

    @classmethod
    def of(cls, mode: Mode, start: Any, end: Any) -> Frame:
        """Return the frame between two bounds as users give them; ``SchemaError`` where they are none.

        One that begins behind its end is a frame, in which there is no row, but hardly what was meant.
        """
        found = cls(mode, _checked(mode, start), _checked(mode, end))
        if found.is_reversed:
            msg = (
                f"{found} begins behind its end, so it is empty; Spark, DuckDB and Materialize refuse such a frame: "
                "expected the bound that comes first in the order first"
            )
            warn_at_user(msg, EmptyFrameWarning)
        return found

    @property
    def offsets(self) -> tuple[Offset, ...]:
        """The bounds that are neither unbounded nor at the current row."""
        return tuple(b for b in (self.start, self.end) if b is not None and b != 0)

    @property
    def whole(self) -> bool:
        """Whether the frame is the whole partition, for every row."""
        return self.start is None and self.end is None and self.exclusion == "no others"

    @property
    def is_reversed(self) -> bool:
        """Whether the start is after the end, whatever the current row is; intervals of months may leave that open."""
        if self.start is None or self.end is None:
            return False
        bounds = [self.start, self.end]
        if any(isinstance(b, Interval) for b in bounds):  # beside one, a number is one of days
            bounds = [Interval(DAYS, b) if isinstance(b, int) else b for b in bounds]
        start, end = map(_amount, bounds)
        return bool(start != end and start >= 0 >= end if len(set(map(_is_months, bounds))) > 1 else start > end)

    def __str__(self) -> str:
        start, end = _text(self.start, "PRECEDING"), _text(self.end, "FOLLOWING")
        exclusion = "" if self.exclusion == "no others" else f" EXCLUDE {self.exclusion.upper()}"
        return f"{self.mode.upper()} BETWEEN {start} AND {end}{exclusion}"


def _is_months(bound: Offset) -> bool:
    return isinstance(bound, Interval) and bound.dtype == MONTHS


def _amount(bound: Any) -> Any:
    """Return a bound as a number, by which those in months are compared, and all others."""
    if isinstance(bound, Interval):
        return bound.amount if _is_months(bound) else microseconds_of(bound)
    return bound


def _text(bound: Offset | None, unbounded: str) -> str:
    if bound is None:
        return f"UNBOUNDED {unbounded}"
    if isinstance(bound, Interval):
        before = bound.amount < 0
        amount, first, last = interval_text(-bound if before else bound)
        size = f"INTERVAL '{amount}' {first}" + (f" TO {last}" if last else "")
    else:
        if bound == 0:
            return "CURRENT ROW"
        before, size = bound < 0, str(abs(bound))
    return f"{size} {'PRECEDING' if before else 'FOLLOWING'}"


def checked_exclusion(exclusion: Any) -> Exclusion:
    """Return what is left out of a frame, as SQL's EXCLUDE names it; ``SchemaError`` for anything else."""
    known = get_args(Exclusion)
    name = " ".join(str(exclusion).lower().split())
    if name not in known:
        msg = f"exclude({exclusion!r}): {did_you_mean(name, known)}"
        raise SchemaError(msg)
    found: Exclusion = name  # type: ignore[assignment]
    return found


def _checked(mode: Mode, bound: Any) -> Offset | None:
    """Return a bound as a frame has it: None where unbounded, 0 for whatever is no distance."""
    value = _plain(bound)
    if value is UNBOUNDED:
        return None
    counts = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX
    distance = isinstance(value, (int, float, decimal.Decimal, Interval)) and not isinstance(value, bool)
    if not (counts if mode != "range" else distance and _finite(value)):
        wanted = "a number of rows" if mode == "rows" else "a number of peer groups"
        expected = (
            f"{wanted}, negative for those before the current row and 0 for itself"
            if mode != "range"
            else "a number or an interval, negative for values before the current row's and 0 for its own"
        )
        msg = f"{mode}_between: {bound!r} is no bound of a frame: expected {expected}, or tm.UNBOUNDED"
        raise SchemaError(msg)
    amount = value.amount if isinstance(value, Interval) else value
    found: Offset = value if amount else 0
    return found


def _plain(bound: Any) -> Any:
    """Return what stands for itself: the value of a literal, an interval for a timedelta, Python's for NumPy's."""
    if isinstance(bound, Expr):
        found = resolve(bound)
        return found.value if isinstance(found, LiteralExpr) else bound
    if isinstance(bound, dt.timedelta):
        return of_timedelta(bound)
    if not isinstance(bound, (bool, int, float)) and hasattr(bound, "item"):
        return bound.item()
    return bound


def _finite(value: Any) -> bool:
    return isinstance(value, Interval) or math.isfinite(value)


def offset_for(offset: Offset, dtype: DType, by: str) -> Offset:
    """Return a RANGE frame's offset as one of the ORDER BY column's type; ``SchemaError`` where the type has none.

    >>> from tidemill.expressions.types import FLOAT64
    >>> offset_for(-5, FLOAT64, "x"), offset_for(5, DATE, "day")
    (-5.0, Interval(dtype=interval of days, amount=5))
    """
    if isinstance(offset, Interval):
        if dtype in (DATE, TIMESTAMP):
            return offset
    elif isinstance(offset, int):
        if dtype.is_integer or dtype.is_decimal:
            return offset
        if dtype.name == "float64":
            return float(offset)
        if dtype == DATE:
            return Interval(DAYS, offset)
    elif (dtype.name, type(offset)) in _EXACT:
        return offset
    elif dtype.name == "float64":
        return float(offset)
    msg = (
        f"RANGE with {_text(offset, '')} over ORDER BY {by} of type {dtype}: expected "
        f"{_EXPECTED.get(dtype.name, 'ROWS or GROUPS, since this type has no offsets')}"
    )
    if isinstance(offset, Interval) and dtype.is_numeric:
        msg += ", or ORDER BY a date or timestamp for an interval"
    raise SchemaError(msg)


_EXACT: Final = {("float64", float), ("decimal", decimal.Decimal)}
_WHOLE: Final = "a whole number, as in RANGE BETWEEN 5 PRECEDING AND CURRENT ROW (a fraction if you cast the column)"
_INTERVAL: Final = "an interval (tm.interval, timedelta)"
_EXPECTED: Final = {
    "int32": _WHOLE, "int64": _WHOLE, "float64": "a number", "decimal": "a whole number or a decimal.Decimal",
    "date": _INTERVAL + " or a number of days", "timestamp": _INTERVAL,
}  # fmt: skip
