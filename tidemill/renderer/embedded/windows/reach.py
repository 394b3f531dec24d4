"""How far a changed row reaches: the rows whose calls may have other values, and the rows these calls look at.

A row that is put in or taken out is the last of one row's frame and the first of another's; between these two rows all
values may change, and no others do. (RisingWave's general window operator works so; here every run of changed rows has
a range of its own.)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from operator import ne
from typing import Any, Final, TypeVar

import attrs
import numpy as np

from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.intervals import MONTHS, Interval
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
from tidemill.expressions.windows.frames import DAY_MICROSECONDS, Offset
from tidemill.expressions.windows.in_order import adds_up_first_values, looks_at_all
from tidemill.renderer.embedded.kernels.codec import Interner, float_codes, float_values
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.digests import Digest
from tidemill.renderer.embedded.windows.edits import Edit
from tidemill.renderer.embedded.windows.known_rows import known_place
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.ranges import units
from tidemill.renderer.embedded.windows.row_offsets import RowOffsets
from tidemill.renderer.embedded.windows.settling import Settling, decisive

__all__ = ["Affected", "Reach", "affected", "distance", "edited_rows", "looked_at", "more_groups_of"]

_Row = TypeVar("_Row")

_LEAST: Final = -(2**63) + 1
_GREATEST: Final = 2**63 - 1
_DAYS_IN_MONTH: Final = 31
FEW: Final = 8
"""Groups of edits up to which it is found out from where on they make no difference."""
_FEW_ROWS: Final = 32
"""Rows up to which peer groups are counted one by one."""
NEAR: Final = 256
"""Edits fewer rows apart are looked at together."""


@attrs.frozen
class Reach:
    """How far the frames of some calls go from their row, in rows, in peer groups and in values of the order."""

    rows: tuple[int, int] = (0, 0)
    """So many rows before, and after."""
    groups: tuple[int, int] = (0, 0)
    peers: bool = False
    """Whether a row's peers matter, so that peer groups are looked at whole."""
    values: tuple[tuple[Offset, Offset], ...] = ()
    """For each RANGE frame by value how far it begins and ends from its row."""
    known: tuple[tuple[int, int, int], ...] = ()
    """For some columns, how many of their values that are not NULL are looked at before a row, and after."""
    counts_rows: bool = False
    """Whether it matters how many rows are before a row."""
    counts_groups: bool = False
    counts_all: bool = False
    """Whether it matters how many rows there are."""
    to_first: bool = False
    """Whether frames go on to the partition's first row, so that all rows behind one that changes are reached."""
    to_last: bool = False
    decisive: tuple[Digest, ...] | None = ()
    """What decides on the values of these frames; None where that is not known."""
    offsets: tuple[RowOffsets, ...] = ()
    """Columns that say how far calls look from their row."""
    endless: Reach | None = None
    """The reach of calls alone whose frames go on to an end of the partition; None without such calls."""

    @staticmethod
    def of(windows: Windows, types: Sequence[DType]) -> Reach | None:
        """Return how far calls reach; None where some reach to an end of the partition, whatever changes."""
        if looks_at_all(windows, types) or any(map(adds_up_first_values, windows.calls)):
            return None
        found = Reach()
        for call in windows.calls:
            one: Reach = _REACHES[type(call)](call)
            if one.to_first or one.to_last:
                one = attrs.evolve(one, decisive=decisive(call, types), endless=one)
            found = found.joined(one)
        return found

    def joined(self, other: Reach) -> Reach:
        """Return what covers both."""
        return Reach(
            (max(self.rows[0], other.rows[0]), max(self.rows[1], other.rows[1])),
            (max(self.groups[0], other.groups[0]), max(self.groups[1], other.groups[1])),
            self.peers or other.peers,
            (*self.values, *(v for v in other.values if v not in self.values)),
            (*self.known, *(k for k in other.known if k not in self.known)),
            self.counts_rows or other.counts_rows,
            self.counts_groups or other.counts_groups,
            self.counts_all or other.counts_all,
            self.to_first or other.to_first,
            self.to_last or other.to_last,
            None if self.decisive is None or other.decisive is None else (*self.decisive, *other.decisive),
            tuple(dict.fromkeys((*self.offsets, *other.offsets))),
            self.endless.joined(other.endless) if self.endless and other.endless else self.endless or other.endless,
        )

    def settling(self, types: Sequence[DType], interner: Interner) -> Settling | None:
        """Return what finds places where changes cease to matter to frames without a bound, if these can be found."""
        if not self.decisive or self.to_first == self.to_last:
            return None
        return Settling(tuple(dict.fromkeys(self.decisive)), types, interner, self.to_last)


