"""Rows of groups in order, at the newest time: a sorted list in chunks.

Where user times are totally ordered and no loop is around, a group's contents change by moving on only. Then its rows
can be held consolidated and sorted, so that the least and the greatest are there without looking at the others,
whatever was deleted before. A change costs a binary search and a copy of the chunk it falls into.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import Interner, is_interned, order_key, order_ranks
from tidemill.renderer.embedded.kernels.updates import NULL, Block, Ints, consolidated, stacked
from tidemill.renderer.embedded.schedule import Schedule

__all__ = ["OrderedRows", "SortColumn", "sort_order"]

CHUNK: Final = 512
"""Rows in a chunk when it is made; it is split at twice as many."""
REBUILD: Final = 8
"""With more new rows than one for each so many that are there, everything is sorted anew."""
FEW: Final = 4
"""So many changes to a chunk are put in their places one by one; beyond, it is sorted again."""


class SortColumn(NamedTuple):
    """A row of codes to sort by, and how."""

    row: int
    dtype: DType
    descending: bool = False
    nulls_first: bool = True


def sort_order(block: Block, columns: list[SortColumn], interner: Interner, first: tuple[Ints, ...] = ()) -> Ints:
    """Return the order of a block's columns by these rows of codes, after those given as ``first``."""
    keys: list[Ints] = list(first)
    for c in columns:
        codes = block[c.row]
        ranks = order_ranks(codes, c.dtype, interner)
        null = codes == NULL
        if null.any():
            keys.append(np.where(null, 0 if c.nulls_first else 2, 1))
        keys.append(~ranks if c.descending else ranks)
    return np.lexsort(keys[::-1]) if keys else np.arange(block.shape[1])


