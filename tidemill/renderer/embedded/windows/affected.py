"""Affected rows: from edits to maximal runs of rows whose values may change, and the rows that their calls look at.

A row that is put in or taken out is the last of one row's frame and the first of another's; between these two all
values may change, and no others do. For ROWS that is arithmetic on positions, for GROUPS on numbers of peer groups, for
RANGE on sort numbers; ranks change as long as later rows have another number of rows, or groups, before. All edits are
looked at together, each bound of all of them in one call of NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import attrs
import numpy as np

from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import (
    AggregateCall,
    BoundWindowCall,
    OffsetCall,
    RankingCall,
    ValueCall,
    Windows,
)
from tidemill.expressions.windows.frames import Offset
from tidemill.expressions.windows.in_order import counts_only_first_values, looks_at_all
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints
from tidemill.renderer.embedded.trace.stored_order import begins_of
from tidemill.renderer.embedded.windows.chunks import Edits, edited
from tidemill.renderer.embedded.windows.distances import Far, ways_of
from tidemill.renderer.embedded.windows.early_stop import EarlyStop, RowOffsets, decisive, non_null_position
from tidemill.renderer.embedded.windows.frame import plus, prefix_counts
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.summaries import Summarise, Summary

_FIRST: Final = np.zeros(1, np.int64)
FEW: Final = 8
"""Groups of edits up to which it is found out where each of them ceases to matter."""
NEAR: Final = 16
"""Runs that are fewer rows apart are looked at together."""
TOGETHER: Final = 256
"""So are edits fewer rows apart, where something is looked for from each row to row."""


@attrs.frozen
class Reach:
    """How far the frames of some calls go from their row, in rows, in peer groups and in values of the order."""

    rows: tuple[int, int] = (0, 0)
    """How many rows before, and after."""
    groups: tuple[int, int] = (0, 0)
    peers: bool = False
    """Whether a row's peers matter, so that peer groups are looked at whole."""
    values: tuple[tuple[Offset, Offset], ...] = ()
    """For each RANGE frame by value how far it begins and ends from its row."""
    non_null: tuple[tuple[int, int, int], ...] = ()
    """For some columns, how many of their values that are not NULL are looked at before a row, and after.

    Summaries stand for those outside of the excerpt, however far off they are.
    """
    counts_rows: bool = False
    """Whether it matters how many rows are before a row."""
    counts_groups: bool = False
    counts_all: bool = False
    """Whether it matters how many rows there are."""
    to_first: bool = False
    """Whether frames go on to the partition's first row, so that all rows after one that changes are reached."""
    to_last: bool = False
    decisive: tuple[Summary, ...] | None = ()
    """The summaries that decide the values of these frames; None where they are not known."""
    offsets: tuple[RowOffsets, ...] = ()
    """Columns that say how far calls look from their row."""
    endless: Reach | None = None
    """The reach of calls alone whose frames go on to an end of the partition; None without such calls."""

    @staticmethod
    def of(windows: Windows, types: Sequence[DType]) -> Reach | None:
        """Return how far calls reach; None where some reach to an end of the partition, whatever changes."""
        if looks_at_all(windows, types) or any(map(counts_only_first_values, windows.calls)):
            return None
        found = Reach()
        for call in windows.calls:
            one: Reach = _REACHES[type(call)](call)
            if one.to_first or one.to_last:
                one = attrs.evolve(one, decisive=decisive(call, types), endless=one)
            found = found.joined(one)
        return found

    def joined(self, other: Reach) -> Reach:
        """Return the reach that covers both."""
        return Reach(
            (max(self.rows[0], other.rows[0]), max(self.rows[1], other.rows[1])),
            (max(self.groups[0], other.groups[0]), max(self.groups[1], other.groups[1])),
            self.peers or other.peers,
            tuple(dict.fromkeys((*self.values, *other.values))),
            tuple(dict.fromkeys((*self.non_null, *other.non_null))),
            self.counts_rows or other.counts_rows,
            self.counts_groups or other.counts_groups,
            self.counts_all or other.counts_all,
            self.to_first or other.to_first,
            self.to_last or other.to_last,
            None if self.decisive is None or other.decisive is None else (*self.decisive, *other.decisive),
            tuple(dict.fromkeys((*self.offsets, *other.offsets))),
            self.endless.joined(other.endless) if self.endless and other.endless else self.endless or other.endless,
        )

    def early_stop(self, summarise: Summarise) -> EarlyStop | None:
        """Return the search for where edits cease to matter to unbounded frames, if that can be found."""
        if not self.decisive or self.to_first == self.to_last:
            return None
        return EarlyStop(tuple(dict.fromkeys(self.decisive)), summarise, self.to_last)

    @property
    def looks_around(self) -> bool:
        """Whether frames have other rows than the row's peers, of those that are not summarised."""
        return self.rows != (0, 0) or self.groups != (0, 0) or bool(self.values or self.offsets)

    @property
    def looks_for_rows(self) -> bool:
        """Whether something is looked for from row to row around edits."""
        return bool(self.non_null or self.offsets or self.endless)