def _of_ranking(call: RankingCall) -> Reach:
    peers = not call.by_row
    counts_all = call.function in ("percent_rank", "cume_dist", "ntile")
    return Reach(
        peers=peers, counts_rows=call.function != "dense_rank", counts_groups=call.function == "dense_rank",
        counts_all=counts_all,
    )  # fmt: skip


def _of_offset(call: OffsetCall) -> Reach:
    if not isinstance(call.offset, BoundLiteral):
        return Reach(offsets=(RowOffsets(call.offset, call.function == "lead"),))
    far = call.offset.value or 0
    low, high = max(far, 0), max(-far, 0)
    before, after = (low, high) if call.function == "lag" else (high, low)
    return Reach(known=((call.column, before, after),)) if call.ignore_nulls else Reach((before, after))


def _of_framed(call: ValueCall | AggregateCall) -> Reach:
    frame = call.frame
    to_first, to_last = frame.start is None, frame.end is None
    start, end = frame.start or 0, frame.end or 0
    peers = frame.exclusion in ("group", "ties")
    if frame.mode == "range":
        # What is not looked at is in all frames: so the rows looked at have the bound there is, wherever it lies.
        far = (end if to_first else start, start if to_last else end)
        found = Reach(peers=True, values=(far,) if frame.offsets else ())
    else:
        assert isinstance(start, int)
        assert isinstance(end, int)
        far = -min(start, end, 0), max(start, end, 0)
        found = Reach(far, peers=peers) if frame.mode == "rows" else Reach(groups=far, peers=True)
    return attrs.evolve(found, to_first=to_first, to_last=to_last)


_REACHES: Final[dict[type[BoundWindowCall], Any]] = {
    RankingCall: _of_ranking, OffsetCall: _of_offset, ValueCall: _of_framed, AggregateCall: _of_framed,
}  # fmt: skip


@attrs.define
class Affected:
    """Adjacent rows of a partition whose values may change, with the edits among them, and the rows they look at.

    Places are those before the edits.
    """

    low: int
    high: int
    edits: list[Edit]
    first: int = 0
    """Where the rows begin that are looked at."""
    end: int = 0

    @property
    def shift(self) -> int:
        """How many more rows there are afterwards."""
        return sum([edit.copies for edit in self.edits])


def affected(
    rows: OrderedPartition,
    edits: Sequence[Edit],
    reach: Reach,
    by: OrderColumn,
    dtype: DType,
    *,
    settling: Settling | None = None,
) -> list[Affected]:
    """Return the rows that edits affect, in runs that have nothing to do with one another, in their order.

    ``by`` is the first of the ORDER BY columns, and of the type given.
    """
    finder = _Finder(rows, reach, by, dtype, sum([abs(edit.copies) for edit in edits]))
    if reach.counts_all and sum([edit.copies for edit in edits]) != 0:
        return [Affected(0, len(rows), list(edits), 0, len(rows))]
    groups = _near(edits)
    if settling is not None and len(groups) <= FEW:
        runs = _merged(finder.until_settled(groups, settling))
    else:
        runs = [finder.around(some) for some in groups]
        runs = _merged(runs) if len(runs) > 1 else runs
    if reach.counts_rows or reach.counts_groups:
        runs = list(finder.moved(runs))
    while True:
        for run in runs:
            finder.look(run)
        if len(runs) == 1:
            return runs
        apart = _merged(runs, looked=True)
        if len(apart) == len(runs):
            return runs
        runs = apart


