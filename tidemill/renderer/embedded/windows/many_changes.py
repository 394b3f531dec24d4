"""How many rows of a large partition, with the calls' values, change where many of its rows do: all at once.

The runs of rows that edits reach are cut out some at a time, so that what is worked out of them stays in fast memory,
and needs none from the system; each time there is one call of the kernel over the rows before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints, UpdateArray, consolidated
from tidemill.renderer.embedded.windows.digests import Digest, together
from tidemill.renderer.embedded.windows.edits import Changed, ManyEdits, edited_by_many, places_from
from tidemill.renderer.embedded.windows.many_runs import Runs, can_be_found_at_once, runs_of_many, starts_of_groups
from tidemill.renderer.embedded.windows.many_unnoticed import Extremes, Unnoticed
from tidemill.renderer.embedded.windows.ordered import has_equal_neighbours
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.partitions import Ahead, Partitions
from tidemill.renderer.embedded.windows.pieces import Pieces
from tidemill.renderer.embedded.windows.reach import Reach
from tidemill.renderer.embedded.windows.recompute import call_values
from tidemill.renderer.embedded.windows.sums_by_delta import SumsByDelta

__all__ = ["CallsOfMany"]

BLOCK: Final = 1 << 15
"""Rows that are looked at at a time, or those of one run."""
SHORT: Final = 128
"""Stretches of fewer rows are compared all at once, longer ones one by one."""


@attrs.frozen
class CallsOfMany:
    """Calls whose changes are worked out for many edits at once."""

    windows: Windows
    types: Sequence[DType]
    reach: Reach
    interner: Interner
    kept: Ints
    """Which of a row's codes come out again."""
    extremes: Extremes | None
    """What finds rows that no others notice, if all calls are of such extremes."""
    by_delta: SumsByDelta | None
    """What works sums out from those before, if all calls are such ones."""

    @staticmethod
    def of(
        windows: Windows, types: Sequence[DType], reach: Reach | None, interner: Interner, kept: Ints
    ) -> CallsOfMany | None:
        """Return what works the calls out; None where it cannot."""
        if reach is None or not windows.order:
            return None
        extremes, by_delta = Extremes.of(windows, types), SumsByDelta.of(windows, types, kept)
        found = CallsOfMany(windows, types, reach, interner, kept, extremes, by_delta)
        return found if can_be_found_at_once(reach, types[windows.order[0].column]) else None

    @property
    def _leading(self) -> int:
        """The first of the ORDER BY columns among those that come out again, if it does."""
        kept = self.kept.tolist()
        (by, *_) = self.windows.order
        return kept.index(by.column) if by.column in kept else 0

    def updates(self, partitions: Sequence[tuple[OrderedPartition, ManyEdits]], time: int) -> UpdateArray:
        """Return the output's updates for edits of partitions, not made yet; `CallError` as `changed_rows`."""
        parts: list[_Part] = []
        found: list[Changed] = []
        for rows, edits in partitions:
            by_delta = None if self.by_delta is None else self.by_delta.changed(rows, edits)
            if by_delta is not None:
                found += by_delta
                continue
            if self.extremes is None:
                parts += _parts(rows, edits, self._runs(rows, edits))
                continue
            starts = starts_of_groups(rows)
            unnoticed = self.extremes.unnoticed(rows, edits, starts)
            noticed = unnoticed.noticed
            if len(noticed.places):
                noticed, runs, unnoticed = unnoticed.beside(self._runs(rows, noticed, starts))
                parts += _parts(rows, noticed, runs)
            found.append(self._unnoticed(unnoticed))
        found += [self._changed(block) for block in _blocks(parts)]
        gone, come = [some.gone for some in found], [some.come for some in found]
        count = sum(some.shape[1] for some in gone)
        updates = np.empty((len(found[0].gone) + 2, count + sum(some.shape[1] for some in come)), np.int64)
        np.concatenate([*gone, *come], axis=1, out=updates[:-2])
        updates[-2], updates[-1, :count], updates[-1, count:] = time, -1, 1
        if not has_equal_neighbours(updates[: len(self.kept)], count, self._leading):
            return updates
        alike = _with_copies(updates[: len(self.kept)], count)
        return np.concatenate((updates[:, ~alike], consolidated(updates[:, alike])), axis=1)

    def _runs(self, rows: OrderedPartition, edits: ManyEdits, starts: Ints | None = None) -> Runs:
        (by, *_) = self.windows.order
        return runs_of_many(rows, edits, self.reach, by, self.types[by.column], starts=starts)

    def _unnoticed(self, unnoticed: Unnoticed) -> Changed:
        """Return the rows that come and go without another row's values changing."""
        edits = unnoticed.left
        rows = np.concatenate((edits.rows.take(self.kept, axis=0), unnoticed.values()))
        comes = edits.copies > 0
        return Changed(rows.compress(~comes, axis=1), rows.compress(comes, axis=1))

    def _changed(self, block: Sequence[_Part]) -> Changed:
        """Return how the rows of some runs change."""
        edits, runs = _joined(block)
        cuts = _Cuts(edits, runs)
        both: Codes = np.empty((len(edits.rows), cuts.end), np.int64)
        done = 0
        for rows, _, some, _ in block:
            end = done + int((some.end - some.first).sum())
            rows.spans(some.first, some.end, both[:, done:end])
            done = end
        cuts.edited(both)
        values = np.empty((len(self.windows.calls), cuts.end), np.int64)
        of_each = [len(rows) + more * after for after in (0, 1) for rows, _, _, more in block]
        totals = np.array(of_each).repeat(np.tile([len(some.low) for _, _, some, _ in block], 2))
        groups = None
        if self.reach.counts_groups:
            groups = [rows.groups_before(first) for rows, _, some, _ in block for first in some.first.tolist()]
        ahead = _ahead(np.tile(runs.first, 2), groups, totals, cuts.sizes, cuts.wanted())
        call_values(Partitions(self.windows, self.types, Pieces([both]), self.interner, ahead), values)
        gone, come = cuts.differing(values)
        return Changed(self._taken(both, values, gone), self._taken(both, values, come))

    def _taken(self, both: Codes, values: Codes, places: Ints) -> Codes:
        width = len(self.kept)
        found: Codes = np.empty((width + len(values), len(places)), np.int64)
        for source, row in zip(self.kept.tolist(), found, strict=False):
            both[source].take(places, out=row, mode="clip")
        values.take(places, axis=1, out=found[width:], mode="clip")
        return found


