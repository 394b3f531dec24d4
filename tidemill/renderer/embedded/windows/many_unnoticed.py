"""Many changed rows that no other row's extreme notices: their frames have rows on both sides that beat them.

Of the least of a hundred peer groups around each row, a row that comes or goes changes hardly any. Where a group in
front of it and one behind it have something as small and stay as they are, and are no farther apart than any frame
goes to either side, all other rows keep their values, whatever else changes: a frame that has the row has one of these
groups, and where it leaves out that group, which is then the one of its own row, it has the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, Windows
from tidemill.expressions.windows.frames import Frame
from tidemill.renderer.embedded.kernels.codec import has_codes_in_order
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, first_numbers
from tidemill.renderer.embedded.windows.edits import ManyEdits
from tidemill.renderer.embedded.windows.many_runs import Runs
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["Extremes", "Unnoticed"]


class _Extreme(NamedTuple):
    column: int
    sign: int
    """By which codes are multiplied, so that the greatest of them is asked for, and NULL is the least."""
    before: int
    """So many peer groups in front of a row's own are in its frame."""
    after: int
    frame: Frame

    @property
    def width(self) -> int:
        """So many groups frames have on either side of their row's."""
        return min(self.before, self.after)


@attrs.frozen
class Extremes:
    """Calls that are all of extremes of peer groups around each row."""

    calls: tuple[_Extreme, ...]

    @staticmethod
    def of(windows: Windows, types: Sequence[DType]) -> Extremes | None:
        """Return what finds changed rows that are not noticed; None for other calls."""
        found = []
        for call in windows.calls:
            if not isinstance(call, AggregateCall) or call.function not in ("min", "max"):
                return None
            column, frame = call.aggregate.column, call.frame
            low, high = frame.start, frame.end
            if column is None or frame.mode != "groups" or not isinstance(low, int) or not isinstance(high, int):
                return None
            if low >= 0 or high <= 0 or not has_codes_in_order(types[column]):
                return None
            found.append(_Extreme(column, -1 if call.function == "min" else 1, -low, high, frame))
        return Extremes(tuple(found))

    def unnoticed(self, rows: OrderedPartition, edits: ManyEdits, starts: Ints) -> Unnoticed:
        """Return which of some edits no other row notices; ``starts`` are of peer groups, and the end."""
        groups, stays = _groups(rows, edits, starts)
        numbers = [_numbers(rows, call) for call in self.calls]
        here = stays & (np.abs(edits.copies) == 1)
        changers = groups.compress(~stays)
        gone = _places_taken_out(edits)
        for call, of_rows in zip(self.calls, numbers, strict=True):
            known = of_rows.take(gone)
            of_rows[gone] = NULL
            of_groups = np.maximum.reduceat(of_rows, starts[:-1])
            of_rows[gone] = known
            # Groups that come between two others move them apart.
            more = changers.searchsorted(groups + call.width, "right") - changers.searchsorted(groups - call.width)
            room = call.width - more
            here &= _is_beaten(of_groups, groups, call.sign * edits.rows[call.column], room)
        return Unnoticed(self, edits, here, starts, groups, numbers)


class Unnoticed(NamedTuple):
    """Edits of a partition, which of them no other row notices, and what tells their own values."""

    extremes: Extremes
    edits: ManyEdits
    here: Bools
    """Which are not noticed."""
    starts: Ints
    groups: Ints
    """The peer group of each."""
    numbers: list[Ints]
    """What extremes are of, for each call, of all rows, and NULL behind them."""

    @property
    def noticed(self) -> ManyEdits:
        """The other edits."""
        return _some(self.edits, ~self.here)

    @property
    def left(self) -> ManyEdits:
        """Those that are not noticed."""
        return _some(self.edits, self.here)

    def beside(self, runs: Runs) -> tuple[ManyEdits, Runs, Unnoticed]:
        """Return the edits of runs of those noticed, with others among their rows; these runs; and what is left.

        What the rows of runs come to is worked out anyway.
        """
        low, high = self.starts.take(self.groups), self.starts.take(self.groups + 1, mode="clip")
        run = runs.low.searchsorted(low, "right") - 1
        inside = (run >= 0) & (high <= runs.high.take(np.maximum(run, 0)))
        inside |= ~self.here
        number_of_noticed = np.cumsum(~self.here) - 1
        of_run = runs.edits.searchsorted(number_of_noticed, "right") - 1
        of_run = np.where(self.here, run, of_run).compress(inside)
        firsts = of_run.searchsorted(np.arange(len(runs.edits)))
        return _some(self.edits, inside), runs._replace(edits=firsts), self._replace(here=~inside)

    def values(self) -> Codes:
        """Return the calls' values of the rows that are not noticed, before they go or after they come."""
        (places, own, copies, _), groups = self.left, self.groups.compress(self.here)
        found = np.empty((len(self.extremes.calls), len(places)), np.int64)
        most = len(self.starts) - 1
        for call, numbers, codes in zip(self.extremes.calls, self.numbers, found, strict=True):
            low = self.starts.take(np.maximum(groups - call.before, 0))
            high = self.starts.take(np.minimum(groups + call.after + 1, most))
            left_out = call.frame.exclusion
            if left_out in ("group", "ties"):
                hole = self.starts.take(groups), self.starts.take(groups + 1)
            else:
                hole = places, places + ((copies < 0) & (left_out == "current row"))
            values = np.maximum(_greatest(numbers, low, hole[0]), _greatest(numbers, hole[1], high))
            if left_out in ("no others", "ties"):
                values = np.maximum(values, call.sign * own[call.column])
            np.multiply(values, call.sign, out=codes)
        return found


