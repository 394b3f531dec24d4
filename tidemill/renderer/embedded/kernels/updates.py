"""Arrays of updates, and the kernels that sort, group and consolidate them.

Updates are a matrix of int64, a column for each: first the codes of the row's values, then the coordinates of its
time, then its weights (one diff, unless an operator keeps several sums). Equal values have equal codes, so kernels
never ask what a code stands for. One matrix rather than an array a column makes an operator a handful of NumPy calls,
which is what a step of one row costs.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidemill.renderer.embedded.kernels import sorting, tables
from tidemill.renderer.embedded.kernels.memory import concatenate, empty, repeated, stack
from tidemill.renderer.runs import failures

UpdateArray: TypeAlias = npt.NDArray[np.int64]
"""A matrix of updates, a column for each."""
Codes: TypeAlias = npt.NDArray[np.int64]
"""A matrix of codes, a column for each row, or only those of its key."""
Times: TypeAlias = npt.NDArray[np.int64]
"""A matrix of user times, a column for each."""
Ints: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = UpdateArray | list[Ints]
"""A matrix of updates or codes, or its rows, which then need not lie side by side."""
Bools: TypeAlias = npt.NDArray[np.bool_]

NULL: Final = -(2**63)
"""The code of NULL, in every column. No int64 value may be it."""

_OVERFLOW: Final = 2**63
_WORD: Final = 64
_SPREAD: Final = 0x1E3779B97F4A7C15
"""Spreads what distinguishes hashes to their highest bits."""
_MOST_COLUMNS: Final = 4096
_FEW: Final = 8
"""Columns that are compared sooner in Python than by NumPy, whose calls cost more than their work on so few."""
_FEW_ADDED_UP: Final = 40
"""Updates that are added up sooner in Python."""
_FEW_LOOKED_AT: Final = 32
"""Numbers of which Python finds the largest sooner."""
_FEW_EQUAL: Final = 8
"""With fewer than one in this many that is equal to another, those that are not are left where they are."""
_MOST_MARKED: Final = 1 << 13
"""Up to how many updates those that may be equal to another are found by a table: it stays in the caches then."""
_PLACES: Final = 16
"""How many places it has for each: of those that are not equal to another, one in this many is taken for it."""
_MANY_SUMS: Final = 1 << 12
"""From how many weights on their sums are worth a look at how large their groups are."""
_SHORT: Final = 1024
_MULTIPLIERS: Final[Ints] = np.random.default_rng(0x7F4A7C15).integers(-(2**63), 2**63, _MOST_COLUMNS, np.int64) | 1
_NONE: Final[Ints] = np.empty(0, np.int64)
_NUMBERS: Final[Ints] = np.arange(_SHORT)
_ONES: Final[Ints] = np.ones(_SHORT, np.int64)
_NUMBERS.flags.writeable = _ONES.flags.writeable = False


def first_numbers(count: int) -> Ints:
    """Return the first ``count`` numbers from 0 on, to be read only."""
    return _NUMBERS[:count] if count <= _SHORT else np.arange(count)


def ones(count: int) -> Ints:
    """Return ``count`` ones, to be read only."""
    return _ONES[:count] if count <= _SHORT else repeated(1, count)


def largest(numbers: UpdateArray) -> int:
    """Return the largest absolute value; 0 of none."""
    if numbers.size <= _FEW_LOOKED_AT:
        return max(map(abs, (numbers if numbers.ndim == 1 else numbers.ravel()).tolist()), default=0)
    if numbers.strides[-1] == 0:  # one number, over and over
        numbers = numbers[..., :1]
    return max(int(np.maximum.reduce(numbers, axis=None)), -int(np.minimum.reduce(numbers, axis=None)))


def add_at(sums: Ints, places: Ints, values: Ints) -> None:
    """Add values to the sums at these places, of which some may be the same."""
    if len(places) > _FEW:
        np.add.at(sums, places, values)
        return
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        sums[place] += value


def hashed(codes: Rows) -> Ints:
    """Return a hash of each column of codes, to sort and look up by. A single code is its own hash.

    Hashes decide where to look; whoever looks compares the codes themselves.
    """
    if len(codes) == 1:
        return codes[0]
    if isinstance(codes, list) or codes.shape[1] > sorting.PART:
        return row_hashes(codes)
    hashes: Ints = np.matmul(_MULTIPLIERS[: len(codes)], codes)
    return hashes


def grouped(codes: Codes) -> tuple[Ints, Ints]:
    """Return an order in which equal columns are adjacent, and where in it each group of equal ones starts."""
    n = codes.shape[1]
    if n <= _FEW:
        return _few_grouped(codes)
    if not len(codes):
        return np.arange(n), np.zeros(1, np.int64)
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


def _few_grouped(codes: Codes) -> tuple[Ints, Ints]:
    """Like `grouped`, for a few columns."""
    n = codes.shape[1]
    if n < 2:  # noqa: PLR2004 - nothing to order
        return first_numbers(n), first_numbers(n)
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, column in enumerate(map(tuple, codes.T.tolist())):
        groups.setdefault(column, []).append(i)
    if len(groups) == n:
        return first_numbers(n), first_numbers(n)
    order: list[int] = []
    starts: list[int] = []
    for members in groups.values():
        starts.append(len(order))
        order += members
    return np.array(order), np.array(starts)


def _grouped_many(codes: Codes) -> tuple[Ints, Ints]:
    """Like `grouped`. Codes of few values are sorted as such, side by side in one word; others by hash."""
    n = codes.shape[1]
    place_bits = (n - 1).bit_length()
    word, _, whole = sorting.packed(codes, _WORD - place_bits)
    if whole == len(codes):
        order, new = sorting.sort_words(word, place_bits)
        return order, new.nonzero()[0]
    word = hashed(codes).view(np.uint64)
    word = word * np.uint64(_SPREAD)
    word >>= np.uint64(place_bits)
    order, new = sorting.sort_words(word, place_bits)
    part_unlike(codes, order, new)
    return order, new.nonzero()[0]


def differing(ordered: Ints) -> Bools:
    """Return where a number differs from the one before; the first one does."""
    new = np.empty(len(ordered), np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


def part_unlike(codes: Rows, order: Ints, new: Bools) -> bool:
    """Split groups of an order whose columns differ and share a hash, in place; return whether there were any."""
    unlike = _unlike(codes, order, new)
    if not len(unlike):
        return False
    again, runs = sorting.runs_around(new, unlike)
    members = order.take(again)
    order[again] = members.take(np.lexsort((*columns_at(codes, members), runs)))
    inside = columns_at(codes, order.take(again))
    new[again[1:]] |= ~same(inside[:, 1:], inside[:, :-1])
    return True


def columns_at(rows: Rows, at: Ints) -> UpdateArray:
    """Return some columns of a matrix that is given as such, or row by row."""
    if isinstance(rows, np.ndarray):
        return rows.take(at, axis=1)
    # Of one number, over and over, ``take`` would make an array of all of them first.
    return stack([row.take(at) if row.strides[0] else repeated(row[0], len(at)) for row in rows])


def numbered(codes: Codes) -> tuple[Ints, Ints]:
    """Return one column of each group of equal ones, and for each column the number of its group.

    >>> numbered(np.array([[7, 5, 7]]))
    (array([0, 1]), array([0, 1, 0]))
    """
    n = codes.shape[1]
    if not len(codes):  # all are equal
        return first_numbers(min(n, 1)), np.zeros(n, np.int64)
    if n > sorting.FEW:
        found = tables.numbered(codes)
        if found is not None:
            return found
    order, starts = grouped(codes)
    if len(starts) == n:
        return first_numbers(n), first_numbers(n)
    number = np.zeros(n, np.int64)
    number[starts[1:]] = 1
    owner = np.empty(n, np.int64)
    owner[order] = number.cumsum()
    return order.take(starts), owner


def distinct(codes: Codes) -> tuple[Codes, Ints]:
    """Return each different column once, and for each column the number of its own.

    >>> distinct(np.array([[7, 5, 7]]))
    (array([[7, 5]]), array([0, 1, 0]))
    """
    found = tables.found(codes) if len(codes) == 1 and codes.shape[1] > sorting.FEW else None
    if found is not None:  # the values are known without a look at where each of them is
        return found[0].codes(found[1]), found[2]
    one, owner = numbered(codes)
    return codes.take(one, axis=1), owner


def _unlike(codes: Rows, order: Ints, new: Bools) -> Ints:
    """Return where in an order a column differs from the one before it, but is not marked as new."""
    found: list[Ints] = []
    for part in sorting.parts(len(order)):
        alike = (~new[part]).nonzero()[0]
        if not len(alike):
            continue
        alike += part.start
        if 2 * len(alike) > part.stop - part.start:
            inside = columns_at(codes, order[max(part.start - 1, 0) : part.stop])
            differs = (inside[:, 1:] != inside[:, :-1]).any(axis=0)
            found.append(alike.compress(differs.take(alike - max(part.start, 1))))
        else:
            found.append(
                alike.compress(~same(columns_at(codes, order.take(alike)), columns_at(codes, order.take(alike - 1))))
            )
    return found[0] if len(found) == 1 else np.concatenate([_NONE, *found])


def consolidated(updates: UpdateArray, weights: int = 1) -> UpdateArray:
    """Return updates with the weights of equal rows at equal times added up, less those that cancel."""
    n = updates.shape[1]
    if n == 0:
        return updates
    top = len(updates) - weights
    if weights == 1 and n <= _FEW_ADDED_UP:
        return _few_consolidated(updates)
    if sorting.FEW < n <= _MOST_MARKED:
        twins = _may_be_equal(updates[:top])
        if np.count_nonzero(twins) * _FEW_EQUAL < n:
            updates, equal = updates.compress(~twins, axis=1), consolidated(updates.compress(twins, axis=1), weights)
            return np.concatenate((_with_weights(updates, top), equal), axis=1)
    if n > 1:
        order, starts = grouped(updates[:top])
        if n > sorting.FEW and 0 < (n - len(starts)) * _FEW_EQUAL < n:
            updates = _with_few_added_up(updates, top, order, starts)
        elif len(starts) < n:
            sums = added_up(updates[top:].take(order, axis=1), starts)
            updates = np.concatenate((updates[:top].take(order.take(starts), axis=1), sums))
    return _with_weights(updates, top)


def _with_weights(updates: UpdateArray, top: int) -> UpdateArray:
    """Return those updates of which not all weights are zero."""
    kept: Bools = updates[top].astype(np.bool_) if top == len(updates) - 1 else np.any(updates[top:], axis=0)
    return updates if kept.all() else marked(updates, kept)


def _may_be_equal(codes: Codes) -> Bools:
    """Return which columns are equal to another, and a few more, whose hashes begin as another's does.

    That takes a fraction of the time of sorting them.
    """
    n = codes.shape[1]
    places, count = hash_places(codes, n)
    numbers = np.arange(n, dtype=np.int32)
    last = np.empty(count, np.int32)
    last[places] = numbers
    marks = np.zeros(count, np.bool_)
    marks[places.compress(last.take(places) != numbers)] = True
    return marks.take(places)


def equal_to_another(codes: Rows) -> Bools:
    """Return which columns are equal to another, and those that have the hash of another.

    >>> equal_to_another(np.array([[7, 5, 7]]))
    array([ True, False,  True])
    """
    hashes = row_hashes(codes)
    ordered = np.sort(hashes)
    twins = ordered[1:].compress(ordered[1:] == ordered[:-1])
    if not len(twins):
        return np.zeros(len(hashes), np.bool_)
    equal: Bools = twins.take(twins.searchsorted(hashes), mode="clip") == hashes
    return equal


def may_be_some(codes: Codes, some: Ints) -> Bools:
    """Return which columns are equal to one of some of them, and a few more, whose hashes begin as one of theirs."""
    places, count = hash_places(codes, len(some))
    marks = np.zeros(count, np.bool_)
    marks[places.take(some)] = True
    return marks.take(places)


def hash_places(codes: Codes, few: int) -> tuple[Ints, int]:
    """Return a place for each column by the first bits of its hash, and of how many; a few of them share hardly one."""
    bits = (_PLACES * few).bit_length()
    return (row_hashes(codes).view(np.uint64) >> np.uint64(_WORD - bits)).view(np.int64), 1 << bits


def _with_few_added_up(updates: UpdateArray, top: int, order: Ints, starts: Ints) -> UpdateArray:
    """Return updates, of which few are equal, with the weights of these added up, and the others where they were.

    To gather all of many in another order takes several times longer than to go through them.
    """
    several = (starts[1:] - starts[:-1] > 1).nonzero()[0]
    if starts[-1] < len(order) - 1:
        several = np.append(several, len(starts) - 1)
    counts = np.append(starts, len(order)).take(several + 1) - starts.take(several)
    members = order.take(expand(starts.take(several), counts)[1])
    ends = counts.cumsum()
    firsts = members.take(ends - counts)
    sums = added_up(updates[top:].take(members, axis=1), ends - counts)
    kept = np.ones(len(order), np.bool_)
    kept[members] = False
    kept[firsts] = True
    places = kept.cumsum().take(firsts) - 1
    updates = marked(updates, kept)
    updates[top:, places] = sums
    return updates


def _few_consolidated(updates: UpdateArray) -> UpdateArray:
    """Like `consolidated`, for a few updates of one weight."""
    n = updates.shape[1]
    if n == 1:
        return updates if updates[-1, 0] else updates[:, :0]
    sums: dict[tuple[int, ...], int] = {}
    *codes, weights = updates.tolist()
    for update, weight in zip(zip(*codes, strict=True) if codes else repeat(()), weights, strict=False):
        sums[update] = sums.get(update, 0) + weight
    if len(sums) == n and all(sums.values()):
        return updates
    if max(map(abs, sums.values())) >= _OVERFLOW:
        raise failures.count_overflow()
    rows = list(zip(*[(*update, total) for update, total in sums.items() if total], strict=True))
    return np.array(rows, np.int64) if rows else updates[:, :0]


def added_up(weights: UpdateArray, starts: Ints) -> UpdateArray:
    """Return the sums of each group of adjacent weights; ``CountOverflowError`` where one is beyond 64 bits."""
    n = weights.shape[1]
    sums = _few_in_each(weights, starts) if n > _MANY_SUMS else None
    if sums is None:
        sums = np.add.reduceat(weights, starts, axis=1)
    if largest(weights) * n >= _OVERFLOW:  # else no sum can be beyond
        # Integers wrap around by 2**64, floats do not: far more apart than rounding can take them.
        roughly = np.add.reduceat(weights.astype(np.float64), starts, axis=1)
        if (np.abs(roughly - sums) > _OVERFLOW / 2).any() or (sums == -_OVERFLOW).any():
            raise failures.count_overflow()
    return sums


def summable(counts: Ints) -> Any:
    """Return counts, as Python's numbers where sums of them may be beyond 64 bits."""
    return counts.astype(object) if largest(counts) * len(counts) >= _OVERFLOW else counts


