"""Sorting by several columns of codes: what fits into one word as such, what is still tied then by the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints

__all__ = ["positions", "refine", "sort_by", "sort_values"]

MANY: Final = 1 << 16
"""From so many numbers on, sharing them out before they are sorted is faster."""
FEW: Final = 512
_WORD: Final = 63
_GREATEST: Final = 2**63 - 1


def sort_by(columns: Sequence[Ints]) -> tuple[Ints, Bools]:
    """Return the order of rows by columns of numbers, equal rows as they came, and where in it a row is a new one.

    >>> sort_by([np.array([1, 0, 1]), np.array([7, 9, 7])])
    (array([1, 0, 2]), array([ True,  True, False]))
    """
    n = len(columns[0])
    place_bits = (n - 1).bit_length() if n else 0
    word, whole = _packed(columns, _WORD - place_bits)
    if (word[1:] >= word[:-1]).all():
        order = np.arange(n)
    else:
        word = _sorted((word << place_bits) | np.arange(n))
        order = word & ((1 << place_bits) - 1)
        word >>= place_bits
    new = np.ones(n, np.bool_)
    np.not_equal(word[1:], word[:-1], out=new[1:])
    for column in columns[whole:]:
        refine(order, new, column.take)
    return order, new


def _sorted(words: Ints) -> Ints:
    """Return numbers, none negative, in their order.

    Many of them are shared out by their highest bits first, which NumPy does in time that does not grow with their
    number's logarithm, and then sorted a few at a time, within the processor's caches.
    """
    if len(words) >= MANY:
        highest = (words >> max(int(words.max()).bit_length() - 16, 0)).astype(np.uint16)
        words = words.take(highest.argsort(kind="stable"))
        ends = np.bincount(highest).cumsum()
        cuts = ends.take(ends.searchsorted(np.arange(FEW, len(words), FEW)))
        for begin, end in pairwise(np.unique(np.concatenate(([0], cuts, [len(words)]))).tolist()):
            words[begin:end].sort()
    else:
        words.sort()
    return words


def _packed(columns: Sequence[Ints], room: int) -> tuple[Ints, int]:
    """Return for each row a number of so many bits that sorts as the columns do, and how many of them are in it whole.

    The first column that is not may be in it with its highest bits.
    """
    word = np.zeros(len(columns[0]), np.int64)
    for whole, column in enumerate(columns):
        least, greatest = _ends(column)
        bits = (greatest - least).bit_length()
        if bits:
            word = (word << min(bits, room)) | _highest(column, least, bits, room)
        if bits > room:
            return word, whole
        room -= bits
    return word, len(columns)


def _highest(column: Ints, least: int, bits: int, room: int) -> Ints:
    above = (column - least).view(np.uint64)  # wraps round where the difference is beyond an int64
    return (above >> np.uint64(max(bits - room, 0))).view(np.int64)


def _ends(column: Ints) -> tuple[int, int]:
    return (int(column.min()), int(column.max())) if len(column) else (0, 0)


def refine(order: Ints, new: Bools, codes_at: Callable[[Ints], Ints]) -> None:
    """Sort those of the ordered rows that are equal so far by one more column, and mark those that are new by it.

    ``codes_at`` gives the column's numbers for some rows.
    """
    tied = ~new
    tied[:-1] |= ~new[1:]
    members = tied.nonzero()[0]
    if not len(members):
        return
    runs = new.cumsum().take(members)
    rows = order.take(members)
    codes = codes_at(rows)
    inside = np.lexsort((codes, runs))
    order[members] = rows.take(inside)
    codes = codes.take(inside)
    new[members[1:]] |= (codes[1:] != codes[:-1]) & (runs[1:] == runs[:-1])


def sort_values(codes: Ints, *, descending: bool, nulls_first: bool) -> Ints:
    """Return numbers that sort as codes do (which sort as their values do) in an order up or down, nulls first or last.

    >>> sort_values(np.array([5, NULL, 7]), descending=True, nulls_first=True)
    array([-6, -9, -8])
    """
    null = codes == NULL
    values = ~codes if descending else codes
    if not null.any():
        return values
    least, greatest = _ends(values[~null])
    if (least == NULL) if nulls_first else (greatest == _GREATEST):  # no number is left beyond: count the values
        values = np.unique(values, return_inverse=True)[1]
        least, greatest = 0, len(codes)
    return np.where(null, least - 1 if nulls_first else greatest + 1, values)


def positions(groups: Ints, values: Ints, of: Ints, bounds: Ints) -> Ints:
    """Return where, in values sorted by group and then by themselves, those of a group that are at most a bound end.

    >>> positions(np.array([0, 0, 1]), np.array([5, 7, 1]), np.array([1, 0, 0]), np.array([0, 5, 6]))
    array([2, 1, 1])
    """
    if not len(values):
        return np.zeros(len(bounds), np.int64)
    least, greatest = _ends(values)
    if (int(groups[-1]) + 1) * (greatest - least + 2) > _GREATEST:  # too far apart for one word: count them
        distinct = np.unique(values)
        values, bounds = distinct.searchsorted(values), distinct.searchsorted(bounds, "right") - 1
        least, greatest = _ends(values)
    width = greatest - least + 2
    bounds = np.clip(bounds, least - 1, greatest)
    return (groups * width + (values - least)).searchsorted(of * width + (bounds - least), "right")
