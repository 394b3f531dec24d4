"""Orders of rows by some of their columns, whole columns at once or row by row."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.expressions.functions.xxhash import is_word, xxhash64_of, xxhash64_of_words
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import (
    Interner,
    decode_column,
    decoder,
    has_codes_in_order,
    is_interned,
    is_long_decimal,
    leading_number_of,
    leading_numbers,
    order_key,
    order_ranks,
)
from tidemill.renderer.embedded.kernels.hashing import xxhash64_columns
from tidemill.renderer.embedded.kernels.long_decimals import large_places
from tidemill.renderer.embedded.kernels.sorting import FEW, Sorted, ascending, refine, sort_by
from tidemill.renderer.embedded.kernels.updates import (
    NULL,
    Bools,
    Codes,
    Ints,
    Rows,
    UpdateArray,
    equal_to_another,
    first_numbers,
    numbered,
)
from tidemill.renderer.embedded.kernels.values import sort_values

LEADING: Final = 2
"""How many columns are sorted by at once; further ones hardly ever decide."""
FEW_TIED: Final = 32
"""Runs of more rows that columns leave tied are stored in the order that breaks ties: no reader goes through all."""
_WIDE: Final = 32
"""Numbers of more bits than these are numbered first, so that they leave room for other columns in a word."""
_KEY: Final = itemgetter(0)
_LEAST_HASH: Final = -(2**63) + 1
_GREATEST: Final = 2**63 - 1


class SortColumn(NamedTuple):
    """A row of codes to sort by, and how."""

    row: int
    dtype: DType
    descending: bool = False
    nulls_first: bool = True


class RowOrder:
    """An order by columns of codes; what these leave tied by a hash, if the row itself is given, then by the row.

    ``row`` are the columns of the row itself, ``hashed`` those of the hash, or else all of them. It is computed for
    ties only: that takes longer than all else.
    """

    def __init__(
        self,
        columns: Sequence[SortColumn],
        interner: Interner,
        row: Sequence[SortColumn] = (),
        hashed: Sequence[SortColumn] = (),
    ) -> None:
        self.columns = list(columns)
        self.row = list(row)
        self.hashed = list(hashed or row)
        self._interner = interner
        self._plain = {c.row for c in (*self.columns, *self.row) if has_codes_in_order(c.dtype)}
        """The rows of codes that sort as they are."""
        self._is_hashed_as_words = all(is_word(c.dtype) for c in self.hashed)
        self._first_has_codes_in_order = bool(columns) and has_codes_in_order(columns[0].dtype)
        self.numbers_are_codes = self._first_has_codes_in_order and not columns[0].descending and columns[0].nulls_first
        """Whether `number` is the code itself."""

    @property
    def first_row(self) -> int | None:
        """The row of codes that is sorted by first; None where that is a hash."""
        return self.columns[0].row if self.columns else None

    def sorted(self, rows: Rows, group: Ints, rest: Sequence[Ints] = ()) -> Sorted:
        """Return the order of rows by the number of each one's group, then by this order, and then by the rest."""
        found = self._by_columns(rows, group)
        if not found.new.all():
            self._break_ties(rows, found.order, found.new, rest)
        return found

    def stored(self, rows: Rows, group: Ints, rest: Sequence[Ints]) -> Sorted:
        """Return the order in which rows are stored: as `sorted` has it, but for runs of a few that columns leave tied.

        Of those only equal ones lie side by side. Most are never asked for, and whoever asks for one reads all that
        are tied with it: to break the ties of all would take longer than all else.
        """
        found = self._by_columns(rows, group)
        order, new = found.order, found.new
        if new.all():
            return found
        if not self.row:
            self._break_ties(rows, order, new, rest)
            return found
        starts = new.nonzero()[0]
        lengths = np.diff(starts, append=len(new))
        twins = equal_to_another([*(rows[c.row] for c in self.columns[:1]), *rest]).take(order)
        broken = (lengths > FEW_TIED) | ((lengths > 1) & np.logical_or.reduceat(twins, starts))
        if not broken.any():
            new[:] = True
            return found
        new |= ~broken.repeat(lengths)
        self._break_ties(rows, order, new, rest)
        return found

    def tie(self, row: Sequence[int]) -> tuple[int, ...]:
        """Return what those rows of a group have in common that the columns leave tied with this one."""
        return tuple([row[c.row] for c in self.columns])

    def parts_ties(self, array: UpdateArray, at: Ints, after: Ints, high: Ints, width: int) -> Bools:
        """Return for places in a stored array whether a run goes on after them whose ties are not broken.

        The key is in the first rows of the array, as many as ``width`` says; its rows end before ``high``.
        """
        tied = self._are_tied(array, at, after, width) if self.row else np.zeros(len(at), np.bool_)
        if np.count_nonzero(tied):
            some = tied.nonzero()[0]
            own = at.take(some)[:, None]
            around = own + np.arange(-FEW_TIED, FEW_TIED + 1)
            inside = (around >= 0) & (around < high.take(some)[:, None])
            inside &= self._are_tied(array, np.where(inside, around, 0), own, width)
            before, later = inside[:, FEW_TIED::-1], inside[:, FEW_TIED:]
            length = sum(np.logical_and.accumulate(side, axis=1).sum(axis=1) for side in (before, later)) - 1
            tied[some] = length <= FEW_TIED
        return tied

    def _are_tied(self, array: UpdateArray, at: Ints, others: Ints, width: int) -> Bools:
        tied = np.ones(np.broadcast_shapes(at.shape, others.shape), np.bool_)
        for row in (*range(width), *(c.row for c in self.columns)):
            tied &= array[row].take(at) == array[row].take(others)
        return tied

    def _by_columns(self, rows: Rows, group: Ints) -> Sorted:
        n = len(group)
        if n < 2:  # noqa: PLR2004 - nothing to order
            return Sorted(first_numbers(n), first_numbers(n) == 0, first_numbers(n) == 0)
        leading, later, falling = [group], list(self.columns), set[int]()
        if later and n > FEW and _is_wide(group):
            order, ascended = ascending(group)
            leading = [np.empty(len(group), np.int64)]
            leading[0][order] = np.concatenate(([0], (ascended[1:] != ascended[:-1]).cumsum()))
        while later and len(leading) <= LEADING:
            if not self._can_be_numbered(later[0], rows):  # of those alike in their beginnings, the values decide
                leading.append(self._leading(rows[later[0].row], later[0]))
                break
            column = later.pop(0)
            codes = rows[column.row]
            if column.descending and n > FEW and not (codes == NULL).any():  # as they are, which saves a copy
                falling.add(len(leading))
                leading.append(codes)
            else:
                leading.append(_numbers(codes, column, self._interner))
        found = sort_by(leading, falling)
        if found.new.all():
            return found
        for column in later:
            refine(found.order, found.new, partial(_numbers_at, rows[column.row], column, self._interner))
        return found

    def _break_ties(self, rows: Rows, order: Ints, new: Bools, rest: Sequence[Ints]) -> None:
        """Sort what the columns leave tied by the hash and the row, if there is one, and then by the rest."""
        if self.row and not self._only_equal_rows_are_tied(rows, order, new):
            refine(order, new, partial(self.hashes_at, rows))
            for column in self.row:
                refine(order, new, partial(_numbers_at, rows[column.row], column, self._interner))
        for numbers in rest:
            refine(order, new, numbers.take)

    def key(self, row: Sequence[int]) -> tuple[Any, ...]:
        """Return a tuple that sorts as a row does."""
        return (*self.key_of_columns(row), *(self._key_of_tie(row) if self.row else ()))

    def sorts_before(self, row: Sequence[int]) -> Callable[[Sequence[int]], bool]:
        """Return what says whether another row sorts before this one; hashes are computed where columns tie."""
        own = self.key_of_columns(row)
        tie: list[tuple[Any, ...]] = []

        def is_before(other: Sequence[int]) -> bool:
            key = self.key_of_columns(other)
            if key != own or not self.row:
                return key < own
            if not tie:
                tie.append(self._key_of_tie(row))
            return self._key_of_tie(other) < tie[0]

        return is_before

    def key_of_columns(self, row: Sequence[int]) -> tuple[Any, ...]:
        return tuple([self._key_of(c, row[c.row]) for c in self.columns])

    def _key_of_tie(self, row: Sequence[int]) -> tuple[Any, ...]:
        return ((1, self._hash(row)), *[self._key_of(c, row[c.row]) for c in self.row])

    def number(self, codes: Ints) -> Ints:
        """Return numbers that never fall where values of the first column rise in this order, each code always its own.

        Zeros where there is no such column.
        """
        if self.numbers_are_codes:
            return codes
        return self._leading(codes, self.columns[0]) if self.columns else np.zeros(len(codes), np.int64)

    def number_of(self, code: int) -> int:
        """Return the number of one code, as `number` has it."""
        if self.numbers_are_codes:
            return code
        if not self.columns:
            return 0
        first = self.columns[0]
        if code == NULL and (not self._first_has_codes_in_order or first.nulls_first == first.descending):
            return NULL if first.nulls_first else _GREATEST
        number = code if self._first_has_codes_in_order else leading_number_of(code, first.dtype, self._interner)
        return ~number if first.descending else number

    @staticmethod
    def _can_be_numbered(column: SortColumn, rows: Rows) -> bool:
        """Return whether the codes of a column are in the order of the values, but for NULL."""
        if is_long_decimal(column.dtype):
            return not len(large_places(rows[column.row]))
        return not is_interned(column.dtype)

    def place(self, codes: Ints, number: int, low: int, high: int, *, right: bool = False) -> int:
        """Return the place of a number in a part of sorted rows, whose codes in the first column are given.

        With ``right`` that is after all those equal to it.
        """
        if self.numbers_are_codes:
            return low + int(codes[low:high].searchsorted(number, "right" if right else "left"))
        bisect = bisect_right if right else bisect_left
        return bisect(range(high), number, low, key=lambda i: self.number_of(codes.item(i)))

    def in_order(self, rows: Iterable[tuple[int, ...]], *, last: bool = False) -> list[tuple[int, ...]]:
        """Return a few rows in this order, or the last first."""
        if self.numbers_are_codes and len(self.columns) == 1:
            place = self.columns[0].row
            ordered = sorted(rows, key=itemgetter(place), reverse=last)
            if not self.row or len({row[place] for row in ordered}) == len(ordered):
                return ordered
            rows = ordered
        keyed = sorted(((self.key_of_columns(row), row) for row in rows), key=_KEY)
        ordered = []
        for _, tied in groupby(keyed, key=_KEY):
            some = [row for _, row in tied]
            ordered += sorted(some, key=self.key) if len(some) > 1 and self.row else some
        return ordered[::-1] if last else ordered

    def _only_equal_rows_are_tied(self, rows: Rows, order: Ints, new: Bools) -> bool:
        """Return whether rows that are equal so far are the same row: then no hash is needed."""
        tied = (~new).nonzero()[0]
        one, other = order.take(tied), order.take(tied - 1)
        return all(np.array_equal(rows[c.row].take(one), rows[c.row].take(other)) for c in self.row)

    def _leading(self, codes: Ints, column: SortColumn) -> Ints:
        """Return numbers that never fall where values rise in a column's order."""
        numbers = leading_numbers(codes, column.dtype, self._interner)
        if column.descending:
            numbers = ~numbers
        if not has_codes_in_order(column.dtype) or column.nulls_first == column.descending:
            null = codes == NULL
            if np.count_nonzero(null):
                numbers = np.where(null, NULL if column.nulls_first else _GREATEST, numbers)
        return numbers

    def hashes_at(self, rows: Rows, at: Ints) -> Ints:
        """Return the hashes of some of the rows."""
        codes = np.stack([rows[c.row].take(at) for c in self.hashed])
        one, owner = numbered(codes)  # rows may be there more than once
        columns = [
            decode_column(row.take(one), c.dtype, self._interner) for row, c in zip(codes, self.hashed, strict=True)
        ]
        hashes: Ints = np.maximum(xxhash64_columns(columns), _LEAST_HASH)
        return hashes.take(owner)

    def _hash(self, row: Sequence[int]) -> int:
        if self._is_hashed_as_words:
            words = [None if row[c.row] == NULL else row[c.row] for c in self.hashed]
            return max(xxhash64_of_words(words), _LEAST_HASH)
        values = [None if row[c.row] == NULL else decoder(c.dtype, self._interner)(row[c.row]) for c in self.hashed]
        return max(xxhash64_of(values, [c.dtype for c in self.hashed]), _LEAST_HASH)

    def _key_of(self, column: SortColumn, code: int) -> tuple[int, Any]:
        if code == NULL:
            return (0 if column.nulls_first else 2, 0)
        if column.row in self._plain:
            return (1, ~code if column.descending else code)
        value = order_key(code, column.dtype, self._interner)
        return (1, _Falling(value) if column.descending else value)


def _is_wide(numbers: Ints) -> bool:
    return (int(numbers.max()) - int(numbers.min())).bit_length() > _WIDE


def _numbers_at(codes: Ints, column: SortColumn, interner: Interner, at: Ints) -> Ints:
    return _numbers(codes.take(at), column, interner)


def _numbers(codes: Codes, column: SortColumn, interner: Interner) -> Ints:
    """Return numbers that sort as codes are to."""
    if not has_codes_in_order(column.dtype):
        codes = np.where(codes == NULL, NULL, order_ranks(codes, column.dtype, interner))
    return sort_values(codes, descending=column.descending, nulls_first=column.nulls_first)


class _Falling:
    """A value that sorts the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Falling) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Falling) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]
