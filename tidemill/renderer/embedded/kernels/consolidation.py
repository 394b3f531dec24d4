"""Updates consolidated and put in the order of their keys' hashes, as batches hold them.

Of many, what is computed on the way is that of a part at a time: memory that is new takes longer than the work in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import numpy as np

from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.gathers import Gathers
from tidemill.renderer.embedded.kernels.memory import empty
from tidemill.renderer.embedded.kernels.times import alike
from tidemill.renderer.embedded.kernels.updates import (
    NULL,
    Bools,
    Ints,
    Rows,
    UpdateArray,
    added_up,
    columns_at,
    differing,
    part_unlike,
    row_hashes,
    same,
)

_Order: TypeAlias = tuple[list[Ints], Bools]
"""An order in which equal updates are adjacent, and the keys in it, if they were looked up; where others begin."""

_MIDDLE: Final = np.uint64(2**63)
_WORD: Final = 64
_EXACT: Final = 40


def consolidated_by(
    keys: Ints,
    updates: Rows,
    others: list[int],
    weights: int,
    *,
    runs: bool = False,
    room: Callable[[int], UpdateArray] | None = None,
) -> tuple[Ints, UpdateArray]:
    """Return updates consolidated and sorted by the hashes of their keys, after these hashes.

    The updates are given as a matrix, or as its rows. ``others`` are the rows, weights aside, that tell updates of one
    key apart. With ``runs`` it is expected to be a few sorted arrays side by side, which are merged, several times
    faster than sorted. With ``room`` they are written to the array that it returns for their number.
    """
    if not len(keys):
        return keys, np.empty((len(updates), 0), np.int64)
    n, top = len(keys), len(updates) - weights
    minor = [updates[row] for row in others]  # the time is always among them
    many = n > sorting.FEW
    if many:
        minor = [row for row in minor if not alike([row])]
    if runs or not many:
        in_order, new = _grouped_by(keys, updates[:top], minor, "stable" if runs else "quicksort")
    else:
        in_order, new = _grouped_by_words(keys, updates[:top], minor)
    (order, *looked_up), sums = _added_up(updates[top:], in_order, new)
    ordered = looked_up[0] if looked_up else _gathered(keys, order)
    result: UpdateArray = empty((len(updates), len(order))) if room is None else room(len(order))
    gathers = Gathers(order)
    for row, found in zip(updates[:top], result, strict=False):
        if many and alike([row]):
            found.fill(row[0])
        else:
            gathers.add(row, found)
    gathers.finish()
    result[top:] = sums
    return ordered, result


def _added_up(weights: Rows, in_order: list[Ints], new: Bools) -> tuple[list[Ints], UpdateArray]:
    """Return what is left in an order when equal updates are one and those that cancel out are gone; and the sums.

    Of many, the order is overwritten.
    """
    n = len(new)
    if n <= sorting.PART:
        return _of_part(weights, in_order, new)
    sums: UpdateArray = empty((len(weights), n))
    start = done = 0
    while start < n:
        stop = min(start + sorting.PART, n)
        if stop < n:  # up to where a group begins
            stop += int(new[stop:].argmax())
            stop = stop if new[stop] else n
        left, some = _of_part(weights, [numbers[start:stop] for numbers in in_order], new[start:stop])
        end = done + some.shape[1]
        sums[:, done:end] = some
        for numbers, found in zip(in_order, left, strict=True):
            numbers[done:end] = found
        start, done = stop, end
    return [numbers[:done] for numbers in in_order], sums[:, :done]


def _of_part(weights: Rows, in_order: list[Ints], new: Bools) -> tuple[list[Ints], UpdateArray]:
    """Like `_added_up`, all at once."""
    sums = columns_at(weights, in_order[0])
    if not new.all():
        starts = new.nonzero()[0]
        sums, in_order = added_up(sums, starts), [numbers.take(starts) for numbers in in_order]
    kept: Bools = sums[0].astype(np.bool_) if len(sums) == 1 else np.any(sums, axis=0)
    if kept.all():
        return in_order, sums
    places = kept.nonzero()[0]
    return [numbers.take(places) for numbers in in_order], sums.take(places, axis=1)


def _gathered(keys: Ints, order: Ints) -> Ints:
    found: Ints = empty(len(order))
    sorting.gather(keys, order, found)
    return found


def _grouped_by(keys: Ints, codes: Rows, minor: list[Ints], kind: Literal["quicksort", "stable"]) -> _Order:
    both = _in_one(keys, row_hashes(minor) if minor else None)
    order = both.argsort(kind=kind)
    new = differing(both.take(order))
    part_unlike(codes, order, new)
    return [order, _keys_in_order(keys, codes, order, new)], new


def _grouped_by_words(keys: Ints, codes: Rows, minor: list[Ints]) -> _Order:
    """Like `_grouped_by`, for many updates."""
    n = len(keys)
    place_bits = (n - 1).bit_length()
    ends, word = _ends(keys), empty(n, np.uint64)
    for part in sorting.parts(n):
        both = _in_one(keys[part], row_hashes([row[part] for row in minor]) if minor else None, ends, n)
        np.add(both.view(np.uint64), _MIDDLE, out=word[part])  # which sorts as the number did with its sign
        word[part] >>= np.uint64(place_bits)
    order, new = sorting.sort_words(word, place_bits)
    parted = part_unlike(codes, order, new)
    if not minor and not parted:  # where the words are equal, so are the keys
        return [order], new
    return [order, _keys_in_order(keys, codes, order, new)], new


def _keys_in_order(keys: Ints, codes: Rows, order: Ints, new: Bools) -> Ints:
    """Return the keys in an order by some of their bits; where these do not do, order and marks are put right."""
    found = _gathered(keys, order)
    falls = (found[1:] < found[:-1]).nonzero()[0]
    if not len(falls):
        return found
    # Keys that differ late: one starts a run of its own if it is greater than all before and not above any after.
    apart = np.ones(len(found), np.bool_)
    least_after = np.minimum.accumulate(found[::-1])[::-1]
    np.less(np.maximum.accumulate(found)[:-1], least_after[1:], out=apart[1:])
    members, runs = sorting.runs_around(apart, falls + 1)
    rows = order.take(members)
    rows = rows.take(np.lexsort((*columns_at(codes, rows), keys.take(rows), runs)))
    order[members], found[members] = rows, keys.take(rows)
    inside = columns_at(codes, rows)
    new[members[1:]] = ~same(inside[:, 1:], inside[:, :-1])
    return found


def _ends(keys: Ints) -> tuple[int, int]:
    """Return the least of some keys and the greatest; NULL, far from all other codes, counts as next to them."""
    least = int(keys.min())
    if least == NULL:
        others = keys.compress(keys != NULL)
        least = int(others.min()) - 1 if len(others) else NULL
    return least, max(int(keys.max()), least)


def _in_one(keys: Ints, minor: Ints | None, ends: tuple[int, int] | None = None, count: int | None = None) -> Ints:
    """Return integers that sort as the keys do, and among equal keys as some bits of a second hash.

    Keys of few values, as the codes of strings are, go in whole, and leave the other bits to the second. All others,
    hashes and the codes of times among them, leave their last bits to it, so many that two keys are hardly ever taken
    for one. Where these are some of more keys, ``ends`` and ``count`` are theirs.
    """
    least, greatest = _ends(keys) if ends is None else ends
    bits, count = (greatest - least).bit_length(), len(keys) if count is None else count
    room = max(bits, _WORD - 1)
    if bits < _WORD:
        keys = np.maximum(keys, least) - least << room - bits
    if minor is None:
        return keys
    whole = bits if bits <= _EXACT else min(2 * count.bit_length() + 10, 48)
    low = (1 << room - whole) - 1
    return (keys & ~low) | (minor >> 64 - room + whole & low)