class _Part(NamedTuple):
    """Some runs of a partition, and their edits."""

    rows: OrderedPartition
    edits: ManyEdits
    runs: Runs
    more: int
    """By how many rows all edits make the partition larger."""


def _parts(rows: OrderedPartition, edits: ManyEdits, runs: Runs) -> Iterator[_Part]:
    """Iterate over runs, some at a time, with their edits."""
    more, ends = int(edits.copies.sum()), (runs.end - runs.first).cumsum()
    low, count = 0, len(ends)
    firsts = [*runs.edits.tolist(), len(edits.places)]
    while low < count:
        before = ends.item(low - 1) if low else 0
        high = max(int(ends.searchsorted(before + BLOCK, "right")), low + 1)
        some = edits if high - low == count else edits.part(firsts[low], firsts[high])
        yield _Part(rows, some, Runs(runs.edits[low:high] - firsts[low], *(of[low:high] for of in runs[1:])), more)
        low = high


def _blocks(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Iterate over parts, some at a time."""
    block: list[_Part] = []
    size = 0
    for part in parts:
        more = int((part.runs.end - part.runs.first).sum())
        if block and size + more > BLOCK:
            yield block
            block, size = [], 0
        block.append(part)
        size += more
    if block:
        yield block


def _joined(block: Sequence[_Part]) -> tuple[ManyEdits, Runs]:
    """Return the edits and the runs of parts, one after another."""
    if len(block) == 1:
        return block[0].edits, block[0].runs
    edits = [part.edits for part in block]
    before = accumulate([len(some.places) for some in edits[:-1]], initial=0)
    runs = [part.runs._replace(edits=part.runs.edits + count) for part, count in zip(block, before, strict=True)]
    return (
        ManyEdits(
            np.concatenate([some.places for some in edits]),
            np.concatenate([some.rows for some in edits], axis=1),
            np.concatenate([some.copies for some in edits]),
        ),
        Runs(*map(np.concatenate, zip(*runs, strict=True))),
    )


class _Cuts:
    """Where the rows are that are cut out for runs: those before the edits, run by run, and then those after."""

    def __init__(self, edits: ManyEdits, runs: Runs) -> None:
        self._edits, self._runs = edits, runs
        given = runs.end - runs.first
        self.sizes = np.concatenate((given, given + np.add.reduceat(edits.copies, runs.edits)))
        """How many rows there are of each run, before and after."""
        self.middle = int(given.sum())
        """Where those after begin."""
        self.end = int(self.sizes.sum())
        self._of_each = np.append(runs.edits[1:], len(edits.places)) - runs.edits
        """How many edits each run has."""
        self._begins = given.cumsum() - given
        self.at = edits.places + (self._begins - runs.first).repeat(self._of_each)
        """The places of edits among the rows before."""
        copies = edits.copies
        self._fewer, self._more = np.maximum(-copies, 0), np.maximum(copies, 0)
        self._gone = places_from(self.at, self._fewer)
        """The places of rows that are taken out."""
        self._come = places_from(self.at + self.middle + copies.cumsum() - copies, self._more)
        """The places of rows that are put in."""

    def edited(self, both: Codes) -> None:
        """Write the rows after the edits behind those before."""
        before, after, edits = both[:, : self.middle], both[:, self.middle :], self._edits
        if len(self.at) * SHORT < self.middle or not self.middle:
            np.concatenate(edited_by_many(before, self.at.tolist(), edits), axis=1, out=after)
            return
        stays = np.ones(self.middle, np.bool_)
        stays[self._gone] = False
        come = self._come - self.middle
        source = np.zeros(after.shape[1], np.int64)
        is_old = np.ones(len(source), np.bool_)
        is_old[come] = False
        source[is_old] = stays.nonzero()[0]
        for row, given, new in zip(after, before, edits.rows, strict=True):
            given.take(source, out=row, mode="clip")
            row[come] = new.repeat(self._more)

    def wanted(self) -> tuple[Ints, Ints]:
        """Return from where to where rows of each run are asked for, before and after, that are not looked at only."""
        starts, runs = self.sizes.cumsum() - self.sizes, self._runs
        return starts + np.tile(runs.low - runs.first, 2), starts + self.sizes - np.tile(runs.end - runs.high, 2)

    def differing(self, values: Codes) -> tuple[Ints, Ints]:
        """Return the places of rows that go, or have other values afterwards, and of those that come, or have them.

        Between edits the rows before are, one by one, those after.
        """
        runs, copies = self._runs, self._edits.copies
        # Stretches of rows that stay, in front of each edit and at the end of each run.
        count = np.arange(len(self._of_each))
        behind = runs.edits + self._of_each + count
        of_edits = np.arange(len(copies)) + count.repeat(self._of_each)
        ends, gone, shift = np.zeros((3, len(copies) + len(count)), np.int64)
        ends[of_edits], gone[of_edits], shift[of_edits] = self.at, self._fewer, copies
        ends[behind] = self._begins + runs.high - runs.first
        starts = np.empty_like(ends)
        starts[1:] = ends[:-1] + gone[:-1]
        starts[runs.edits + count] = self._begins + runs.low - runs.first
        shift = shift.cumsum() - shift + self.middle
        lengths = ends - starts
        if len(lengths) * SHORT > lengths.sum():
            stays, moved = places_from(starts, lengths), shift.repeat(lengths)
            differs = np.zeros(len(stays), np.bool_)
            for of_call in values:
                differs |= of_call.take(stays) != of_call.take(stays + moved)
            found, moved = stays.compress(differs), moved.compress(differs)
        else:
            found, moved = _differing_in(values, starts.tolist(), ends.tolist(), shift)
        changes = np.zeros(self.end, np.bool_)
        changes[found] = True
        changes[found + moved] = True
        changes[self._gone] = changes[self._come] = True
        return changes[: self.middle].nonzero()[0], changes[self.middle :].nonzero()[0] + self.middle


def _differing_in(values: Codes, starts: Sequence[int], ends: Sequence[int], shift: Ints) -> tuple[Ints, Ints]:
    """Return places in stretches whose values differ from those so many places away, and how far away these are."""
    found = []
    moves = shift.tolist()
    for start, end, move in zip(starts, ends, moves, strict=True):
        differs = values[0, start:end] != values[0, start + move : end + move]
        for of_call in values[1:]:
            differs |= of_call[start:end] != of_call[start + move : end + move]
        found.append(differs.nonzero()[0])
    counts = np.array(list(map(len, found)))
    return np.concatenate(found) + np.array(starts).repeat(counts), shift.repeat(counts)


def _ahead(before: Ints, groups: list[int] | None, totals: Ints, sizes: Ints, wanted: tuple[Ints, Ints]) -> Ahead:
    """Return where each of the cuts that have rows begins, and what there is of its partition beside it."""
    here = sizes.nonzero()[0]
    of_rows, of_all, given, low, high = (some.take(here).tolist() for some in (before, totals, sizes, *wanted))
    of_groups = [0] * len(here) if groups is None else np.tile(groups, 2).take(here).tolist()
    begins = sizes.cumsum() - sizes
    starts, nothing = begins.take(here), _nothing(len(here))
    lengths = np.stack((wanted[0] - begins, wanted[1] - wanted[0], begins + sizes - wanted[1]), axis=1).ravel()
    marks = np.tile(np.array([False, True, False]), len(sizes)).repeat(lengths)
    asked = list(zip(low, high, strict=True))
    return Ahead(starts, of_rows, of_groups, of_all, given, asked, marks, nothing, nothing)


def _nothing(count: int) -> Callable[[Digest], list[Any]]:
    """Return what so many times says what no rows come to: nobody asks, where frames have bounds."""
    return lambda wanted: [together(wanted, ())] * count


def _with_copies(rows: Codes, gone: int) -> Bools:
    """Return which of some rows, those that go first, may be equal to others: all that some equal neighbours have."""
    equal = (rows[:, 1:] == rows[:, :-1]).all(axis=0)
    equal[gone - 1 : gone] = False
    found = np.ones(rows.shape[1], np.bool_)
    for row, some in zip(rows, rows[:, :-1][:, equal], strict=True):
        known = np.unique(some)
        found &= known.take(known.searchsorted(row), mode="clip") == row
    return found
