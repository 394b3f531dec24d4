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

from tidemill.renderer.runs import failures

__all__ = [
    "NULL",
    "Bools",
    "Codes",
    "Ints",
    "Times",
    "UpdateArray",
    "add_at",
    "consolidated",
    "consolidated_by",
    "expand",
    "grouped",
    "hashed",
    "indices",
    "largest",
    "numbered",
    "ones",
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
_MOST_COLUMNS: Final = 4096
_FEW: Final = 8
"""Columns that are told apart sooner in Python than by NumPy, whose calls cost more than their work on so few."""
_SHORT: Final = 1024
_MULTIPLIERS: Final[Ints] = np.random.default_rng(0x7F4A7C15).integers(-(2**63), 2**63, _MOST_COLUMNS, np.int64) | 1
_NUMBERS: Final[Ints] = np.arange(_SHORT)
_ONES: Final[Ints] = np.ones(_SHORT, np.int64)
_NUMBERS.flags.writeable = _ONES.flags.writeable = False


def numbered(count: int) -> Ints:
    """Return the numbers from 0 on, so many, to be read only."""
    return _NUMBERS[:count] if count <= _SHORT else np.arange(count)


def ones(count: int) -> Ints:
    """Return so many ones, to be read only."""
    return _ONES[:count] if count <= _SHORT else np.ones(count, np.int64)


def largest(values: Ints) -> int:
    """Return the largest absolute value; 0 of none."""
    if len(values) <= _FEW:
        return max(map(abs, values.tolist()), default=0)
    return max(int(values.max()), -int(values.min()))


def add_at(sums: Ints, places: Ints, values: Ints) -> None:
    """Add values to the sums at these places, of which some may be the same."""
    if len(places) > _FEW:
        np.add.at(sums, places, values)
        return
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        sums[place] += value


def hashed(codes: Codes) -> Ints:
    """Return a hash of each column of codes, to sort and look up by. A single code is its own hash.

    Hashes decide where to look; whoever looks compares the codes themselves.
    """
    hashes: Ints = codes[0] if len(codes) == 1 else np.matmul(_MULTIPLIERS[: len(codes)], codes)
    return hashes


def grouped(codes: Codes) -> tuple[Ints, Ints]:
    """Return an order in which equal columns are adjacent, and where in it each group of equal ones starts."""
    n = codes.shape[1]
    if n <= _FEW:
        return _few_grouped(codes)
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


def _few_grouped(codes: Codes) -> tuple[Ints, Ints]:
    """Return what `grouped` does, of a few columns."""
    n = codes.shape[1]
    if n < 2:  # noqa: PLR2004 - nothing to order
        return numbered(n), numbered(n)
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, column in enumerate(map(tuple, codes.T.tolist())):
        groups.setdefault(column, []).append(i)
    if len(groups) == n:
        return numbered(n), numbered(n)
    order: list[int] = []
    starts: list[int] = []
    for members in groups.values():
        starts.append(len(order))
        order += members
    return np.array(order), np.array(starts)


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
    if weights == 1 and n <= _FEW:
        return _few_consolidated(updates)
    if n > 1:
        order, starts = grouped(updates[:top])
        if len(starts) < n:
            sums = _sums(updates[top:].take(order, axis=1), starts)
            updates = np.concatenate((updates[:top].take(order.take(starts), axis=1), sums))
    kept = updates[top].astype(np.bool_) if weights == 1 else updates[top:].any(axis=0)
    return updates if kept.all() else updates.compress(kept, axis=1)


def _few_consolidated(updates: UpdateArray) -> UpdateArray:
    """Return what `consolidated` does, of a few updates of one weight."""
    n = updates.shape[1]
    if n == 1:
        return updates if updates[-1, 0] else updates[:, :0]
    sums: dict[tuple[int, ...], int] = {}
    for *codes, weight in updates.T.tolist():
        update = tuple(codes)
        sums[update] = sums.get(update, 0) + weight
    if len(sums) == n and all(sums.values()):
        return updates
    if any(abs(total) >= _MOST for total in sums.values()):
        raise failures.count_overflow()
    rows = list(zip(*[(*update, total) for update, total in sums.items() if total], strict=True))
    return np.array(rows, np.int64) if rows else updates[:, :0]


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
    order = both.argsort(kind=kind)
    both = both.take(order)
    new = np.empty(n, np.bool_)
    new[0] = True
    np.not_equal(both[1:], both[:-1], out=new[1:])
    unlike = _unlike(codes, order, new)
    if len(unlike):  # different columns with one hash may lie interleaved: sort them by the codes, too
        runs = new.cumsum()
        again = np.isin(runs, runs.take(unlike)).nonzero()[0]
        members = order.take(again)
        order[again] = members.take(np.lexsort((*codes.take(members, axis=1), runs.take(again))))
        inside = codes.take(order.take(again), axis=1)
        new[again[1:]] |= ~same(inside[:, 1:], inside[:, :-1])
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
    order, starts = grouped(np.concatenate((keys, sought), axis=1))
    number = np.zeros(len(order), np.int64)
    number[starts[1:]] = 1
    group = np.empty_like(number)
    group[order] = number.cumsum()
    of_group = np.full(len(starts), -1)
    of_group[group[:count]] = np.arange(count)
    return of_group.take(group[count:])


def stacked(arrays: list[UpdateArray]) -> UpdateArray:
    """Return arrays side by side."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)


def same(codes: Codes, others: Codes) -> Bools:
    """Return which columns of two matrices are equal; of one with a single column, this to all of the other's."""
    equal: Bools = (codes == others).all(axis=0)
    return equal


def expand(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return, for ranges of these starts and lengths laid end to end, each element's range and its position.

    >>> expand(np.array([5, 9]), np.array([2, 1]))
    (array([0, 0, 1]), array([5, 6, 9]))
    """
    owner = np.arange(len(counts)).repeat(counts)
    return owner, np.arange(len(owner)) + (starts - counts.cumsum() + counts).take(owner)
