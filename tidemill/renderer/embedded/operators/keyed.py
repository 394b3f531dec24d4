"""Operators that look at whole groups: the keys and interesting times of a round."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tidemill.dataflow.nodes import Node
from tidemill.renderer.embedded.kernels.memory import cleared, stack
from tidemill.renderer.embedded.kernels.sorting import gather
from tidemill.renderer.embedded.kernels.times import alike, all_up_to
from tidemill.renderer.embedded.kernels.updates import (
    Bools,
    Codes,
    Ints,
    Rows,
    Times,
    UpdateArray,
    distinct,
    expand,
    first_numbers,
    grouped,
    stacked,
)
from tidemill.renderer.embedded.operators.interesting_times import (
    InterestingTimes,
    Seeds,
    SingleTime,
    find_interesting_times,
)
from tidemill.renderer.embedded.schedule import Operator, Port, Region

NEW, PENDING = 0, 1
_MANY: Final = 1 << 12
"""From more new updates on, tables of all keys that there may be are worth it."""
_NEVER: Final[int] = np.iinfo(np.int64).max


class Stored(NamedTuple):
    """Updates of the keys of a round: the number of each one's key, the updates, and how many codes they have."""

    owner: Ints
    updates: UpdateArray
    codes: int


class Work(NamedTuple):
    """The work of a keyed operator in a round: its new updates, its keys, and the seeds of interesting times.

    Seeds are the times of the new updates, which come first and one for one, and the pending interesting times that are
    due, of which some may be there twice. Consolidating the new updates makes fewer of them, and is a saving only.
    """

    keys: Codes
    """The keys of the new updates and the seeds, each once."""
    owner: Ints
    """For each seed the number of its key; every key has one."""
    times: Times
    """The user times of the seeds."""
    new: Rows
    """The new updates; none where their sums are known."""
    single_time: bool
    """Whether all seeds are of one user time."""
    sums: UpdateArray | None = None
    """The sums of the new updates by key, where nothing else has to be known of them: for each key an update."""

    @property
    def new_owner(self) -> Ints:
        """For each new update the number of its key."""
        return self.owner if isinstance(self.new, list) else self.owner[: self.new.shape[1]]


