"""The scalar fast path: what a few edits near one another affect, and values over a few rows around them, in Python.

There a call of NumPy's costs more than its work. Values are ranks, and those of whole numbers in bounded ROWS frames;
everything else takes the one way there is for any number of edits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, OffsetCall, RankingCall, Windows
from tidemill.expressions.windows.frames import Offset
from tidemill.renderer.embedded.kernels.codec import float_code
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints
from tidemill.renderer.embedded.trace.stored_order import begins_of
from tidemill.renderer.embedded.windows.affected import TOGETHER, Reach, Runs, distance
from tidemill.renderer.embedded.windows.chunks import Changed, Edits, edited
from tidemill.renderer.embedded.windows.early_stop import EarlyStop
from tidemill.renderer.embedded.windows.order_index import OrderIndex

FEW: Final = 8
"""Edits up to which it pays."""
ROWS: Final = 32
"""Rows looked at, before edits and after, up to which values are worked out so."""
_TOO_LARGE: Final = -(2**64)
"""Stands for a sum that has no code."""

_FIRST: Final = np.zeros(1, np.int64)

_Row: TypeAlias = list[int]
_Code: TypeAlias = Callable[[Sequence[int]], int]
"""Finds the code of an aggregate of a frame's values, which are whole numbers."""
_Rank: TypeAlias = Callable[[int, int, int, int], int]
"""Finds a rank from the places of a row and of its first peer, the peer groups up to it, and the number of rows."""


def run_of_few(  # noqa: PLR0917 - as `affected`
    index: OrderIndex, edits: Edits, reach: Reach, by: OrderColumn, dtype: DType, stop: EarlyStop | None
) -> Runs | None:
    """Return what `affected` does, where edits are near one another and make one run; else None."""
    found = _run_of_few(index, edits, reach, by, dtype, stop)
    return None if found is None else Runs(_FIRST, *np.array(found)[:, None])


def _run_of_few(  # noqa: PLR0917 - as `affected`
    index: OrderIndex, edits: Edits, reach: Reach, by: OrderColumn, dtype: DType, stop: EarlyStop | None
) -> tuple[int, int, int, int] | None:
    place, back, more, size = edits.places.item(0), edits.end, sum(edits.copies.tolist()), index.size
    if reach.known or reach.offsets or back - place >= TOGETHER or (reach.counts_all and more):
        return None
    near = _Near(index, by, dtype, reach.peers and (reach.rows != (0, 0) or reach.endless is not None))
    low, high = near.around((place, back), edits.rows, reach)
    if reach.endless is not None:
        settled = None if stop is None else stop.place(index, edits, -1 if stop.backwards else sys.maxsize)
        if settled is None:
            low, high = 0 if reach.to_last else low, size if reach.to_first else high
        elif not place <= settled <= back:
            deciding = settled if reach.to_last else settled - 1
            row = index.cut(deciding, deciding + 1)
            first, end = near.around((deciding, deciding + 1), row, reach.endless)
            low, high = min(low, first), max(high, end)
    low, high = near.whole_groups(max(low, 0), min(high, size))
    if reach.counts_rows and more:
        high = size
    elif reach.counts_groups:
        after = edited(index.cut(low, high), edits._replace(places=edits.places - low))
        before = index.count_groups(high) - index.count_groups(low)
        if np.count_nonzero(begins_of(after, index.by)) != before:
            high = size
    return (low, high, *near.looked_at(low, high, edits.rows, reach))


