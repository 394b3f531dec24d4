"""The rows of one group in order, with rank and select: a sorted list in chunks.

A position counts copies: a row with count 3 is at three positions. Rank goes from a row to its position, select from a
position to its row. Both are a binary search among the chunks and one in a chunk, since it is known of each chunk how
many copies it holds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Ints, UpdateArray, consolidated, stacked
from tidemill.renderer.embedded.trace.row_order import FEW, RowOrder

__all__ = ["SortedRows"]

CHUNK: Final = 512
"""Rows in a chunk when it is made; in a group of more than its square, the square root of the group's rows."""
REBUILD: Final = 8
"""With more changes than one for each so many rows that are there, everything is sorted anew."""
CHUNKS_FOR_EACH: Final = 8
"""Where there are more chunks for each row sought, rows are bisected among the chunks one by one."""


class SortedRows:
    """Rows with counts in an order. Immutable: a change gives others, which share all chunks but those it falls into.

    An array of rows has a column for each: its codes, then its count. No row is there twice, no count is zero.
    """

    __slots__ = ("_copies", "_heads", "_nothing", "_order", "_starts", "chunks", "distinct")

    def __init__(  # noqa: PLR0917 - its parts, which only this class makes
        self,
        order: RowOrder,
        chunks: list[UpdateArray],
        heads: list[tuple[Any, ...]],
        copies: Ints,
        distinct: int,
        nothing: UpdateArray,
    ) -> None:
        self._order = order
        self.chunks = chunks
        self._heads = heads
        """The first row of each chunk, as what sorts as it does."""
        self._copies = copies
        """The sum of the counts in each chunk."""
        self._starts = _starts(copies)
        """The position at which each chunk starts, and the end."""
        self.distinct = distinct
        """How many different rows there are."""
        self._nothing = nothing
        """An array of no rows."""

    @classmethod
    def of(cls, order: RowOrder, rows: UpdateArray) -> SortedRows:
        """Return rows, all different, in order."""
        return cls.in_order(order, order.sorted(rows))

    @classmethod
    def in_order(cls, order: RowOrder, rows: UpdateArray) -> SortedRows:
        """Return rows, all different, that are in order."""
        n = rows.shape[1]
        chunks = _cut(rows, n)
        heads = [order.key(chunk[:, 0].tolist()) for chunk in chunks]
        return cls(order, chunks, heads, _copies(chunks), n, rows[:, :0])

    # -- changing ---------------------------------------------------------------------------------------------------

    def changed(self, change: UpdateArray) -> tuple[SortedRows, UpdateArray]:
        """Return what there is after a consolidated change of counts; and of the rows in it, those negative by then.

        A change costs a search, a copy of the chunk it falls into, and one of the list of chunks.
        """
        if change.shape[1] * REBUILD > self.distinct:
            merged = consolidated(stacked([*self.chunks, change]))
            return SortedRows.of(self._order, merged), merged.compress(merged[-1] < 0, axis=1)
        chunks: list[UpdateArray] = []
        heads: list[tuple[Any, ...]] = []
        copies: list[int] = []
        negative = [change[:, :0]]
        before, counts = self._copies.tolist(), change[-1].tolist()
        numbers = self._order.leading(change[self._order.first_row])
        rows = change.T
        done, distinct = 0, self.distinct
        for place, which in _by_place(self._places(change)):
            old = self.chunks[place]
            new = (
                None
                if numbers is None
                else self._with_some(old, [(rows[i], numbers[i : i + 1]) for i in which], negative)
            )
            if new is None:
                new = self._merged(old, change.take(which, axis=1), negative)
            made = _cut(new, distinct)
            chunks += self.chunks[done:place]
            heads += self._heads[done:place]
            copies += before[done:place]
            if len(made) == 1 and new[:-1, 0].tolist() == old[:-1, 0].tolist():
                heads.append(self._heads[place])
                copies.append(before[place] + sum(counts[i] for i in which))
            else:
                heads += [self._order.key(chunk[:, 0].tolist()) for chunk in made]
                copies += [int(chunk[-1].sum()) for chunk in made]
            chunks += made
            done, distinct = place + 1, distinct + new.shape[1] - old.shape[1]
        chunks += self.chunks[done:]
        heads += self._heads[done:]
        copies += before[done:]
        found = SortedRows(self._order, chunks, heads, np.array(copies, np.int64), distinct, self._nothing)
        return found, stacked(negative)

    def _with_some(
        self, rows: UpdateArray, changes: list[tuple[Ints, Ints]], negative: list[UpdateArray]
    ) -> UpdateArray | None:
        """Return what `_with_one` does for a few rows one after another, each with what it is sorted by."""
        if len(changes) > FEW:
            return None
        new: UpdateArray | None = rows
        for row, number in changes:
            new = None if new is None else self._with_one(new, row, number, negative)
        return new

    def _with_one(self, rows: UpdateArray, row: Ints, number: Ints, negative: list[UpdateArray]) -> UpdateArray | None:
        """Return sorted rows with a change of one that the first column tells from all others; None where it does not.

        ``number`` is what that column sorts it by.
        """
        numbers = self._order.leading(rows[self._order.first_row])
        if numbers is None:
            return None
        low = high = int(numbers.searchsorted(number)[0])
        count = int(row[-1])
        if low < len(numbers) and numbers[low] == number[0]:
            high += 1
            alone = high == len(numbers) or numbers[high] != number[0]
            if not alone or rows[:-1, low].tolist() != row[:-1].tolist():
                return None
            count += int(rows[-1, low])
        some = int(count != 0)
        new = np.empty((len(rows), rows.shape[1] - (high - low) + some), np.int64)
        new[:, :low] = rows[:, :low]
        new[:, low + some :] = rows[:, high:]
        if count:
            new[:, low] = row
            new[-1, low] = count
        if count < 0:
            negative.append(new[:, low : low + 1])
        return new

    def _merged(self, rows: UpdateArray, change: UpdateArray, negative: list[UpdateArray]) -> UpdateArray:
        """Return sorted rows with a change of some of them; add those of a negative count to a list."""
        if change.shape[1] > FEW:
            merged = consolidated(np.concatenate((rows, change), axis=1))
            negative.append(merged.compress(merged[-1] < 0, axis=1))
            return self._order.sorted(merged)
        for i in range(change.shape[1]):
            row = change[:, i : i + 1]
            (at,) = self._order.find(rows, row).tolist()
            after = at
            if at < rows.shape[1] and (rows[:-1, at] == row[:-1, 0]).all():
                row = row.copy()
                row[-1] += rows[-1, at]
                after = at + 1
            if row[-1, 0] < 0:
                negative.append(row)
            if row[-1, 0] == 0:
                row = row[:, :0]
            rows = np.concatenate((rows[:, :at], row, rows[:, after:]), axis=1)
        return rows

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many rows there are, copies counted."""
        return int(self._starts[-1])

    def first(self) -> list[int] | None:
        """Return the first row, as codes and count; None where there is none."""
        return self.chunks[0][:, 0].tolist() if self.chunks else None

    def last(self) -> list[int] | None:
        """Return the last row, as codes and count; None where there is none."""
        return self.chunks[-1][:, -1].tolist() if self.chunks else None

    def select(self, positions: Ints) -> UpdateArray:
        """Return the row at each of some positions, from 0 on and before ``size``."""
        found = np.empty((len(self._nothing), len(positions)), np.int64)
        for place, which in _by_place(self._starts.searchsorted(positions, "right") - 1):
            chunk = self.chunks[place]
            inside = positions.take(which) - self._starts[place]
            found[:, which] = chunk.take(chunk[-1].cumsum().searchsorted(inside, "right"), axis=1)
        return found

    def rank(self, rows: UpdateArray) -> Ints:
        """Return how many rows there are before each of these, copies counted.

        Given by their codes alone, they need not be there. Of one that is, that is the position of its first copy.
        """
        found = np.zeros(rows.shape[1], np.int64)
        if self.chunks:
            for place, which in _by_place(self._places(rows)):
                chunk = self.chunks[place]
                inside = self._order.find(chunk[:-1], rows.take(which, axis=1))
                found[which] = self._starts[place] + _starts(chunk[-1]).take(inside)
        return found

    def between(self, start: int, stop: int) -> UpdateArray:
        """Return the rows at the positions from ``start`` on and before ``stop``, with as many copies as lie there.

        Positions before 0 and beyond the end hold nothing.
        """
        start, stop = max(start, 0), min(stop, self.size)
        if start >= stop:
            return self._nothing
        low = int(self._starts.searchsorted(start, "right")) - 1
        high = int(self._starts.searchsorted(stop))
        rows = stacked(self.chunks[low:high])
        ends = self._starts[low] + rows[-1].cumsum()
        within = slice(int(ends.searchsorted(start, "right")), int(ends.searchsorted(stop)) + 1)
        rows, ends = rows[:, within].copy(), ends[within]
        rows[-1] = np.minimum(ends, stop) - np.maximum(ends - rows[-1], start)
        return rows

    def _places(self, rows: UpdateArray) -> Ints:
        """Return in which chunk each row is, or belongs: the last that does not start after it."""
        if rows.shape[1] > 1 and self.chunks:
            at = self._order.first_row
            heads = self._order.leading_of(self._heads)
            sought = self._order.leading(rows[at])
            if heads is not None and sought is not None:
                places = heads.searchsorted(sought, "right") - 1
                for i in (heads.searchsorted(sought) <= places).nonzero()[0].tolist():  # of those alike, the last
                    places[i] = bisect_right(self._heads, self._order.key(rows[:, i].tolist())) - 1
                return np.maximum(places, 0)
        if len(self.chunks) < CHUNKS_FOR_EACH * rows.shape[1]:
            codes = len(self._nothing) - 1
            heads = np.concatenate([chunk[:codes, :1] for chunk in self.chunks], axis=1)
            return np.maximum(self._order.find(heads, rows[:codes], after_equal=True) - 1, 0)
        keys = map(self._order.key, rows.T.tolist())
        return np.array([max(bisect_right(self._heads, key) - 1, 0) for key in keys], np.int64)


def _by_place(places: Ints) -> Iterator[tuple[int, list[int]]]:
    """Give each different place, in order, and which of the places it is."""
    found: dict[int, list[int]] = {}
    for i, place in enumerate(places.tolist()):
        found.setdefault(place, []).append(i)
    yield from sorted(found.items())


def _cut(rows: UpdateArray, distinct: int) -> list[UpdateArray]:
    """Return sorted rows in chunks of about the size that suits a group of so many."""
    n, size = rows.shape[1], max(CHUNK, math.isqrt(distinct))
    if n <= 2 * size:
        return [rows] if n else []
    count = -(-n // size)
    bounds = [n * i // count for i in range(count + 1)]
    return [np.ascontiguousarray(rows[:, low:high]) for low, high in pairwise(bounds)]


def _copies(chunks: list[UpdateArray]) -> Ints:
    return np.array([chunk[-1].sum() for chunk in chunks], np.int64)


def _starts(counts: Ints) -> Ints:
    """Return where each of some ranges of these lengths starts, laid end to end, and the end of the last."""
    starts = np.zeros(len(counts) + 1, np.int64)
    counts.cumsum(out=starts[1:])
    return starts
