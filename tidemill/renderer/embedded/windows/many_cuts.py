"""The rows around many edits, cut out run by run: those before, behind these those after, and what differs in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Codes, Ints
from tidemill.renderer.embedded.windows.edits import ManyEdits, places_from
from tidemill.renderer.embedded.windows.many_places import rows_at
from tidemill.renderer.embedded.windows.many_runs import Runs
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["CutColumns", "Cuts", "Part", "blocks", "parts"]

BLOCK: Final = 1 << 15
"""Rows that are looked at at a time, or those of one run."""
SHORT: Final = 128
"""Stretches of fewer rows are compared all at once, longer ones one by one."""


class Part(NamedTuple):
    """Some runs of a partition, and their edits."""

    rows: OrderedPartition
    edits: ManyEdits
    runs: Runs
    more: int
    """By how many rows all edits make the partition larger."""


def parts(rows: OrderedPartition, edits: ManyEdits, runs: Runs) -> Iterator[Part]:
    """Iterate over runs, some at a time, with their edits."""
    more, ends = int(edits.copies.sum()), (runs.end - runs.first).cumsum()
    low, count = 0, len(ends)
    firsts = [*runs.edits.tolist(), len(edits.places)]
    while low < count:
        before = ends.item(low - 1) if low else 0
        high = max(int(ends.searchsorted(before + BLOCK, "right")), low + 1)
        some = edits if high - low == count else edits.part(firsts[low], firsts[high])
        yield Part(rows, some, Runs(runs.edits[low:high] - firsts[low], *(of[low:high] for of in runs[1:])), more)
        low = high


def blocks(some: Sequence[Part]) -> Iterator[list[Part]]:
    """Iterate over parts, some at a time."""
    block: list[Part] = []
    size = 0
    for part in some:
        more = int((part.runs.end - part.runs.first).sum())
        if block and size + more > BLOCK:
            yield block
            block, size = [], 0
        block.append(part)
        size += more
    if block:
        yield block


class Cuts:
    """Where the rows are that are cut out for runs: those before the edits, run by run, and then those after."""

    def __init__(self, block: Sequence[Part]) -> None:
        self._block = block
        self.edits, self.runs = edits, runs = _joined(block)
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

    @property
    def are_long(self) -> bool:
        """Whether most runs have many rows."""
        return self.middle > SHORT * len(self.runs.low)

    def codes(self) -> Codes:
        """Return the rows before the edits and those after, cut out."""
        both: Codes = np.empty((len(self.edits.rows), self.end), np.int64)
        for rows, runs, done, end in self._parts():
            rows.spans(runs.first, runs.end, both[:, done:end])
        self._edit(both, self.edits)
        return both

    def column(self, column: int) -> Ints:
        """Return one row of their codes."""
        both = np.empty(self.end, np.int64)
        for rows, runs, done, end in self._parts():
            rows.column_spans(column, runs.first, runs.end, both[done:end])
        self._edit(both[None], self.edits._replace(rows=self.edits.rows[column : column + 1]))
        return both

    def _parts(self) -> Iterator[tuple[OrderedPartition, Runs, int, int]]:
        """Iterate over partitions, their runs, and from where to where the rows before lie."""
        done = 0
        for rows, _, runs, _ in self._block:
            end = done + int((runs.end - runs.first).sum())
            yield rows, runs, done, end
            done = end

    def _edit(self, both: Codes, edits: ManyEdits) -> None:
        """Write the rows after edits behind those before."""
        before, after = both[:, : self.middle], both[:, self.middle :]
        if len(self.at) * SHORT < self.middle or not self.middle:
            np.concatenate(edits.made(before, self.at), axis=1, out=after)
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
        starts, runs = self.sizes.cumsum() - self.sizes, self.runs
        return starts + np.tile(runs.low - runs.first, 2), starts + self.sizes - np.tile(runs.end - runs.high, 2)

    def differing(self, values: Codes) -> tuple[Ints, Ints]:
        """Return the places of rows that go, or have other values afterwards, and of those that come, or have them.

        Between edits the rows before are, one by one, those after.
        """
        runs, copies = self.runs, self.edits.copies
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

    def looked_up(self, gone: Ints, come: Ints) -> tuple[Codes, Codes]:
        """Return rows that go, and rows that come, of places found in `differing`: not from what was cut out.

        Those that go and are not taken out are those that come and were not put in, in their order.
        """
        is_edited = np.zeros(self.end, np.bool_)
        is_edited[self._gone] = is_edited[self._come] = True
        kept = self._rows_at(gone.compress(~is_edited.take(gone)))
        found = []
        for places, copies in ((gone, self._fewer), (come, self._more)):
            rows, edited = np.empty((len(kept), len(places)), np.int64), is_edited.take(places)
            rows[:, ~edited], rows[:, edited] = kept, self.edits.rows.repeat(copies, axis=1)
            found.append(rows)
        return found[0], found[1]

    def _rows_at(self, places: Ints) -> Codes:
        """Return rows before the edits, by their places among those cut out."""
        pieces = [self.edits.rows[:, :0]]
        for rows, runs, done, end in self._parts():
            low, high = places.searchsorted((done, end))
            if low == high:
                continue
            sizes = runs.end - runs.first
            begins = sizes.cumsum() - sizes + done
            here = places[low:high]
            at = here + (runs.first - begins).take(begins.searchsorted(here, "right") - 1)
            pieces.append(rows_at(rows, at))
        return np.concatenate(pieces, axis=1)


class CutColumns:
    """Rows cut out, of which a column is when it is asked for."""

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts

    def __len__(self) -> int:
        return self._cuts.end

    def __getitem__(self, column: int) -> Ints:
        return self._cuts.column(column)


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


def _joined(block: Sequence[Part]) -> tuple[ManyEdits, Runs]:
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