def _of_ranking(call: RankingCall) -> Reach:
    peers = not call.by_row
    counts_all = call.function in ("percent_rank", "cume_dist", "ntile")
    is_dense = call.function == "dense_rank"
    return Reach(peers=peers, counts_rows=not is_dense, counts_groups=is_dense, counts_all=counts_all)


def _of_offset(call: OffsetCall) -> Reach:
    if not isinstance(call.offset, BoundLiteral):
        return Reach(offsets=(RowOffsets(call.offset, call.function == "lead"),))
    far = call.offset.value or 0
    low, high = max(far, 0), max(-far, 0)
    before, after = (low, high) if call.function == "lag" else (high, low)
    return Reach(non_null=((call.column, before, after),)) if call.ignore_nulls else Reach((before, after))


def _of_framed(call: ValueCall | AggregateCall) -> Reach:
    frame = call.frame
    to_first, to_last = frame.start is None, frame.end is None
    start, end = frame.start or 0, frame.end or 0
    peers = frame.exclusion in ("group", "ties")
    if frame.mode == "range":
        # What is not looked at is in all frames: so the rows looked at have the bound there is, wherever it lies.
        far = (end if to_first else start, start if to_last else end)
        found = Reach(peers=peers or not frame.offsets, values=(far,) if frame.offsets else ())
    else:
        assert isinstance(start, int)
        assert isinstance(end, int)
        far = -min(start, end, 0), max(start, end, 0)
        found = Reach(far, peers=peers) if frame.mode == "rows" else Reach(groups=far, peers=True)
    return attrs.evolve(found, to_first=to_first, to_last=to_last)


_REACHES: Final[dict[type[BoundWindowCall], Any]] = {
    RankingCall: _of_ranking, OffsetCall: _of_offset, ValueCall: _of_framed, AggregateCall: _of_framed,
}  # fmt: skip


class Runs(NamedTuple):
    """Runs of adjacent rows of a partition whose values may change. Places are those before the edits."""

    edits: Ints
    """Which edit is the first of each."""
    low: Ints
    high: Ints
    first: Ints
    """Where the rows begin that are looked at."""
    end: Ints


def affected(
    index: OrderIndex, edits: Edits, reach: Reach, by: OrderColumn, dtype: DType, *, stop: EarlyStop | None = None
) -> Runs:
    """Return the rows that edits affect, as disjoint runs in order.

    ``by`` is the first of the ORDER BY columns, and of the type given.
    """
    if reach.counts_all and edits.copies.sum():
        start, end = np.array([0]), np.array([index.size])
        return Runs(start, start, end, start, end)
    finder = _Finder(index, edits, reach, by, dtype)
    low, high = finder.around(edits, reach)
    if reach.looks_for_rows:
        low, high = finder.look_for_rows(low, high, stop)
    low, high = finder.whole_groups(low, high)
    begins = _FIRST
    if len(low) > 1:
        low, high = np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high)
        begins = _begins(low[1:] - high[:-1] >= NEAR)
    if reach.counts_rows or reach.counts_groups:
        begins = finder.moved(begins, low, high)
    while True:
        last = np.append(begins[1:], len(low)) - 1 if len(begins) > 1 else np.array([len(low) - 1])
        lows, highs = (low, high) if len(begins) == len(low) else (low.take(begins), high.take(last))
        run = Runs(begins, lows, highs, *finder.looked_at(begins, last, lows, highs))
        if len(begins) == 1:
            return run
        # What one looks at is edited by no other.
        touches = (run.first[1:] <= edits.ends.take(last[:-1])) | (run.end[:-1] >= edits.positions.take(begins[1:]))
        if not touches.any():
            return run
        begins = begins[np.concatenate(([True], ~touches))]


