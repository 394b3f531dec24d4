"""Updates at future times in buckets of times that are the wider, the further they are from the frontier.

As in a hierarchical timing wheel: a time is compared with the frontier bit by bit, and the highest group of bits in
which they differ says which bucket it is in, one of eight for each group. So there are some eight buckets for each
threefold doubling of the distance; where a bucket lies follows from its times alone as long as the frontier has not
reached it; and a bucket that it reaches is shared out among narrower ones, so that an update is moved once for each
group of bits, at most. Equal updates come into one bucket, where what cancels out meets long before it is due.

With several coordinates a bucket is a box, that has such a range of each of them. All of it is immutable but the dict
that a change is made in, so that a step that fails is undone by going back to the buckets before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.renderer.embedded.kernels.sorting import ascending, gathered
from tidemill.renderer.embedded.kernels.times import beyond
from tidemill.renderer.embedded.kernels.updates import Bools, Ints, Times, UpdateArray, consolidated, grouped, stacked

BITS: Final = 3
"""How many bits of times make a group."""
RATIO: Final = 2
"""Neighbouring arrays of a bucket are merged when the older is less than this many times the size of the newer."""
_THRESHOLDS: Final[Ints] = 1 << np.arange(BITS, 63, BITS)

Range: TypeAlias = tuple[int, ...]
"""The level and the first time of a bucket, coordinate by coordinate: what names it."""


class TimeLayout(NamedTuple):
    """Where in updates their user times are, and how many weights they end with; of none, equal ones are one."""

    first: int
    users: int
    weights: int

    def times(self, updates: UpdateArray) -> Times:
        return updates[self.first : self.first + self.users]

    def summed(self, updates: UpdateArray) -> UpdateArray:
        """Return updates without what is equal or cancels out."""
        if self.weights:
            return consolidated(updates, self.weights)
        order, starts = grouped(updates)
        return updates if len(starts) == len(order) else updates.take(order.take(starts), axis=1)


class Bucket(NamedTuple):
    """Updates of one range of times: arrays of geometrically falling size; of one coordinate each in order of time."""

    arrays: tuple[UpdateArray, ...]
    meet: Time
    """The meet of the times of all that has come into it."""
    join: Time


class Buckets:
    """Buckets by their ranges. It is changed by `added` and `taken`, which return another."""

    __slots__ = ("by_range", "joins", "meet", "meets")

    def __init__(self, by_range: dict[Range, Bucket]) -> None:
        self.by_range = by_range
        self.meets: Ints = np.array([b.meet for b in by_range.values()], np.int64).T
        """The meets of the times of each bucket, as a column."""
        self.joins: Ints = np.array([b.join for b in by_range.values()], np.int64).T
        self.meet: Time = tuple(self.meets.min(axis=1).tolist()) if by_range else ()

    def arrays(self) -> Iterator[UpdateArray]:
        for bucket in self.by_range.values():
            yield from bucket.arrays


def added(buckets: Buckets, updates: UpdateArray, frontier: Antichain, layout: TimeLayout) -> Buckets:
    """Return the buckets with updates that are beyond a frontier, put where they are by it."""
    by_range = dict(buckets.by_range)
    for element, part in _by_element(updates, frontier, layout):
        for place, inside in _shared_out(part, element, layout):
            times = layout.times(inside)
            meet, join = tuple(times.min(axis=1).tolist()), tuple(times.max(axis=1).tolist())
            known = by_range.get(place)
            if known is None:
                by_range[place] = Bucket((inside,), meet, join)
                continue
            arrays = _balanced([*known.arrays, inside], layout)
            if arrays:
                by_range[place] = Bucket(arrays, _least(known.meet, meet), _greatest(known.join, join))
            else:
                del by_range[place]
    return Buckets(by_range)


def taken(buckets: Buckets, frontier: Antichain, due: list[UpdateArray], reached: list[UpdateArray]) -> Buckets:
    """Return the buckets beyond a frontier, and add the others' updates to a list.

    Those of buckets that are past it are due; those of buckets that it lies in have to be looked at.
    """
    if not buckets.by_range or frontier.beyond(buckets.meet):
        return buckets
    inside: Bools = ~beyond(buckets.meets, frontier)
    past: Bools = ~beyond(buckets.joins, frontier)
    if not inside.any():
        return buckets
    left: dict[Range, Bucket] = {}
    for (place, bucket), is_inside, is_past in zip(
        buckets.by_range.items(), inside.tolist(), (inside & past).tolist(), strict=True
    ):
        if is_past:
            due += bucket.arrays
        elif is_inside:
            reached += bucket.arrays
        else:
            left[place] = bucket
    return Buckets(left)


def _by_element(updates: UpdateArray, frontier: Antichain, layout: TimeLayout) -> Iterator[tuple[Time, UpdateArray]]:
    """Return the updates by an element of the frontier that each one is beyond: the first such."""
    *others, last = frontier.elements
    for element in others:
        mine = beyond(layout.times(updates), Antichain([element]))
        yield element, updates.compress(mine, axis=1)
        updates = updates.compress(~mine, axis=1)
    yield last, updates


def _shared_out(updates: UpdateArray, element: Time, layout: TimeLayout) -> Iterator[tuple[Range, UpdateArray]]:
    """Return updates, all beyond a time, by the ranges of the buckets that they belong to."""
    if not updates.shape[1]:
        return
    times = layout.times(updates)
    order: Ints | None = None
    if layout.users == 1 and (times[0, 1:] < times[0, :-1]).any():
        order, in_time = ascending(times[0])
        times = in_time[None]
    levels = _THRESHOLDS.searchsorted(times ^ np.array(element)[:, None], "right")
    shifts = levels * BITS
    ranges = np.concatenate((levels, times >> shifts << shifts))
    if layout.users == 1:
        starts = np.concatenate(([0], (ranges[1, 1:] != ranges[1, :-1]).nonzero()[0] + 1))
    else:
        order, starts = grouped(ranges)
    firsts = starts if order is None or layout.users == 1 else order.take(starts)
    ends = [*starts[1:].tolist(), updates.shape[1]]
    for place, start, end in zip(ranges.take(firsts, axis=1).T.tolist(), starts.tolist(), ends, strict=True):
        if order is not None:
            yield tuple(place), gathered(updates, order[start:end])
        else:
            yield tuple(place), updates[:, start:end].copy()  # a part would keep the whole in memory


def _balanced(arrays: list[UpdateArray], layout: TimeLayout) -> tuple[UpdateArray, ...]:
    """Return the arrays of a bucket, oldest first, with neighbours of similar size merged."""
    while len(arrays) > 1 and arrays[-2].shape[1] < RATIO * arrays[-1].shape[1]:
        merged = layout.summed(stacked(arrays[-2:]))
        arrays[-2:] = [in_order(merged, layout)] if merged.shape[1] else []
    return tuple(arrays)


def in_order(updates: UpdateArray, layout: TimeLayout) -> UpdateArray:
    """Return updates, where times have one coordinate in its order."""
    times = layout.times(updates)
    if layout.users > 1 or not (times[0, 1:] < times[0, :-1]).any():
        return updates
    return gathered(updates, ascending(times[0])[0])


def _least(a: Time, b: Time) -> Time:
    return tuple(map(min, a, b))


def _greatest(a: Time, b: Time) -> Time:
    return tuple(map(max, a, b))
