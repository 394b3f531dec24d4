"""Orders of rows by some of their columns, whole columns at once or row by row."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.expressions.types import STRING, DType
from tidemill.renderer.embedded.kernels.codec import Interner, is_interned, order_key, order_ranks
from tidemill.renderer.embedded.kernels.sorting import Sorted, refine, sort_by
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints, Rows, UpdateArray
from tidemill.renderer.embedded.kernels.values import sort_values

__all__ = ["RowOrder", "SortColumn", "sort_order"]

LEADING: Final = 2
"""So many columns are sorted by at once; further ones hardly ever decide."""
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
    n = codes.shape[1]
    if n < 2:  # noqa: PLR2004 - nothing to order
        return np.arange(n)
    return _ordered(codes, columns, interner, first, last).order


def _ordered(
    rows: Rows,
    columns: Sequence[SortColumn],
    interner: Interner,
    first: tuple[Ints, ...] = (),
    last: tuple[Ints, ...] = (),
) -> Sorted:
    """Return an order of rows. What comes later in it is looked at only where what comes first leaves rows equal."""
    leading, later = list(first), list(columns)
    while later and len(leading) < len(first) + LEADING and not is_interned(later[0].dtype):
        leading.append(_numbers(rows[later[0].row], later[0], interner))
        later.pop(0)
    found = sort_by(leading or [np.zeros(len(rows[0]), np.int64)])
    for column in later:
        refine(found.order, found.new, partial(_numbers_at, rows[column.row], column, interner))
    for numbers in last:
        refine(found.order, found.new, numbers.take)
    return found


def _numbers_at(codes: Ints, column: SortColumn, interner: Interner, at: Ints) -> Ints:
    return _numbers(codes.take(at), column, interner)


def _numbers(codes: Ints, column: SortColumn, interner: Interner) -> Ints:
    """Return numbers that sort as codes are to."""
    if is_interned(column.dtype):
        codes = np.where(codes == NULL, NULL, order_ranks(codes, column.dtype, interner))
    return sort_values(codes, descending=column.descending, nulls_first=column.nulls_first)


class RowOrder:
    """An order by columns of codes that tells any two different rows apart."""

    def __init__(self, columns: Sequence[SortColumn], interner: Interner) -> None:
        self._columns = columns
        self._interner = interner
        first = columns[0] if columns else SortColumn(0, STRING)
        self.first_row = first.row
        """The row of the first column."""
        self._plain = not is_interned(first.dtype)
        self._descending = first.descending
        self._nulls_apart = first.nulls_first == first.descending

    def sorted(self, rows: UpdateArray) -> UpdateArray:
        """Return rows in order."""
        return rows.take(sort_order(rows, self._columns, self._interner), axis=1)

    def of(self, rows: Rows, group: Ints) -> Sorted:
        """Return the order of rows by the number of each one's group, and then by this order."""
        return _ordered(rows, self._columns, self._interner, (group,))

    def key(self, row: Sequence[int]) -> tuple[Any, ...]:
        """Return a tuple that sorts as a row does."""
        return tuple([self._key_of(c, row[c.row]) for c in self._columns])

    def find(self, rows: UpdateArray, sought: Codes, *, after_equal: bool = False) -> Ints:
        """Return for each row sought how many of some sorted rows are before it; with ``after_equal`` or are equal."""
        if sought.shape[1] <= FEW:
            bisect = bisect_right if after_equal else bisect_left
            return np.array([self._bisected(rows, row, bisect) for row in sought.T.tolist()], np.int64)
        both = np.concatenate((sought, rows), axis=1)
        is_sought = np.arange(both.shape[1]) < sought.shape[1]
        order = sort_order(both, self._columns, self._interner, last=(is_sought == after_equal,))
        is_sought = is_sought.take(order)
        found = np.empty(sought.shape[1], np.int64)
        found[order[is_sought]] = (~is_sought).cumsum()[is_sought]
        return found

    def leading(self, codes: Ints) -> Ints | None:
        """Return numbers that sort as codes of the first column do; None where codes do not say that."""
        if not self._plain or (self._nulls_apart and codes.min(initial=0) == NULL):
            return None
        return ~codes if self._descending else codes

    def leading_of(self, keys: Sequence[tuple[Any, ...]]) -> Ints | None:
        """Return what `leading` does of rows, given by their keys."""
        if not self._plain:
            return None
        firsts = [key[0] for key in keys]
        if self._nulls_apart and any(first[0] != 1 for first in firsts):
            return None
        null = ~NULL if self._descending else NULL
        return np.array([number if known == 1 else null for known, number in firsts], np.int64)

    def _bisected(self, rows: UpdateArray, sought: list[int], bisect: Callable[..., int]) -> int:
        """Return the place of one row: by the first column, and only among those equal there by the others."""
        low, high = 0, rows.shape[1]
        if self._columns and high:
            numbers = self.leading(rows[self.first_row])
            number = self.leading(np.array([sought[self.first_row]], np.int64))
            if numbers is not None and number is not None:
                (low,), (high,) = (numbers.searchsorted(number, side).tolist() for side in ("left", "right"))
        if low == high:
            return low
        key = self.key(sought)
        return low + bisect(range(low, high), key, key=lambda i: self.key(rows[:, i].tolist()))

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
