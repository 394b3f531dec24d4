"""Calls with a frame as sums over its rows."""

from __future__ import annotations

from typing import Final

import attrs

from tidemill.algorithms import combine
from tidemill.algorithms.combine import Combination
from tidemill.algorithms.prefix_sums.quotients import LastValues
from tidemill.expressions.expr import col
from tidemill.expressions.windows.bound import AggregateCall, ValueCall
from tidemill.expressions.windows.frames import Frame


@attrs.frozen
class Summary:
    """The sum that a call is of."""

    combination: Combination
    by_row: bool
    """Whether the sum is over the order of rows: peers have frames of their own, or their order matters."""
    last_rows: bool
    """Whether it sums the last rows up to the current one, and so is a prefix sum."""


def summary(call: AggregateCall | ValueCall, names: tuple[str, ...]) -> Summary:
    """Return a call as a sum over rows with columns of these names."""
    frame, made = call.frame, _combination(call, names)
    if _ends_soon(frame):
        return Summary(_of_last_rows(made, frame), by_row=True, last_rows=True)
    by_row = isinstance(call, ValueCall) or (not frame.whole and frame.mode == "rows")
    return Summary(made, by_row, last_rows=False)


def _combination(call: AggregateCall | ValueCall, names: tuple[str, ...]) -> Combination:
    if isinstance(call, ValueCall):
        choose = combine.first if call.function == "first_value" else combine.last
        return choose(col(names[call.column]), ignore_nulls=call.ignore_nulls)
    if call.aggregate.column is None:
        return combine.rows()
    made: Combination = getattr(combine, call.function)(col(names[call.aggregate.column]))
    return made


_MOST_LAST_ROWS: Final = 16
"""Up to how many rows before the current one a frame is the last ones of all rows up to it, and needs no search."""


def _ends_soon(frame: Frame) -> bool:
    """Return whether a frame is made of the last few rows up to the current one."""
    few = frame.mode == "rows" and isinstance(frame.start, int) and isinstance(frame.end, int)
    return few and -_MOST_LAST_ROWS <= frame.start <= frame.end <= 0  # type: ignore[operator]


def _of_last_rows(given: Combination, frame: Frame) -> Combination:
    """Return the combination over the frame's rows as a prefix sum up to the current row."""
    assert isinstance(frame.start, int)
    assert isinstance(frame.end, int)
    kept, left_out = 1 - frame.start, -frame.end
    return attrs.evolve(given, combiner=lambda t: LastValues(given.combiner(t), t, kept, left_out))
