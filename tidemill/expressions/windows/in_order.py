"""Of which calls a change in a large partition costs its surroundings only, once the partition is kept in its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidemill.expressions.aggregates import EXTREMES, SUMS_OF
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import (
    AggregateCall,
    BoundWindowCall,
    OffsetCall,
    RankingCall,
    ValueCall,
    Windows,
)
from tidemill.expressions.windows.calls import ONCE_IS_ENOUGH

SEVERAL_COORDINATES: Final = "in a loop, or over times of several coordinates"
_NO_ORDER: Final = "the window has no ORDER BY"
_WHOLE_FRAME: Final = "its frame is the whole partition"
WHOLE: Final = (_NO_ORDER, _WHOLE_FRAME)
"""Why values are of whole partitions, so that a change of one is a change of all of its rows."""
RENDERED: Final = (
    "over(strategy='ordered'): tm.render computes every partition once, and keeps none in its order; expected 'auto', "
    "'recompute' or 'prefix_sum' there, or a run: flow.start(tm.Spark(...))"
)

MOST_OF_FIRST: Final = 100
"""The rows that nth_value counts from an end of the partition at most."""
_DIGITS: Final = 18
"""Decimals of more digits do not fit the word that values are compared by."""


def looks_at_all(windows: Windows, types: Sequence[DType]) -> dict[str, str]:
    """Return the calls whose values need the whole partition at any change, by their columns' names, and why.

    ``types`` are those of the rows' columns.
    """
    if not windows.order:
        return dict.fromkeys(windows.names, _NO_ORDER)
    by = types[windows.order[0].column]
    reasons = {name: _reason(call, by) for name, call in zip(windows.names, windows.calls, strict=True)}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def adds_up_first_values(call: BoundWindowCall) -> bool:
    """Return whether a call is of the distinct values of rows from an end of the partition on.

    A value counts in the first row that has it, seen from that end, and in no other: so once these rows are known, the
    call is as good as one that is not DISTINCT.
    """
    if not isinstance(call, AggregateCall) or not call.distinct or call.function in ONCE_IS_ENOUGH:
        return False
    frame = call.frame
    return (frame.start is None) != (frame.end is None) and frame.exclusion == "no others"


def _reason(call: BoundWindowCall, by: DType) -> str | None:
    if isinstance(call, RankingCall):
        return None
    if isinstance(call, OffsetCall):
        counts_values = call.ignore_nulls and not isinstance(call.offset, BoundLiteral)
        return "IGNORE NULLS by an offset that is another for each row" if counts_values else None
    frame = call.frame
    if frame.mode == "range" and frame.offsets and _is_long(by):
        return f"a RANGE by value over decimals of more than {_DIGITS} digits"
    if frame.start is not None and frame.end is not None:
        return None
    if frame.start is None and frame.end is None:
        return _WHOLE_FRAME
    return _without_a_bound(call)


def _without_a_bound(call: ValueCall | AggregateCall) -> str | None:
    """Return why a call needs all rows of frames that go on to an end of the partition."""
    name = call.function
    reason = None
    if isinstance(call, ValueCall):
        n = call.n.value if isinstance(call.n, BoundLiteral) else None
        if name == "nth_value" and (n is None or n > MOST_OF_FIRST):
            reason = f"nth_value, but of at most {MOST_OF_FIRST} rows,"
    elif call.distinct and name not in ONCE_IS_ENOUGH and not adds_up_first_values(call):
        reason = f"{name}(DISTINCT ...) with EXCLUDE"
    elif name not in SUMS_OF and name not in EXTREMES:
        reason = name
    return None if reason is None else f"{reason} over a frame without a bound"


def _is_long(dtype: DType) -> bool:
    return dtype.is_decimal and dtype.precision > _DIGITS