class _Near(NamedTuple):
    """What bounds of one run are made of; see `affected`, where they are those of many."""

    rows: OrderIndex
    by: OrderColumn
    dtype: DType
    groups: bool
    """Whether peer groups are to be looked at whole."""

    def around(self, ends: tuple[int, int], rows: Codes, reach: Reach) -> tuple[int, int]:
        """Return from where to where frames have one of some edited rows, or had it."""
        index, (first, last) = self.rows, ends
        low, high = first - reach.rows[1], last + reach.rows[0]
        if reach.peers:
            first = index.start_of_peers(first - 1) if index.is_peer(first - 1, rows[:, 0]) else first
            last = index.end_of_peers(last + 1) if index.is_peer(last, rows[:, -1]) else last
            low, high = min(low, first), max(high, last)
            if reach.groups != (0, 0):
                low = min(low, index.start_of_group(index.count_groups(first) - reach.groups[1]))
                high = max(high, index.start_of_group(index.count_groups(last) + reach.groups[0]))
        if reach.values:
            least, greatest = self._numbers(rows)
            for start, end in reach.values:
                low = min(low, self._by_value(least, -end, up=False))
                high = max(high, self._by_value(greatest, -start, up=True))
        return low, high

    def looked_at(self, low: int, high: int, rows: Codes, reach: Reach) -> tuple[int, int]:
        """Return from where to where the frames go of the rows of a run, before edits and after."""
        index = self.rows
        first, end = low - reach.rows[0], high + reach.rows[1]
        if reach.groups != (0, 0):
            first = min(first, index.start_of_group(index.count_groups(low) - reach.groups[0]))
            end = max(end, index.start_of_group(index.count_groups(high) + reach.groups[1]))
        if reach.values:
            least, greatest = self._numbers(rows)
            if low < high:
                least, greatest = min(least, index.number_at(low)), max(greatest, index.number_at(high - 1))
            for start, stop in reach.values:
                first = min(first, self._by_value(least, start, up=False))
                end = max(end, self._by_value(greatest, stop, up=True))
        return self.whole_groups(max(first, 0), min(end, index.size))

    def whole_groups(self, low: int, high: int) -> tuple[int, int]:
        """Return the places between which the peers of rows are too, where peers matter."""
        return (self.rows.start_of_peers(low), self.rows.end_of_peers(high)) if self.groups else (low, high)

    def _numbers(self, rows: Codes) -> tuple[int, int]:
        """Return the sort numbers of the first and the last of edited rows."""
        column, number_of = self.by.column, self.rows.order.number_of
        return number_of(rows.item(column, 0)), number_of(rows.item(column, -1))

    def _by_value(self, number: int, offset: Offset, *, up: bool) -> int:
        """Return the place before the first, or (up) after the last, row that is so far from a value, at the most."""
        descending = self.by.descending
        far = distance(offset, self.dtype, minus=descending, up=up != descending)
        if isinstance(far, int):
            moved = min(max(number + (-far if descending else far), NULL), -NULL - 1)
        else:
            moved = far(np.array([~number if descending else number])).item()
            moved = ~moved if descending else moved
        if number == self.rows.order.number_of(NULL):
            moved = max(moved, number) if up else min(moved, number)
        return self.rows.place_of_number(moved, right=up)


class _Seen(NamedTuple):
    """Rows that are looked at, and where they lie."""

    rows: list[_Row]
    wanted: range
    """Which of them have their values asked for."""
    before: int
    """How many rows are before them, of the partition."""
    groups: int
    """How many peer groups."""
    total: int
    """How many rows the partition has."""


class _Framed(NamedTuple):
    """A call over the rows from one distance up to another from each row."""

    code: _Code
    column: int
    low: int
    high: int

    def codes(self, seen: _Seen) -> list[int]:
        column = [row[self.column] for row in seen.rows]
        found: list[int] = []
        for place in seen.wanted:
            values = column[max(place + self.low, 0) : max(place + self.high + 1, 0)]
            found.append(self.code([v for v in values if v != NULL] if NULL in values else values))
        return found


class _Ranking(NamedTuple):
    """A rank among the rows of the partition; the first of those seen begins a peer group."""

    rank: _Rank
    by: Sequence[int]
    """The columns that make rows peers."""

    def codes(self, seen: _Seen) -> list[int]:
        start, groups, last = 0, seen.groups, list[int]()
        found: list[int] = []
        for place, row in enumerate(seen.rows[: seen.wanted.stop]):
            value = [row[column] for column in self.by]
            if value != last:
                start, groups, last = place, groups + 1, value
            found.append(self.rank(seen.before + place, seen.before + start, groups, seen.total))
        return found[seen.wanted.start :]


class Scalar:
    """Calls that can be worked out row by row."""

    def __init__(
        self, calls: Sequence[_Framed | _Ranking], by: OrderColumn, dtype: DType, reach: Reach, kept: Ints
    ) -> None:
        self._calls, self._by, self._dtype, self._reach, self._kept = calls, by, dtype, reach, kept
        self._has_ranks = any(isinstance(call, _Ranking) for call in calls)

    @staticmethod
    def of(windows: Windows, types: Sequence[DType], reach: Reach | None, kept: Ints) -> Scalar | None:
        """Return what works all calls out; None where one of them is not for Python."""
        peers = [o.column for o in windows.order]
        found = [_call(call, types, peers) for call in windows.calls]
        calls = [call for call in found if call is not None]
        if reach is None or len(calls) < len(found):
            return None
        by = windows.order[0]
        return Scalar(calls, by, types[by.column], reach, kept)

    def changed(self, index: OrderIndex, edits: Edits) -> Changed | None:
        """Return how rows change when edits are made; None where not a few are looked at, or a sum is too large."""
        reach, size, (before, after) = self._reach, index.size, self._reach.rows
        places, copies = edits.places.tolist(), edits.copies.tolist()
        if not self._has_ranks:  # then the bounds are arithmetic
            low, high = max(places[0] - after, 0), min(places[-1] - min(copies[-1], 0) + before, size)
            first, end = max(low - before, 0), min(high + after, size)
        elif (run := _run_of_few(index, edits, reach, self._by, self._dtype, None)) is not None:
            low, high, first, end = run
        else:
            return None
        shift = sum(copies)
        if 2 * (end - first) + shift > ROWS:
            return None
        groups = index.count_groups(first) if reach.counts_groups else 0
        old = [row for piece in index.pieces(first, end) for row in piece.T.tolist()]
        new = _edited(old, [*zip([place - first for place in places], edits.rows.T.tolist(), copies, strict=True)])
        valued = self._valued(_Seen(old, range(low - first, high - first), first, groups, size))
        new_valued = self._valued(_Seen(new, range(low - first, high - first + shift), first, groups, size + shift))
        if valued is None or new_valued is None:
            return None
        gone, come = _differing(valued, new_valued, [(place - low, n) for place, n in zip(places, copies, strict=True)])
        return Changed(self._block([*gone, *come]), len(gone))

    def _valued(self, seen: _Seen) -> list[_Row] | None:
        """Return the rows wanted with the values of calls behind their codes; None where a sum is too large."""
        values = [call.codes(seen) for call in self._calls]
        if any(_TOO_LARGE in codes for codes in values):
            return None
        return [
            [*seen.rows[place], *codes] for place, codes in zip(seen.wanted, zip(*values, strict=True), strict=True)
        ]

    def _block(self, rows: Sequence[_Row]) -> Codes:
        """Return rows as codes that come out again, and below them the calls' values."""
        width, kept = len(self._calls), self._kept.tolist()
        found: Codes = np.array([[row[i] for row in rows] for i in (*kept, *range(-width, 0))], np.int64)
        return found


