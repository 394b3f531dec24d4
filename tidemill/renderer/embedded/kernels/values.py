"""Numbers that sort as values are to: up or down, nulls first or last."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import NULL, Ints

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
    known = values[~null]
    least, greatest = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if (least == NULL) if nulls_first else (greatest == _GREATEST):  # no number is left beyond: count the values
        values = np.unique(values, return_inverse=True)[1]
        least, greatest = 0, len(codes)
    return np.where(null, least - 1 if nulls_first else greatest + 1, values)