class KeyedOperator(Operator):
    """An operator whose output at a time depends on all of a key's updates up to it.

    Its second port has pending interesting times: keys, and times at which the output may change though no input does.
    """

    def __init__(self, node: Node, region: Region, codes: int, keys: tuple[int, ...]) -> None:
        super().__init__(node, region, (codes,))
        self.ports.append(Port(self, len(keys), weights=0))
        self._columns = np.array(keys, np.int64)
        first = keys[0] if keys else 0
        self._key_rows = slice(first, first + len(keys)) if keys == tuple(range(first, first + len(keys))) else None
        self._row_is_key = keys == tuple(range(codes))
        """Whether the row is the key; a key of all columns in another order is not."""
        self._width = codes
        self._coordinates = node.scope.coordinates

    def begin(self, *, consolidate: bool = True) -> Work | None:
        """Return the work of this round; None where there is none."""
        new = self.ports[NEW].take_consolidated() if consolidate else self.ports[NEW].take_rows()
        due = self.ports[PENDING].take()
        if new is None and due is None:
            return None
        if isinstance(new, list):
            if due is None:
                return self._work_of_rows(new)
            new = stack(new)
        if new is None:
            new = np.empty((self._width + self._coordinates + 1, 0), np.int64)
        users, width = self.schedule.users, len(self._columns)
        keys = new.take(self._columns, axis=0) if self._key_rows is None else new[self._key_rows]
        times = new[self._width : self._width + users]
        if due is None and new.shape[1] == 1:  # as in most steps of one row
            return Work(keys, first_numbers(1), times, new, single_time=True)
        if due is not None:
            keys = np.concatenate((keys, due[:width]), axis=1)
            times = np.concatenate((times, due[width : width + users]), axis=1)
        single_time = alike(times) if times.shape[1] > _MANY else np.count_nonzero(times != times[:, :1]) == 0
        if due is None and self._row_is_key and single_time and (consolidate or keys.shape[1] == 1):
            # Consolidated rows of one time are each there once.
            return Work(keys, np.arange(keys.shape[1]), times, new, single_time)
        return self._grouped(keys, times, new, single_time, seeds_are_new=due is None)

    def _work_of_rows(self, new: list[Ints]) -> Work:
        """Return the work where there are only new updates, given row by row."""
        keys, times = (
            new[rows.start][None] if rows.stop == rows.start + 1 else np.stack(new[rows])
            for rows in (slice(0, len(self._columns)), slice(self._width, self._width + self.schedule.users))
        )
        return self._grouped(keys, times, new, alike(times), seeds_are_new=True)

    def _grouped(self, keys: Codes, times: Times, new: Rows, single_time: bool, *, seeds_are_new: bool) -> Work:
        """Return the work with seeds of these keys, which may repeat, and times."""
        sums = self.sums_of_many(keys, new) if single_time and seeds_are_new and keys.shape[1] > _MANY else None
        if sums is None:
            keys, owner = distinct(keys)
            return Work(keys, owner, times, new, single_time)
        n = sums.shape[1]
        at = np.broadcast_to(times[:, :1], (len(times), n))
        # The updates themselves are wanted no more: what comes next may have their memory.
        return Work(sums[: len(keys)], first_numbers(n), at, [], single_time, sums)

    def sums_of_many(self, keys: Codes, new: Rows) -> UpdateArray | None:
        """Return the sums of many new updates of one time by key, where these are all the operator has to know.

        They are keys, of which none is there twice, times and weights, as they are to be stored.
        """
        del keys, new
        return None

    def interesting_times(self, work: Work, stored: list[Stored]) -> tuple[InterestingTimes, list[Stored]]:
        """Return the interesting times of this round, and of the stored updates those visible in it.

        ``stored`` are all updates of the keys, of input and output. Where there are some of later iterations, the keys
        are scheduled for the next such round; interesting times beyond the frontier become pending for a later step.
        """
        users, visible = self.schedule.users, stored
        if self._coordinates > users:
            visible = [self._visible(s) for s in stored]
            if any(len(v.owner) < len(s.owner) for v, s in zip(visible, stored, strict=True)):
                self._schedule_rounds(work, stored)
        if work.single_time:
            time = work.times[:, :1]
            if all(all_up_to(v.updates[v.codes : v.codes + users], time) for v in visible):
                n = work.keys.shape[1]
                return SingleTime(first_numbers(n) if work.sums is None else work.owner, time), visible
        base_keys = visible[0].owner if len(visible) == 1 else np.concatenate([v.owner for v in visible])
        base = stacked([v.updates[v.codes : v.codes + users] for v in visible])
        seeds = Seeds(work.keys.shape[1], work.owner, work.times, work.single_time)
        interesting, pending_keys, pending = find_interesting_times(seeds, base_keys, base, self.frontier.upper)
        if len(pending_keys):
            loops = np.array(self.region.now, np.int64)[:, None].repeat(len(pending_keys), axis=1)
            self.ports[PENDING].postpone(np.concatenate((work.keys.take(pending_keys, axis=1), pending, loops)))
        return interesting, visible

    def _visible(self, stored: Stored) -> Stored:
        """Return the updates at or before this round in every loop."""
        loops = self._loops(stored.updates, stored.codes)
        if not stored.updates.shape[1]:
            return stored
        before: Bools = loops <= np.array(self.region.now)[:, None]
        seen: Bools = before[0] if len(before) == 1 else np.all(before, axis=0)
        if np.count_nonzero(seen) == len(seen):
            return stored
        which = seen.nonzero()[0]
        return Stored(stored.owner.take(which), stored.updates.take(which, axis=1), stored.codes)

    def _schedule_rounds(self, work: Work, stored: list[Stored]) -> None:
        """Schedule each key, at the times of its seeds, for the next rounds where they meet its stored updates.

        A seed is interesting in every round that is the join of this one with stored updates of later iterations. It is
        passed on to the least of these rounds only, which pass it on in turn. So a key whose trajectory goes on for
        many rounds is scheduled for one at a time, not for all of them in each.
        """
        owner = stored[0].owner if len(stored) == 1 else np.concatenate([s.owner for s in stored])
        loops = stacked([self._loops(s.updates, s.codes) for s in stored])
        owner, rounds = next_rounds(owner, loops, self.region.now or ())
        if work.single_time:
            times = work.times[:, :1].repeat(len(owner), axis=1)
        else:
            order, starts = grouped(np.concatenate((work.owner[None], work.times)))
            first = order.take(starts)
            first = first.take(work.owner.take(first).argsort(kind="stable"))
            seeded = work.owner.take(first)
            low = seeded.searchsorted(owner)
            which, place = expand(low, seeded.searchsorted(owner, "right") - low)
            owner, rounds = owner.take(which), rounds.take(which, axis=1)
            times = work.times.take(first.take(place), axis=1)
        pending = np.concatenate((work.keys.take(owner, axis=1), times, rounds))
        self.ports[PENDING].put(pending, None)

    def updates_at(self, keys: Codes, interesting: InterestingTimes, which: Ints, *weights: Ints) -> UpdateArray:
        """Return updates of keys at some of the interesting times, in this round, with a diff or several weights."""
        out = cleared((len(keys) + self._coordinates + len(weights), len(which)))
        self.fill_times(out, len(keys), interesting, which, has_zeros=True)
        at = interesting.keys_at(which)
        for row, codes in zip(out, keys, strict=False):
            gather(codes, at, row)
        for row, numbers in zip(out[-len(weights) :], weights, strict=True):
            row[:] = numbers
        return out

    def fill_times(
        self, out: UpdateArray, codes: int, interesting: InterestingTimes, which: Ints, *, has_zeros: bool = False
    ) -> None:
        """Write these interesting times into the time rows of updates.

        Where these have zeros, many are not written once more: memory that nobody writes to is not taken.
        """
        users, times = self.schedule.users, interesting.times_at(which)
        if not has_zeros or out.shape[1] <= _MANY or times.any():
            out[codes : codes + users] = times
        for i, now in enumerate(self.region.now or ()):
            if now or not has_zeros:
                out[codes + users + i] = now

    def _loops(self, updates: UpdateArray, codes: int) -> UpdateArray:
        return updates[codes + self.schedule.users : codes + self._coordinates]


