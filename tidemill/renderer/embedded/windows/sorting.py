"""The numbers that windows sort by, and where values end among sorted ones."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import NULL, Ints

__all__ = ["positions", "sort_values"]

_GREATEST: Final = 2**63 - 1


def sort_values(codes: Ints, *, descending: bool, nulls_first: bool) -> Ints:
    """Return numbers that sort as codes do (which sort as their values do) in an order up or down, nulls first or last.

    >>> sort_values(np.array([5, NULL, 7]), descending=True, nulls_first=True)
    array([-6, -9, -8])
    """
    null = codes == NULL
    values = ~codes if descending else codes
    if not null.any():
        return values
    least, greatest = _ends(values[~null])
    if (least == NULL) if nulls_first else (greatest == _GREATEST):  # no number is left beyond: count the values
        values = np.unique(values, return_inverse=True)[1]
        least, greatest = 0, len(codes)
    return np.where(null, least - 1 if nulls_first else greatest + 1, values)


def _ends(column: Ints) -> tuple[int, int]:
    return (int(column.min()), int(column.max())) if len(column) else (0, 0)


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
