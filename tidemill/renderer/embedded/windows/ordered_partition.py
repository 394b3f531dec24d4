"""One large partition in its order: chunks of rows, and a directory with the rows and peer groups of each.

A place in it is found, a row or a peer group counted, and some rows put in or taken out, at the cost of a chunk or two
and of the directory, which is short. Chunks that lie outside of memory are read when they are looked at.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Literal

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.trace.stored_order import KeyOrder, StoredPage, begins_of
from tidemill.renderer.embedded.windows.chunks import PLACES, Chunk, StoredChunk, edited_chunks, leads_of, parts_of
from tidemill.renderer.embedded.windows.digests import Digest, RunningDigests, together
from tidemill.renderer.embedded.windows.edits import Edit, ManyEdits, edited

__all__ = ["OrderedPartition"]

CHUNK: Final = 2048
"""Rows in a chunk after it was made; it is split beyond twice as many."""
_FEW: Final = 8
"""Chunks that need not be put together, however small."""


class OrderedPartition:
    """The rows of a partition, each copy a row, in their order, as given piece by piece; see the module.

    ``peers`` is how many of the order's columns, which come first, make rows peers.
    """

    def __init__(self, pieces: Iterable[Codes], order: RowOrder, peers: int) -> None:
        self.order = order
        self.by = [c.row for c in order.columns[:peers]]
        """The columns that make rows peers."""
        self._groups: Ints | None = None
        """How many peer groups begin in each chunk and those before it, once that was asked."""
        self._stored: list[StoredChunk] = []
        """Chunks that were not in memory when last counted: those that still are not are chunks of this.

        Others may be none any more, and are let go of, as `in_memory` finds.
        """
        self._fill(pieces)

    @staticmethod
    def stored(pages: Sequence[StoredPage], by: KeyOrder) -> OrderedPartition:
        """Return a partition whose rows lie in pages, outside of memory."""
        found = OrderedPartition((), *by)
        found._stored = [StoredChunk(page, found._numbers) for page in pages]
        found._hold([*found._stored])
        found.code_at(0, 0)  # it was read to see whose rows these are, and counts as held from now on
        return found

    def _fill(self, pieces: Iterable[Codes]) -> None:
        self._hold([self._chunk(codes) for codes in pieces])

    def state(self) -> list[Chunk]:
        """Return what the rows are now, to go back to: chunks are replaced, not written to."""
        return self._chunks.copy()

    def go_back(self, state: list[Chunk]) -> None:
        """Be as in a state again: the directory is made anew, which is dearer than to copy it, but rare."""
        self._hold(state)

    def _hold(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        for chunk in chunks:  # some may have been found beside rows that are not there any more
            chunk.starts = None
        self._first_leads = [c.first for c in chunks]
        self._count()
        self._before, self._behind = RunningDigests(), RunningDigests(backwards=True)

    def _count(self) -> None:
        """Make the directory's sums over all chunks anew."""
        self._count_anew(np.array([c.size for c in self._chunks], np.int64).cumsum())

    def _count_anew(self, ends: Ints) -> None:
        self._ends = ends
        """The place after the last row of each chunk."""
        self._length = int(ends[-1]) if len(ends) else 0
        self._groups = None
        self._near = 0, 0, 0
        """Where the chunk that was looked at last begins and ends, and its number: the next look is mostly there."""

    def _chunk(self, codes: Codes) -> Chunk:
        return Chunk(codes, self._numbers(codes))

    def _numbers(self, codes: Codes) -> Ints:
        return self.order.number(codes[self.by[0]])

    def begins_of(self, codes: Codes) -> Bools:
        """Return where rows differ from the one before in what makes them peers; the first one does."""
        return begins_of(codes, self.by)

    # -- the directory -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    @property
    def groups(self) -> int:
        """How many peer groups there are."""
        return self._groups_of_chunks.item(-1) if self._chunks else 0

    @property
    def in_memory(self) -> int:
        """How many of the rows are in memory."""
        self._stored = [c for c in self._stored if c.page is not None]
        return len(self) - sum([c.size for c in self._stored])

    @property
    def bytes(self) -> int:
        """How much memory the rows take."""
        return sum(chunk.bytes for chunk in self._chunks)

    def parts(self) -> Iterator[Codes]:
        """Iterate over the rows, some at a time."""
        return (chunk.codes for chunk in self._chunks)

    def _start(self, chunk: int) -> int:
        return self._ends.item(chunk - 1) if chunk else 0

    def _at(self, place: int) -> tuple[int, int]:
        """Return the chunk that a place is in, and where in it."""
        start, end, chunk = self._near
        if not start <= place < end:
            chunk = int(self._ends.searchsorted(place, "right"))
            start = self._start(chunk)
            if chunk < len(self._chunks):
                self._near = start, self._ends.item(chunk), chunk
        return chunk, place - start

    def _starts(self, chunk: int) -> Ints:
        """Return where in a chunk peer groups begin."""
        here = self._chunks[chunk]
        if here.starts is None:
            begins = self.begins_of(here.codes)
            begins[0] = self._is_first(chunk)
            few = len(begins) <= len(PLACES) and np.count_nonzero(begins) == len(begins)
            here.starts = PLACES[: len(begins)] if few else begins.nonzero()[0]
        return here.starts

    @property
    def _groups_of_chunks(self) -> Ints:
        groups = self._groups
        if groups is None:
            counts = [self._count_of_groups(chunk) for chunk in range(len(self._chunks))]
            self._groups = groups = np.array(counts, np.int64).cumsum()
        return groups

    def _count_of_groups(self, chunk: int) -> int:
        """Return how many peer groups begin in a chunk: of one outside of memory it is known, if its first row does."""
        known = self._chunks[chunk].groups if self._begins_by_number(chunk) else None
        return len(self._starts(chunk)) if known is None else known

    def _begins_by_number(self, chunk: int) -> bool:
        """Return whether a chunk's first row has another number than the one before it."""
        return chunk == 0 or self._chunks[chunk - 1].last != self._chunks[chunk].first

    # -- looking up ----------------------------------------------------------------------------------------------------

    def pieces(self, low: int, high: int) -> list[Codes]:
        """Return the rows from one place up to another, as they lie in chunks."""
        found: list[Codes] = []
        left = high - low
        chunk, at = self._at(low) if left > 0 else (0, 0)
        while left > 0:
            codes = self._chunks[chunk].codes[:, at : at + left]
            found.append(codes)
            left -= codes.shape[1]
            chunk, at = chunk + 1, 0
        return found

    def stretches(
        self, place: int, *, back: bool = False
    ) -> Iterator[tuple[int, Codes, Callable[[Digest, Callable[[Ints], Any]], Any]]]:
        """Iterate over the rows from a place on, or back from it: where some begin, these, and what they come to."""
        chunk, at = self._at(place)
        if chunk < len(self._chunks) and (at or not back):
            codes = self._chunks[chunk].codes
            part = codes[:, :at] if back else codes[:, at:]
            yield (place - at if back else place), part, lambda wanted, made: made(part[wanted.column])
        for number in range(chunk - 1, -1, -1) if back else range(chunk + 1, len(self._chunks)):
            here = self._chunks[number]
            yield self._start(number), here.codes, here.digest

    def cut(self, low: int, high: int) -> Codes:
        """Return the rows from one place up to another."""
        found = self.pieces(low, high) or [self._chunks[0].codes[:, :0]]
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)

    def spans(self, lows: Ints, highs: Ints, out: Codes | None = None) -> Codes:
        """Return the rows from some places up to others, one after another, or write them to where they are to go."""
        chunks = self._chunks
        found = [chunks[number].codes[:, low:high] for number, low, high in parts_of(self._ends, lows, highs)]
        return np.concatenate(found or [chunks[0].codes[:, :0]], axis=1, out=out)

    def column_spans(self, column: int, lows: Ints, highs: Ints, out: Ints) -> None:
        """Write one row of what `spans` returns to where it is to go."""
        chunks = self._chunks
        found = [chunks[number].codes[column, low:high] for number, low, high in parts_of(self._ends, lows, highs)]
        np.concatenate(found or [out[:0]], out=out)

    def places_of_numbers(self, numbers: Ints, *, right: bool = False) -> Ints:
        """Return what `place_of_number` does of many numbers."""
        side: Literal["left", "right"] = "right" if right else "left"
        chunks = np.maximum(np.array(self._first_leads).searchsorted(numbers, side) - 1, 0)
        found = [leads.searchsorted(numbers[low:high], side) for leads, low, high in leads_of(self._chunks, chunks)]
        return np.concatenate([*found, numbers[:0]]) + np.concatenate(([0], self._ends)).take(chunks)

    def numbers_at(self, places: Ints) -> Ints:
        """Return the numbers of the first ORDER BY column in the rows at some places."""
        chunks = self._ends.searchsorted(places, "right")
        at = places - np.concatenate(([0], self._ends)).take(chunks)
        return np.concatenate(
            [*(leads.take(at[low:high]) for leads, low, high in leads_of(self._chunks, chunks)), at[:0]]
        )

    def column(self, row: int) -> Ints:
        """Return a row of codes in one piece: a copy."""
        return np.concatenate([chunk.codes[row] for chunk in self._chunks])

    @property
    def leads(self) -> Ints:
        """The numbers of the rows' first ORDER BY column, which never fall, in one piece: a copy."""
        return np.concatenate([chunk.leads for chunk in self._chunks])

    def place_of(self, row: list[int]) -> int:
        """Return the first place at which a row is, or would be."""
        lead = self.order.number_of(row[self.by[0]])
        low, high = bisect_left(self._first_leads, lead), bisect_right(self._first_leads, lead)
        chunk = high - 1
        if low < high:
            is_before = self.order.sorts_before(row)
            chunk = _first_not(lambda c: is_before(self._row_at(c, 0)), low, high) - 1
        if chunk < 0:
            return 0
        return self._start(chunk) + self._place_in(chunk, row, lead)

    def _place_in(self, chunk: int, row: list[int], lead: int) -> int:
        """Return the first place in a chunk at which a row is, or would be."""
        codes, leads = self._chunks[chunk].codes, self._chunks[chunk].leads
        low = int(leads.searchsorted(lead))
        if low == len(leads) or leads.item(low) != lead or codes[:, low].tolist() == row:
            return low
        high = int(leads.searchsorted(lead, "right"))
        if self.order.row:  # hashes take longer than to look for the row itself
            same = (codes[:, low:high] == np.array(row)[:, None]).all(axis=0)
            if same.any():
                return low + int(same.argmax())
        is_before = self.order.sorts_before(row)
        return _first_not(lambda i: is_before(self._row_at(chunk, i)), low, high)

    def place_of_number(self, number: int, *, right: bool = False) -> int:
        """Return the first place whose first ORDER BY column has this number, or a greater one; or a greater one."""
        find = bisect_right if right else bisect_left
        chunk = find(self._first_leads, number) - 1
        if chunk < 0:
            return 0
        return self._start(chunk) + int(self._chunks[chunk].leads.searchsorted(number, "right" if right else "left"))

    def code_at(self, column: int, place: int) -> int:
        """Return the code of a column in the row at a place."""
        chunk, at = self._at(place)
        return self._chunks[chunk].codes.item(column, at)

    def groups_before(self, place: int) -> int:
        """Return how many peer groups begin before a place."""
        if place >= len(self):
            return self.groups
        chunk, at = self._at(place)
        before = self._groups_of_chunks.item(chunk - 1) if chunk else 0
        return before + int(self._starts(chunk).searchsorted(at))

    def group_start(self, group: int) -> int:
        """Return where a peer group begins; beyond the last one, the end."""
        if group >= self.groups:
            return len(self)
        group = max(group, 0)
        groups = self._groups_of_chunks
        chunk = int(groups.searchsorted(group, "right"))
        before = groups.item(chunk - 1) if chunk else 0
        return self._start(chunk) + self._starts(chunk).item(group - before)

    def peers_start(self, place: int) -> int:
        """Return where the peer group of the row at a place begins; at the end, the end."""
        if place >= len(self) or self._leads_differ(place):
            return place
        return self.group_start(self.groups_before(place + 1) - 1)

    def peers_end(self, place: int) -> int:
        """Return where the peer group ends of the row before a place; 0 for the begin."""
        if not 0 < place < len(self) or self._leads_differ(place):
            return place
        return self.group_start(self.groups_before(place))

    def _leads_differ(self, place: int) -> bool:
        """Return whether a peer group begins at a place, as far as that is seen at once."""
        chunk, at = self._at(place)
        leads = self._chunks[chunk].leads
        return leads.item(at) != leads.item(at - 1) if at else self._is_first(chunk)

    def is_peer(self, place: int, row: Ints) -> bool:
        """Return whether the row at a place is a peer of another."""
        chunk, at = self._at(place)
        codes = self._chunks[chunk].codes
        for by in self.by:  # noqa: SIM110 - twice as fast as all() of a generator, and each change asks
            if codes.item(by, at) != row.item(by):
                return False
        return True

    def more_groups(self, low: int, high: int, edits: Sequence[Edit]) -> int:
        """Return how many more peer groups edits make among whole ones, from one place up to another."""
        new = self.begins_of(edited(self.cut(low, high), edits, low))
        return int(np.count_nonzero(new)) + self.groups_before(low) - self.groups_before(high)

    def _row_at(self, chunk: int, at: int) -> list[int]:
        row: list[int] = self._chunks[chunk].codes[:, at].tolist()
        return row

    def before(self, place: int, wanted: Digest, made: Callable[[Ints], Any]) -> Any:
        """Return what the rows before a place come to; ``made`` finds it from codes of the column.

        Cost: a part of a chunk, and the chunks in front that nobody asked for since one of them was changed.
        """
        chunk, at = self._at(place)
        whole = self._before.of(wanted, chunk, lambda number: self._chunks[number].digest(wanted, made))
        rest = [made(self._chunks[chunk].codes[wanted.column, :at])] if at else []
        return together(wanted, [*whole, *rest])

    def behind(self, place: int, wanted: Digest, made: Callable[[Ints], Any]) -> Any:
        """Return what the rows from a place on come to, as `before` does."""
        chunk, at = self._at(place)
        count = len(self._chunks) - chunk - (at > 0)
        whole = self._behind.of(wanted, count, lambda number: self._chunks[-1 - number].digest(wanted, made))
        rest = [made(self._chunks[chunk].codes[wanted.column, at:])] if at else []
        return together(wanted, [*rest, *whole])

    # -- changing ------------------------------------------------------------------------------------------------------

    def copies(self, place: int, row: Ints, most: int) -> int:
        """Return how many copies of a row there are from a place on, of which so many are looked at."""
        if most == 1:
            chunk, at = self._at(place)
            return int(place < len(self) and self._chunks[chunk].codes[:, at].tolist() == row.tolist())
        here = self.cut(place, min(place + most, len(self)))
        same = (here == row[:, None]).all(axis=0)
        return len(same) if same.all() else int(same.argmin())

    def apply(self, edits: Sequence[Edit]) -> None:
        """Put in and take out rows, given by ascending places before all of them.

        Chunks are replaced, not written to, so what was cut out of them stays as it was.
        """
        by_chunk: dict[int, list[Edit]] = {}
        for edit in edits:
            place, left = edit.place, -edit.copies
            chunk, at = self._at(place)
            if left <= 0:
                if chunk == len(self._chunks):
                    chunk -= 1
                    at = len(self._chunks[chunk].leads)
                by_chunk.setdefault(chunk, []).append(Edit(at, edit.row, edit.copies))
                continue
            while left:
                here = min(left, len(self._chunks[chunk].leads) - at)
                by_chunk.setdefault(chunk, []).append(Edit(at, edit.row, -here))
                left, chunk, at = left - here, chunk + 1, 0
        as_many = True
        for chunk in sorted(by_chunk, reverse=True):
            as_many &= self._replace(chunk, by_chunk[chunk])
        if not as_many:
            self._count()
        self._put_together()

    def _put_together(self) -> None:
        """Make chunks of the usual size, if most have become small."""
        if len(self._chunks) > 4 * len(self) // CHUNK + _FEW:
            codes = self.cut(0, len(self))
            self._fill(codes[:, at : at + CHUNK].copy() for at in range(0, len(self), CHUNK))

    def apply_many(self, edits: ManyEdits) -> None:
        """Do what `apply` does, where most edits are of different chunks: the directory is changed once for all."""
        numbers = np.minimum(self._ends.searchsorted(edits.places, "right"), len(self._chunks) - 1)
        if (edits.ends > self._ends.take(numbers)).any():  # from one chunk into the next
            self.apply(edits.each())
            return
        firsts = np.concatenate(([0], (numbers[1:] != numbers[:-1]).nonzero()[0] + 1))
        lasts, touched = np.append(firsts[1:], len(numbers)) - 1, numbers.take(firsts)
        places = edits.places - np.concatenate(([0], self._ends)).take(numbers)
        more = np.zeros(len(self._chunks), np.int64)
        more[touched] = np.add.reduceat(edits.copies, firsts)
        has_other_last = touched.compress(edits.ends.take(lasts) == self._ends.take(touched))
        where = touched.tolist(), firsts.tolist(), places.tolist()
        self._chunks = edited_chunks(self._chunks, *where, edits, self._numbers)
        self._before.forget(0)
        self._behind.forget(0)
        sizes = np.diff(self._ends, prepend=0) + more
        changed = sizes.take(touched)
        if changed.min() > 0 and changed.max() <= 2 * CHUNK:
            for chunk in touched.compress(places.take(firsts) == 0).tolist():
                self._first_leads[chunk] = self._chunks[chunk].first
            self._count_anew(sizes.cumsum())
            begin_anew = (has_other_last + 1).tolist()
        else:
            usual = [[c] if 0 < c.size <= 2 * CHUNK else self._split(c.codes, 2 * CHUNK) for c in self._chunks]
            self._chunks = [*chain.from_iterable(usual)]
            self._first_leads = [chunk.first for chunk in self._chunks]
            self._count()
            begin_anew = list(range(len(self._chunks)))
        for chunk in begin_anew:  # before which the last row was put in or taken out
            if chunk < len(self._chunks):
                self._first_may_differ(chunk)
        self._put_together()

    def _replace(self, chunk: int, edits: Sequence[Edit]) -> bool:
        """Replace a chunk by what it is after some edits; return whether that is one chunk, too, and counted."""
        old, groups = self._chunks[chunk], self._groups
        self._before.forget(chunk)
        self._behind.forget(len(self._chunks) - chunk - 1)
        made = self._split(edited(old.codes, edits), 2 * CHUNK)
        self._chunks[chunk : chunk + 1] = made
        self._first_leads[chunk : chunk + 1] = [c.first for c in made]
        self._near = 0, 0, 0
        # A chunk whose first row was put in, or before which the last row was, may begin with another peer group.
        last = chunk + len(made)
        if last < len(self._chunks) and (not made or edits[-1].end >= len(old.leads)):
            self._first_may_differ(last)
        if len(made) != 1:
            return False
        more = len(made[0].leads) - len(old.leads)
        if more:
            self._ends[chunk:] += more
            self._length += more
        if old.starts is None:  # how many there were was not counted
            self._groups = None
        elif groups is not None and self._groups is not None:
            more_groups = len(self._starts(chunk)) - len(old.starts)
            if more_groups:
                groups[chunk:] += more_groups
        return True

    def _first_may_differ(self, chunk: int) -> None:
        """Look again whether a chunk's first row begins a peer group, if that was known."""
        starts = self._chunks[chunk].starts
        if starts is None:
            return
        first = self._is_first(chunk)
        if (len(starts) > 0 and starts.item(0) == 0) != first:
            self._chunks[chunk].starts = np.concatenate(([0], starts)) if first else starts[1:]
            if self._groups is not None:
                self._groups[chunk:] += 1 if first else -1

    def _is_first(self, chunk: int) -> bool:
        """Return whether a chunk's first row begins a peer group."""
        return self._begins_by_number(chunk) or self._differ(
            self._chunks[chunk - 1].codes, -1, self._chunks[chunk].codes
        )

    def _differ(self, codes: Codes, at: int, first: Codes) -> bool:
        """Return whether a row is no peer of the first of others."""
        return any(codes.item(row, at) != first.item(row, 0) for row in self.by)

    def _split(self, codes: Codes, most: int) -> list[Chunk]:
        """Return rows as one chunk, if they are no more than so many, or as some."""
        n = codes.shape[1]
        if not n:
            return []
        if n <= most:
            return [self._chunk(codes)]
        return [self._chunk(codes[:, start : start + CHUNK].copy()) for start in range(0, n, CHUNK)]


def _first_not(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first number for which something does not hold that holds up to some number."""
    return bisect_left(range(high), True, low, key=lambda number: not holds(number))
