"""When frames of window calls end for good: what has to have come after a row for its values to stay."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.expr import Expr, lit
from tidemill.expressions.expr import Literal as LiteralExpr
from tidemill.expressions.intervals import DAY_MICROSECONDS, DAYS, MONTHS, Interval, microseconds_of
from tidemill.expressions.ordering import bind_order
from tidemill.expressions.schema import Schema
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import DATE, DType
from tidemill.expressions.windows.bound import (
    AggregateCall,
    BoundWindowCall,
    OffsetCall,
    RankingCall,
    ValueCall,
    Windows,
)
from tidemill.expressions.windows.calls import WindowCall
from tidemill.expressions.windows.frames import Frame, Offset
from tidemill.expressions.windows.functions import first_value, lead

_MONTH: Interval = Interval(DAYS, 31)
"""No month is longer."""


@attrs.frozen
class Closing:
    """What closes the frames of calls: other calls, that have a value once they are closed, and a distance.

    A row's frames are closed when all of ``calls`` are not NULL in it, as more of the order comes to be known, and the
    watermark is greater than its value in the order plus ``distance``.
    """

    calls: tuple[WindowCall, ...]
    distance: int


def order_column(call: WindowCall, schema: Schema) -> str:
    """Return the column that comes first in a call's order; ``SchemaError`` where rows do not come in such an order."""
    head = f"emit='on_close': {call!r}"
    if not call.window.order:
        msg = f"{head} has no order, so its frames never close: order the window by the watermark's column"
        raise SchemaError(msg)
    first = bind_order(call.window.order, schema)[0]
    if isinstance(first.expression, BoundColumn) and not first.descending and first.nulls_first:
        return first.expression.name
    msg = (
        f"{head} is ordered by {first.describe()} first: rows are closed in the order of the watermark's column, so "
        "order the window by it, ascending and nulls first (more columns may follow)"
    )
    raise SchemaError(msg)


def closing_of(calls: Iterable[WindowCall], dtype: DType) -> Closing:
    """Return what closes the frames of all these calls; ``SchemaError`` where nothing does."""
    found: list[WindowCall] = []
    distance = 0
    for call in calls:
        if call.name in ("lag", "lead"):
            found += _after_offset(call)
        elif call.name in ("ntile", "percent_rank", "cume_dist"):
            raise SchemaError(_never(call, "it depends on how many rows the partition has in the end"))
        elif call.name not in ("row_number", "rank", "dense_rank"):
            frame = call.window.frame
            if frame.end is None:
                raise SchemaError(_never(call, "its frame reaches to the partition's end"))
            found += _after_frame(call, frame)
            distance = max(distance, _distance(call, frame, dtype))
    return Closing(tuple(found), distance)


def _after_offset(call: WindowCall) -> list[WindowCall]:
    """Return what closes lag and lead: a row so many rows after, or so many values."""
    value, given, _ = call.function.arguments  # type: ignore[attr-defined]
    given = resolve(given) if isinstance(given, Expr) else given
    given = given.value if isinstance(given, LiteralExpr) else given
    if given is not None and not isinstance(given, int):
        raise SchemaError(_never(call, "its offset is not one number for all rows"))
    after = (given or 0) if call.name == "lead" else -(given or 0)
    if after <= 0:
        return []
    if call.function.ignore_nulls:  # type: ignore[attr-defined]
        return [lead(value, after, ignore_nulls=True).over(call.window, strategy=call.strategy)]
    return [_has_row(call, after)]


def _after_frame(call: WindowCall, frame: Frame) -> list[WindowCall]:
    end = frame.end
    if frame.mode == "range" or not isinstance(end, int) or end <= 0:
        return []
    if frame.mode == "rows":
        return [_has_row(call, end)]
    there = attrs.evolve(call.window, exclusion="no others").groups_between(end, end)
    return [first_value(lit(True)).over(there, strategy=call.strategy)]


def _has_row(call: WindowCall, after: int) -> WindowCall:
    window = attrs.evolve(call.window, given_frame=None, exclusion="no others")
    return lead(lit(True), after).over(window, strategy=call.strategy)


def _distance(call: WindowCall, frame: Frame, dtype: DType) -> int:
    end = frame.end
    if frame.mode != "range" or not end:
        return 0
    if isinstance(end, Interval):
        if end.amount <= 0:
            return 0
        if end.dtype == MONTHS:
            raise SchemaError(_never(call, "months differ in their length; give its end in days"))
        return microseconds_of(end) // (DAY_MICROSECONDS if dtype == DATE else 1)
    return max(int(end), 0)


def _never(call: WindowCall, why: str) -> str:
    return f"emit='on_close': {call!r} is known for no row while more rows may come: {why}"


# How far back frames look.


@attrs.frozen
class FrameReach:
    """How far the frames of calls reach at most, from a row on: in rows, peer groups, and values of the order."""

    rows_before: int = 0
    groups_before: int = 0
    distance_before: int = 0
    rows_after: int = 0
    groups_after: int = 0
    ranks: bool = False
    """Whether the number of all rows before counts."""

    def with_(self, **reach: int | bool) -> FrameReach:
        """Return what reaches as far as this one and so far."""
        return attrs.evolve(self, **{name: max(getattr(self, name), value) for name, value in reach.items()})


def reach_of(windows: Windows, dtype: DType) -> FrameReach | None:
    """Return how far calls reach; None where they may look at all rows before."""
    found: FrameReach | None = FrameReach()
    for call in windows.calls:
        found = None if found is None else _reach(found, call, dtype)
    return found


def _reach(reach: FrameReach, call: BoundWindowCall, dtype: DType) -> FrameReach | None:
    if isinstance(call, RankingCall):
        return reach.with_(ranks=True)
    if isinstance(call, OffsetCall):
        offset = None if isinstance(call.offset, int) else call.offset.value
        if call.ignore_nulls or isinstance(call.offset, int):
            return None
        after = (offset or 0) if call.function == "lead" else -(offset or 0)
        return reach.with_(rows_after=max(after, 0), rows_before=max(-after, 0))
    assert isinstance(call, (ValueCall, AggregateCall))
    frame = call.frame
    if frame.start is None:
        return None
    before, after = -_units(frame.start, dtype), 0 if frame.mode == "range" else _units(frame.end, dtype)
    if frame.mode == "range":
        return reach.with_(distance_before=before)
    return reach.with_(**{f"{frame.mode}_before": max(before, 0), f"{frame.mode}_after": max(after, 0)})


def _units(offset: Offset | None, dtype: DType) -> int:
    """Return an offset in units of the order; of months more than they are where that is before, less after."""
    if isinstance(offset, Interval):
        offset = Interval(DAYS, offset.amount * _MONTH.amount) if offset.dtype == MONTHS else offset
        return microseconds_of(offset) // (DAY_MICROSECONDS if dtype == DATE else 1)
    assert isinstance(offset, int)
    return offset
