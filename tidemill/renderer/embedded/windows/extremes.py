"""The greatest number of each frame, by a table of the greatest of every run of 1, 2, 4, 8 and so on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.partitions import Part

__all__ = ["greatest"]


def greatest(numbers: Ints, parts: Sequence[Part]) -> Ints:
    """Return the greatest number in each row's frame; the least number there is, NULL, for none.

    Any run is two of the table's, which may overlap. One level is held at a time.
    """
    result = np.full(len(numbers), NULL)
    for start, end in parts:
        lengths = end - start
        level = np.frexp(lengths)[1] - 1  # of 0: -1
        most = int(level.max(initial=-1))
        table = numbers
        for power in range(most + 1):
            size = 1 << power
            here = (level == power).nonzero()[0]
            last = table.take(end.take(here) - size)
            found = np.maximum(table.take(start.take(here)), last)
            result[here] = np.maximum(result.take(here), found)
            if power < most:
                table = np.maximum(table[:-size], table[size:])
    return result
