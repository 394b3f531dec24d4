"""Sorting numbers and finding their order: by sorting words that have the rows' numbers in their last bits.

NumPy sorts 64-bit numbers with the processor's vector instructions; an order it finds several times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.renderer.embedded.kernels.memory import empty, zeros
from tidemill.renderer.embedded.kernels.threads import in_shares, shares, side_by_side

Words = npt.NDArray[np.uint64]

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

FEW: Final = 1 << 9
"""Up to how many numbers NumPy's own order is found as fast."""
_WORD: Final = 64
PART: Final = 1 << 16
"""How many numbers are looked at at once: what is computed from them stays in the processor's caches."""


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
    word = empty(n, np.uint64)
    order = empty(n)

    def put(share: slice) -> None:
        for part in parts(share.stop, share.start):
            _put(word[part], keys[part], least, bits, room)

    def put_apart(share: slice) -> None:
        for part in parts(share.stop, share.start):
            order[part] = word[part] & np.uint64((1 << place_bits) - 1)
            word[part] >>= np.uint64(place_bits)

    in_shares(put, n)
    _sort_with_places(word, place_bits)
    in_shares(put_apart, n)
    if bits <= room:
        word += np.uint64(least % 2**_WORD)
        return order, word.view(np.int64)
    del word  # the room of many numbers, that of those in order
    found = empty(n)
    gather(keys, order, found)
    falls = found[1:] < found[:-1]
    if falls.any():  # numbers that differ late
        word = empty(n, np.uint64)
        _put(word, found, least, bits, room)
        members, runs = runs_around(_new(word), falls.nonzero()[0] + 1)
        rows, codes = order.take(members), found.take(members)
        inside = np.lexsort((codes, runs))
        order[members], found[members] = rows.take(inside), codes.take(inside)
    return order, found


def bisected(low: _Ints, high: _Ints, is_before: Callable[[_Ints], _Bools]) -> _Ints:
    """Return the first place from each low one on, up to its high one, that does not come before what is sought.

    ``is_before`` says of a place for each whether it does; it may be asked of places that are not between the two.

    >>> numbers = np.array([1, 5, 7, 2, 3])
    >>> bisected(np.array([0, 3]), np.array([3, 5]), lambda at: numbers.take(at, mode="clip") < 5)
    array([1, 5])
    """
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        before = is_before(middle)
        before &= low < high
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    return low


def sort_by(columns: Sequence[_Ints], falling: Collection[int] = ()) -> Sorted:
    """Return the order of rows by columns of numbers, equal rows as they came; down by those that are ``falling``.

    What fits into one word is sorted as such, what is still tied then by the rest.

    >>> found = sort_by([np.array([1, 0, 1]), np.array([7, 9, 7])])
    >>> found.order, found.new
    (array([1, 0, 2]), array([ True,  True, False]))
    """
    n = len(columns[0])
    if n <= FEW:
        return _sort_few(columns, falling)
    place_bits = (n - 1).bit_length()
    word, bits, whole = packed(columns, _WORD - place_bits, falling)
    if (word[1:] >= word[:-1]).all():
        order, new = np.arange(n), _new(word)
        new_first = _new(word >> np.uint64(sum(bits[1:]))) if whole else new
    else:
        order, new, new_first = _sorted_words(word, place_bits, sum(bits[1:]) if whole else 0)
    if new_first is new:
        new_first = new.copy()
    for i, column in enumerate(columns[whole:], whole):
        refine(order, new, partial(_taken_down, column) if i in falling else column.take)
    return Sorted(order, new, new_first if whole else _new(columns[0].take(order)))


def _sort_few(columns: Sequence[_Ints], falling: Collection[int]) -> Sorted:
    """Like `sort_by`, for rows of which NumPy's own order is found as fast."""
    rising = [~column if i in falling else column for i, column in enumerate(columns)]
    order: _Ints = np.lexsort(rising[::-1])
    new_first = _new(columns[0].take(order))
    new = new_first.copy()
    for column in columns[1:]:
        ordered = column.take(order)
        new[1:] |= ordered[1:] != ordered[:-1]
    return Sorted(order, new, new_first)


def sort_words(word: Words, place_bits: int) -> tuple[_Ints, _Bools]:
    """Return the order of numbers that leave ``place_bits`` free at the top, and where in it another one begins.

    It is in the memory of the numbers, which are gone.
    """
    return _sorted_words(word, place_bits, 0)[:2]


def _sorted_words(word: Words, place_bits: int, low_bits: int) -> tuple[_Ints, _Bools, _Bools]:
    """Like `sort_words`, and where a number begins that differs from the one before in more than its lowest bits."""
    _sort_with_places(word, place_bits)
    new = empty(len(word), np.bool_)
    new_first = empty(len(word), np.bool_) if low_bits else new
    marks = ((new, place_bits), (new_first, place_bits + low_bits))[: 1 + bool(low_bits)]
    before = {share.start: word.item(share.start - 1) for share in shares(len(word)) if share.start}

    def mark(share: slice) -> None:
        previous = before.get(share.start)
        for part in parts(share.stop, share.start):
            for found, bits in marks:
                numbers = word[part] >> np.uint64(bits)
                found[part.start] = previous is None or numbers.item(0) != previous >> bits
                np.not_equal(numbers[1:], numbers[:-1], out=found[part.start + 1 : part.stop])
            previous = word.item(part.stop - 1)
            word[part] &= np.uint64((1 << place_bits) - 1)

    in_shares(mark, len(word))
    return word.view(np.int64), new, new_first


