"""Sorting numbers and finding their order: by sorting words that have the rows' numbers in their last bits.

NumPy sorts 64-bit numbers with the processor's vector instructions; an order it finds several times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "FEW",
    "PART",
    "Sorted",
    "Words",
    "ascending",
    "packed",
    "parts",
    "refine",
    "runs_around",
    "sort_by",
    "sort_words",
]

Words = npt.NDArray[np.uint64]

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

FEW: Final = 1 << 9
"""Up to so many numbers NumPy's own order is found as fast."""
_WORD: Final = 64
PART: Final = 1 << 16
"""So many numbers are looked at at once: what is worked out of them stays in the processor's caches."""


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
    word = np.empty(n, np.uint64)
    for part in parts(n):
        _put(word[part], keys[part], least, bits, room)
    order = sort_words(word, place_bits)
    if bits <= room:
        word += np.uint64(least % 2**_WORD)
        return order, word.view(np.int64)
    found = keys.take(order)
    falls = found[1:] < found[:-1]
    if falls.any():  # numbers that differ late
        members, runs = runs_around(_new(word), falls.nonzero()[0] + 1)
        rows, codes = order.take(members), found.take(members)
        inside = np.lexsort((codes, runs))
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
    shift, mask = np.uint64(place_bits), np.uint64((1 << place_bits) - 1)
    for part in parts(len(word)):
        word[part] <<= shift
        word[part] |= np.arange(part.start, part.stop, dtype=np.uint64)
    word.sort()
    order = np.empty(len(word), np.int64)
    for part in parts(len(word)):
        order[part] = word[part] & mask
        word[part] >>= shift
    return order


def parts(n: int) -> list[slice]:
    """Return slices of many numbers, so short that what is worked out of one stays in the processor's caches.

    Besides, memory that was used and given back is at hand in small pieces only; large ones have to be cleared anew.
    """
    return [slice(start, min(start + PART, n)) for start in range(0, n, PART)]


def packed(columns: Sequence[_Ints] | _Ints, room: int) -> tuple[Words, list[int], int]:
    """Return for each row a number of so many bits that sorts as the columns do.

    Besides, how many bits each column has in it, and how many of the columns are in it whole: the first that is not may
    be in it with its highest bits.
    """
    n = len(columns[0])
    given: list[int] = []
    packing: list[tuple[_Ints, int, int, int]] = []
    whole = 0
    for column in columns:
        least, greatest = (int(column.min()), int(column.max())) if n else (0, 0)
        bits = (greatest - least).bit_length()
        given.append(min(bits, room))
        if given[-1]:
            packing.append((column, least, bits, room))
        if bits > room:
            break
        whole += 1
        room -= bits
    if not packing:
        return np.zeros(n, np.uint64), given, whole
    word = np.empty(n, np.uint64)
    for part in parts(n):
        for i, (column, least, bits, room) in enumerate(packing):
            _put(word[part], column[part], least, bits, room, after=bool(i))
    return word, given, whole


def _put(word: Words, column: _Ints, least: int, bits: int, room: int, *, after: bool = False) -> None:
    """Write by how much numbers are above the least of them, its highest bits where there is no room for all.

    With ``after`` that comes behind what is there.
    """
    taken = min(bits, room)
    if not after:
        np.subtract(column.view(np.uint64), np.uint64(least % 2**_WORD), out=word)
        if bits > room:
            word >>= np.uint64(bits - room)
        return
    word <<= np.uint64(taken)
    above = column.view(np.uint64) - np.uint64(least % 2**_WORD)  # wraps round where it is beyond an int64
    if bits > room:
        above >>= np.uint64(bits - room)
    word |= above


def runs_around(new: _Bools, places: _Ints) -> tuple[_Ints, _Ints]:
    """Return all places of the runs that some places are in, and the number of each one's run.

    A run begins where it is new, and goes on up to the next.

    >>> runs_around(np.array([True, False, True, True, False]), np.array([4]))
    (array([3, 4]), array([0, 0]))
    """
    members: list[_Ints] = []
    for place in places.tolist():
        if members and place <= members[-1][-1]:
            continue  # in the same run
        start, end = place, place + 1
        while not new[start]:
            start -= 1
        behind = new[end:].argmax() if end < len(new) else 0
        end = len(new) if behind == 0 and not new[end : end + 1].any() else end + int(behind)
        members.append(np.arange(start, end))
    lengths = [len(m) for m in members]
    return np.concatenate(members), np.arange(len(members)).repeat(lengths)


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
    differs = codes[1:] != codes[:-1]
    differs &= runs[1:] == runs[:-1]
    if not differs.any():  # equal by this column as well
        return
    inside = np.lexsort((codes, runs))
    order[members] = rows.take(inside)
    codes = codes.take(inside)
    new[members[1:]] |= (codes[1:] != codes[:-1]) & (runs[1:] == runs[:-1])