def looked_at(rows: OrderedPartition, places: range, reach: Reach, by: OrderColumn, dtype: DType) -> Affected:
    """Return the rows at some places of a partition, with the rows that they look at."""
    finder = _Finder(rows, reach, by, dtype)
    run = Affected(*finder.whole_groups(places.start, places.stop), [])
    finder.look(run)
    run.low, run.high = places.start, places.stop
    return run


def _near(edits: Sequence[Edit]) -> list[list[Edit]]:
    """Return edits with those together between which looking at all rows is cheaper than telling them apart."""
    if len(edits) == 1:
        return [[*edits]]
    found: list[list[Edit]] = []
    last = -NEAR
    for edit in edits:
        if edit.place - last < NEAR:
            found[-1].append(edit)
        else:
            found.append([edit])
        last = edit.end
    return found


def _merged(runs: Sequence[Affected], *, looked: bool = False) -> list[Affected]:
    """Return runs with those put together that touch, or where what one looks at is edited by the other.

    The first of these is made larger.
    """
    found: list[Affected] = []
    for run in runs:
        last = found[-1] if found else None
        touches = last is not None and (
            run.low <= last.high
            or (looked and (run.first < last.edits[-1].end + 1 or last.end > run.edits[0].place - 1))
        )
        if last is not None and touches:
            last.high = max(last.high, run.high)
            last.low = min(last.low, run.low)
            last.edits += run.edits
        else:
            found.append(run)
    return found


