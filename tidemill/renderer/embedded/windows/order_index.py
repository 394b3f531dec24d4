"""The order index of a large partition: chunks of sorted rows, and a directory with what is known of each.

A position is the number of a row in the order, from 0 on. The directory has the first sort number of each chunk, and
running counts of its rows and peer groups; chunks keep summaries of their columns. So a row is
found, a position or a peer group counted, rows are put in or taken out and a range is summarised at the cost of a chunk
or two and of the directory, which is short. Chunks are replaced, not written to: what was read from them stays, and a
list of them is all it takes to undo a step. Chunks that are spilled are read when they are looked at first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from tidemill.renderer.embedded.kernels.codec import has_codes_in_order
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.trace.stored_order import KeyOrder, StoredPage, begins_of
from tidemill.renderer.embedded.windows.chunks import EVERY, Chunk, Edits, StoredChunk, divided, edited, positions_from
from tidemill.renderer.embedded.windows.summaries import RunningSummaries, Summarise, Summary, together

CHUNK: Final = 2048
"""Rows in a new chunk; it is split beyond twice as many."""
TIED: Final = 256
"""Among more rows than these with the same first sort number, a row is found by bisection, not by sorting all."""
MANY: Final = 64
"""More positions than these are looked for in all rows at once,"""
CHUNKS: Final = 4
"""and more than one for so many chunks: else to put all rows together would take longer than to look into chunks."""
_FEW: Final = 8
"""Chunks that need not be put together, however small."""


Part: TypeAlias = tuple[int, Codes, Callable[[Summary, Summarise], Any]]
"""Where some rows begin, the rows, and what summarises them."""


class OrderIndex:
    """The rows of a partition, each copy a row, in their order, given some at a time; see the module.

    ``peers`` is how many of the order's columns, which come first, make rows peers.
    """

    def __init__(self, chunks: Iterable[Codes], order: RowOrder, peers: int) -> None:
        self.order = order
        self.by = [c.row for c in order.columns[:peers]]
        """The columns that make rows peers."""
        self.peers_by_number = peers == 1 and has_codes_in_order(order.columns[0].dtype)
        """Whether peers have the same sort number, and hardly any others: then no peer group need be counted."""
        self._leads: Ints | None = None
        """The sort numbers of all rows, once they were asked since the last change."""
        self._begins: Ints | None = None
        """So the positions at which peer groups begin, and the end."""
        self._groups: Ints | None = None
        """How many peer groups begin in each chunk and those before it, once that was asked."""
        self._stored: list[StoredChunk] = []
        """Chunks that were not in memory when last counted; others of them may be none of this partition any more."""
        self._hold([self._chunk(codes) for codes in chunks])

    @staticmethod
    def stored(pages: Sequence[StoredPage], by: KeyOrder) -> OrderIndex:
        """Return the index of rows that lie in pages, outside of memory."""
        found = OrderIndex((), *by)
        found._stored = [StoredChunk(page, found._numbers) for page in pages]
        found._hold([*found._stored])
        found.slices(0, 1)  # it was read to see whose rows these are, and counts as held from now on
        return found

    def state(self) -> list[Chunk]:
        """Return the present state of the rows, to go back to."""
        return self._chunks.copy()

    def go_back(self, state: list[Chunk]) -> None:
        """Be as in a state again: the directory is made anew, which is dearer than to copy it, but rare."""
        self._hold(state)

    def _hold(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        for chunk in chunks:  # some may have been found beside rows that are not there any more
            chunk.starts = None
        self._count()
        self._before, self._after = RunningSummaries(), RunningSummaries(backwards=True)
        self._may_have: dict[int, Bools] = {}
        """Of some columns, which chunks may have rows with a value: those not looked at yet, and those that have."""

    def _count(self) -> None:
        """Make the directory anew."""
        self._firsts = np.array([c.first for c in self._chunks[1:]], np.int64)
        """The first sort number of each chunk but the first."""
        self._bounds = np.array([0, *(c.size for c in self._chunks)], np.int64).cumsum()
        """Where each chunk begins, and the end."""
        self._ends = self._bounds[1:]  # the same memory: so both are changed at once
        self.size = int(self._bounds[-1])
        """How many rows there are."""
        self._groups = self._leads = self._begins = None
        self._near = 0, 0, 0
        """Where the chunk looked at last begins and ends, and its number: the next look is mostly there."""

    def _chunk(self, codes: Codes) -> Chunk:
        return Chunk(codes, self._numbers(codes))

    def _numbers(self, codes: Codes) -> Ints:
        return self.order.number(codes[self.by[0]])

    # -- the directory -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.size

    @property
    def groups(self) -> int:
        """How many peer groups there are."""
        return self._groups_before.item(-1)

    @property
    def in_memory(self) -> int:
        """How many of the rows are in memory."""
        self._stored = [c for c in self._stored if c.page is not None]
        return self.size - sum([c.size for c in self._stored])

    @property
    def bytes(self) -> int:
        """How much memory the rows take."""
        return sum(chunk.bytes for chunk in self._chunks)

    def chunks(self) -> Iterator[Codes]:
        """Iterate over the rows, some at a time."""
        return (chunk.codes for chunk in self._chunks)

    def _at(self, position: int) -> tuple[int, int]:
        """Return the chunk that a position is in, and where in it."""
        start, end, chunk = self._near
        if not start <= position < end:
            chunk = int(self._ends.searchsorted(position, "right"))
            start = self._bounds.item(chunk)
            if chunk < len(self._chunks):
                self._near = start, self._bounds.item(chunk + 1), chunk
        return chunk, position - start

    def _starts(self, chunk: int) -> Ints:
        """Return where in a chunk peer groups begin."""
        here = self._chunks[chunk]
        if here.starts is None:
            begins = begins_of(here.codes, self.by)
            begins[0] = self._is_first(chunk)
            alone = len(begins) <= len(EVERY) and np.count_nonzero(begins) == len(begins)
            here.starts = EVERY[: len(begins)] if alone else begins.nonzero()[0]
        return here.starts

    @property
    def _groups_before(self) -> Ints:
        """How many peer groups begin before each chunk, and in all."""
        if self._groups is None and self._begins is not None:
            self._groups = self._begins.searchsorted(self._bounds)
        if self._groups is None:
            counts = [self._count_of_groups(chunk) for chunk in range(len(self._chunks))]
            self._groups = np.array([0, *counts], np.int64).cumsum()
        return self._groups

    def _count_of_groups(self, chunk: int) -> int:
        """Return how many peer groups begin in a chunk; of one outside of memory that is known."""
        known = self._chunks[chunk].groups
        return len(self._starts(chunk)) if known is None else known

    def _is_first(self, chunk: int) -> bool:
        """Return whether a chunk's first row begins a peer group."""
        if chunk == 0 or self._chunks[chunk - 1].last != self._chunks[chunk].first:
            return True
        before, here = self._chunks[chunk - 1].codes, self._chunks[chunk].codes
        return any(before.item(row, -1) != here.item(row, 0) for row in self.by)

    # -- finding rows --------------------------------------------------------------------------------------------------

    def position_of(self, row: list[int]) -> int:
        """Return the first position at which a row is, or would be."""
        lead = self.order.number_of(row[self.by[0]])
        chunk = int(self._firsts.searchsorted(lead, "right"))
        if chunk and self._firsts.item(chunk - 1) == lead:
            is_before, low = self.order.sorts_before(row), int(self._firsts.searchsorted(lead))
            chunk = _first_not(lambda c: is_before(self._row_at(c, 0)), low + 1, chunk + 1) - 1
        begin: int = self._bounds.item(chunk)
        return begin + self._position_in(chunk, row, lead)

    def _position_in(self, chunk: int, row: list[int], lead: int) -> int:
        """Return the first position in a chunk at which a row is, or would be."""
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

    def _row_at(self, chunk: int, at: int) -> list[int]:
        row: list[int] = self._chunks[chunk].codes[:, at].tolist()
        return row

    def positions_of(self, new: Codes) -> tuple[Ints, Bools]:
        """Return the first position at which each of some rows, in their order, is or would be; and which are there."""
        numbers = self.order.number(new[self.by[0]])
        positions, there = self.positions_of_numbers(numbers), np.zeros(new.shape[1], np.bool_)
        inside = (positions < self.size).nonzero()[0]
        at = positions.take(inside)
        there[inside] = same = (self.rows_at(at) == new.take(inside, axis=1)).all(axis=0)
        tied = inside.compress((self.numbers_at(at) == numbers.take(inside)) & ~same)
        if len(tied):
            first = positions.take(tied)
            widths = self.positions_of_numbers(numbers.take(tied), right=True) - first
            few = widths <= TIED
            for some, find in ((few, self._among_few), (~few, self._one_by_one)):
                if some.any():
                    at = tied.compress(some)
                    positions[at], there[at] = find(new.take(at, axis=1), first.compress(some), widths.compress(some))
        return positions, there

    def _among_few(self, new: Codes, low: Ints, widths: Ints) -> tuple[Ints, Bools]:
        """Return the positions of rows, each sought among some from a position on, and which are there: sorts them all.

        Rows with the same first sort number are all among the same rows, which are looked at once.
        """
        begins = np.concatenate(([True], low[1:] != low[:-1]))
        firsts, number, sizes = low.compress(begins), begins.cumsum() - 1, widths.compress(begins)
        around = self.spans(firsts, firsts + sizes)
        group = np.concatenate((number, np.arange(len(firsts)).repeat(sizes)))
        is_old = (np.arange(len(group)) >= len(low)).astype(np.int64)
        rank = np.empty(len(group), np.int64)
        rank[self.order.sorted([*np.concatenate((new, around), axis=1)], group, [is_old]).order] = np.arange(len(group))
        at = rank[: len(low)] - np.arange(len(low))  # among the rows around: as many new ones as are given are in front
        found = at - (sizes.cumsum() - sizes).take(number)
        there = found < widths
        there[there] = (around.take(at.compress(there), axis=1) == new.compress(there, axis=1)).all(axis=0)
        return low + found, there

    def _one_by_one(self, new: Codes, _low: Ints, _widths: Ints) -> tuple[Ints, Bools]:
        positions = np.array([self.position_of(row) for row in new.T.tolist()], np.int64)
        there = positions < self.size
        there[there] = (self.rows_at(positions.compress(there)) == new.compress(there, axis=1)).all(axis=0)
        return positions, there

    def copies(self, position: int, row: Ints, most: int) -> int:
        """Return how many copies of a row there are from a position on; looks at ``most`` rows."""
        if most == 1:
            chunk, at = self._at(position)
            return int(position < self.size and self._chunks[chunk].codes[:, at].tolist() == row.tolist())
        here = self.between(position, min(position + most, self.size))
        same = (here == row[:, None]).all(axis=0)
        return len(same) if same.all() else int(same.argmin())

    # -- counting: of many positions at once --------------------------------------------------------------------------

    def positions_of_numbers(self, numbers: Ints, *, right: bool = False) -> Ints:
        """Return the first position whose row has this sort number or a greater one; or, right, a greater one."""
        side: Literal["left", "right"] = "right" if right else "left"
        if self._asks_all(len(numbers)):
            return self._all_leads.searchsorted(numbers, side)
        chunks = self._firsts.searchsorted(numbers, side)
        inside: Ints = self._in_chunks(chunks, numbers, lambda chunk, some: chunk.leads.searchsorted(some, side))
        inside += self._bounds.take(chunks)
        return inside

    def _asks_all(self, count: int) -> bool:
        """Return whether one search for so many over all rows beats searching chunk by chunk."""
        return count > MANY and count * CHUNKS > len(self._chunks) and not self._stored

    @property
    def _all_leads(self) -> Ints:
        if self._leads is None:
            self._leads = np.concatenate([chunk.leads for chunk in self._chunks])
        return self._leads

    @property
    def _all_begins(self) -> Ints:
        if self._begins is None:
            if len(self.by) == 1 and self.order.numbers_are_codes:
                by = self._all_leads[None]
            else:
                by = np.array([np.concatenate([chunk.codes[row] for chunk in self._chunks]) for row in self.by])
            self._begins = np.append(begins_of(by, [*range(len(by))]).nonzero()[0], self.size)
        return self._begins

    def numbers_at(self, positions: Ints) -> Ints:
        """Return the sort numbers of the rows at some positions; beyond an end, of the row there."""
        if self._asks_all(len(positions)):
            return self._all_leads.take(positions, mode="clip")
        found: Ints = self._taken(positions, lambda chunk, at: chunk.leads.take(at, mode="clip"))
        return found

    def rows_at(self, positions: Ints) -> Codes:
        """Return the rows at some positions."""
        if not len(positions):
            return self._chunks[0].codes[:, :0]
        found: Codes = self._taken(positions, lambda chunk, at: chunk.codes.take(at, axis=1))
        return found

    def _taken(self, positions: Ints, take: Callable[[Chunk, Ints], Any]) -> Any:
        chunks = self._ends[:-1].searchsorted(positions, "right")
        return self._in_chunks(chunks, positions - self._bounds.take(chunks), take)

    def _in_chunks(self, chunks: Ints, requests: Ints, look: Callable[[Chunk, Ints], Any]) -> Any:
        """Return what a function finds, of the requests that fall into each chunk, for all of them."""
        if len(chunks) == 1:
            return look(self._chunks[chunks.item()], requests)
        found = [look(self._chunks[chunk], requests[some]) for chunk, some in _runs_of(chunks)]
        return np.concatenate(found or [requests], axis=-1)

    def groups_before(self, positions: Ints) -> Ints:
        """Return how many peer groups begin before each position."""
        if self._asks_all(len(positions)):
            return self._all_begins.searchsorted(np.minimum(positions, self.size))
        chunks = self._ends.searchsorted(positions, "right")
        found, at = self._groups_before.take(chunks), positions - self._bounds.take(chunks)
        for chunk, some in _runs_of(chunks):
            if chunk < len(self._chunks):
                found[some] += self._starts(chunk).searchsorted(at[some])
        return found

    def group_starts(self, groups: Ints) -> Ints:
        """Return where peer groups begin; beyond the last one, the end."""
        if self._asks_all(len(groups)):
            return self._all_begins.take(groups, mode="clip")
        before = self._groups_before
        groups = np.minimum(np.maximum(groups, 0), before.item(-1))
        chunks = before.searchsorted(groups, "right") - 1
        found, at = self._bounds.take(chunks), groups - before.take(chunks)
        for chunk, some in _runs_of(chunks):
            if chunk < len(self._chunks):
                found[some] += self._starts(chunk).take(at[some])
        return found

    def are_peers(self, positions: Ints, rows: Codes) -> Bools:
        """Return whether the row at each position, if there is one, is a peer of the given one."""
        found = (positions >= 0) & (positions < self.size)
        inside, rows = positions.compress(found), rows.compress(found, axis=1)
        found[found] = (self.rows_at(inside)[self.by] == rows[self.by]).all(axis=0)
        return found

    def peers_start(self, positions: Ints) -> Ints:
        """Return where the peer group of the row at each position begins, or one before that; for the end, the end."""
        if not self.peers_by_number:
            return self.group_starts(self.groups_before(positions + 1) - (positions < self.size))
        return self._ends_of_peers(positions, positions < self.size, 0)

    def peers_end(self, positions: Ints) -> Ints:
        """Return where the peer group of the row before each position ends, or one after that; for 0, 0."""
        if not self.peers_by_number:
            return self.group_starts(self.groups_before(positions))
        return self._ends_of_peers(positions, positions > 0, 1)

    def _ends_of_peers(self, positions: Ints, there: Bools, back: int) -> Ints:
        found = self.positions_of_numbers(self.numbers_at(positions - back), right=back > 0)
        return np.where(there, found, positions)

    # -- cutting out and summarising -----------------------------------------------------------------------------------

    def slices(self, low: int, high: int) -> list[Codes]:
        """Return the rows from one position up to another, as they lie in chunks."""
        found: list[Codes] = []
        left = high - low
        chunk, at = self._at(low) if left > 0 else (0, 0)
        while left > 0:
            codes = self._chunks[chunk].codes[:, at : at + left]
            found.append(codes)
            left -= codes.shape[1]
            chunk, at = chunk + 1, 0
        return found

    def between(self, low: int, high: int) -> Codes:
        """Return the rows from one position up to another."""
        found = self.slices(low, high) or [self._chunks[0].codes[:, :0]]
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)

    def slices_of(self, lows: Ints, highs: Ints) -> list[Codes]:
        """Return the rows from some positions up to others, one after another, as they lie in chunks."""
        if len(lows) == 1:
            return self.slices(lows.item(), highs.item())
        some = lows < highs
        lows, highs = lows.compress(some), highs.compress(some)
        chunks = self._ends.searchsorted(lows, "right")
        counts = self._bounds.searchsorted(highs) - chunks
        chunks = positions_from(chunks, counts)
        starts = self._bounds.take(chunks)
        lows = np.maximum(lows.repeat(counts), starts) - starts
        highs = np.minimum(highs.repeat(counts), self._ends.take(chunks)) - starts
        parts = zip(chunks.tolist(), lows.tolist(), highs.tolist(), strict=True)
        return [self._chunks[number].codes[:, low:high] for number, low, high in parts]

    def spans(self, lows: Ints, highs: Ints) -> Codes:
        """Like `slices_of`, put together."""
        return np.concatenate(self.slices_of(lows, highs) or [self._chunks[0].codes[:, :0]], axis=1)

    def walk(self, position: int, *, back: bool = False) -> Iterator[Part]:
        """Iterate over the rows from a position on, or back from it, chunk by chunk."""
        chunk, at = self._at(position)
        if chunk < len(self._chunks) and (at or not back):
            codes = self._chunks[chunk].codes
            part = codes[:, :at] if back else codes[:, at:]
            yield (position - at if back else position), part, lambda wanted, of: of(wanted, part[wanted.column])
        for number in range(chunk - 1, -1, -1) if back else range(chunk + 1, len(self._chunks)):
            here = self._chunks[number]
            yield self._bounds.item(number), here.codes, here.summary

    def values_from(self, column: int, position: int, *, back: bool = False) -> Iterator[tuple[Ints, Ints]]:
        """Iterate over the rows with a value in a column from a position on, or back from it, chunk by chunk.

        Yields positions and codes, those of each chunk in the order. Chunks known to have none are passed over at once.
        """
        chunk, at = self._at(position)
        there = self._may_have.setdefault(column, np.ones(len(self._chunks), np.bool_))
        others = there[:chunk].nonzero()[0][::-1] if back else there[chunk + 1 :].nonzero()[0] + chunk + 1
        for number in chain([chunk] if chunk < len(self._chunks) and there[chunk] else [], others):
            codes = self._chunks[number].codes[column]
            non_null = (codes != NULL).nonzero()[0]
            there[number] = len(non_null) > 0
            if number == chunk:
                non_null = non_null[: non_null.searchsorted(at)] if back else non_null[non_null.searchsorted(at) :]
            if len(non_null):
                yield non_null + self._bounds.item(number), codes.take(non_null)

    def _nearest(self, position: int, wanted: Summary, *, back: bool) -> tuple[int, ...]:
        """Return the codes at an end, which is at this position."""
        if wanted.kind in ("first", "last"):
            low, high = (
                (max(position - wanted.most, 0), position)
                if back
                else (position, min(position + wanted.most, self.size))
            )
            return tuple(chain.from_iterable([codes[wanted.column].tolist() for codes in self.slices(low, high)]))
        found: list[int] = []
        for _, codes in self.values_from(wanted.column, position, back=back):
            more = wanted.most - len(found)
            found = codes[-more:].tolist() + found if back else found + codes[:more].tolist()
            if len(found) == wanted.most:
                break
        return tuple(found)

    def before(self, position: int, wanted: Summary, summarise: Summarise) -> Any:
        """Return the summary of the rows before a position.

        Cost: a part of a chunk, and the chunks in front that nobody asked for since one of them was changed; for the
        last values the chunks that these are in.
        """
        if wanted.kind in ("last", "last non-null"):
            return self._nearest(position, wanted, back=True)
        chunk, at = self._at(position)
        whole = self._before.of(wanted, chunk, lambda number: self._chunks[number].summary(wanted, summarise))
        rest = [summarise(wanted, self._chunks[chunk].codes[wanted.column, :at])] if at else []
        return together(wanted, [*whole, *rest])

    def after(self, position: int, wanted: Summary, summarise: Summarise) -> Any:
        """Return the summary of the rows from a position on, as `before` does."""
        if wanted.kind in ("first", "first non-null"):
            return self._nearest(position, wanted, back=False)
        chunk, at = self._at(position)
        count = len(self._chunks) - chunk - (at > 0)
        whole = self._after.of(wanted, count, lambda number: self._chunks[-1 - number].summary(wanted, summarise))
        rest = [summarise(wanted, self._chunks[chunk].codes[wanted.column, at:])] if at else []
        return together(wanted, [*rest, *whole])

    # -- changing ------------------------------------------------------------------------------------------------------

    def apply(self, edits: Edits) -> None:
        """Put in and take out rows."""
        if not len(edits.positions):
            return
        chunk = min(self._at(edits.positions.item(0))[0], len(self._chunks) - 1)
        start, counted = self._bounds.item(chunk), True
        if edits.end <= self._ends.item(chunk):
            counted = self._replace(chunk, Edits(edits.positions - start, edits.rows, edits.copies), counted=True)
        else:
            numbers = self._numbers_of_chunks(edits)
            while (beyond := edits.ends > self._ends.take(numbers)).any():  # from one chunk into the next
                edits = divided(edits, beyond, self._ends.take(numbers))
                numbers = self._numbers_of_chunks(edits)
            at, touched = edits.positions - self._bounds.take(numbers), _runs_of(numbers)
            counted = len(touched) <= _FEW
            for chunk, some in reversed(touched):
                part = Edits(at[some], edits.rows[:, some], edits.copies[some])
                counted &= self._replace(chunk, part, counted=counted)
        if not counted:
            self._count()
        if len(self._chunks) > 4 * self.size // CHUNK + _FEW:  # most have become small
            codes = self.between(0, self.size)
            self._hold(self._split(codes, 0))

    def _numbers_of_chunks(self, edits: Edits) -> Ints:
        return np.minimum(self._ends.searchsorted(edits.positions, "right"), len(self._chunks) - 1)

    def _replace(self, number: int, edits: Edits, *, counted: bool) -> bool:
        """Replace a chunk by what it is after some edits; return whether that is one chunk, too, and counted."""
        old, groups = self._chunks[number], self._groups
        self._before.forget(number)
        self._after.forget(len(self._chunks) - number - 1)
        made = self._split(edited(old.codes, edits), 2 * CHUNK)
        self._chunks[number : number + 1] = made
        for column, there in self._may_have.items():
            self._may_have[column] = np.concatenate((there[:number], [True] * len(made), there[number + 1 :]))
        self._near, self._leads, self._begins = (0, 0, 0), None, None
        # A chunk whose first row was put in, or before which the last row was, may begin with another peer group.
        next_one = number + len(made)
        if next_one < len(self._chunks) and (not made or edits.end >= old.size):
            self._first_may_differ(next_one)
        if len(made) != 1 or not counted:
            return False
        if number:
            self._firsts[number - 1] = made[0].first
        if more := made[0].size - old.size:
            self._ends[number:] += more
            self.size += more
        if old.starts is None:  # how many there were was not counted
            self._groups = None
        elif groups is not None and self._groups is not None and (more := len(self._starts(number)) - len(old.starts)):
            groups[number + 1 :] += more
        return True

    def _first_may_differ(self, chunk: int) -> None:
        """Look again whether a chunk's first row begins a peer group, if that was known."""
        starts = self._chunks[chunk].starts
        if starts is None:  # but how many there are may have been counted
            self._groups = None
            return
        first = self._is_first(chunk)
        if (len(starts) > 0 and starts.item(0) == 0) != first:
            self._chunks[chunk].starts = np.concatenate(([0], starts)) if first else starts[1:]
            if self._groups is not None:
                self._groups[chunk + 1 :] += 1 if first else -1

    def _split(self, codes: Codes, most: int) -> list[Chunk]:
        """Return rows as one chunk, if they are no more than ``most``, or as some."""
        n = codes.shape[1]
        if 0 < n <= most:
            return [self._chunk(codes)]
        return [self._chunk(codes[:, start : start + CHUNK].copy()) for start in range(0, n, CHUNK)]


def _runs_of(chunks: Ints) -> list[tuple[int, slice]]:
    """Return chunks, each with the slice of the requests that fall into it."""
    if len(chunks) == 1:
        return [(chunks.item(), slice(None))]
    firsts = (chunks[1:] != chunks[:-1]).nonzero()[0] + 1
    bounds = [0, *firsts.tolist(), len(chunks)]
    return [(chunks.item(low), slice(low, high)) for low, high in pairwise(bounds) if low < high]


def _first_not(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first number for which something does not hold that holds up to some number."""
    return bisect_left(range(high), True, low, key=lambda number: not holds(number))
