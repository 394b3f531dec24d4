"""Early stop: how far from an edit it matters, to frames without a bound and to rows that look for others.

The value of a frame without a bound depends on the summary of all rows up to some place. Where that is the same before
an edit and after it, because it is not the extreme or cancels out, so it is for all rows beyond that look at this
place: all but some, whose frames end before it, and the peers of the row there, where frames leave out peers.
Other rows look for one so many values away, or at an offset of their own. The summaries of chunks say where these
are, the number of values, the least offset and the greatest, not the rows one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.types import INT64, DType
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, ValueCall
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints
from tidemill.renderer.embedded.windows.chunks import Edits, edited
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.summaries import Summarise, Summary, summariser, together

_ADDED_UP: Final = ("known", "whole", "squares", "floats", "floats squared")
"""What differs by some rows, differs by all more of them."""
_TYPES: Final[Mapping[int, DType]] = defaultdict(lambda: INT64)
_SUMMARISE: Final = summariser(_TYPES, Interner())
"""Of whole numbers, or of how many values there are: whatever their types."""
_ENDS: Final = {"first_value": "first", "nth_value": "first", "last_value": "last"}


def decisive(call: BoundWindowCall, types: Sequence[DType]) -> tuple[Summary, ...] | None:
    """Return the summaries of the rows up to a bound that decide a call's value.

    () for frames that have no bound, or two; None where that is not known.
    """
    if not isinstance(call, AggregateCall | ValueCall):
        return ()
    frame = call.frame
    if frame.start is not None and frame.end is not None:
        return ()
    if isinstance(call, ValueCall):
        n = call.n.value if isinstance(call.n, BoundLiteral) else 1
        return (Summary(_ENDS[call.function] + " known" * call.ignore_nulls, call.column, n or 1),)
    column = call.aggregate.column
    return None if column is None else _of_aggregate(call.function, column, types[column])


def _of_aggregate(function: str, column: int, dtype: DType) -> tuple[Summary, ...] | None:
    is_float = dtype.name == "float64"
    kinds = {
        "count": ("known",),
        "sum": ("floats" if is_float else "whole", "some"),
        "avg": ("floats" if is_float else "whole", "known"),
        "variance": ("floats", "floats squared", "known") if is_float else ("whole", "squares", "known"),
        "min": ("least",),
        "bool_and": ("least",),
        "max": ("greatest",),
        "bool_or": ("greatest",),
    }
    found = kinds.get("variance" if function == "stddev" else function)
    return None if found is None else tuple(Summary(kind, column) for kind in found)


class _Open(NamedTuple):
    """A summary that differs before edits and after, so far."""

    wanted: Summary
    old: Any
    new: Any


class EarlyStop(NamedTuple):
    """Finds the places beyond which edits do not matter, for summaries that decide values."""

    decisive: tuple[Summary, ...]
    summarise: Summarise
    backwards: bool
    """Whether frames go on to the last row, so that edits matter to rows before them."""

    def place(self, index: OrderIndex, edits: Edits, limit: int) -> int | None:
        """Return the place where edits have ceased to matter, up to a limit; None where they go on to.

        The limit is where further edits are: what beats a change may be what goes with them.
        """
        if self._differs_for_good(edits):
            return None
        low, high = edits.places.item(0), edits.ends.item(-1)
        before = index.cut(low, high)
        after = edited(before, edits._replace(places=edits.places - low))
        differing = self._differing(index, before, after, (low, high))
        if not differing:
            return low  # or any other place among them
        for start, codes, of_part in index.walk(low if self.backwards else high, back=self.backwards):
            if start + codes.shape[1] <= limit if self.backwards else start >= limit:
                return None
            still = self._with(differing, [of_part(some.wanted, self.summarise) for some in differing])
            if not still:
                count = self._least(differing, codes)
                place = start + codes.shape[1] - count if self.backwards else start + count
                return place if (place >= limit if self.backwards else place <= limit) else None
            differing = still
        return None

    def _differs_for_good(self, edits: Edits) -> bool:
        """Return whether something is added up to which rows that come add other than those that go take away."""
        for wanted in self.decisive:
            if wanted.kind in _ADDED_UP:
                gone, come = (self._of_rows(wanted, edits, edits.copies * sign) for sign in (-1, 1))
                if gone != come:
                    return True
        return False

    def _of_rows(self, wanted: Summary, edits: Edits, copies: Ints) -> Any:
        some = (copies > 0).nonzero()[0]
        if not len(some):
            return together(wanted, ())
        return self.summarise(wanted, edits.rows[wanted.column].take(some).repeat(copies.take(some)))

    def _differing(self, index: OrderIndex, before: Codes, after: Codes, places: tuple[int, int]) -> list[_Open]:
        """Return what differs after the last edit, of what is not added up."""
        found: list[_Open] = []
        for wanted in self.decisive:
            if wanted.kind in _ADDED_UP:
                continue
            old, new = (self.summarise(wanted, some[wanted.column]) for some in (before, after))
            if old == new:
                continue
            if self.backwards:
                beside = index.behind(places[1], wanted, self.summarise)
            else:
                beside = index.before(places[0], wanted, self.summarise)
            found.append(_Open(wanted, self._joined(wanted, beside, old), self._joined(wanted, beside, new)))
        return [some for some in found if some.old != some.new]

    def _joined(self, wanted: Summary, inside: Any, outside: Any) -> Any:
        """Return the summary of rows, some of which had one already."""
        return together(wanted, (outside, inside) if self.backwards else (inside, outside))

    def _with(self, differing: list[_Open], more: Sequence[Any]) -> list[_Open]:
        """Return what still differs with more rows, whose summaries are given."""
        found: list[_Open] = []
        for (wanted, old, new), part in zip(differing, more, strict=True):
            with_old, with_new = self._joined(wanted, old, part), self._joined(wanted, new, part)
            if with_old != with_new:
                found.append(_Open(wanted, with_old, with_new))
        return found

    def _least(self, differing: list[_Open], codes: Codes) -> int:
        """Return with how many of some rows, the nearest ones, nothing differs any more."""
        low, high = 0, codes.shape[1]
        while low < high:
            count = (low + high) // 2
            some = codes[:, codes.shape[1] - count :] if self.backwards else codes[:, :count]
            if self._with(differing, [self.summarise(one.wanted, some[one.wanted.column]) for one in differing]):
                low = count + 1
            else:
                high = count
        return low


# -- rows that look for others -----------------------------------------------------------------------------------------


class RowOffsets(NamedTuple):
    """Offsets that a column has: so many rows after each, or before."""

    column: int
    ahead: bool

    def rows_looking_over(self, index: OrderIndex, low: int, high: int, slack: int) -> tuple[int, int]:
        """Return the places from the first to the last row outside of some places that looks into or over these.

        Those places are among them. ``slack`` is how many rows come or go in all: a row that looks so many places
        beyond an end of the partition, or more, sees nothing before and after.
        """
        return self._farthest(index, low, slack, back=True), self._farthest(index, high, slack, back=False)

    def _farthest(self, index: OrderIndex, place: int, slack: int, *, back: bool) -> int:
        """Return how far rows from a place on, or back from it, look over it: up to the place itself for none."""
        wanted = Summary("least" if self.ahead != back else "greatest", self.column)
        most = self._back((index.before if back else index.behind)(place, wanted, _SUMMARISE))
        found = place
        for start, codes, of_part in index.walk(place, back=back):
            nearest = start + codes.shape[1] - 1 if back else start
            if (nearest - most >= place) != back:
                break
            if (nearest - self._back(of_part(wanted, _SUMMARISE)) >= place) != back:
                continue
            seen = self._seen(index, codes[self.column], start)
            over = (seen >= place) & (seen < index.size + slack) if back else (seen < place) & (seen >= -slack)
            at = over.nonzero()[0]
            if len(at):
                found = start + (at.item(0) if back else at.item(-1) + 1)
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
    for places, _ in index.values_from(column, place, back=back):
        if len(places) >= count:
            return places.item(-count) if back else places.item(count - 1) + 1
        count -= len(places)
    return 0 if back else index.size