def _edited(rows: list[_Row], edits: Sequence[tuple[int, _Row, int]]) -> list[_Row]:
    """Return rows with edits made at places among them."""
    found: list[_Row] = []
    done = 0
    for place, row, copies in edits:
        found += rows[done:place]
        found += [row] * copies  # of fewer than none, none
        done = place - min(copies, 0)
    return found + rows[done:]


def _differing(
    before: list[_Row], after: list[_Row], edits: Sequence[tuple[int, int]]
) -> tuple[list[_Row], list[_Row]]:
    """Return rows that go, or come, or have other values; between edits the rows before are those after, one by one."""
    gone, come = list[_Row](), list[_Row]()
    old = new = 0
    for place, copies in (*edits, (len(before), 0)):
        for one, other in zip(before[old:place], after[new : new + place - old], strict=True):
            if one != other:
                gone.append(one)
                come.append(other)
        new += place - old
        fewer, more = max(-copies, 0), max(copies, 0)
        gone += before[place : place + fewer]
        come += after[new : new + more]
        old, new = place + fewer, new + more
    return gone, come


def _call(call: BoundWindowCall, types: Sequence[DType], peers: Sequence[int]) -> _Framed | _Ranking | None:
    """Return what works a call out; None where that is not for Python."""
    if isinstance(call, AggregateCall):
        return _aggregate(call, types)
    return _ranking(call, peers) if isinstance(call, RankingCall) else _offset(call)


def _aggregate(call: AggregateCall, types: Sequence[DType]) -> _Framed | None:
    frame, of = call.frame, call.aggregate
    code, low, high = _CODES.get(of.function), frame.start, frame.end
    if code is None or of.column is None or types[of.column].name != "int64" or call.distinct:
        return None
    if frame.mode != "rows" or frame.exclusion != "no others" or not (isinstance(low, int) and isinstance(high, int)):
        return None
    return _Framed(code, of.column, low, high)


def _ranking(call: RankingCall, peers: Sequence[int]) -> _Ranking | None:
    if call.buckets is None:
        rank = _RANKS.get(call.function)
        return None if rank is None else _Ranking(rank, peers)
    if not isinstance(call.buckets, BoundLiteral) or (call.buckets.value or 0) < 1:
        return None
    return _Ranking(partial(_bucket, call.buckets.value), peers)


def _offset(call: BoundWindowCall) -> _Framed | None:
    if not isinstance(call, OffsetCall) or call.ignore_nulls or not isinstance(call.default, BoundLiteral):
        return None
    if not isinstance(call.offset, BoundLiteral) or call.offset.value is None or call.default.value is not None:
        return None
    far = call.offset.value if call.function == "lead" else -call.offset.value
    return _Framed(_only, call.column, far, far)


def _sum(values: Sequence[int]) -> int:
    total = sum(values)
    return NULL if not values else total if abs(total) <= INT64_LIMIT else _TOO_LARGE


def _avg(values: Sequence[int]) -> int:
    return float_code(sum(values) / len(values)) if values else NULL


def _least(values: Sequence[int]) -> int:
    return min(values, default=NULL)


def _greatest(values: Sequence[int]) -> int:
    return max(values, default=NULL)


def _only(values: Sequence[int]) -> int:
    return values[0] if values else NULL


_CODES: Final[dict[str, _Code]] = {"count": len, "sum": _sum, "avg": _avg, "min": _least, "max": _greatest}


def _bucket(buckets: int, place: int, _peers: int, _groups: int, total: int) -> int:
    size, larger = divmod(total, buckets)
    in_larger = larger * (size + 1)
    return 1 + (place // (size + 1) if place < in_larger else larger + (place - in_larger) // size)


_RANKS: Final[dict[str, _Rank]] = {
    "row_number": lambda place, _peers, _groups, _total: place + 1,
    "rank": lambda _place, peers, _groups, _total: peers + 1,
    "dense_rank": lambda _place, _peers, groups, _total: groups,
}