def rows_around(index: OrderIndex, edits: Edits, reach: Reach, by: OrderColumn, dtype: DType) -> tuple[int, int]:
    """Return from where to where rows are whose bounded frames, or peer groups, edits change."""
    finder = _Finder(index, edits, reach, by, dtype)
    low, high = finder.whole_groups(*finder.around(edits, reach))
    return min(low.tolist()), max(high.tolist())


def looked_at(index: OrderIndex, positions: range, reach: Reach, by: OrderColumn, dtype: DType) -> tuple[int, int]:
    """Return from where to where rows at some positions look, these among them; there is a first one."""
    none = Edits(
        np.array([positions.start]), index.between(positions.start, positions.start + 1), np.zeros(1, np.int64)
    )
    finder = _Finder(index, none, reach, by, dtype, whole_groups=reach.peers)
    low, high = finder.whole_groups(none.positions, np.array([positions.stop]))
    first, end = finder.looked_at(_FIRST, _FIRST, low, high)
    return first.item(), end.item()


def _begins(apart: Bools) -> Ints:
    """Return the first of things, and those that are apart from the one before."""
    return np.concatenate(([True], apart)).nonzero()[0]


class _Finder:
    def __init__(
        self,
        index: OrderIndex,
        edits: Edits,
        reach: Reach,
        by: OrderColumn,
        dtype: DType,
        *,
        whole_groups: bool = False,
    ) -> None:
        self._index, self._edits, self._reach, self._by, self._dtype = index, edits, reach, by, dtype
        looks = reach.non_null or reach.offsets or (reach.endless is not None and not reach.endless.peers)
        self._whole_groups = whole_groups or (reach.peers and bool(reach.rows != (0, 0) or looks))
        """Whether ranges have to be widened to whole peer groups."""
        self._ways = ways_of(reach.values, dtype, descending=by.descending) if reach.values else ()
        """How far frames by value go."""

    @property
    def _edited(self) -> int:
        """How many rows come or go."""
        return int(np.abs(self._edits.copies).sum())

    # -- which rows are affected ---------------------------------------------------------------------------------------

    def around(self, edits: Edits, reach: Reach) -> tuple[Ints, Ints]:
        """Return, for each edit, the range of rows whose bounded frames contain its row, before or after."""
        index, size = self._index, self._index.size
        low, high = self._peers(edits) if reach.peers else (edits.positions, edits.ends)
        if reach.groups != (0, 0):
            low, high = self._over_groups(low, high, reach.groups[1], reach.groups[0])
        if reach.rows != (0, 0):
            low = np.maximum(np.minimum(low, edits.positions - min(reach.rows[1], size)), 0)
            high = np.minimum(np.maximum(high, edits.ends + min(reach.rows[0], size)), size)
        if reach.values:
            numbers = index.order.number(edits.rows[self._by.column])
            for ways in self._ways:
                low = np.minimum(low, self._by_value(numbers, ways.back_from_end, up=False))
                high = np.maximum(high, self._by_value(numbers, ways.back_from_start, up=True))
        return low, high

    def _peers(self, edits: Edits) -> tuple[Ints, Ints]:
        """Return from where to where the peers of edited rows are."""
        index = self._index
        if index.peers_by_number:
            numbers = index.order.number(edits.rows[self._by.column])
            return index.positions_of_numbers(numbers), index.positions_of_numbers(numbers, right=True)
        first, last = edits.positions.copy(), edits.ends
        peers = index.are_peers(first - 1, edits.rows)
        if peers.any():
            first[peers] = index.peers_start(first.compress(peers) - 1)
        peers = index.are_peers(last, edits.rows)
        if peers.any():
            last[peers] = index.peers_end(last.compress(peers) + 1)
        return first, last

    def look_for_rows(self, low: Ints, high: Ints, stop: EarlyStop | None) -> tuple[Ints, Ints]:
        """Widen the ranges of nearby edits to the rows that look up theirs, and to where the edits cease to matter."""
        index, edits, reach = self._index, self._edits, self._reach
        low, high = low.copy(), high.copy()
        begins = [0] if len(low) == 1 else _begins(edits.positions[1:] - edits.ends[:-1] >= TOGETHER).tolist()
        groups = list(zip(begins, [*begins[1:], len(low)], strict=True))
        for first, end in groups if reach.non_null or reach.offsets else ():
            start, back = edits.positions.item(first), edits.ends.item(end - 1)
            bounds = [(low[first:end].min(), high[first:end].max())]
            for column, before, after in reach.non_null:  # rows without a value are counted by no other
                some = (edits.rows[column, first:end] != NULL).nonzero()[0]
                if len(some):
                    one, other = edits.positions[first:end].item(some[0]), edits.ends[first:end].item(some[-1])
                    bounds.append(
                        (
                            non_null_position(index, column, one, after, back=True),
                            non_null_position(index, column, other, before),
                        )
                    )
            bounds += [offsets.rows_looking_over(index, start, back, self._edited) for offsets in reach.offsets]
            low[first:end], high[first:end] = min(bounds)[0], max([bound for _, bound in bounds])
        if reach.endless is None:
            return low, high
        found = [(0, len(low), None)] if stop is None or len(groups) > FEW else self._stops(groups, stop)
        for first, end, position in found:
            if position is None:  # to the ends to which frames go
                start, back = 0 if reach.to_last else index.size, index.size if reach.to_first else 0
            else:
                start, back = self._not_beyond(position, first, end)
            low[first:end] = min(start, *low[first:end].tolist())
            high[first:end] = max(back, *high[first:end].tolist())
        return low, high

    def _stops(self, groups: list[tuple[int, int]], stop: EarlyStop) -> Iterator[tuple[int, int, int | None]]:
        """Iterate over edits, those together whose effects meet, and the position where they cease to matter."""
        back, edits = stop.backwards, self._edits
        waiting = groups if back else groups[::-1]
        while waiting:
            first, end = waiting.pop()
            while True:
                limit = -1 if back else sys.maxsize
                if waiting:
                    limit = edits.ends.item(waiting[-1][1] - 1) if back else edits.positions.item(waiting[-1][0])
                position = stop.position(self._index, edits.part(first, end), limit)
                if position is not None or not waiting:
                    break
                more = waiting.pop()
                first, end = min(first, more[0]), max(end, more[1])
            yield first, end, position

    def _not_beyond(self, settled: int, first: int, end: int) -> tuple[int, int]:
        """Return the range of rows near the position where edits cease to matter whose frames may end before it.

        They are the rows that an edit of the last deciding row would affect.
        """
        assert self._reach.endless is not None
        if self._edits.positions.item(first) <= settled <= self._edits.ends.item(end - 1):
            return settled, settled
        deciding = settled if self._reach.to_last else settled - 1
        row = self._index.between(deciding, deciding + 1)
        low, high = self.around(Edits(np.array([deciding]), row, np.array([-1])), self._reach.endless)
        return low.item(), high.item()

    def moved(self, begins: Ints, low: Ints, high: Ints) -> Ints:
        """Return the first edits of runs; one goes on while later rows have a changed count of rows, or groups, before.

        If it has still changed at the end of the partition, the last run goes on to there.
        """
        goes_on = np.add.reduceat(self._edits.copies, begins).cumsum() != 0
        if not self._reach.counts_rows:
            goes_on[:] = False
        if self._reach.counts_groups:
            goes_on |= self._more_groups(begins, low, high).cumsum() != 0
        if goes_on[-1]:
            high[-1] = self._index.size
        return begins[np.concatenate(([True], ~goes_on[:-1]))]

    def _more_groups(self, begins: Ints, low: Ints, high: Ints) -> Ints:
        """Return how many peer groups edits add in each run; runs consist of whole groups."""
        edits, ends = self._edits, np.append(begins[1:], len(low))
        first, end = low.take(begins), high.take(ends - 1)
        before, sizes = self._index.spans(first, end), end - first
        at = edits.positions + (sizes.cumsum() - sizes - first).repeat(ends - begins)
        after = edited(before, edits._replace(positions=at))
        sizes = np.concatenate((sizes, sizes + np.add.reduceat(edits.copies, begins)))
        new, ends = begins_of(np.concatenate((before, after), axis=1), self._index.by), sizes.cumsum()
        new[(ends - sizes).compress(sizes > 0)] = True  # each run begins one
        counts = prefix_counts(new)
        groups: Ints = counts.take(ends) - counts.take(ends - sizes)
        return groups[len(begins) :] - groups[: len(begins)]

    # -- which rows they look at ---------------------------------------------------------------------------------------

    def looked_at(self, begins: Ints, last: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return the ranges that the frames of runs cover; a run is given by its first and last edit, and bounds."""
        index, reach, size = self._index, self._reach, self._index.size
        if not reach.looks_around:
            return low, high
        first, end = low, high
        if reach.rows != (0, 0):
            first = np.maximum(low - min(reach.rows[0], size), 0)
            end = np.minimum(high + min(reach.rows[1], size), size)
        if reach.groups != (0, 0):
            start, back = self._over_groups(low, high, *reach.groups)
            first, end = np.minimum(first, start), np.maximum(end, back)
        if reach.values:
            least, greatest = self._end_numbers(begins, last, low, high)
            for ways in self._ways:
                first = np.minimum(first, self._by_value(least, ways.to_start, up=False))
                end = np.maximum(end, self._by_value(greatest, ways.to_end, up=True))
        if reach.offsets:
            first, end = first.copy(), end.copy()
            for number, run in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
                edits = self._edits.part(begins.item(number), last.item(number) + 1)
                bounds = [offsets.looked_at(index, range(*run), edits, self._edited) for offsets in reach.offsets]
                first[number] = max(min(first.item(number), *(low for low, _ in bounds)), 0)
                end[number] = min(max(end.item(number), *(high for _, high in bounds)), size)
        return self.whole_groups(first, end)

    def _end_numbers(self, begins: Ints, last: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return the first and the last sort number in runs, before edits or after."""
        index, numbers = self._index, self._index.order.number(self._edits.rows[self._by.column])
        least, greatest = numbers.take(begins), numbers.take(last)
        has_rows = low < high
        np.minimum(least, index.numbers_at(low), out=least, where=has_rows)
        np.maximum(greatest, index.numbers_at(high - 1), out=greatest, where=has_rows)
        return least, greatest

    # -- the partition -------------------------------------------------------------------------------------------------

    def whole_groups(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return the positions between which the peers of rows are too, where peers matter."""
        return (self._index.peers_start(low), self._index.peers_end(high)) if self._whole_groups else (low, high)

    def _over_groups(self, low: Ints, high: Ints, before: int, after: int) -> tuple[Ints, Ints]:
        """Return ranges, at whose bounds peer groups begin, with so many groups more on both sides."""
        index, most, count = self._index, self._index.size, len(low)
        groups = index.groups_before(np.concatenate((low, high)))
        groups[:count] -= min(before, most)
        groups[count:] += min(after, most)
        found = index.group_starts(groups)
        return found[:count], found[count:]

    def _by_value(self, numbers: Ints, far: Far, *, up: bool) -> Ints:
        """Return the positions before the first, or (up) after the last, row that is so far from a value, at the most.

        Rather a few too far than one too near. Of what may be NULL, its peers are within.
        """
        if isinstance(far, int):
            moved = plus(numbers, far) if far else numbers
            is_within = far >= 0 if up else far <= 0
        else:
            moved, is_within = far(numbers), False
        if not is_within and np.count_nonzero(numbers == self._index.order.number_of(NULL)):
            moved = np.maximum(moved, numbers) if up else np.minimum(moved, numbers)
        return self._index.positions_of_numbers(moved, right=up)
