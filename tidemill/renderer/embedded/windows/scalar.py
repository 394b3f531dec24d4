"""The scalar fast path: what a few edits near one another affect, and values over a few rows around them, in Python.

There a call of NumPy's costs more than its work. It is for frames with bounds, and for values of whole numbers in ROWS
frames; everything else takes the one way there is for any number of edits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, OffsetCall, Windows
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


def run_of_few(  # noqa: PLR0917 - as `affected`
    index: OrderIndex, edits: Edits, reach: Reach, by: OrderColumn, dtype: DType, stop: EarlyStop | None
) -> Runs | None:
    """Return what `affected` does, where edits are near one another and make one run; else None."""
    place, back, more, size = edits.places.item(0), edits.end, sum(edits.copies.tolist()), len(index)
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
    first, end = near.looked_at(low, high, edits.rows, reach)
    return Runs(_FIRST, *(np.array([place]) for place in (low, high, first, end)))


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
        for start, end in reach.values:
            low = min(low, self._by_value(rows.item(self.by.column, 0), -end, up=False))
            high = max(high, self._by_value(rows.item(self.by.column, -1), -start, up=True))
        return low, high

    def looked_at(self, low: int, high: int, rows: Codes, reach: Reach) -> tuple[int, int]:
        """Return from where to where the frames go of the rows of a run, before edits and after."""
        index, column = self.rows, self.by.column
        first, end = low - reach.rows[0], high + reach.rows[1]
        if reach.groups != (0, 0):
            first = min(first, index.start_of_group(index.count_groups(low) - reach.groups[0]))
            end = max(end, index.start_of_group(index.count_groups(high) + reach.groups[1]))
        if reach.values:
            least, greatest = [rows.item(column, 0)], [rows.item(column, -1)]
            if low < high:
                least.append(index.code_at(column, low))
                greatest.append(index.code_at(column, high - 1))
            for start, stop in reach.values:
                first = min(first, *[self._by_value(code, start, up=False) for code in least])
                end = max(end, *[self._by_value(code, stop, up=True) for code in greatest])
        return self.whole_groups(max(first, 0), min(end, len(index)))

    def whole_groups(self, low: int, high: int) -> tuple[int, int]:
        """Return the places between which the peers of rows are too, where peers matter."""
        return (self.rows.start_of_peers(low), self.rows.end_of_peers(high)) if self.groups else (low, high)

    def _by_value(self, code: int, offset: Offset, *, up: bool) -> int:
        """Return the place before the first, or (up) after the last, row that is so far from a value, at the most."""
        descending, number = self.by.descending, self.rows.order.number_of(code)
        far = distance(offset, self.dtype, minus=descending, up=up != descending)
        if isinstance(far, int):
            moved = min(max(number + (-far if descending else far), NULL), -NULL - 1)
        else:
            moved = far(np.array([~number if descending else number])).item()
            moved = ~moved if descending else moved
        if code == NULL:
            moved = max(moved, number) if up else min(moved, number)
        return self.rows.place_of_number(moved, right=up)


class _Call(NamedTuple):
    """A call over the rows from one distance up to another from each row."""

    code: _Code
    column: int
    low: int
    high: int

    def codes(self, rows: Sequence[_Row], wanted: range) -> list[int]:
        """Return the codes for the rows at some places."""
        column = [row[self.column] for row in rows]
        found: list[int] = []
        for place in wanted:
            values = column[max(place + self.low, 0) : max(place + self.high + 1, 0)]
            found.append(self.code([v for v in values if v != NULL] if NULL in values else values))
        return found


class Scalar:
    """Calls that are all of so many rows around each row."""

    def __init__(self, calls: Sequence[_Call], reach: Reach, kept: Ints) -> None:
        self._calls, self._kept = calls, kept
        self._before, self._after = reach.rows

    @staticmethod
    def of(windows: Windows, types: Sequence[DType], reach: Reach | None, kept: Ints) -> Scalar | None:
        """Return what works all calls out; None where one of them is not for Python."""
        found = [_aggregate(c, types) if isinstance(c, AggregateCall) else _offset(c) for c in windows.calls]
        calls = [call for call in found if call is not None]
        return Scalar(calls, reach, kept) if reach is not None and len(calls) == len(found) else None

    def changed(self, index: OrderIndex, edits: Edits) -> Changed | None:
        """Return how rows change when edits are made; None where not a few are looked at, or a sum is too large."""
        places, copies, size = edits.places.tolist(), edits.copies.tolist(), len(index)
        low = max(places[0] - self._after, 0)
        high = min(places[-1] - min(copies[-1], 0) + self._before, size)
        first, end, shift = max(low - self._before, 0), min(high + self._after, size), sum(copies)
        if 2 * (end - first) + shift > ROWS:
            return None
        old = [row for piece in index.pieces(first, end) for row in piece.T.tolist()]
        come = [*zip([place - first for place in places], edits.rows.T.tolist(), copies, strict=True)]
        before = self._valued(old, range(low - first, high - first))
        after = self._valued(_edited(old, come), range(low - first, high - first + shift))
        if before is None or after is None:
            return None
        gone, new = _differing(before, after, [(place - low, more) for place, more in zip(places, copies, strict=True)])
        return Changed(self._block([*gone, *new]), len(gone))

    def _valued(self, rows: Sequence[_Row], wanted: range) -> list[_Row] | None:
        """Return the rows wanted with the values of calls behind their codes; None where a sum is too large."""
        values = [call.codes(rows, wanted) for call in self._calls]
        if any(_TOO_LARGE in codes for codes in values):
            return None
        return [[*rows[place], *codes] for place, codes in zip(wanted, zip(*values, strict=True), strict=True)]

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


def _aggregate(call: AggregateCall, types: Sequence[DType]) -> _Call | None:
    frame, of = call.frame, call.aggregate
    code, low, high = _CODES.get(of.function), frame.start, frame.end
    if code is None or of.column is None or types[of.column].name != "int64" or call.distinct:
        return None
    if frame.mode != "rows" or frame.exclusion != "no others" or not (isinstance(low, int) and isinstance(high, int)):
        return None
    return _Call(code, of.column, low, high)


def _offset(call: BoundWindowCall) -> _Call | None:
    if not isinstance(call, OffsetCall) or call.ignore_nulls or not isinstance(call.default, BoundLiteral):
        return None
    if not isinstance(call.offset, BoundLiteral) or call.offset.value is None or call.default.value is not None:
        return None
    far = call.offset.value if call.function == "lead" else -call.offset.value
    return _Call(_only, call.column, far, far)


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
