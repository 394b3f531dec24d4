"""The scalar fast path: values over a few rows around a few edits near one another, in Python.

There a call of NumPy's costs more than its work. Values are ranks, and those of whole numbers in bounded ROWS frames;
everything else takes the one way there is for any number of edits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, OffsetCall, RankingCall, Windows
from tidemill.renderer.embedded.kernels.codec import float_code
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray
from tidemill.renderer.embedded.windows.affected import Reach, rows_around
from tidemill.renderer.embedded.windows.chunks import Changed, Edits
from tidemill.renderer.embedded.windows.order_index import OrderIndex

ROWS: Final = 32
"""Rows looked at, before edits and after, up to which values are computed so."""
_TOO_LARGE: Final = -(2**64)
"""Stands for a sum that has no code."""

_Row: TypeAlias = list[int]
_Edit: TypeAlias = tuple[int, _Row, int]
"""A position, a row and how many copies of it come, or go."""
_Code: TypeAlias = Callable[[Sequence[int]], int]
"""Finds the code of an aggregate of a frame's values, which are whole numbers."""
_Rank: TypeAlias = Callable[[int, int, int, int], int]
"""Finds a rank from the positions of a row and of its first peer, the peer groups up to it, and the number of rows."""


class _Seen(NamedTuple):
    """Rows that are looked at, and where they lie."""

    rows: list[_Row]
    wanted: range
    """Which of them are evaluated."""
    total: int
    """How many rows the partition has."""
    ranked: list[tuple[int, int, int]]
    """The position of each row wanted, that of its first peer, and the peer groups up to it."""
    groups: int
    """How many peer groups begin before the end of those wanted."""


class _Framed(NamedTuple):
    """A call over the rows from one distance up to another from each row."""

    code: _Code
    column: int
    low: int
    high: int

    def codes(self, seen: _Seen) -> list[int]:
        column = [row[self.column] for row in seen.rows]
        found: list[int] = []
        for position in seen.wanted:
            values = column[max(position + self.low, 0) : max(position + self.high + 1, 0)]
            found.append(self.code([v for v in values if v != NULL] if NULL in values else values))
        return found


class _Ranking(NamedTuple):
    """A rank among the rows of the partition."""

    rank: _Rank

    def codes(self, seen: _Seen) -> list[int]:
        return [self.rank(*ranked, seen.total) for ranked in seen.ranked]


class Scalar:
    """Calls that can be computed row by row."""

    def __init__(
        self, calls: Sequence[_Framed | _Ranking], order: Sequence[OrderColumn], dtype: DType, reach: Reach, kept: Ints
    ) -> None:
        self._calls, self._by, self._dtype, self._reach, self._kept = calls, order[0], dtype, reach, kept
        self._peers = [o.column for o in order]
        self._has_ranks = any(isinstance(call, _Ranking) for call in calls)

    @staticmethod
    def of(windows: Windows, types: Sequence[DType], reach: Reach | None, kept: Ints) -> Scalar | None:
        """Return a function that computes all calls; None where one of them is not for Python."""
        found = [_call(call, types) for call in windows.calls]
        calls = [call for call in found if call is not None]
        if reach is None or len(calls) < len(found):
            return None
        return Scalar(calls, windows.order, types[windows.order[0].column], reach, kept)

    def changed(self, index: OrderIndex, edits: Edits) -> Changed | None:
        """Return how rows change when edits are made; None where not a few are looked at, or a sum is too large."""
        if len(edits.positions) > ROWS:
            return None
        reach, size, positions, copies = self._reach, index.size, edits.positions.tolist(), edits.copies.tolist()
        start, end, shift = positions[0], positions[-1] - min(copies[-1], 0), sum(copies)
        made = [*zip(positions, edits.rows.T.tolist(), copies, strict=True)]
        if not self._has_ranks:  # then the bounds are arithmetic
            before, after = reach.rows
            return self._between(max(start - after, 0), min(end + before, size), index, made, shift)
        if shift and (reach.counts_rows or reach.counts_all):
            start, end = 0 if reach.counts_all else start, size
        if end - start > ROWS:
            return None
        low, high = rows_around(index, edits, reach, self._by, self._dtype)
        return self._between(min(low, start), max(high, end), index, made, shift)

    def _between(self, low: int, high: int, index: OrderIndex, edits: Sequence[_Edit], shift: int) -> Changed | None:
        """Return how rows from one position up to another change; edits, all between them, add ``shift`` rows."""
        size, (before, after) = index.size, self._reach.rows
        first, end = max(low - before, 0), min(high + after, size)
        if self._has_ranks and first < low:
            first = index.peers_start(np.array([first])).item()
        if 2 * (end - first) + shift > ROWS:
            return None
        groups = index.groups_before(np.array([first])).item() if self._reach.counts_groups else 0
        rows = [row for codes in index.slices(first, end) for row in codes.T.tolist()]
        new_rows = _edited(rows, [(position - first, row, copies) for position, row, copies in edits])
        old = self._seen(rows, range(low - first, high - first), first, groups, size)
        new = self._seen(new_rows, range(low - first, high - first + shift), first, groups, size + shift)
        if self._reach.counts_groups and old.groups != new.groups and high < size:
            return self._between(low, size, index, edits, shift)
        valued, new_valued = self._valued(old), self._valued(new)
        if valued is None or new_valued is None:
            return None
        gone, come = _differing(valued, new_valued, [(position - low, copies) for position, _, copies in edits])
        return Changed(self._block([*gone, *come]), len(gone))

    def _seen(self, rows: list[_Row], wanted: range, before: int, groups: int, total: int) -> _Seen:
        """Return rows with the ranks of those wanted, if calls are ranks.

        ``before`` rows and ``groups`` peer groups are before them, of ``total`` rows; the first begins a peer group.
        """
        ranked = self._ranked(rows[: wanted.stop], before, groups) if self._has_ranks else []
        return _Seen(rows, wanted, total, ranked[wanted.start :], ranked[-1][2] if ranked else groups)

    def _valued(self, seen: _Seen) -> list[_Row] | None:
        """Return the rows wanted with the values of calls after their codes; None where a sum is too large."""
        values = [call.codes(seen) for call in self._calls]
        if any(_TOO_LARGE in codes for codes in values):
            return None
        return [[*seen.rows[i], *codes] for i, codes in zip(seen.wanted, zip(*values, strict=True), strict=True)]

    def _ranked(self, rows: list[_Row], before: int, groups: int) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        start, last = 0, list[int]()
        for position, row in enumerate(rows, before):
            value = [row[column] for column in self._peers]
            if value != last:
                start, groups, last = position, groups + 1, value
            found.append((position, start, groups))
        return found

    def _block(self, rows: Sequence[_Row]) -> UpdateArray:
        """Return what `Changed` has of rows."""
        codes = [[row[i] for row in rows] for i in (*self._kept.tolist(), *range(-len(self._calls), 0))]
        found: UpdateArray = np.array([*codes, *[[0] * len(rows)] * 2], np.int64)
        return found