class OrderedRows:
    """Rows with counts, sorted by key and then by some of their codes. No two are the same, no count is zero.

    The first ``width`` rows of a block are the key; ``columns`` must tell any two rows of a group apart.
    """

    def __init__(
        self, width: int, codes: int, columns: list[SortColumn], schedule: Schedule, interner: Interner
    ) -> None:
        self._width = width
        self._rows = codes + 1
        self._columns = columns
        self._touched = schedule.touched
        self._interner = interner
        self._chunks: list[Block] = []
        self._heads: list[tuple[Any, ...]] = []
        self.size = 0
        """The number of rows."""
        self._mark: tuple[list[Block], list[tuple[Any, ...]], int] | None = None

    # -- changing ---------------------------------------------------------------------------------------------------

    def apply(self, change: Block) -> Block:
        """Add counts to rows; return the rows touched that are now there with a negative count."""
        change = consolidated(change)
        if not change.shape[1]:
            return change
        if self._mark is None:
            self._mark = (self._chunks[:], self._heads[:], self.size)
            self._touched.append(self)
        if change.shape[1] * REBUILD > self.size:
            merged = consolidated(stacked([*self._chunks, change]))
            self._replace(0, len(self._chunks), merged)
            return merged.compress(merged[-1] < 0, axis=1)
        negative: list[Block] = []
        places: dict[int, list[int]] = {}
        for i in range(change.shape[1]):
            key = self._sort_key(change[:, i].tolist())
            places.setdefault(max(bisect_right(self._heads, key) - 1, 0), []).append(i)
        for place in sorted(places, reverse=True):  # from the end, so that the places before stay what they are
            part = change[:, places[place]]
            if part.shape[1] <= FEW:
                rows = self._chunks[place]
                for i in range(part.shape[1]):
                    rows = self._with(rows, part[:, i : i + 1], negative)
                self._put(place, place + 1, rows)
            else:
                merged = consolidated(np.concatenate((self._chunks[place], part), axis=1))
                negative.append(merged.compress(merged[-1] < 0, axis=1))
                self._replace(place, place + 1, merged)
        return stacked(negative) if negative else change[:, :0]

    def _with(self, rows: Block, change: Block, negative: list[Block]) -> Block:
        """Return sorted rows with a change of one of them, which is found by bisection."""
        key = self._sort_key(change[:, 0].tolist())
        at = bisect_left(range(rows.shape[1]), key, key=lambda i: self._sort_key(rows[:, i].tolist()))
        after = at
        if at < rows.shape[1] and (rows[:-1, at] == change[:-1, 0]).all():
            change = change.copy()
            change[-1] += rows[-1, at]
            after = at + 1
        if change[-1, 0] < 0:
            negative.append(change)
        if change[-1, 0] == 0:
            change = change[:, :0]
        return np.concatenate((rows[:, :at], change, rows[:, after:]), axis=1)

    def _replace(self, low: int, high: int, rows: Block) -> None:
        self._put(low, high, rows.take(self._order(rows), axis=1))

    def _put(self, low: int, high: int, rows: Block) -> None:
        """Put sorted rows in the place of some chunks."""
        n = rows.shape[1]
        count = 1 if n <= 2 * CHUNK else -(-n // CHUNK)
        bounds = [n * i // count for i in range(count + 1)]
        made = (
            [rows] if 0 < n == bounds[1] else [np.ascontiguousarray(rows[:, a:b]) for a, b in pairwise(bounds) if a < b]
        )
        self.size += n - sum(c.shape[1] for c in self._chunks[low:high])
        self._chunks[low:high] = made
        self._heads[low:high] = [self._sort_key(c[:, 0].tolist()) for c in made]

    def commit(self) -> None:
        self._mark = None

    def rollback(self) -> None:
        if self._mark is not None:
            self._chunks, self._heads, self.size = self._mark
            self._mark = None

    def clear(self) -> None:
        """Hold no rows."""
        self._chunks, self._heads, self.size, self._mark = [], [], 0, None

    # -- reading ----------------------------------------------------------------------------------------------------

    def first(self, key: tuple[int, ...]) -> list[int] | None:
        """Return the first row of a group, as codes and count; None where the group is empty."""
        at = self._start(key)
        return None if at is None else self._chunks[at[0]][:, at[1]].tolist()

    def last(self, key: tuple[int, ...]) -> list[int] | None:
        """Return the last row of a group."""
        place = bisect_left(self._heads, (*key, _AFTER)) - 1
        if place < 0:
            return None
        chunk = self._chunks[place]
        inside = self._bound(chunk, key, "right") - 1
        if inside < 0 or chunk[: self._width, inside].tolist() != list(key):
            return None
        row: list[int] = chunk[:, inside].tolist()
        return row

    def head(self, key: tuple[int, ...], count: int) -> Block:
        """Return the first rows of a group, as many as it takes for so many copies."""
        at = self._start(key)
        if at is None:
            return np.empty((self._rows, 0), np.int64)
        place, inside = at
        found: list[Block] = []
        while count > 0 and place < len(self._chunks):
            chunk = self._chunks[place]
            end = self._bound(chunk, key, "right")
            part = chunk[:, inside:end]
            totals = part[-1].cumsum()
            enough = int(totals.searchsorted(count)) + 1
            found.append(part[:, :enough])
            count -= int(totals[min(enough, len(totals)) - 1]) if len(totals) else count
            if end < chunk.shape[1]:
                break
            place, inside = place + 1, 0
            if place < len(self._chunks) and self._chunks[place][: self._width, 0].tolist() != list(key):
                break
        return stacked(found)

    def _start(self, key: tuple[int, ...]) -> tuple[int, int] | None:
        place = max(bisect_left(self._heads, (*key, _BEFORE)) - 1, 0)
        while place < len(self._chunks):
            chunk = self._chunks[place]
            inside = self._bound(chunk, key, "left")
            if inside < chunk.shape[1]:
                return (place, inside) if chunk[: self._width, inside].tolist() == list(key) else None
            place += 1
        return None

    def _bound(self, chunk: Block, key: tuple[int, ...], side: str) -> int:
        """Return where a key begins, or ends, in a chunk."""
        low, high = 0, chunk.shape[1]
        for row, code in enumerate(key):
            inside = chunk[row, low:high]
            low, high = low + int(inside.searchsorted(code)), low + int(inside.searchsorted(code, "right"))
        return low if side == "left" else high

    def _order(self, rows: Block) -> Ints:
        return sort_order(rows, self._columns, self._interner, tuple(rows[: self._width]))

    def _sort_key(self, row: list[int]) -> tuple[Any, ...]:
        """Return a tuple that sorts as the row does, key first."""
        return (*row[: self._width], _BETWEEN, *(self._part(c, row[c.row]) for c in self._columns))

    def _part(self, column: SortColumn, code: int) -> tuple[int, Any]:
        if code == NULL:
            return (0 if column.nulls_first else 2, 0)
        if not is_interned(column.dtype):
            return (1, ~code if column.descending else code)
        value = order_key(code, column.dtype, self._interner)
        return (1, _Reversed(value) if column.descending else value)


class _Reversed:
    """A value that sorts the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


_BEFORE, _BETWEEN, _AFTER = 0, 1, 2
"""Stand between a key and the rest of a sort key, for places before and after all rows of the key."""
