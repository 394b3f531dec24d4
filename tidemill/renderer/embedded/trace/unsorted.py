"""Unsorted arrays of many updates: nobody looks anything up in them, and sorting waits for more of them.

Sorted together, many updates cancel before they are merged with the batches, and merging is done less often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.embedded.kernels.memory import concatenate, repeated
from tidemill.renderer.embedded.kernels.times import advanced_rows, alike
from tidemill.renderer.embedded.kernels.updates import Ints, UpdateArray
from tidemill.renderer.embedded.trace.batch import Batch, UpdateLayout

_ROOM: Final = 2
"""An array that is a part of one this many times as large is copied, if it is to stay."""


def on_its_own(updates: UpdateArray) -> UpdateArray:
    """Return updates that keep no more in memory than what they are, about.

    >>> part = np.arange(10)[None, 4:6]
    >>> on_its_own(part).base is None
    True
    """
    whole = updates.base
    is_small_part = isinstance(whole, np.ndarray) and whole.nbytes > _ROOM * updates.nbytes
    return updates.copy() if is_small_part else updates


def rows_lost(diffs: Ints) -> int:
    """Return how many more updates retract rows than insert some, given their diffs.

    >>> rows_lost(np.array([-1, 1, -1]))
    1
    """
    return 2 * int(np.count_nonzero(diffs < 0)) - len(diffs)


def sorted_together(arrays: Sequence[UpdateArray], layout: UpdateLayout, since: Antichain) -> Batch:
    """Return updates of arrays, none of them empty, as one batch, consolidated at times compacted to ``since``."""
    given = [list(updates) for updates in arrays]
    times = slice(len(layout.types), len(layout.types) + layout.users)
    for rows in given:  # before they are put end to end: then mostly all are the same
        rows[times] = advanced_rows(rows[times], since)
    return layout.compacted([_end_to_end(rows) for rows in zip(*given, strict=True)], since)


def _end_to_end(rows: Sequence[Ints]) -> Ints:
    """Return numbers one after the other; where all are the same, as times are, mostly, they take no memory."""
    first = rows[0][0]
    if all(row[0] == first for row in rows) and alike(list(rows)):
        return repeated(first, sum(map(len, rows)))
    return concatenate(rows)
