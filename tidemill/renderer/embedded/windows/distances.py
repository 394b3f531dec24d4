"""How far sort numbers are from those at the ends of RANGE frames by value, and from these back."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.expressions.intervals import DAY_MICROSECONDS, MONTHS, Interval
from tidemill.expressions.types import DType
from tidemill.expressions.windows.frames import Offset
from tidemill.renderer.embedded.kernels.codec import float_codes, float_values
from tidemill.renderer.embedded.kernels.updates import Ints
from tidemill.renderer.embedded.windows.frame import units

_ENDS: Final = np.iinfo(np.int64)
_DAYS_IN_MONTH: Final = 31

Far: TypeAlias = int | Callable[[Ints], Ints]
"""How far sort numbers are from others; or what finds those from these."""


class Ways(NamedTuple):
    """How far it is from the sort number of a row to those at the ends of its frame, and from these to those rows'."""

    to_start: Far
    to_end: Far
    back_from_start: Far
    back_from_end: Far


@lru_cache
def ways_of(values: tuple[tuple[Offset, Offset], ...], dtype: DType, *, descending: bool) -> list[Ways]:
    """Return the ways of frames that begin and end so far from their rows; descending numbers are turned round."""

    def far(offset: Offset, *, up: bool) -> Far:
        found = distance(offset, dtype, minus=descending, up=up != descending)
        if isinstance(found, int):
            return -found if descending else found
        return (lambda numbers: ~found(~numbers)) if descending else found

    return [
        Ways(far(start, up=False), far(end, up=True), far(-start, up=True), far(-end, up=False))
        for start, end in values
    ]


def distance(offset: Offset, dtype: DType, *, minus: bool, up: bool) -> Far:
    """Return how far codes are from others, rather too far up, or down, than too near; or what finds it from codes."""
    if minus:
        offset = -offset
    if dtype.name == "float64":
        assert not isinstance(offset, Interval)
        return partial(_far_from_floats, offset=float(offset), up=up)
    if isinstance(offset, Interval) and offset.dtype == MONTHS:
        unit = 1 if dtype.name == "date" else DAY_MICROSECONDS
        days = offset.amount * _DAYS_IN_MONTH if (offset.amount > 0) == up else offset.amount * 28
        return (days + (_DAYS_IN_MONTH if up else -_DAYS_IN_MONTH)) * unit
    exact = units(offset, dtype)
    return math.ceil(exact) if up else math.floor(exact)


def _far_from_floats(codes: Ints, *, offset: float, up: bool) -> Ints:
    values = float_values(codes)
    is_up = values > 0
    # What is so far from an infinity may be finite: sums overflow.
    inwards = np.isinf(values) & (is_up != up) & (is_up != (offset > 0))
    values = np.where(inwards, np.copysign(sys.float_info.max, values), values)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = values + offset
        slack = 4 * np.spacing(np.maximum(np.abs(values), abs(offset)))
        found = float_codes(moved + slack if up else moved - slack)
    beyond = np.where(np.isnan(moved) | (moved == values), codes, np.where(moved > 0, _ENDS.max, _ENDS.min + 1))
    result: Ints = np.where(np.isfinite(moved), found, beyond)
    return result