class _Finder:
    def __init__(self, rows: OrderedPartition, reach: Reach, by: OrderColumn, dtype: DType, edited: int = 0) -> None:
        self._rows = rows
        self._edited = edited
        """How many rows come or go."""
        self._reach = reach
        self._by = by
        self._dtype = dtype

    def until_settled(self, groups: list[list[Edit]], settling: Settling) -> list[Affected]:
        """Return what `around` does of edits that are near each other, up to where they have ceased to matter."""
        back = settling.backwards
        waiting = groups if back else groups[::-1]
        found: list[Affected] = []
        while waiting:
            some = waiting.pop()
            while True:
                limit = (
                    (waiting[-1][-1].end if back else waiting[-1][0].place) if waiting else -1 if back else sys.maxsize
                )
                place = settling.place(self._rows, some, limit)
                if place is not None or not waiting:
                    break
                some = [*waiting.pop(), *some] if back else [*some, *waiting.pop()]
            found.append(self.around(some, settled=place))
        return found[::-1] if back else found

    def around(self, edits: list[Edit], settled: int | None = None) -> Affected:
        """Return the rows whose frames have an edited row, or had it, with all between them; but for ranks.

        ``settled`` is where edits have ceased to matter to frames without a bound.
        """
        low, high = self._around(edits[0], self._reach)
        if len(edits) > 1:
            high = max(high, self._around(edits[-1], self._reach)[1])
        for column, before, after in self._reach.known:  # rows without a value are counted by no other
            some = [edit for edit in edits if edit.row.item(column) != NULL]
            if some:
                low = min(low, known_place(self._rows, column, some[0].place, after, back=True))
                high = max(high, known_place(self._rows, column, some[-1].end, before))
        for offsets in self._reach.offsets:
            first, end = offsets.rows_looking_over(self._rows, edits[0].place, edits[-1].end, self._edited)
            low, high = min(low, first), max(high, end)
        if settled is not None:
            first, end = self._not_beyond(settled, edits)
            low, high = min(low, first), max(high, end)
        elif self._reach.endless is not None:
            low = 0 if self._reach.to_last else low
            high = len(self._rows) if self._reach.to_first else high
        low, high = self.whole_groups(low, high)
        return Affected(low, high, edits)

    def _not_beyond(self, settled: int, edits: Sequence[Edit]) -> tuple[int, int]:
        """Return the rows about where edits have ceased to matter whose frames without a bound may not go beyond that.

        They are those that would change with the last row that decides on it.
        """
        assert self._reach.endless is not None
        if edits[0].place <= settled <= edits[-1].end:
            return settled, settled
        deciding = settled if self._reach.to_last else settled - 1
        row = self._rows.cut(deciding, deciding + 1)[:, 0]
        return self._around(Edit(deciding, row, -1), self._reach.endless)

    def _around(self, edit: Edit, reach: Reach) -> tuple[int, int]:
        rows, place, end_of_edit = self._rows, edit.place, edit.end
        low, high = place - reach.rows[1], end_of_edit + reach.rows[0]
        if reach.peers:
            first = rows.peers_start(place - 1) if self._is_peer(place - 1, edit) else place
            last = rows.peers_end(end_of_edit + 1) if self._is_peer(end_of_edit, edit) else end_of_edit
            low, high = min(low, first), max(high, last)
            if reach.groups != (0, 0):
                low = min(low, rows.group_start(rows.groups_before(first) - reach.groups[1]))
                high = max(high, rows.group_start(rows.groups_before(last) + reach.groups[0]))
            code = edit.row.item(self._by.column)
            for start, end in reach.values if code != NULL else ():
                low = min(low, self._place_by_value(code, end, up=False, back=True))
                high = max(high, self._place_by_value(code, start, up=True, back=True))
        return max(low, 0), min(high, len(rows))

    def moved(self, runs: Sequence[Affected]) -> Iterator[Affected]:
        """Iterate over runs that go on as long as the rows behind have another number of rows, or groups, before."""
        waiting: Affected | None = None
        more_rows = more_groups = 0
        for run in runs:
            more_rows += run.shift
            if self._reach.counts_groups:
                more_groups += more_groups_of(self._rows, run.low, run.high, run.edits)
            if waiting is None:
                waiting = run
            else:
                waiting.high = run.high
                waiting.edits += run.edits
            if not (more_rows if self._reach.counts_rows else 0) and not more_groups:
                yield waiting
                waiting = None
        if waiting is not None:
            waiting.high = len(self._rows)
            yield waiting

    def look(self, run: Affected) -> None:
        """Find the rows that the calls of a run look at."""
        rows, reach = self._rows, self._reach
        first, end = run.low - reach.rows[0], run.high + reach.rows[1]
        if reach.groups != (0, 0):
            first = min(first, rows.group_start(rows.groups_before(run.low) - reach.groups[0]))
            end = max(end, rows.group_start(rows.groups_before(run.high) + reach.groups[1]))
        ends = self._end_codes(run) if reach.values else None
        if ends is not None:
            for start, stop in reach.values:
                first = min(first, self._place_by_value(ends[0], start, up=False))
                end = max(end, self._place_by_value(ends[1], stop, up=True))
        for column, before, after in reach.known:
            first = min(first, known_place(rows, column, run.low, before, back=True))
            end = max(end, known_place(rows, column, run.high, after))
        for offsets in reach.offsets:
            seen_first, seen_end = offsets.looked_at(rows, range(run.low, run.high), run.edits, self._edited)
            first, end = min(first, seen_first), max(end, seen_end)
        run.first, run.end = self.whole_groups(max(first, 0), min(end, len(rows)))

    def _end_codes(self, run: Affected) -> tuple[int, int] | None:
        """Return the first and the last value of the order in a run, before or after; None without any."""
        rows, column = self._rows, self._by.column
        codes = [edit.row.item(column) for edit in run.edits]
        if run.low < run.high:
            codes += [rows.code_at(column, run.low), rows.code_at(column, run.high - 1)]
            if NULL in codes:
                some = rows.cut(run.low, run.high)[column]
                known = some[some != NULL]
                codes += [int(known[0]), int(known[-1])] if len(known) else []
        known_codes = [code for code in codes if code != NULL]
        if not known_codes:
            return None
        ends = min(known_codes), max(known_codes)
        return (ends[1], ends[0]) if self._by.descending else ends

    def _is_peer(self, place: int, edit: Edit) -> bool:
        return 0 <= place < len(self._rows) and self._rows.is_peer(place, edit.row)

    def whole_groups(self, low: int, high: int) -> tuple[int, int]:
        """Return the places between which the peers of rows are too, where peers matter."""
        if not self._reach.peers:
            return low, high
        return self._rows.peers_start(low), self._rows.peers_end(high)

    def _place_by_value(self, code: int, offset: Offset, *, up: bool, back: bool = False) -> int:
        """Return the place before the first, or (up) after the last, row that is so far from a value, at the most.

        Rather a few too far than one too near. Going ``back``, it is the value that is so far from the row.
        """
        descending = self._by.descending
        far = distance(offset, self._dtype, minus=back != descending, up=up != descending)
        moved = min(max(code + far, _LEAST), _GREATEST) if isinstance(far, int) else far(code)
        number = ~moved if descending else moved
        return self._rows.place_of_number(number, right=up)