def next_rounds(owner: Ints, loops: UpdateArray, now: tuple[int, ...]) -> tuple[Ints, UpdateArray]:
    """Return for each key the least rounds after this one that are joins of it with iterations of the key's updates.

    Of several loops a round may have more than one to follow, incomparable ones, and in three or more some that others
    lead to as well, which does no harm.
    """
    if len(loops) == 1:
        later = (loops[0] > now[0]).nonzero()[0]
        owner = owner.take(later)
        least = np.full(int(owner.max(initial=-1)) + 1, _NEVER)
        np.minimum.at(least, owner, loops[0].take(later))
        some = (least != _NEVER).nonzero()[0]
        return some, least.take(some)[None]
    here = np.array(now)[:, None]
    rounds = np.maximum(loops, here)
    later = (rounds != here).any(axis=0)
    owner, rounds = owner.compress(later), rounds.compress(later, axis=1)
    order = np.lexsort((*rounds[::-1], owner))
    owner, rounds = owner.take(order), rounds.take(order, axis=1)
    around = np.concatenate((owner[None], rounds[:-2]))
    first = np.ones(len(owner), np.bool_)
    first[1:] = (around[:, 1:] != around[:, :-1]).any(axis=0)
    # In the order of the last loop but one, only what is earlier in the last than all before it is not led to.
    last = rounds[-1] - first.cumsum() * (int(rounds[-1].max(initial=0)) + 1)
    least = np.minimum.accumulate(last)
    new = np.ones(len(owner), np.bool_)
    new[1:] = least[1:] < least[:-1]
    return owner.compress(new), rounds.compress(new, axis=1)
