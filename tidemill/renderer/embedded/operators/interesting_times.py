"""Interesting times per key in a round: the times at which a key's output can change; and sums over updates up to them.

In a round all loop coordinates are fixed, so what is left of the lattice is user time. Updates and interesting times
are given by the number of their key and their user time. Corrections of the output are found by Möbius inversion: the
change at an interesting time is the desired output less what was produced up to it, less the changes at earlier
interesting times of the key. That is a fixed linear combination, given here as pairs with coefficients.

Three forms, from the common to the general: a single time for all keys, with everything before it (a step of one
epoch); totally ordered times (several epochs); partially ordered ones.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.embedded.kernels.memory import cleared
from tidemill.renderer.embedded.kernels.times import beyond
from tidemill.renderer.embedded.kernels.updates import (
    Ints,
    Times,
    UpdateArray,
    add_at,
    expand,
    first_numbers,
    grouped,
    ones,
)

_MOBIUS_CELLS: Final = 1 << 22
"""Coefficients computed at once."""

Coefficients: TypeAlias = tuple[Ints, Ints, Ints]
"""(interesting time, what goes into the change there, how often)"""


class InterestingTimes:
    """The interesting times of the keys of a round, in one of three forms."""

    keys: Ints
    """The number of the key of each interesting time."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def times(self) -> Times:
        """The user time of each interesting time."""
        raise NotImplementedError

    def keys_at(self, which: Ints) -> Ints:
        """Return the keys of some of the interesting times."""
        return self.keys.take(which)

    def times_at(self, which: Ints) -> Times:
        """Return the user times of some of the interesting times; a single column where it is the same for all."""
        return self.times.take(which, axis=1)

    def sums(self, keys: Ints, times: Times, weights: UpdateArray) -> UpdateArray:
        """Return, for each interesting time, the sum of the weights of the key's updates up to it."""
        raise NotImplementedError

    def pairs(self, keys: Ints, times: Times) -> tuple[Ints, Ints]:
        """Return all pairs of an interesting time and an update of its key at or before it."""
        raise NotImplementedError

    def coefficients(self) -> Coefficients:
        """Return how often the desired output at one interesting time goes into the change at another."""
        raise NotImplementedError

    def retractions(self, keys: Ints, times: Times) -> Coefficients:
        """Return how often an update produced earlier goes out of the change at an interesting time."""
        raise NotImplementedError

    def changes(self, desired: Ints) -> Ints:
        """Return, for each interesting time, how these counts, desired at each, differ from those before it."""
        change = np.zeros(len(self), np.int64)
        at, what, coefficient = self.coefficients()
        np.add.at(change, at, coefficient * desired.take(what))
        return change

    def produced(self, keys: Ints, times: Times, counts: Ints) -> Ints:
        """Return, for each interesting time, by how much updates produced earlier change there what is seen of them."""
        change = np.zeros(len(self), np.int64)
        some = counts.nonzero()[0]
        at, what, coefficient = self.retractions(keys.take(some), times.take(some, axis=1))
        np.add.at(change, at, coefficient * counts.take(some).take(what))
        return change


class SingleTime(InterestingTimes):
    """One interesting time for each key, numbered from 0, the same for all; every update is at or before it."""

    def __init__(self, keys: Ints, time: Times) -> None:
        self.keys = keys
        self._time = time

    @property
    def times(self) -> Times:
        return self._time.repeat(len(self.keys), axis=1)

    def keys_at(self, which: Ints) -> Ints:
        return which

    def times_at(self, which: Ints) -> Times:
        del which
        return self._time

    def sums(self, keys: Ints, times: Times, weights: UpdateArray) -> UpdateArray:
        del times
        if len(self.keys) == 1:
            only: UpdateArray = np.add.reduce(weights, axis=1, keepdims=True)
            return only
        if keys is self.keys:  # one update for each
            return weights
        result: UpdateArray = cleared((len(weights), len(self.keys)))
        for row, values in zip(result, weights, strict=True):
            add_at(row, keys, values)
        return result

    def pairs(self, keys: Ints, times: Times) -> tuple[Ints, Ints]:
        del times
        return keys, first_numbers(len(keys))

    def changes(self, desired: Ints) -> Ints:
        return desired

    def produced(self, keys: Ints, times: Times, counts: Ints) -> Ints:
        del times
        change = np.zeros(len(self.keys), np.int64)
        np.add.at(change, keys, counts)
        return change

    def coefficients(self) -> Coefficients:
        return self.keys, self.keys, ones(len(self.keys))

    def retractions(self, keys: Ints, times: Times) -> Coefficients:
        del times
        return keys, first_numbers(len(keys)), ones(len(keys))


