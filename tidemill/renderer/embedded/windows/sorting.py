"""Where values end among sorted ones."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Ints

__all__ = ["positions"]

_GREATEST: Final = 2**63 - 1
_FEW: Final = 4
"""Groups that are searched one by one."""


def _ends(column: Ints) -> tuple[int, int]:
    return (int(column.min()), int(column.max())) if len(column) else (0, 0)


def positions(groups: Ints, values: Ints, of: Ints, bounds: Ints) -> Ints:
    """Return where, in values sorted by group and then by themselves, those of a group that are at most a bound end.

    >>> positions(np.array([0, 0, 1]), np.array([5, 7, 1]), np.array([1, 0, 0]), np.array([0, 5, 6]))
    array([2, 1, 1])
    """
    if not len(values):
        return np.zeros(len(bounds), np.int64)
    if groups is of and groups.item(-1) < _FEW:
        starts = groups.searchsorted(range(groups.item(-1) + 1)).tolist()
        ends = [*starts[1:], len(groups)]
        parts = [values[s:e].searchsorted(bounds[s:e], "right") + s for s, e in zip(starts, ends, strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    least, greatest = _ends(values)
    if (int(groups[-1]) + 1) * (greatest - least + 2) > _GREATEST:  # too far apart for one word: count them
        distinct = np.unique(values)
        values, bounds = distinct.searchsorted(values), distinct.searchsorted(bounds, "right") - 1
        least, greatest = _ends(values)
    width = greatest - least + 2
    bounds = np.clip(bounds, least - 1, greatest)
    return (groups * width + (values - least)).searchsorted(of * width + (bounds - least), "right")