def _sort_with_places(word: Words, place_bits: int) -> None:
    """Sort numbers, in place, that leave ``place_bits`` free at the top; these then have the place of each one."""

    def put_places(share: slice) -> None:
        for part in parts(share.stop, share.start):
            word[part] <<= np.uint64(place_bits)
            word[part] |= np.arange(part.start, part.stop, dtype=np.uint64)

    in_shares(put_places, len(word))
    given = shares(len(word))
    if len(given) == 1:
        word.sort()
    else:
        for share in given[:-1]:  # gets the numbers that belong there: one after the other, which takes far less long
            word[share.start :].partition(share.stop - share.start)
        side_by_side(lambda share: word[share].sort(), given)


def _taken_down(column: _Ints, at: _Ints) -> _Ints:
    """Return numbers that fall where some of a column's rise."""
    return ~column.take(at)


def gather(numbers: _Ints, order: _Ints, result: _Ints) -> None:
    """Write numbers in an order."""

    def some(share: slice) -> None:
        numbers.take(order[share], out=result[share], mode="clip")  # with "raise" it would go through a buffer

    in_shares(some, len(order))


def gathered(matrix: _Ints, order: _Ints) -> _Ints:
    """Return columns of a matrix in an order: of many, row by row, which takes a fraction of the time.

    >>> gathered(np.array([[7, 8, 9], [1, 2, 3]]), np.array([2, 0]))
    array([[9, 7],
           [3, 1]])
    """
    if len(order) <= FEW:
        return matrix.take(order, axis=1)
    result: _Ints = empty((len(matrix), len(order)))
    for row, found in zip(matrix, result, strict=True):
        gather(row, order, found)
    return result


def nonzero(numbers: npt.NDArray[Any]) -> _Ints:
    """Return the places of what is not 0, a part after the other.

    >>> nonzero(np.array([0, 7, 9]))
    array([1, 2])
    """
    if len(numbers) <= PART:
        return numbers.nonzero()[0]
    places: _Ints = empty(int(np.count_nonzero(numbers)))
    done = 0
    for part in parts(len(numbers)):
        (found,) = numbers[part].nonzero()
        np.add(found, part.start, out=places[done : done + len(found)])
        done += len(found)
    return places


def parts(stop: int, start: int = 0) -> list[slice]:
    """Return slices of many numbers, so short that what is computed from one stays in the processor's caches.

    Besides, memory that was used and given back is at hand in small pieces only; large ones have to be cleared anew.
    """
    return [slice(at, min(at + PART, stop)) for at in range(start, stop, PART)]


def packed(columns: Sequence[_Ints] | _Ints, room: int, falling: Collection[int] = ()) -> tuple[Words, list[int], int]:
    """Return for each row a number of ``room`` bits that sorts as the columns do; down by those that are ``falling``.

    Besides, how many bits each column has in it, and how many of the columns are in it whole: the first that is not may
    be in it with its highest bits.
    """
    n = len(columns[0])
    given: list[int] = []
    packing: list[tuple[_Ints, int | None, int, int, int]] = []
    whole = 0
    for i, column in enumerate(columns):
        least, greatest = (int(column.min()), int(column.max())) if n else (0, 0)
        bits = (greatest - least).bit_length()
        given.append(min(bits, room))
        if given[-1]:
            packing.append((column, greatest if i in falling else None, least, bits, room))
        if bits > room:
            break
        whole += 1
        room -= bits
    if not packing:
        return zeros(n, np.uint64), given, whole
    word = empty(n, np.uint64)

    def put(share: slice) -> None:
        for part in parts(share.stop, share.start):
            for i, (column, greatest, least, bits, room) in enumerate(packing):
                _put(word[part], column[part], least, bits, room, after=bool(i), greatest=greatest)

    in_shares(put, n)
    return word, given, whole


def _put(
    word: Words,
    column: _Ints,
    least: int,
    bits: int,
    room: int,
    *,
    after: bool = False,
    greatest: int | None = None,
) -> None:
    """Write by how much numbers are above the least of them, its highest bits where there is no room for all.

    With ``after``, write that after the bits that are there. With ``greatest``, write by how much they are below that.
    """
    taken = min(bits, room)
    if not after:
        _above(column, least, greatest, word)
        if bits > room:
            word >>= np.uint64(bits - room)
        return
    word <<= np.uint64(taken)
    above = np.empty(len(word), np.uint64)
    _above(column, least, greatest, above)
    if bits > room:
        above >>= np.uint64(bits - room)
    word |= above


def _above(column: _Ints, least: int, greatest: int | None, result: Words) -> None:
    """Write by how much numbers are above the least of them, or below the greatest, which may be beyond an int64."""
    if greatest is None:
        np.subtract(column.view(np.uint64), np.uint64(least % 2**_WORD), out=result)
    else:
        np.subtract(np.uint64(greatest % 2**_WORD), column.view(np.uint64), out=result)


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
        further = new[end:].argmax() if end < len(new) else 0
        end = len(new) if further == 0 and not new[end : end + 1].any() else end + int(further)
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
    runs = new.take(members).cumsum()  # the first of a run is a member
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
