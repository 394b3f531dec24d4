"""The greatest number of each frame, by a table of the greatest of every run of 1, 2, 4, 8 and so on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.partitions import Part

__all__ = ["greatest", "greatest_around"]


def greatest(numbers: Ints, parts: Sequence[Part]) -> Ints:
    """Return the greatest number in each of some frames; the least number there is, NULL, for none.

    Any run is two of the table's, which may overlap. One level is held at a time.
    """
    result = np.full(len(parts[0][0]), NULL)
    levels = [np.frexp(end - start)[1] - 1 for start, end in parts]  # of 0: -1
    counts = [np.bincount(level + 1).tolist() for level in levels]
    table, most = numbers, max(map(len, counts)) - 2
    for power in range(most + 1):
        size = 1 << power
        for (start, end), level, count in zip(parts, levels, counts, strict=True):
            if power + 1 >= len(count) or not count[power + 1]:
                continue
            if count[power + 1] == len(level):
                np.maximum(result, np.maximum(table.take(start), table.take(end - size)), out=result)
                continue
            here = (level == power).nonzero()[0]
            found = np.maximum(table.take(start.take(here)), table.take(end.take(here) - size))
            result[here] = np.maximum(result.take(here), found)
        if power < most:
            table = np.maximum(table[:-size], table[size:])
    return result


def greatest_around(numbers: Ints, before: int, after: int) -> Ints:
    """Return the greatest of so many numbers before each, itself and so many after; NULL where there are not so many.

    >>> greatest_around(np.array([3, 1, 2, 0, 1]), 1, 1)[1:-1].tolist()
    [3, 2, 2]
    """
    width = before + after + 1
    found = np.full(len(numbers), NULL)
    if width > len(numbers):
        return found
    table, size = numbers, 1
    while 2 * size <= width:
        table = np.maximum(table[:-size], table[size:])
        size *= 2
    count = len(numbers) - width + 1
    np.maximum(table[:count], table[width - size : width - size + count], out=found[before : before + count])
    return found