def _few_in_each(weights: UpdateArray, starts: Ints) -> UpdateArray | None:
    """Return the sums of groups that have but a few weights, most of them one; None where they are otherwise.

    That takes half as long as NumPy takes for groups of any size.
    """
    n, count = weights.shape[1], len(starts)
    if 2 * count < n:
        return None
    lengths = np.empty(count, np.int64)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = n - starts[-1]
    more = (lengths > 1).nonzero()[0]
    counts = lengths.take(more)
    if int(counts.max(initial=0)) > _FEW:
        return None
    sums: UpdateArray = weights.take(starts, axis=1)
    for i in range(1, _FEW):
        if not len(more):
            break
        sums[:, more] += weights.take(starts.take(more) + i, axis=1)
        longer = counts > i + 1
        more, counts = more.compress(longer), counts.compress(longer)
    return sums


def row_hashes(rows: Rows) -> Ints:
    """Return a hash of each column of a matrix given by its rows: of a single one, too."""
    if not len(rows):
        assert isinstance(rows, np.ndarray)
        return np.zeros(rows.shape[1], np.int64)
    hashes: Ints = empty(len(rows[0]))
    for part in sorting.parts(len(hashes)):
        np.multiply(rows[0][part], _MULTIPLIERS[0], out=hashes[part])
        for row, multiplier in zip(rows[1:], _MULTIPLIERS[1:], strict=False):
            hashes[part] += row[part] * multiplier
    return hashes