def _numbers(rows: OrderedPartition, call: _Extreme) -> Ints:
    """Return what an extreme is of, of all rows, and NULL behind them."""
    found = np.empty(len(rows) + 1, np.int64)
    np.multiply(rows.column(call.column), call.sign, out=found[:-1])
    found[-1] = NULL
    return found


def _groups(rows: OrderedPartition, edits: ManyEdits, starts: Ints) -> tuple[Ints, Bools]:
    """Return the peer group of each edited row, and whether another row of it stays; if not, one near it."""
    places = edits.places
    found = starts.searchsorted(places, "right") - 1
    is_in = np.zeros(len(places), np.bool_)
    for at in (places, places - 1):
        there = ((at >= 0) & (at < len(rows)) & ~is_in).nonzero()[0]
        some = at.take(there)
        same = (rows.spans(some, some + 1)[rows.by] == edits.rows[rows.by].take(there, axis=1)).all(axis=0)
        peers = there.compress(same)
        found[peers] = starts.searchsorted(at.take(peers), "right") - 1
        is_in[peers] = True
    found = np.minimum(found, len(starts) - 2)
    taken_out = np.zeros(len(starts), np.int64)
    np.add.at(taken_out, found, np.maximum(-edits.copies, 0))
    sizes = np.diff(starts)
    return found, is_in & (sizes.take(found) > taken_out.take(found))


def _places_taken_out(edits: ManyEdits) -> Ints:
    fewer = np.maximum(-edits.copies, 0)
    places = edits.places.repeat(fewer)
    found: Ints = places + np.arange(len(places)) - (fewer.cumsum() - fewer).repeat(fewer)
    return found


def _is_beaten(of_groups: Ints, groups: Ints, values: Ints, room: Ints) -> Bools:
    """Return whether a group in front of each has something as great, and one behind, so near to one another.

    Nobody notices NULL.
    """
    in_front = _nearest(of_groups, groups, values, -1, room)
    behind = _nearest(of_groups, groups, values, 1, np.where(in_front > 0, room - in_front, 0))
    found: Bools = (values == NULL) | (behind > 0)
    return found


def _nearest(of_groups: Ints, groups: Ints, values: Ints, step: int, room: Ints) -> Ints:
    """Return how far away from each group the nearest in a direction is that has something as great; 0 for none."""
    found = np.zeros(len(groups), np.int64)
    sought, distance = first_numbers(len(groups)), 0
    while len(sought):
        distance += 1
        at = groups.take(sought) + step * distance
        inside = (at >= 0) & (at < len(of_groups)) & (distance <= room.take(sought))
        sought, at = sought.compress(inside), at.compress(inside)
        beats = of_groups.take(at) >= values.take(sought)
        found[sought.compress(beats)] = distance
        sought = sought.compress(~beats)
    return found


def _greatest(numbers: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the greatest of numbers from some places up to others, which are not the last; NULL for none."""
    found = np.full(len(starts), NULL)
    some = (starts < ends).nonzero()[0]
    if len(some):
        bounds = np.stack((starts.take(some), ends.take(some)), axis=1).ravel()
        found[some] = np.maximum.reduceat(numbers, bounds)[::2]
    return found


def _some(edits: ManyEdits, marks: Bools) -> ManyEdits:
    return ManyEdits(edits.places.compress(marks), edits.rows.compress(marks, axis=1), edits.copies.compress(marks))
