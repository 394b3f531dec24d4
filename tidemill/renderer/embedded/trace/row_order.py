"""Orders of rows by some of their columns, whole columns at once or row by row."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import Interner, is_interned, order_key, order_ranks
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints, UpdateArray

__all__ = ["RowOrder", "SortColumn", "sort_order"]

FEW: Final = 4
"""Up to so many rows are found by bisection in Python; more are sorted together with those they are to be found in."""


class SortColumn(NamedTuple):
    """A row of codes to sort by, and how."""

    row: int
    dtype: DType
    descending: bool = False
    nulls_first: bool = True


def sort_order(
    codes: Codes,
    columns: Sequence[SortColumn],
    interner: Interner,
    first: tuple[Ints, ...] = (),
    last: tuple[Ints, ...] = (),
) -> Ints:
    """Return the order of columns of codes by these rows, after what is given as ``first`` and before ``last``."""
    keys: list[Ints] = list(first)
    for c in columns:
        ranks = order_ranks(codes[c.row], c.dtype, interner)
        null = codes[c.row] == NULL
        if null.any():
            keys.append(np.where(null, 0 if c.nulls_first else 2, 1))
        keys.append(~ranks if c.descending else ranks)
    keys += last
    return np.lexsort(keys[::-1]) if keys else np.arange(codes.shape[1])


class RowOrder:
    """An order by columns of codes that tells any two different rows apart."""

    def __init__(self, columns: Sequence[SortColumn], interner: Interner) -> None:
        self._columns = columns
        self._interner = interner

    def sorted(self, rows: UpdateArray) -> UpdateArray:
        """Return rows in order."""
        return rows.take(sort_order(rows, self._columns, self._interner), axis=1)

    def key(self, row: Sequence[int]) -> tuple[Any, ...]:
        """Return a tuple that sorts as a row does."""
        return tuple([self._key_of(c, row[c.row]) for c in self._columns])

    def find(self, rows: UpdateArray, sought: Codes, *, after_equal: bool = False) -> Ints:
        """Return for each row sought how many of some sorted rows are before it; with ``after_equal`` or are equal."""
        n = rows.shape[1]
        if sought.shape[1] <= FEW:
            bisect = bisect_right if after_equal else bisect_left
            keys = [self.key(row) for row in sought.T.tolist()]
            return np.array([bisect(range(n), k, key=lambda i: self.key(rows[:, i].tolist())) for k in keys], np.int64)
        both = np.concatenate((sought, rows), axis=1)
        is_sought = np.arange(both.shape[1]) < sought.shape[1]
        order = sort_order(both, self._columns, self._interner, last=(is_sought == after_equal,))
        is_sought = is_sought.take(order)
        found = np.empty(sought.shape[1], np.int64)
        found[order[is_sought]] = (~is_sought).cumsum()[is_sought]
        return found

    def _key_of(self, column: SortColumn, code: int) -> tuple[int, Any]:
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