def indices(keys: Codes, sought: Codes) -> Ints:
    """Return for each column of codes sought which of the keys, all different, it is; -1 where it is none."""
    count = keys.shape[1]
    one, group = numbered(np.concatenate((keys, sought), axis=1))
    of_group = np.full(len(one), -1)
    of_group[group[:count]] = np.arange(count)
    return of_group.take(group[count:])


def compressed(rows: Rows, mask: Bools) -> Rows:
    """Return those columns of a matrix, given as such or row by row, that are marked."""
    if isinstance(rows, np.ndarray):
        return marked(rows, mask)
    return rows if mask.all() else [row.compress(mask) for row in rows]


def marked(updates: UpdateArray, mask: Bools) -> UpdateArray:
    """Return the updates that are marked. Of many, ``compress`` would take several times as long."""
    n, count = len(mask), int(np.count_nonzero(mask))
    if count == n:
        return updates
    if n <= sorting.PART:
        return updates.compress(mask, axis=1)
    result: UpdateArray = empty((len(updates), count))
    done = 0
    for part in sorting.parts(n):
        places = mask[part].nonzero()[0]
        for row, found in zip(updates, result, strict=True):
            row[part].take(places, out=found[done : done + len(places)], mode="clip")  # "raise" goes through a buffer
        done += len(places)
    return result


def stacked(arrays: list[UpdateArray]) -> UpdateArray:
    """Return arrays side by side."""
    return arrays[0] if len(arrays) == 1 else concatenate(arrays, axis=1)


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
