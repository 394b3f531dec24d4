"""Lag and lead by so many rows as each row says: which rows look over a place, and how far rows look.

What is known of chunks, the greatest of their offsets and the least, says in which of them there may be such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.digests import Digest, digest
from tidemill.renderer.embedded.windows.edits import Edit
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["RowOffsets"]

_NO_INTERNER = Interner()
"""Offsets are whole numbers, which need none."""


class RowOffsets(NamedTuple):
    """Offsets that a column has: so many rows after each, or before."""

    column: int
    ahead: bool

    def rows_looking_over(self, rows: OrderedPartition, low: int, high: int, slack: int) -> tuple[int, int]:
        """Return the places from the first to the last row outside of some places that looks into or over these.

        Those places are among them. ``slack`` is how many rows come or go in all: a row that looks so many places
        beyond an end of the partition, or more, sees nothing before and after.
        """
        return self._first(rows, low, slack), self._end(rows, high, slack)

    def _end(self, rows: OrderedPartition, place: int, slack: int) -> int:
        """Return the place after the last row, from a place on, that looks at one before it; the place for none."""
        wanted, found = Digest("least" if self.ahead else "greatest", self.column), place
        most = self._back(rows.behind(place, wanted, _made(wanted)))
        for start, codes, of_part in rows.stretches(place):
            if start - most >= place:
                break
            if start - self._back(of_part(wanted, _made(wanted))) >= place:
                continue
            seen = self._seen(rows, codes[self.column], start)
            over = ((seen < place) & (seen >= -slack)).nonzero()[0]
            if len(over):
                found = start + int(over[-1]) + 1
        return found

    def _first(self, rows: OrderedPartition, place: int, slack: int) -> int:
        """Return the place of the first row, before a place, that looks at one from there on; the place for none."""
        wanted, found = Digest("greatest" if self.ahead else "least", self.column), place
        most = -self._back(rows.before(place, wanted, _made(wanted)))
        for start, codes, of_part in rows.stretches(place, back=True):
            last = start + codes.shape[1] - 1
            if last + most < place:
                break
            if last - self._back(of_part(wanted, _made(wanted))) < place:
                continue
            seen = self._seen(rows, codes[self.column], start)
            over = ((seen >= place) & (seen < len(rows) + slack)).nonzero()[0]
            if len(over):
                found = start + int(over[0])
        return found

    def looked_at(self, rows: OrderedPartition, places: range, edits: Sequence[Edit], slack: int) -> tuple[int, int]:
        """Return from where to where rows at some places look, before edits among them and after, if in the partition.

        These places are among them. ``slack`` is how many rows come or go in all.
        """
        low, high = first, end = places.start, places.stop
        parts = [(edit.place, edit.row[self.column : self.column + 1]) for edit in edits if edit.copies > 0]
        start = low
        for piece in rows.pieces(low, high):
            parts.append((start, piece[self.column]))
            start += piece.shape[1]
        for start, offsets in parts:
            seen = self._seen(rows, offsets, start)
            seen = seen.compress((seen >= -slack) & (seen < len(rows) + slack))
            if len(seen):
                first, end = min(first, int(seen.min()) - slack), max(end, int(seen.max()) + slack + 1)
        return first, end

    def _back(self, offset: int) -> int:
        """Return how many rows back an offset goes; of NULL, none."""
        if offset == NULL:
            return 0
        return -offset if self.ahead else offset

    def _seen(self, rows: OrderedPartition, offsets: Ints, start: int) -> Ints:
        """Return the places that rows from one on look at; of NULL, their own, and beyond the ends any beyond them."""
        far = 4 * len(rows) + 1
        offsets = np.where(offsets == NULL, 0, np.minimum(np.maximum(offsets, -far), far))
        places = np.arange(start, start + len(offsets))
        return places + offsets if self.ahead else places - offsets


def _made(wanted: Digest) -> Callable[[Ints], Any]:
    return partial(digest, wanted, dtype=INT64, interner=_NO_INTERNER)
