"""How calls are kept up to date, and what a change costs: for most, in large partitions kept in order, what is near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

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

SEVERAL_COORDINATES: Final = "it is in a loop, or over times of several coordinates"
_NO_ORDER: Final = "the window has no ORDER BY"
_WHOLE_FRAME: Final = "its frame is the whole partition"
RENDERED: Final = (
    "over(strategy='ordered'): tm.render computes every partition once, and keeps none in its order; expected 'auto', "
    "'recompute' or 'prefix_sum' there, or a run: flow.start(tm.Spark(...))"
)

IN_ORDER: Final = "in order"
GROUPED: Final = "by a group joined to the rows"
SUMMED: Final = "by sums over the order"
NUMBERED: Final = "by a top-k"
RECOMPUTED: Final = "recomputed"

MOST_OF_FIRST: Final = 100
"""The rows that nth_value counts from an end of the partition at most."""
_DIGITS: Final = 18
"""Decimals of more digits do not fit the word that values are compared by."""


class Rendering(NamedTuple):
    """How a call is kept up to date."""

    how: str
    """One of those above."""
    cost: str
    """What a change costs."""
    asked: bool = False

    def __str__(self) -> str:
        return f"{self.how}{' (as asked)' if self.asked else ''}, a change costs {self.cost}"


def is_of_group(call: BoundWindowCall) -> bool:
    """Return whether a call is the same for all rows of a partition, so that a group computes it as well."""
    return isinstance(call, AggregateCall | ValueCall) and call.frame.whole and call.function != "nth_value"


def cost_of_group(call: BoundWindowCall) -> str:
    """Return what a change costs a call that a group computes."""
    if call.function == "list":
        return "its partition, since the list is of all of it"
    return "its value, and its partition where that changes"


def costs_in_order(calls: Mapping[str, BoundWindowCall]) -> dict[str, str]:
    """Return what a change costs each call of one window, by name, in partitions that are kept in their order."""
    endless = {name: _ends(call) for name, call in calls.items() if any(_ends(call))}
    both = len(set(endless.values())) > 1
    return {name: _BOTH_ENDS if both and name in endless else _cost_in_order(call) for name, call in calls.items()}


def _ends(call: BoundWindowCall) -> tuple[bool, bool]:
    """Return whether frames go on to the first row, and whether to the last."""
    return (
        (call.frame.start is None, call.frame.end is None) if isinstance(call, AggregateCall | ValueCall) else _NEITHER
    )


def _cost_in_order(call: BoundWindowCall) -> str:
    if isinstance(call, RankingCall):
        counts_all = call.function in ("percent_rank", "cume_dist", "ntile")
        return "its partition, since a value depends on how many rows there are" if counts_all else _NUMBERS
    if isinstance(call, OffsetCall):
        return "the rows up to those that look at it"
    listed = ", each with its list" if call.function == "list" else ""
    if any(_ends(call)):
        return (
            f"the rows that have it in their frames{listed}"
            if listed
            else "the rows up to where the value is the same again"
        )
    return f"the frames around it{listed}"


_NEITHER: Final = (False, False)
_NUMBERS: Final = "the rows whose number changes"
_BOTH_ENDS: Final = "its partition, since other frames of the window go on to its other end"


def looks_at_all(windows: Windows, types: Sequence[DType]) -> dict[str, str]:
    """Return the calls whose values need the whole partition at any change, by their columns' names, and why.

    ``types`` are those of the rows' columns.
    """
    if not windows.order:
        return dict.fromkeys(windows.names, _NO_ORDER)
    by = types[windows.order[0].column]
    reasons = {name: _reason(call, by) for name, call in zip(windows.names, windows.calls, strict=True)}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def counts_only_first_values(call: BoundWindowCall) -> bool:
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
    if frame.mode == "range" and frame.offsets and by.is_decimal and by.precision > _DIGITS:
        return f"a RANGE by value over decimals of more than {_DIGITS} digits"
    if frame.start is not None and frame.end is not None:
        return None
    if frame.start is None and frame.end is None:
        return _WHOLE_FRAME
    return _without_a_bound(call)


def _without_a_bound(call: ValueCall | AggregateCall) -> str | None:
    """Return why a call needs all rows of frames that go on to an end of the partition."""
    reason = None
    if isinstance(call, ValueCall):
        n = call.n.value if isinstance(call.n, BoundLiteral) else None
        if call.function == "nth_value" and (n is None or n > MOST_OF_FIRST):
            reason = f"nth_value, but of at most {MOST_OF_FIRST} rows,"
    elif call.distinct and call.function not in ONCE_IS_ENOUGH and not counts_only_first_values(call):
        reason = f"{call.function}(DISTINCT ...) with EXCLUDE"
    return None if reason is None else f"{reason} over a frame unbounded on one side"
