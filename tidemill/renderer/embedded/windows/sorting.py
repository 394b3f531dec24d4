"""Where values end among sorted ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Ints, first_numbers

__all__ = ["positions", "positions_in_own"]

_GREATEST: Final = 2**63 - 1
_FEW: Final = 4
"""Groups that are searched one by one."""


def _ends(column: Ints) -> tuple[int, int]:
    return (int(column.min()), int(column.max())) if len(column) else (0, 0)


def positions_in_own(starts: Ints, values: Ints, bounds: Ints, asked: Sequence[tuple[int, int]] | None = None) -> Ints:
    """Return what `positions` does of a bound for each of the values, in its own group; groups begin at ``starts``.

    Of each group those from one place up to another may be ``asked`` for: of the others it may be their own place.

    >>> positions_in_own(np.array([0, 2]), np.array([5, 7, 1]), np.array([5, 6, 0]))
    array([1, 1, 2])
    """
    if len(starts) > _FEW:
        sizes = np.append(starts[1:], len(values)) - starts
        number = np.arange(len(starts)).repeat(sizes)
        if asked is None:
            return positions(number, values, number, bounds)
        low, high = np.array(asked).T
        lengths = high - low
        at = first_numbers(int(lengths.sum())) + (low - lengths.cumsum() + lengths).repeat(lengths)
        result = first_numbers(len(values)).copy()
        result[at] = positions(number, values, number.take(at), bounds.take(at))
        return result
    found = first_numbers(len(values)).copy()
    groups = list(pairwise([*starts.tolist(), len(values)]))
    for (start, end), (low, high) in zip(groups, asked or groups, strict=True):
        found[low:high] = values[start:end].searchsorted(bounds[low:high], "right")
        if start:
            found[low:high] += start
    return found


def positions(groups: Ints, values: Ints, of: Ints, bounds: Ints) -> Ints:
    """Return where, in values sorted by group and then by themselves, those of a group that are at most a bound end.

    >>> positions(np.array([0, 0, 1]), np.array([5, 7, 1]), np.array([1, 0, 0]), np.array([0, 5, 6]))
    array([2, 1, 1])
    """
    if not len(values):
        return np.zeros(len(bounds), np.int64)
    least, greatest = _ends(values)
    if (int(groups[-1]) + 1) * (greatest - least + 2) > _GREATEST:  # too far apart for one word: count them
        distinct = np.unique(values)
        values, bounds = distinct.searchsorted(values), distinct.searchsorted(bounds, "right") - 1
        least, greatest = _ends(values)
    width = greatest - least + 2
    bounds = np.clip(bounds, least - 1, greatest)
    return (groups * width + (values - least)).searchsorted(of * width + (bounds - least), "right")
