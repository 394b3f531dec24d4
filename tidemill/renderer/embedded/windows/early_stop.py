"""Early stop: where an edit ceases to matter, for frames with one bound and for calls that look up other rows.

The value over a frame that is unbounded on one side is decided by a summary of all rows up to some position. If that is
the same before and after an edit (another row is the extreme, or edits cancel out), so are the values of all rows
beyond that see this position: all but rows whose frames end before it, and the peers of the row there under EXCLUDE
GROUP or TIES. Other calls look up a row some non-NULL values away, or at an offset from a column. The
summaries of chunks (counts of values, least and greatest offset) find these rows without reading all of them.
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

_ADDED_UP: Final = ("non-null", "whole", "squares", "floats", "floats squared")
"""Sums: once they differ, merging in further rows leaves them different."""
_TYPES: Final[Mapping[int, DType]] = defaultdict(lambda: INT64)
_SUMMARISE: Final = summariser(_TYPES, Interner())
"""Summarises offsets, and counts non-NULL values, which does not depend on their type."""
_ENDS: Final = {"first_value": "first", "nth_value": "first", "last_value": "last"}


def decisive(call: BoundWindowCall, types: Sequence[DType]) -> tuple[Summary, ...] | None:
    """Return the summaries that decide a call's value over a frame with one bound.

    () for calls without a frame or with both bounds; None if no such summaries are known.
    """
    if not isinstance(call, AggregateCall | ValueCall):
        return ()
    frame = call.frame
    if frame.start is not None and frame.end is not None:
        return ()
    if isinstance(call, ValueCall):
        n = call.n.value if isinstance(call.n, BoundLiteral) else 1
        return (Summary(_ENDS[call.function] + " non-null" * call.ignore_nulls, call.column, n or 1),)
    column = call.aggregate.column
    return None if column is None else _of_aggregate(call.function, column, types[column])


def _of_aggregate(function: str, column: int, dtype: DType) -> tuple[Summary, ...] | None:
    is_float = dtype.name == "float64"
    kinds = {
        "count": ("non-null",),
        "sum": ("floats" if is_float else "whole", "some"),
        "avg": ("floats" if is_float else "whole", "non-null"),
        "variance": ("floats", "floats squared", "non-null") if is_float else ("whole", "squares", "non-null"),
        "min": ("least",),
        "bool_and": ("least",),
        "max": ("greatest",),
        "bool_or": ("greatest",),
    }
    found = kinds.get("variance" if function == "stddev" else function)
    return None if found is None else tuple(Summary(kind, column) for kind in found)


class _Differing(NamedTuple):
    """A summary that so far differs before and after the edits."""

    wanted: Summary
    old: Any
    new: Any


class EarlyStop(NamedTuple):
    """Finds the position beyond which edits no longer matter, from the summaries that decide values."""

    decisive: tuple[Summary, ...]
    summarise: Summarise
    backwards: bool
    """Whether frames run to the last row, so that edits affect the rows before them."""

    def position(self, index: OrderIndex, edits: Edits, limit: int) -> int | None:
        """Return the position beyond which edits no longer matter; None if they still do at the limit.

        The limit is the next edit: it may take away the row that makes the summaries equal.
        """
        if self._differs_for_good(edits):
            return None
        low, high = edits.positions.item(0), edits.ends.item(-1)
        before = index.between(low, high)
        after = edited(before, edits._replace(positions=edits.positions - low))
        differing = self._differing(index, before, after, (low, high))
        if not differing:
            return low  # or any other position among them
        for start, codes, of_part in index.walk(low if self.backwards else high, back=self.backwards):
            if start + codes.shape[1] <= limit if self.backwards else start >= limit:
                return None
            still = self._unequal(differing, [of_part(some.wanted, self.summarise) for some in differing])
            if not still:
                count = self._rows_until_equal(differing, codes)
                position = start + codes.shape[1] - count if self.backwards else start + count
                return position if (position >= limit if self.backwards else position <= limit) else None
            differing = still
        return None

    def _differs_for_good(self, edits: Edits) -> bool:
        """Return whether the rows that come and those that go differ in a sum."""
        gone = -edits.copies
        return any(
            self._of_rows(wanted, edits, gone) != self._of_rows(wanted, edits, edits.copies)
            for wanted in self.decisive
            if wanted.kind in _ADDED_UP
        )

    def _of_rows(self, wanted: Summary, edits: Edits, copies: Ints) -> Any:
        codes = edits.rows[wanted.column].repeat(np.maximum(copies, 0))
        return self.summarise(wanted, codes) if len(codes) else together(wanted, ())

    def _differing(
        self, index: OrderIndex, before: Codes, after: Codes, positions: tuple[int, int]
    ) -> list[_Differing]:
        """Return the summaries, sums aside, that differ past all edits."""
        found: list[_Differing] = []
        for wanted in self.decisive:
            if wanted.kind in _ADDED_UP:
                continue
            old, new = (self.summarise(wanted, some[wanted.column]) for some in (before, after))
            if old == new:
                continue
            if self.backwards:
                beside = index.after(positions[1], wanted, self.summarise)
            else:
                beside = index.before(positions[0], wanted, self.summarise)
            found.append(_Differing(wanted, self._merged(wanted, beside, old), self._merged(wanted, beside, new)))
        return [some for some in found if some.old != some.new]

    def _merged(self, wanted: Summary, inside: Any, outside: Any) -> Any:
        """Return two summaries merged, in row order; ``inside`` is of rows nearer the unbounded side."""
        return together(wanted, (outside, inside) if self.backwards else (inside, outside))

    def _unequal(self, differing: list[_Differing], more: Sequence[Any]) -> list[_Differing]:
        """Return the summaries that still differ once those of further rows are merged in."""
        found: list[_Differing] = []
        for (wanted, old, new), part in zip(differing, more, strict=True):
            with_old, with_new = self._merged(wanted, old, part), self._merged(wanted, new, part)
            if with_old != with_new:
                found.append(_Differing(wanted, with_old, with_new))
        return found

    def _rows_until_equal(self, differing: list[_Differing], codes: Codes) -> int:
        """Return how many of the nearest rows to merge in until nothing differs."""
        low, high = 0, codes.shape[1]
        while low < high:
            count = (low + high) // 2
            some = codes[:, codes.shape[1] - count :] if self.backwards else codes[:, :count]
            if self._unequal(differing, [self.summarise(one.wanted, some[one.wanted.column]) for one in differing]):
                low = count + 1
            else:
                high = count
        return low


# -- rows that look for others -----------------------------------------------------------------------------------------


class RowOffsets(NamedTuple):
    """A column of LEAD or LAG offsets: how many rows after each row (``ahead``), or before it, a call looks."""

    column: int
    ahead: bool

    def rows_looking_over(self, index: OrderIndex, low: int, high: int, slack: int) -> tuple[int, int]:
        """Return the range from the first to the last row outside of some positions that looks into them or past them.

        The range contains them. ``slack`` is how many rows come or go in all: a row that looks so many positions
        beyond an end of the partition, or more, sees nothing before or after.
        """
        return self._farthest(index, low, slack, back=True), self._farthest(index, high, slack, back=False)

    def _farthest(self, index: OrderIndex, position: int, slack: int, *, back: bool) -> int:
        """Return how far out the rows past a position go that look back over it; the position itself if none does."""
        wanted = Summary("least" if self.ahead != back else "greatest", self.column)
        most = self._rows_back((index.before if back else index.after)(position, wanted, _SUMMARISE))
        found = position
        for start, codes, of_part in index.walk(position, back=back):
            nearest = start + codes.shape[1] - 1 if back else start
            if (nearest - most >= position) != back:
                break
            if (nearest - self._rows_back(of_part(wanted, _SUMMARISE)) >= position) != back:
                continue
            seen = self._targets(index, codes[self.column], start)
            over = (seen >= position) & (seen < index.size + slack) if back else (seen < position) & (seen >= -slack)
            at = over.nonzero()[0]
            if len(at):
                found = start + (at.item(0) if back else at.item(-1) + 1)
        return found

    def looked_at(self, index: OrderIndex, positions: range, edits: Edits, slack: int) -> tuple[int, int]:
        """Return the range that rows at some positions look at within the partition, before and after edits among them.

        The range contains these positions. ``slack`` is how many rows come or go in all.
        """
        low, high = first, end = positions.start, positions.stop
        come = (edits.copies > 0).nonzero()[0]
        parts = [(edits.positions.item(i), edits.rows[self.column, i : i + 1]) for i in come.tolist()]
        start = low
        for codes in index.slices(low, high):
            parts.append((start, codes[self.column]))
            start += codes.shape[1]
        for start, offsets in parts:
            seen = self._targets(index, offsets, start)
            seen = seen.compress((seen >= -slack) & (seen < index.size + slack))
            if len(seen):
                first, end = min(first, int(seen.min()) - slack), max(end, int(seen.max()) + slack + 1)
        return first, end

    def _rows_back(self, offset: int) -> int:
        """Return how many rows back an offset points; 0 for NULL."""
        if offset == NULL:
            return 0
        return -offset if self.ahead else offset

    def _targets(self, index: OrderIndex, offsets: Ints, start: int) -> Ints:
        """Return the positions that rows from ``start`` on look at: their own for NULL; clamped far beyond the ends."""
        far = 4 * index.size + 1
        offsets = np.where(offsets == NULL, 0, np.minimum(np.maximum(offsets, -far), far))
        positions = np.arange(start, start + len(offsets))
        return positions + offsets if self.ahead else positions - offsets


def non_null_position(index: OrderIndex, column: int, position: int, count: int, *, back: bool = False) -> int:
    """Return the position after the ``count``-th non-NULL value from ``position`` on; back, that of the value itself.

    If there are fewer: the end of the partition or, going back, 0.
    """
    if not count:
        return position
    for positions, _ in index.values_from(column, position, back=back):
        if len(positions) >= count:
            return positions.item(-count) if back else positions.item(count - 1) + 1
        count -= len(positions)
    return 0 if back else index.size
