"""Rows looked for from a place on: those with a value, and those that look over the place by an offset of their own.

The summaries of chunks say in which of them they are: the number of values, the least offset and the greatest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from tidemill.expressions.types import INT64, DType
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.chunks import Edits
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.summaries import Summary, summariser

_TYPES: Final[Mapping[int, DType]] = defaultdict(lambda: INT64)
_SUMMARISE: Final = summariser(_TYPES, Interner())
"""Of whole numbers, or of how many values there are: whatever their types."""


class RowOffsets(NamedTuple):
    """Offsets that a column has: so many rows after each, or before."""

    column: int
    ahead: bool

    def rows_looking_over(self, index: OrderIndex, low: int, high: int, slack: int) -> tuple[int, int]:
        """Return the places from the first to the last row outside of some places that looks into or over these.

        Those places are among them. ``slack`` is how many rows come or go in all: a row that looks so many places
        beyond an end of the partition, or more, sees nothing before and after.
        """
        return self._first(index, low, slack), self._end(index, high, slack)

    def _end(self, index: OrderIndex, place: int, slack: int) -> int:
        """Return the place after the last row, from a place on, that looks at one before it; the place for none."""
        wanted, found = Summary("least" if self.ahead else "greatest", self.column), place
        most = self._back(index.behind(place, wanted, _SUMMARISE))
        for start, codes, of_part in index.walk(place):
            if start - most >= place:
                break
            if start - self._back(of_part(wanted, _SUMMARISE)) >= place:
                continue
            seen = self._seen(index, codes[self.column], start)
            over = ((seen < place) & (seen >= -slack)).nonzero()[0]
            if len(over):
                found = start + int(over[-1]) + 1
        return found

    def _first(self, index: OrderIndex, place: int, slack: int) -> int:
        """Return the place of the first row, before a place, that looks at one from there on; the place for none."""
        wanted, found = Summary("greatest" if self.ahead else "least", self.column), place
        most = -self._back(index.before(place, wanted, _SUMMARISE))
        for start, codes, of_part in index.walk(place, back=True):
            last = start + codes.shape[1] - 1
            if last + most < place:
                break
            if last - self._back(of_part(wanted, _SUMMARISE)) < place:
                continue
            seen = self._seen(index, codes[self.column], start)
            over = ((seen >= place) & (seen < index.size + slack)).nonzero()[0]
            if len(over):
                found = start + int(over[0])
        return found

    def looked_at(self, index: OrderIndex, places: range, edits: Edits, slack: int) -> tuple[int, int]:
        """Return from where to where rows at some places look, before edits among them and after, if in the partition.

        These places are among them. ``slack`` is how many rows come or go in all.
        """
        low, high = first, end = places.start, places.stop
        come = (edits.copies > 0).nonzero()[0]
        parts = [(edits.places.item(i), edits.rows[self.column, i : i + 1]) for i in come.tolist()]
        start = low
        for piece in index.pieces(low, high):
            parts.append((start, piece[self.column]))
            start += piece.shape[1]
        for start, offsets in parts:
            seen = self._seen(index, offsets, start)
            seen = seen.compress((seen >= -slack) & (seen < index.size + slack))
            if len(seen):
                first, end = min(first, int(seen.min()) - slack), max(end, int(seen.max()) + slack + 1)
        return first, end

    def _back(self, offset: int) -> int:
        """Return how many rows back an offset goes; of NULL, none."""
        if offset == NULL:
            return 0
        return -offset if self.ahead else offset

    def _seen(self, index: OrderIndex, offsets: Ints, start: int) -> Ints:
        """Return the places that rows from one on look at; of NULL, their own, and beyond the ends any beyond them."""
        far = 4 * index.size + 1
        offsets = np.where(offsets == NULL, 0, np.minimum(np.maximum(offsets, -far), far))
        places = np.arange(start, start + len(offsets))
        return places + offsets if self.ahead else places - offsets


def known_place(index: OrderIndex, column: int, place: int, count: int, *, back: bool = False) -> int:
    """Return the place up to which from another on so many rows have a value; going back, the place of the last.

    Where there are fewer, the partition's end, or its begin.
    """
    if not count:
        return place
    wanted = Summary("known", column)
    for start, codes, of_part in index.walk(place, back=back):
        there = of_part(wanted, _SUMMARISE)
        if there >= count:
            known = (codes[column] != NULL).nonzero()[0]
            return start + (int(known[-count]) if back else int(known[count - 1]) + 1)
        count -= there
    return 0 if back else index.size
