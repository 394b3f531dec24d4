"""Arrays of updates, and the kernels that sort, group and consolidate them.

Updates are a matrix of int64, a column for each: first the codes of the row's values, then the coordinates of its
time, then its weights (one diff, unless an operator keeps several sums). Equal values have equal codes, so kernels
never ask what a code stands for. One matrix rather than an array a column makes an operator a handful of NumPy calls,
which is what a step of one row costs.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.runs import failures

__all__ = [
    "NULL",
    "Bools",
    "Codes",
    "Ints",
    "Times",
    "UpdateArray",
    "consolidated",
    "consolidated_by",
    "expand",
    "grouped",
    "hashed",
    "indices",
    "numbered",
    "same",
    "stacked",
]

UpdateArray: TypeAlias = npt.NDArray[np.int64]
"""A matrix of updates, a column for each."""
Codes: TypeAlias = npt.NDArray[np.int64]
"""A matrix of codes, a column for each row, or only those of its key."""
Times: TypeAlias = npt.NDArray[np.int64]
"""A matrix of user times, a column for each."""
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

NULL: Final = -(2**63)
"""The code of NULL, in every column. No int64 value may be it."""

_MOST: Final = 2**63
_WORD: Final = 64
_SPREAD: Final = 0x1E3779B97F4A7C15
"""Spreads what tells hashes apart to their highest bits."""
_MOST_COLUMNS: Final = 4096
_MULTIPLIERS: Final[Ints] = np.random.default_rng(0x7F4A7C15).integers(-(2**63), 2**63, _MOST_COLUMNS, np.int64) | 1


def hashed(codes: Codes) -> Ints:
    """Return a hash of each column of codes, to sort and look up by. A single code is its own hash.

    Hashes decide where to look; whoever looks compares the codes themselves.
    """
    hashes: Ints = codes[0] if len(codes) == 1 else np.matmul(_MULTIPLIERS[: len(codes)], codes)
    return hashes


def grouped(codes: Codes) -> tuple[Ints, Ints]:
    """Return an order in which equal columns are adjacent, and where in it each group of equal ones starts."""
    n = codes.shape[1]
    if n < 2 or not len(codes):  # noqa: PLR2004 - nothing to order
        return np.arange(n), np.zeros(min(n, 1), np.int64)
    if n > sorting.FEW:
        return _grouped_many(codes)
    keys = hashed(codes)
    order = keys.argsort()
    keys = keys.take(order)
    new = np.empty(n, np.bool_)
    new[0] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    if len(codes) > 1 and len(_unlike(codes, order, new)):
        order = np.lexsort(codes[::-1])  # two different rows with one hash may lie interleaved: sort by the codes
        inside = codes.take(order, axis=1)
        new[1:] = (inside[:, 1:] != inside[:, :-1]).any(axis=0)
    return order, new.nonzero()[0]


def _grouped_many(codes: Codes) -> tuple[Ints, Ints]:
    """Return what `grouped` does. Codes of few values are sorted as such, side by side in one word; others by hash."""
    n = codes.shape[1]
    place_bits = (n - 1).bit_length()
    word, _, whole = sorting.packed(codes, _WORD - place_bits)
    if whole == len(codes):
        order = sorting.sort_words(word, place_bits)
        return order, _differing(word).nonzero()[0]
    word = (hashed(codes) * _SPREAD).view(np.uint64) >> np.uint64(place_bits)
    order = sorting.sort_words(word, place_bits)
    new = _differing(word)
    _part(codes, order, new)
    return order, new.nonzero()[0]


def _differing(ordered: npt.NDArray[np.uint64] | Ints) -> Bools:
    """Return where a number differs from the one before."""
    new = np.empty(len(ordered), np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


def _part(codes: Codes, order: Ints, new: Bools) -> None:
    """Part, in place, different columns that lie in one group of an order, for they have one hash."""
    unlike = _unlike(codes, order, new)
    if not len(unlike):
        return
    runs = new.cumsum()
    again = np.isin(runs, runs.take(unlike)).nonzero()[0]
    members = order.take(again)
    order[again] = members.take(np.lexsort((*codes.take(members, axis=1), runs.take(again))))
    inside = codes.take(order.take(again), axis=1)
    new[again[1:]] |= ~same(inside[:, 1:], inside[:, :-1])


def numbered(codes: Codes) -> tuple[Ints, Ints]:
    """Return one column of each group of equal ones, and for each column the number of its group.

    >>> numbered(np.array([[7, 5, 7]]))
    (array([1, 0]), array([1, 0, 1]))
    """
    n = codes.shape[1]
    if n > sorting.FEW and len(codes):
        found = _numbered_by_table(codes)
        if found is not None:
            return found
    order, starts = grouped(codes)
    number = np.zeros(n, np.int64)
    number[starts[1:]] = 1
    owner = np.empty(n, np.int64)
    owner[order] = number.cumsum()
    return order.take(starts), owner


def _numbered_by_table(codes: Codes) -> tuple[Ints, Ints] | None:
    """Return what `numbered` does where there are hardly more values than columns, so that they can be looked up."""
    n = codes.shape[1]
    bits = n.bit_length() + 1
    word, given, whole = sorting.packed(codes, bits)
    if whole < len(codes):
        return None
    places = word.view(np.int64)
    number = np.zeros(1 << sum(given), np.int64)
    number[places] = 1
    number = number.cumsum()
    number -= 1
    owner = number.take(places)
    one = np.empty(int(number[-1]) + 1, np.int64)
    one[owner] = np.arange(n)
    return one, owner


def _unlike(codes: Codes, order: Ints, new: Bools) -> Ints:
    """Return where in an order a column differs from the one before it although it is not known to be new there."""
    if 2 * np.count_nonzero(new) < len(new):
        inside = codes.take(order, axis=1)
        differs: Bools = (inside[:, 1:] != inside[:, :-1]).any(axis=0)
        return (differs & ~new[1:]).nonzero()[0] + 1
    alike = (~new).nonzero()[0]
    if not len(alike):
        return alike
    return alike.compress(~same(codes.take(order.take(alike), axis=1), codes.take(order.take(alike - 1), axis=1)))


def consolidated(updates: UpdateArray, weights: int = 1) -> UpdateArray:
    """Return updates with the weights of equal rows at equal times added up, less those that come to nothing."""
    n = updates.shape[1]
    if n == 0:
        return updates
    top = len(updates) - weights
    if n > 1:
        order, starts = grouped(updates[:top])
        if len(starts) < n:
            sums = _sums(updates[top:].take(order, axis=1), starts)
            updates = np.concatenate((updates[:top].take(order.take(starts), axis=1), sums))
    kept = updates[top].astype(np.bool_) if weights == 1 else updates[top:].any(axis=0)
    return updates if kept.all() else updates.compress(kept, axis=1)


def _sums(weights: UpdateArray, starts: Ints) -> UpdateArray:
    """Return the sums of each group of adjacent weights; ``CountOverflowError`` where one is beyond 64 bits."""
    sums: UpdateArray = np.add.reduceat(weights, starts, axis=1)
    if int(np.abs(weights).max()) * weights.shape[1] >= _MOST:  # else no sum can be beyond
        # Integers wrap around by 2**64, floats do not: far more apart than rounding can take them.
        roughly = np.add.reduceat(weights.astype(np.float64), starts, axis=1)
        if (np.abs(roughly - sums) > _MOST / 2).any() or (sums == -_MOST).any():
            raise failures.count_overflow()
    return sums


def consolidated_by(
    keys: Ints, updates: UpdateArray, others: slice | list[int], weights: int, *, runs: bool = False
) -> tuple[Ints, UpdateArray]:
    """Return updates consolidated and sorted by the hashes of their keys, after these hashes.

    ``others`` are the rows, weights aside, that tell updates of one key apart. With ``runs`` it is expected to be a few
    sorted arrays side by side, which are merged, several times faster than sorted.
    """
    if not len(keys):
        return keys, updates
    n, top = len(keys), len(updates) - weights
    minor = np.matmul(_MULTIPLIERS[: len(updates[others])], updates[others])
    keys, order, starts = _grouped_by(keys, updates[:top], minor, "stable" if runs else "quicksort")
    sums = updates[top:].take(order, axis=1)
    if len(starts) < n:
        sums = _sums(sums, starts)
        order, keys = order.take(starts), keys.take(starts)
    kept = sums[0].astype(np.bool_) if weights == 1 else sums.any(axis=0)
    if not kept.all():
        sums, order, keys = sums.compress(kept, axis=1), order.compress(kept), keys.compress(kept)
    result = np.empty((len(updates), len(order)), np.int64)
    updates[:top].take(order, axis=1, out=result[:top], mode="clip")  # with "raise" it would go through a buffer
    result[top:] = sums
    return keys, result


def _grouped_by(keys: Ints, codes: Codes, minor: Ints, kind: Literal["quicksort", "stable"]) -> tuple[Ints, Ints, Ints]:
    """Return the keys sorted; their order, with equal columns adjacent; where in it each group of equal ones starts."""
    n = len(keys)
    both = _in_one(keys, minor)
    if kind == "stable" or n <= sorting.FEW:
        order = both.argsort(kind=kind)
        both = both.take(order)
    else:
        order, both = sorting.ascending(both)
    new = _differing(both)
    _part(codes, order, new)
    found = keys.take(order)
    if (found[1:] < found[:-1]).any():  # two keys' hashes that differ late
        order = np.lexsort((*codes, keys))
        found = keys.take(order)
        inside = codes.take(order, axis=1)
        np.any(inside[:, 1:] != inside[:, :-1], axis=0, out=new[1:])
    return found, order, new.nonzero()[0]


def _in_one(keys: Ints, minor: Ints) -> Ints:
    """Return integers that sort as the keys do, and among equal keys as some bits of a second hash.

    Keys of few values, as the codes of strings are, go in whole, and leave the other bits to the second. All others,
    hashes and the codes of times among them, leave their last bits to it, so many that two keys are hardly ever taken
    for one.
    """
    least = int(keys.min())
    if least == NULL:  # far from all other codes: put it next to them
        others = keys.compress(keys != NULL)
        least = int(others.min()) - 1 if len(others) else NULL
        keys = np.maximum(keys, least)
    bits, room = (int(keys.max()) - least).bit_length(), 64
    if bits < room:
        room = 63
        keys = keys - least << room - bits
    whole = bits if bits <= _EXACT else min(2 * len(keys).bit_length() + 10, 48)
    low = (1 << room - whole) - 1
    return (keys & ~low) | (minor >> 64 - room + whole & low)


_EXACT: Final = 40


def indices(keys: Codes, sought: Codes) -> Ints:
    """Return for each column of codes sought which of the keys, all different, it is; -1 where it is none."""
    count = keys.shape[1]
    one, group = numbered(np.concatenate((keys, sought), axis=1))
    of_group = np.full(len(one), -1)
    of_group[group[:count]] = np.arange(count)
    return of_group.take(group[count:])


def stacked(arrays: list[UpdateArray]) -> UpdateArray:
    """Return arrays side by side."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)


def same(codes: Codes, others: Codes) -> Bools:
    """Return which columns of two equally shaped matrices are equal."""
    equal: Bools = (codes == others).all(axis=0)
    return equal


def expand(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return, for ranges of these starts and lengths laid end to end, each element's range and its position.

    >>> expand(np.array([5, 9]), np.array([2, 1]))
    (array([0, 0, 1]), array([5, 6, 9]))
    """
    owner = np.arange(len(counts)).repeat(counts)
    return owner, np.arange(len(owner)) + (starts - counts.cumsum() + counts).take(owner)
