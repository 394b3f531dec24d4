"""How far many changed rows of a partition reach, as `reach` says it of a few: by arithmetic over all of them at once.

That is known of frames with a bound on either side. What it takes to look at all rows of the partition, in one column,
is little beside so many changes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import attrs
import numpy as np

from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.frames import Offset
from tidemill.renderer.embedded.kernels.codec import has_codes_in_order, is_long_decimal
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints
from tidemill.renderer.embedded.windows.edits import ManyEdits
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.partitions import prefix_counts
from tidemill.renderer.embedded.windows.ranges import plus
from tidemill.renderer.embedded.windows.reach import Reach, distance

__all__ = ["Runs", "can_be_found_at_once", "runs_of_many", "starts_of_groups"]

NEAR: Final = 16
"""Edits whose rows are fewer rows apart are looked at together."""


class Runs(NamedTuple):
    """What `Affected` says of runs of rows, of many."""

    edits: Ints
    """Which edit is the first of each."""
    low: Ints
    high: Ints
    first: Ints
    end: Ints


def can_be_found_at_once(reach: Reach, dtype: DType) -> bool:
    """Return whether runs of many edits can be, of a type of the first ORDER BY column."""
    if reach.to_first or reach.to_last or reach.known or reach.offsets:
        return False
    by_number = has_codes_in_order(dtype) and dtype.name != "float64" and not is_long_decimal(dtype)
    return by_number or not reach.values


def runs_of_many(
    rows: OrderedPartition, edits: ManyEdits, reach: Reach, by: OrderColumn, dtype: DType, *, starts: Ints | None = None
) -> Runs:
    """Return the rows that edits affect, in runs that have nothing to do with one another, and those these look at.

    Where peer groups begin may be given.
    """
    if reach.counts_all and edits.copies.sum():
        start, end = np.array([0]), np.array([len(rows)])
        return Runs(start, start, end, start, end)
    finder = _Finder(rows, edits, reach, by, dtype)
    if starts is not None:
        finder.starts = starts
    low, high = finder.around()
    begins = np.concatenate(([True], low[1:] - high[:-1] >= NEAR)).nonzero()[0]
    if reach.counts_rows or reach.counts_groups:
        begins = finder.moved(begins, low, high)
    while True:
        last = np.append(begins[1:], len(low)) - 1
        run = Runs(begins, low.take(begins), high.take(last), *finder.looked_at(begins, last, low, high))
        # What one looks at is edited by no other.
        touches = (run.first[1:] <= edits.ends.take(last[:-1])) | (run.end[:-1] >= edits.places.take(begins[1:]))
        if not touches.any():
            return run
        begins = begins[np.concatenate(([True], ~touches))]


def starts_of_groups(rows: OrderedPartition) -> Ints:
    """Return where the peer groups of a partition begin, and the end."""
    by_number = len(rows.by) == 1 and rows.order.numbers_are_codes
    begins = np.zeros(len(rows) + 1, np.bool_)
    begins[:1] = begins[-1:] = True
    for codes in [rows.leads] if by_number else map(rows.column, rows.by):
        begins[1:-1] |= codes[1:] != codes[:-1]
    return begins.nonzero()[0]


class _Finder:
    def __init__(self, rows: OrderedPartition, edits: ManyEdits, reach: Reach, by: OrderColumn, dtype: DType) -> None:
        self._rows, self._edits, self._by, self._dtype = rows, edits, by, dtype
        self._length = size = len(rows)
        self._reach = attrs.evolve(  # so that whatever is added to it is no overflow
            reach,
            rows=(min(reach.rows[0], size), min(reach.rows[1], size)),
            groups=(min(reach.groups[0], size), min(reach.groups[1], size)),
        )
        self._numbers = rows.order.number(edits.rows[by.column])
        self._by_number = len(rows.by) == 1 and has_codes_in_order(dtype) and reach.groups == (0, 0)
        """Whether peers are found by their number, which hardly any others have, too: then groups are not counted."""

    def around(self) -> tuple[Ints, Ints]:
        """Return from where to where frames have each edited row, or had it; neither ever falls."""
        places, ends, reach = self._edits.places, self._edits.ends, self._reach
        low, high = places - reach.rows[1], ends + reach.rows[0]
        if reach.peers:
            first, last = places.copy(), ends.copy()
            for found, at, find in ((first, places - 1, self._peers_start), (last, ends, self._peers_end)):
                peers = self._are_peers(at)
                if peers.any():
                    found[peers] = find(found.compress(peers) + (1 if found is last else -1))
            low, high = np.minimum(low, first), np.maximum(high, last)
            if reach.groups != (0, 0):
                low = np.minimum(low, self._moved(first, -reach.groups[1]))
                high = np.maximum(high, self._moved(last, reach.groups[0]))
            for start, end in reach.values:
                before = self._by_value(self._numbers, -end, up=False)
                behind = self._by_value(self._numbers, -start, up=True)
                known = self._edits.rows[self._by.column] != NULL
                low = np.where(known, np.minimum(low, before), low)
                high = np.where(known, np.maximum(high, behind), high)
        low, high = self._whole_groups(np.maximum(low, 0), np.minimum(high, self._length))
        return np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high)

    def moved(self, begins: Ints, low: Ints, high: Ints) -> Ints:
        """Return the first edits of runs that go on while rows behind have another number of rows, or groups, before.

        Where that is so up to the end, the last run is made to go there.
        """
        counts_rows, counts_groups = self._reach.counts_rows, self._reach.counts_groups
        more_rows = np.add.reduceat(self._edits.copies, begins).cumsum()
        goes_on = more_rows != 0 if counts_rows else np.zeros(len(begins), np.bool_)
        if counts_groups:
            goes_on |= self._more_groups(begins, low, high).cumsum() != 0
        if goes_on[-1]:
            high[-1] = self._length
        return begins[np.concatenate(([True], ~goes_on[:-1]))]

    def _more_groups(self, begins: Ints, low: Ints, high: Ints) -> Ints:
        """Return how many more peer groups edits make among the rows of runs, which are whole groups."""
        edits, ends = self._edits, np.append(begins[1:], len(low))
        first, end = low.take(begins), high.take(ends - 1)
        before = self._rows.spans(first, end)
        sizes = end - first
        starts = sizes.cumsum() - sizes
        at = edits.places + (starts - first).repeat(ends - begins)
        after = np.concatenate(edits.made(before, at), axis=1)
        sizes_after = sizes + np.add.reduceat(edits.copies, begins)
        return self._groups_of(after, sizes_after) - self._groups_of(before, sizes)

    def _groups_of(self, codes: Codes, sizes: Ints) -> Ints:
        """Return how many peer groups there are in parts of rows of some sizes, each of which begins one."""
        new = self._rows.begins_of(codes)
        ends = sizes.cumsum()
        new[(ends - sizes).compress(sizes > 0)] = True
        counts = prefix_counts(new)
        return counts.take(ends) - counts.take(ends - sizes)

    def looked_at(self, begins: Ints, last: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return from where to where the frames go of the rows of runs, given by their first edits and their last."""
        reach = self._reach
        low, high = low.take(begins), high.take(last)
        first, end = low - reach.rows[0], high + reach.rows[1]
        if reach.groups != (0, 0):
            first = np.minimum(first, self._moved(low, -reach.groups[0]))
            end = np.maximum(end, self._moved(high, reach.groups[1]))
        if reach.values:
            least, greatest, known = self._end_numbers(begins, low, high)
            for start, stop in reach.values:
                first = np.where(known, np.minimum(first, self._by_value(least, start, up=False)), first)
                end = np.where(known, np.maximum(end, self._by_value(greatest, stop, up=True)), end)
        return self._whole_groups(np.maximum(first, 0), np.minimum(end, self._length))

    def _end_numbers(self, begins: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Bools]:
        """Return the first and the last number of values of the order in runs, before or after, and where there are."""
        ends = np.iinfo(np.int64)
        edited = self._edits.rows[self._by.column] != NULL
        least = np.minimum.reduceat(np.where(edited, self._numbers, ends.max), begins)
        greatest = np.maximum.reduceat(np.where(edited, self._numbers, ends.min), begins)
        front, back = self._known
        low, high = np.maximum(low, front), np.minimum(high, back)
        has_rows = low < high
        if has_rows.any():
            at_low, at_high = (self._rows.numbers_at(at.compress(has_rows)) for at in (low, high - 1))
            least[has_rows] = np.minimum(least.compress(has_rows), at_low)
            greatest[has_rows] = np.maximum(greatest.compress(has_rows), at_high)
        return least, greatest, least <= greatest

    # -- the partition -------------------------------------------------------------------------------------------------

    @cached_property
    def _known(self) -> tuple[int, int]:
        """From where to where rows have a value in the order."""
        null = self._rows.order.number(np.array([NULL])).item()
        low, high = (self._rows.place_of_number(null, right=right) for right in (False, True))
        return (high, self._length) if self._by.nulls_first else (0, low)

    @cached_property
    def starts(self) -> Ints:
        """Where peer groups begin, and the end."""
        return starts_of_groups(self._rows)

    def _are_peers(self, places: Ints) -> Bools:
        """Return whether the row at each place, if there is one, is a peer of the edited one."""
        found = (places >= 0) & (places < self._length)
        inside = places.compress(found)
        if self._by_number:
            found[found] = self._rows.numbers_at(inside) == self._numbers.compress(found)
            return found
        by = self._rows.by
        here, edited = self._rows.spans(inside, inside + 1), self._edits.rows.compress(found, axis=1)
        found[found] = (here[by] == edited[by]).all(axis=0)
        return found

    def _moved(self, places: Ints, groups: int) -> Ints:
        """Return the places so many peer groups away from where some begin."""
        starts = self.starts
        return starts.take(starts.searchsorted(places) + groups, mode="clip")

    def _peers_start(self, places: Ints) -> Ints:
        """Return where the peer groups of the rows at places begin."""
        if not self._by_number:
            return self.starts.take(self.starts.searchsorted(places, "right") - 1, mode="clip")
        return self._ends_of_peers(places, 0, right=False)

    def _peers_end(self, places: Ints) -> Ints:
        """Return where the peer groups of the rows before places end."""
        if not self._by_number:
            return self.starts.take(self.starts.searchsorted(places), mode="clip")
        return self._ends_of_peers(places, -1, right=True)

    def _ends_of_peers(self, places: Ints, beside: int, *, right: bool) -> Ints:
        found = np.minimum(np.maximum(places, 0), self._length)
        inside = (found + beside >= 0) & (found + beside < self._length)
        numbers = self._rows.numbers_at(found.compress(inside) + beside)
        found[inside] = self._rows.places_of_numbers(numbers, right=right)
        return found

    def _whole_groups(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        if not self._reach.peers or (self._reach.values and self._reach.rows == (0, 0)):
            return low, high  # bounds by value are between groups
        return self._peers_start(low), self._peers_end(high)

    def _by_value(self, numbers: Ints, offset: Offset, *, up: bool) -> Ints:
        """Return the places before the first, or (up) after the last, row that is so far from a value, at the most."""
        descending = self._by.descending
        far = distance(offset, self._dtype, minus=descending, up=up != descending)
        assert isinstance(far, int)
        return self._rows.places_of_numbers(plus(numbers, -far if descending else far), right=up)