def _edited(rows: list[_Row], edits: Sequence[_Edit]) -> list[_Row]:
    """Return rows with edits made at positions among them."""
    found: list[_Row] = []
    done = 0
    for position, row, copies in edits:
        found += rows[done:position]
        found += [row] * copies  # of fewer than none, none
        done = position - min(copies, 0)
    return found + rows[done:]


def _differing(
    before: list[_Row], after: list[_Row], edits: Sequence[tuple[int, int]]
) -> tuple[list[_Row], list[_Row]]:
    """Return rows that go, or come, or have other values; between edits the rows before are those after, one by one."""
    gone, come = list[_Row](), list[_Row]()
    old = new = 0
    for position, copies in (*edits, (len(before), 0)):
        for one, other in zip(before[old:position], after[new : new + position - old], strict=True):
            if one != other:
                gone.append(one)
                come.append(other)
        new += position - old
        fewer, more = max(-copies, 0), max(copies, 0)
        gone += before[position : position + fewer]
        come += after[new : new + more]
        old, new = position + fewer, new + more
    return gone, come


def _call(call: BoundWindowCall, types: Sequence[DType]) -> _Framed | _Ranking | None:
    """Return a function that computes a call; None where that is not for Python."""
    if isinstance(call, AggregateCall):
        return _aggregate(call, types)
    return _ranking(call) if isinstance(call, RankingCall) else _offset(call)


def _aggregate(call: AggregateCall, types: Sequence[DType]) -> _Framed | None:
    frame, of = call.frame, call.aggregate
    code, low, high = _CODES.get(of.function), frame.start, frame.end
    if code is None or of.column is None or types[of.column].name != "int64" or call.distinct:
        return None
    if frame.mode != "rows" or frame.exclusion != "no others" or not (isinstance(low, int) and isinstance(high, int)):
        return None
    return _Framed(code, of.column, low, high)


def _ranking(call: RankingCall) -> _Ranking | None:
    if call.buckets is None:
        rank = _RANKS.get(call.function)
        return None if rank is None else _Ranking(rank)
    if not isinstance(call.buckets, BoundLiteral) or (call.buckets.value or 0) < 1:
        return None
    return _Ranking(partial(_bucket, call.buckets.value))


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


def _bucket(buckets: int, position: int, _peers: int, _groups: int, total: int) -> int:
    size, larger = divmod(total, buckets)
    in_larger = larger * (size + 1)
    return 1 + (position // (size + 1) if position < in_larger else larger + (position - in_larger) // size)


_RANKS: Final[dict[str, _Rank]] = {
    "row_number": lambda position, _peers, _groups, _total: position + 1,
    "rank": lambda _position, peers, _groups, _total: peers + 1,
    "dense_rank": lambda _position, _peers, groups, _total: groups,
}