class SeveralTimes(InterestingTimes):
    """Any number of interesting times for each key; sorted by key and time."""

    def __init__(self, keys: Ints, times: Times) -> None:
        self.keys = keys
        self._times = times

    @property
    def times(self) -> Times:
        return self._times


class TotallyOrderedTimes(SeveralTimes):
    """Interesting times of one user coordinate."""

    def __init__(self, keys: Ints, times: Times) -> None:
        super().__init__(keys, times)
        self._first = np.concatenate(([True], keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.bool_)

    def _place(self, keys: Ints, times: Times) -> Ints:
        """Return the first interesting time of each update's key at or after it; past the end where there is none."""
        order = np.lexsort((np.concatenate((np.zeros_like(keys), np.ones_like(self.keys))),
                            np.concatenate((times[0], self.times[0])),
                            np.concatenate((keys, self.keys))))  # fmt: skip
        is_interesting = order >= len(keys)
        before = is_interesting.cumsum()
        place = np.empty(len(keys), np.int64)
        place[order[~is_interesting]] = before[~is_interesting]
        return place

    def sums(self, keys: Ints, times: Times, weights: UpdateArray) -> UpdateArray:
        """Linear in the updates, by running sums."""
        place = self._place(keys, times)
        n = len(self.keys)
        inside = (place < n) & (self.keys.take(place, mode="clip") == keys)
        steps = np.zeros((len(weights), n), np.int64)
        for row, values in zip(steps, weights, strict=True):
            np.add.at(row, place[inside], values[inside])
        running = steps.cumsum(axis=1)
        starts = self._first.nonzero()[0]
        base = np.where(starts > 0, running[:, starts - 1], 0)
        return running - base.take(self._first.cumsum() - 1, axis=1)

    def pairs(self, keys: Ints, times: Times) -> tuple[Ints, Ints]:
        """As many as there are."""
        place = self._place(keys, times)
        lasts = np.searchsorted(self.keys, keys, "right")
        update, interesting = expand(place, np.maximum(lasts - place, 0))
        return interesting, update

    def coefficients(self) -> Coefficients:
        """In at its own time, out at the key's next."""
        own = np.arange(len(self.keys))
        later = (~self._first).nonzero()[0]
        return (
            np.concatenate((own, later)),
            np.concatenate((own, later - 1)),
            np.concatenate((np.ones_like(own), np.full_like(later, -1))),
        )

    def retractions(self, keys: Ints, times: Times) -> Coefficients:
        """Out at the first interesting time that sees it."""
        place = self._place(keys, times)
        inside = ((place < len(self.keys)) & (self.keys.take(place, mode="clip") == keys)).nonzero()[0]
        return place.take(inside), inside, np.ones(len(inside), np.int64)


class PartiallyOrderedTimes(SeveralTimes):
    """Interesting times in any partial order."""

    def sums(self, keys: Ints, times: Times, weights: UpdateArray) -> UpdateArray:
        interesting, update = self.pairs(keys, times)
        result = np.zeros((len(weights), len(self.keys)), np.int64)
        for row, values in zip(result, weights, strict=True):
            np.add.at(row, interesting, values.take(update))
        return result

    def pairs(self, keys: Ints, times: Times) -> tuple[Ints, Ints]:
        low = self.keys.searchsorted(keys)
        update, interesting = expand(low, self.keys.searchsorted(keys, "right") - low)
        seen = (times.take(update, axis=1) <= self.times.take(interesting, axis=1)).all(axis=0)
        return interesting.compress(seen), update.compress(seen)

    def coefficients(self) -> Coefficients:
        """By the Möbius function of the interesting times."""
        _, starts, counts = np.unique(self.keys, return_index=True, return_counts=True)
        found: list[UpdateArray] = []
        for size in np.unique(counts).tolist():
            some = starts.compress(counts == size)
            chunk = max(1, _MOBIUS_CELLS // size**2)
            found += [self._mobius(some[i : i + chunk], size) for i in range(0, len(some), chunk)]
        columns = np.concatenate(found, axis=1)
        return columns[0], columns[1], columns[2]

    def _mobius(self, starts: Ints, size: int) -> UpdateArray:
        """Return (later, earlier, coefficient) for keys with ``size`` interesting times, which start at these places.

        change(a) = x(a) - sum of change(c) over c < a, so row a of the coefficients is that of x(a) less the rows of
        those before it; the order of places extends that of times.
        """
        places = starts[:, None] + np.arange(size)
        times = self.times[:, places]
        seen = np.asarray(np.less_equal(times[:, :, None, :], times[:, :, :, None])).all(axis=0)
        before = np.asarray(seen, np.int64)
        rows: UpdateArray = np.zeros((len(starts), size, size), np.int64)
        for a in range(size):
            earlier: UpdateArray = np.matmul(before[:, a, None, :a], rows[:, :a, :])
            rows[:, a, :] = -earlier[:, 0, :]
            rows[:, a, a] += 1
        key, at, of = rows.nonzero()
        return np.stack((places[key, at], places[key, of], rows[key, at, of]))

    def retractions(self, keys: Ints, times: Times) -> Coefficients:
        """By the sum of the Möbius function over the interesting times that see it."""
        target, source, coefficient = self.coefficients()
        seen_by, update = self.pairs(keys, times)
        order = source.argsort(kind="stable")
        source = source.take(order)
        low = source.searchsorted(seen_by)
        pair, place = expand(low, source.searchsorted(seen_by, "right") - low)
        at, what, c = target.take(order).take(place), update.take(pair), coefficient.take(order).take(place)
        order, starts = grouped(np.stack((at, what)))
        if not len(starts):
            return at, what, c
        total = np.add.reduceat(c.take(order), starts)
        first = order.take(starts)
        kept = total != 0
        return at.take(first)[kept], what.take(first)[kept], total[kept]


class Seeds(NamedTuple):
    """Interesting times of keys 0..count-1 to begin with; every key has one."""

    groups: int
    keys: Ints
    times: Times
    single_time: bool
    """Whether all are at one time."""


def find_interesting_times(
    seeds: Seeds, base_keys: Ints, base: Times, upper: Antichain
) -> tuple[InterestingTimes, Ints, UpdateArray]:
    """Return the interesting times of some keys in a round; and those beyond ``upper``, which stay pending.

    Interesting are the seeds and their joins with each other and with the base, the times of stored updates. What is
    beyond ``upper`` is recorded when first reached, and not joined further.
    """
    nothing = (np.empty(0, np.int64), np.empty((len(base), 0), np.int64))
    if seeds.single_time and (base <= seeds.times[:, :1]).all():
        return SingleTime(first_numbers(seeds.groups), seeds.times[:, :1]), *nothing
    if len(base) == 1:
        keys, times = _total_closure(seeds.keys, seeds.times[0], base_keys, base[0])
        return TotallyOrderedTimes(keys, times[None]), *nothing
    keys, times, pending_keys, pending = _closure(seeds.keys, seeds.times, base_keys, base, upper)
    return PartiallyOrderedTimes(keys, times), pending_keys, pending


def _total_closure(seed_keys: Ints, seeds: Ints, base_keys: Ints, base: Ints) -> tuple[Ints, Ints]:
    """Return the seeds, and the base times after a seed of their key; sorted, each once."""
    least = np.full(int(seed_keys.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, seed_keys, seeds)
    later = base > least.take(base_keys)
    keys = np.concatenate((seed_keys, base_keys[later]))
    times = np.concatenate((seeds, base[later]))
    order = np.lexsort((times, keys))
    keys, times = keys.take(order), times.take(order)
    new = np.concatenate(([True], (keys[1:] != keys[:-1]) | (times[1:] != times[:-1])))
    return keys[new], times[new]


def _closure(
    seed_keys: Ints, seeds: Times, base_keys: Ints, base: Times, upper: Antichain
) -> tuple[Ints, Times, Ints, Times]:
    """Return the seeds' joins with each other and the base, sorted by key and time; apart, those beyond ``upper``."""
    reached = _distinct(np.concatenate((seed_keys[None], seeds)))
    generators = _distinct(np.concatenate((reached, np.concatenate((base_keys[None], base))), axis=1))
    pending = reached[:, :0]
    while True:
        low = generators[0].searchsorted(reached[0])
        one, other = expand(low, generators[0].searchsorted(reached[0], "right") - low)
        joined = np.maximum(reached.take(one, axis=1), generators.take(other, axis=1))
        out = beyond(joined[1:], upper)
        pending = _distinct(np.concatenate((pending, joined.compress(out, axis=1)), axis=1))
        grown = _distinct(np.concatenate((reached, joined.compress(~out, axis=1)), axis=1))
        if grown.shape[1] == reached.shape[1]:
            return grown[0], grown[1:], pending[0], pending[1:]
        reached = grown


def _distinct(columns: UpdateArray) -> UpdateArray:
    """Return the columns sorted by their first row, then the next and so on, each once."""
    ordered = columns.take(np.lexsort(columns[::-1]), axis=1)
    new = np.ones(ordered.shape[1], np.bool_)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return ordered.compress(new, axis=1)