def more_groups_of(rows: OrderedPartition, low: int, high: int, edits: Sequence[Edit]) -> int:
    """Return what `OrderedPartition.more_groups` does: of a few rows, counted in Python, which is sooner done."""
    if not rows.by or high - low + sum([abs(edit.copies) for edit in edits]) > _FEW_ROWS:
        return rows.more_groups(low, high, edits)
    cut = rows.cut(low, high)
    old = list(zip(*[cut[column].tolist() for column in rows.by], strict=True))
    new = edited_rows(old, edits, low, lambda row: tuple([row.item(column) for column in rows.by]))
    return _changes(new) - _changes(old)


def edited_rows(rows: list[_Row], edits: Iterable[Edit], origin: int, made: Callable[[Ints], _Row]) -> list[_Row]:
    """Return a few rows, of which the first one is at an origin, with edits made; ``made`` gives an edit's row."""
    found: list[_Row] = []
    done = 0
    for place, row, copies in edits:
        at = place - origin
        found += rows[done:at]
        if copies > 0:
            found += [made(row)] * copies
        done = at - min(copies, 0)
    return found + rows[done:]


def _changes(keys: Sequence[object]) -> int:
    """Return how many keys differ from the one before; the first one does."""
    changes: int = sum(map(ne, keys, keys[1:]))
    return changes + bool(keys)


@lru_cache(typed=True)
def distance(offset: Offset, dtype: DType, *, minus: bool, up: bool) -> int | Callable[[int], int]:
    """Return how far codes are from others, rather too far up, or down, than too near; or what finds it from a code."""
    if minus:
        offset = -offset
    if dtype.name == "float64":
        assert not isinstance(offset, Interval)
        return partial(_far_from_float, offset=offset, up=up)
    if isinstance(offset, Interval) and offset.dtype == MONTHS:
        unit = 1 if dtype.name == "date" else DAY_MICROSECONDS
        days = offset.amount * _DAYS_IN_MONTH if (offset.amount > 0) == up else offset.amount * 28
        return (days + (_DAYS_IN_MONTH if up else -_DAYS_IN_MONTH)) * unit
    exact = units(offset, dtype)
    return math.ceil(exact) if up else math.floor(exact)


def _far_from_float(code: int, *, offset: Any, up: bool) -> int:
    value = float(float_values(np.array([code]))[0])
    if math.isinf(value) and (value > 0) != up and (value > 0) != (offset > 0):
        value = math.copysign(sys.float_info.max, value)  # what is so far from it may be finite: sums overflow
    moved = value + float(offset)
    if not math.isfinite(moved):
        return code if math.isnan(moved) or moved == value else (_GREATEST if moved > 0 else _LEAST)
    slack = 4 * math.ulp(max(abs(value), abs(float(offset))))
    return int(float_codes(np.array([moved + slack if up else moved - slack]))[0])
