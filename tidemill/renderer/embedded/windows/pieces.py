"""Rows that lie in pieces here and there, as parts of chunks do: of most columns only a few rows are ever looked at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Protocol

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Codes, Ints

__all__ = ["Columns", "Pieces"]

_MANY: Final = 64
"""More pieces than these are put together at once."""
_SHORT: Final = 512
"""So are those of so few rows."""
_FEW: Final = 16
"""Up to so many rows are fetched one by one."""


class Columns(Protocol):
    """Rows of which a column is had by its number."""

    def __len__(self) -> int: ...

    def __getitem__(self, column: int) -> Ints: ...


class Pieces:
    """Matrices of codes side by side, which are not copied: a column is put together when it is asked for.

    >>> rows = Pieces([np.array([[1, 2], [5, 6]]), np.array([[3], [7]])])
    >>> len(rows), rows[1].tolist(), rows.take(np.array([0, 2])).tolist()
    (3, [5, 6, 7], [[1, 3], [5, 7]])
    """

    def __init__(self, pieces: Sequence[Codes]) -> None:
        self._pieces: Sequence[Codes] = pieces
        self._ends: list[int] = list(accumulate([piece.shape[1] for piece in pieces]))
        if len(pieces) > _MANY or self._ends[-1] <= _SHORT:
            self._pieces = [np.concatenate(pieces, axis=1)]
            del self._ends[:-1]

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, column: int) -> Ints:
        if len(self._pieces) == 1:
            found: Ints = self._pieces[0][column]
        else:
            found = np.concatenate([piece[column] for piece in self._pieces])
        return found

    def take(self, places: Ints) -> Codes:
        """Return the rows at some places."""
        if len(self._pieces) == 1:
            return self._pieces[0].take(places, axis=1)
        if len(places) > _FEW:
            return np.concatenate(self._pieces, axis=1).take(places, axis=1)
        found = np.empty((len(self._pieces[0]), len(places)), np.int64)
        for number, place in enumerate(places.tolist()):
            which = bisect_right(self._ends, place)
            found[:, number] = self._pieces[which][:, place - self._ends[which]]  # from the piece's end
        return found
