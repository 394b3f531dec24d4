"""Columns of codes distinguished by tables, where there are hardly more values than columns: no sorting, no hashing.

Each value that there may be has a place in a table. Places are as far apart as values are, so what is slow is to fetch
them from memory: marks are of a byte, numbers of four.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.memory import empty, zeros

_Ints = npt.NDArray[np.int64]

MOST: Final = 4
"""How many times as many places as there are columns a table may have: beyond, sorting is faster."""
_INT32: Final = 2**31


class Places(NamedTuple):
    """The places of columns of codes in a table of all columns between the least codes and the greatest."""

    rows: list[_Ints]
    least: list[int]
    extents: list[int]
    """How many codes there are from the least to the greatest, row by row."""
    size: int
    """How many places there are."""

    def at(self, part: slice) -> _Ints:
        """Return the places of some of the columns: of a part, so that what is computed stays in the caches.

        >>> places_of(np.array([[7, 9], [1, 0]]), 6).at(slice(0, 2))
        array([1, 4])
        """
        if not self.rows:
            return np.zeros(part.stop - part.start, np.int64)
        place = self.rows[0][part] - self.least[0]
        for row, least, extent in zip(self.rows[1:], self.least[1:], self.extents[1:], strict=True):
            place *= extent
            place += row[part]
            place -= least
        return place

    def codes(self, places: _Ints, result: _Ints | None = None) -> _Ints:
        """Return the columns of codes at some places; they are written to the ``result`` that is given."""
        if result is None:
            result = empty((len(self.rows), len(places)))
        for i in reversed(range(1, len(self.rows))):
            places, codes = np.divmod(places, self.extents[i])
            np.add(codes, self.least[i], out=result[i])
        if self.rows:
            np.add(places, self.least[0], out=result[0])
        return result


def places_of(codes: _Ints, most: int) -> Places | None:
    """Return the places of columns of codes; None where there are more than ``most`` places, or no columns."""
    if not codes.shape[1]:
        return None
    least: list[int] = []
    extents: list[int] = []
    count = 1
    for row in codes:
        low = int(row.min())
        extents.append(int(row.max()) - low + 1)
        least.append(low)
        count *= extents[-1]
        if count > most:
            return None
    return Places(list(codes), least, extents, count)


def found(codes: _Ints) -> tuple[Places, _Ints, _Ints] | None:
    """Return the places of columns, those at which there are any, and for each column the number of its own.

    None where a table would be too large.
    """
    n = codes.shape[1]
    places = places_of(codes, MOST * n) if n < _INT32 else None
    if places is None:
        return None
    owner: _Ints = empty(n)
    seen = zeros(places.size, np.bool_)
    for part in sorting.parts(n):
        owner[part] = places.at(part)
        seen[owner[part]] = True
    number: npt.NDArray[np.int32] = seen.cumsum(dtype=np.int32)
    number -= 1
    for part in sorting.parts(n):
        owner[part] = number.take(owner[part])
    return places, sorting.nonzero(seen), owner


def numbered(codes: _Ints) -> tuple[_Ints, _Ints] | None:
    """Return one column of each group of equal ones, and the number of each column's group; None as above."""
    n = codes.shape[1]
    from_0 = _numbers_from_0(codes[0], MOST * n) if len(codes) == 1 and n < _INT32 else None
    if from_0 is not None:
        return from_0
    by_table = found(codes)
    if by_table is None:
        return None
    _, taken, owner = by_table
    one = np.empty(len(taken), np.int64)
    for part in sorting.parts(n):
        one[owner[part]] = np.arange(part.start, part.stop)
    return one, owner


def _numbers_from_0(codes: _Ints, most: int) -> tuple[_Ints, _Ints] | None:
    """Like `numbered`, for a column that has each of the numbers from 0 on, as of strings just interned.

    Each is its own number then. None where it is no such column.
    """
    count = int(codes.max()) + 1
    if int(codes.min()) != 0 or count > most:
        return None
    one = np.full(count, -1)
    for part in sorting.parts(len(codes)):
        one[codes[part]] = np.arange(part.start, part.stop)
    return (one, codes) if one.min() >= 0 else None
