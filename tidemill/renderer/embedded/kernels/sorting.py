"""Sorting numbers and finding their order: by sorting words that have the rows' numbers in their last bits.

NumPy sorts 64-bit numbers with the processor's vector instructions; an order it finds several times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["FEW", "Sorted", "Words", "ascending", "packed", "refine", "sort_by", "sort_words"]

Words = npt.NDArray[np.uint64]

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

FEW: Final = 1 << 9
"""Up to so many numbers NumPy's own order is found as fast."""
_WORD: Final = 64


class Sorted(NamedTuple):
    """An order of rows by columns."""

    order: _Ints
    new: _Bools
    """Where in it a row differs from the one before."""
    new_first: _Bools
    """Where in it a row differs from the one before by the first column."""


def ascending(keys: _Ints) -> tuple[_Ints, _Ints]:
    """Return the order of numbers, equal ones as they came, and the numbers in it.

    >>> ascending(np.array([7, -1, 7]))
    (array([1, 0, 2]), array([-1,  7,  7]))
    """
    n = len(keys)
    if n <= FEW:
        order: _Ints = keys.argsort(kind="stable")
        return order, keys.take(order)
    least, greatest = int(keys.min()), int(keys.max())
    place_bits = (n - 1).bit_length()
    bits, room = (greatest - least).bit_length(), _WORD - place_bits
    word = _above(keys, least)
    if bits > room:
        word >>= np.uint64(bits - room)
    order = sort_words(word, place_bits)
    if bits <= room:
        return order, word.view(np.int64) + least
    found = keys.take(order)
    falls = found[1:] < found[:-1]
    if falls.any():  # numbers that differ late
        new = _new(word)
        runs = new.cumsum()
        members = np.isin(runs, runs[1:].compress(falls)).nonzero()[0]
        rows, codes = order.take(members), found.take(members)
        inside = np.lexsort((codes, runs.take(members)))
        order[members], found[members] = rows.take(inside), codes.take(inside)
    return order, found


def sort_by(columns: Sequence[_Ints]) -> Sorted:
    """Return the order of rows by columns of numbers, equal rows as they came.

    What fits into one word is sorted as such, what is still tied then by the rest.

    >>> found = sort_by([np.array([1, 0, 1]), np.array([7, 9, 7])])
    >>> found.order, found.new
    (array([1, 0, 2]), array([ True,  True, False]))
    """
    n = len(columns[0])
    place_bits = (n - 1).bit_length() if n else 0
    word, bits, whole = packed(columns, _WORD - place_bits)
    order = np.arange(n) if (word[1:] >= word[:-1]).all() else sort_words(word, place_bits)
    new = _new(word)
    for column in columns[whole:]:
        refine(order, new, column.take)
    return Sorted(order, new, _new(word >> np.uint64(sum(bits[1:])) if whole else columns[0].take(order)))


def sort_words(word: Words, place_bits: int) -> _Ints:
    """Sort numbers, in place, that leave so many bits free at the top, and return the order they came in."""
    word <<= np.uint64(place_bits)
    word |= np.arange(len(word), dtype=np.uint64)
    word.sort()
    order = (word & np.uint64((1 << place_bits) - 1)).view(np.int64)
    word >>= np.uint64(place_bits)
    return order


def packed(columns: Sequence[_Ints], room: int) -> tuple[Words, list[int], int]:
    """Return for each row a number of so many bits that sorts as the columns do.

    Besides, how many bits each column has in it, and how many of the columns are in it whole: the first that is not may
    be in it with its highest bits.
    """
    word: Words | None = None
    given: list[int] = []
    for whole, column in enumerate(columns):
        least, greatest = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        bits = (greatest - least).bit_length()
        taken = min(bits, room)
        given.append(taken)
        if taken:
            above = _above(column, least)
            if bits > room:
                above >>= np.uint64(bits - room)
            if word is None:
                word = above
            else:
                word <<= np.uint64(taken)
                word |= above
        if bits > room:
            return _or_zeros(word, len(column)), given, whole
        room -= bits
    return _or_zeros(word, len(columns[0])), given, len(columns)


def _above(column: _Ints, least: int) -> Words:
    """Return by how much numbers are above the least of them."""
    return (column - least).view(np.uint64)  # wraps round where the difference is beyond an int64


def _or_zeros(word: Words | None, n: int) -> Words:
    return np.zeros(n, np.uint64) if word is None else word


def _new(ordered: npt.NDArray[np.int64] | Words) -> _Bools:
    """Return where a number differs from the one before."""
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


def refine(order: _Ints, new: _Bools, codes_at: Callable[[_Ints], _Ints]) -> None:
    """Sort those of the ordered rows that are equal so far by one more column, and mark those that are new by it.

    ``codes_at`` gives the column's numbers for some rows.
    """
    if new.all():
        return
    tied = ~new
    tied[:-1] |= ~new[1:]
    members = tied.nonzero()[0]
    runs = new.cumsum().take(members)
    rows = order.take(members)
    codes = codes_at(rows)
    inside = np.lexsort((codes, runs))
    order[members] = rows.take(inside)
    codes = codes.take(inside)
    new[members[1:]] |= (codes[1:] != codes[:-1]) & (runs[1:] == runs[:-1])
