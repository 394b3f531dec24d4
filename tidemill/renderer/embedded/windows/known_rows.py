"""Rows with a value, counted from a place on: calls that pass over NULLs look for the last of so many."""

from __future__ import annotations

import numpy as np

from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.digests import Digest
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["known_place"]


def known_place(rows: OrderedPartition, column: int, place: int, count: int, *, back: bool = False) -> int:
    """Return the place up to which from another on so many rows have a value; going back, the place of the last.

    Where there are fewer, the partition's end, or its begin.
    """
    if not count:
        return place
    wanted = Digest("known", column)
    for start, codes, of_part in rows.stretches(place, back=back):
        there = of_part(wanted, _count)
        if there >= count:
            known = (codes[column] != NULL).nonzero()[0]
            return start + (int(known[-count]) if back else int(known[count - 1]) + 1)
        count -= there
    return 0 if back else len(rows)


def _count(codes: Ints) -> int:
    return int(np.count_nonzero(codes != NULL))
