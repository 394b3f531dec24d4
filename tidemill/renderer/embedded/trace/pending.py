"""Pending updates, at times of later steps: a step looks at those that are due, not at all that are pending.

New updates are compared once, when the next frontier is known. Those not due then are kept in one array until they are
many, and then in buckets that are the wider, the further they are away (`time_buckets`). All of it is immutable, so
a step that fails is undone by going back to the state before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.renderer.embedded.kernels.memory import repeated, stack
from tidemill.renderer.embedded.kernels.times import beyond
from tidemill.renderer.embedded.kernels.updates import Ints, Rows, UpdateArray, marked, stacked
from tidemill.renderer.embedded.trace.time_buckets import Buckets, TimeLayout, added, in_order, taken

FEW: Final = 512
"""How many updates are looked through rather than put in buckets, at most."""


class Alike(NamedTuple):
    """Many updates that share one time and one diff, which are stored once."""

    codes: list[Ints]
    """The codes of the rows' values, a column for each."""
    many: int
    time: Time
    diff: int
    whole: Callable[[], Alike] | None = None
    """Gives the same with all columns, where some that nobody reads are left out for now."""

    @property
    def rows(self) -> list[Ints]:
        """The rows of the matrix of updates: the time and the count of each take no memory."""
        return [*self.codes, *(repeated(number, self.many) for number in (*self.time, self.diff))]

    @property
    def bytes(self) -> int:
        """How much memory they take."""
        return sum(row.nbytes for row in self.codes if row.strides[0])


class PendingState(NamedTuple):
    """All that is pending."""

    fresh: tuple[UpdateArray | Alike, ...]
    """The updates that came in since the last frontier."""
    few: UpdateArray | None
    """The updates that are in no bucket yet, or were in one that a frontier reached."""
    earliest: Time
    """The meet of the times of these few."""
    buckets: Buckets

    @property
    def held(self) -> bool:
        """Whether there is anything from before the last frontier."""
        return self.few is not None or bool(self.buckets.by_range)


_NOTHING: Final = PendingState((), None, (), Buckets({}))


class PendingUpdates:
    """Updates of later steps; see the module. Those of ``weights`` 0 are there or not, with no diff."""

    __slots__ = ("_fresh", "_layout", "_rest", "compared")

    def __init__(self, first: int, users: int, weights: int) -> None:
        self._layout = TimeLayout(first, users, weights)
        self._fresh: list[UpdateArray | Alike] = []
        self._rest = _NOTHING
        self.compared = 0
        """How many updates and buckets were compared with a frontier so far."""

    def add(self, updates: UpdateArray | Alike) -> None:
        """Take updates in."""
        self._fresh.append(updates)

    def take_due(self, upper: Antichain) -> Rows | None:
        """Return the updates that are not beyond a frontier, which are pending no longer; None where there are none.

        Where these are nothing but some that are alike, it is as rows.
        """
        rest = self._rest
        self._fresh = [_whole(u) if isinstance(u, Alike) and upper.beyond(u.time) else u for u in self._fresh]
        if len(self._fresh) == 1 and isinstance(only := self._fresh[0], Alike) and not rest.held:
            if upper.beyond(only.time):
                self._fresh = [stack(only.rows)]
            else:
                self._fresh = []
                return only.rows
        due: list[UpdateArray] = []
        kept = list[UpdateArray]()
        if rest.few is not None:
            if upper.beyond(rest.earliest):
                kept.append(rest.few)
            else:
                self._part(rest.few, upper, due, kept)
        stayed = len(kept)
        few_stay = rest.few is None or (stayed == 1 and kept[0] is rest.few)
        if self._fresh:
            fresh = self._fresh
            only_one = fresh[0] if len(fresh) == 1 else None
            one = only_one if isinstance(only_one, np.ndarray) else stacked(list(map(_matrix, fresh)))
            self._part(one, upper, due, kept)
            self._fresh = []
            few_stay = few_stay and len(kept) == stayed
        reached: list[UpdateArray] = []
        buckets = taken(rest.buckets, upper, due, reached)
        if buckets is not rest.buckets:
            self.compared += len(rest.buckets.by_range)
        if reached:
            self._part(self._merged(reached), upper, due, kept)
            few_stay = False
        if not few_stay or buckets is not rest.buckets:
            self._rest = self._with(buckets, kept, upper)
        return stacked(due) if due else None

    def widen(self) -> bool:
        """Restore the columns that were left out of what came in; return whether there were any."""
        narrow = [u for u in self._fresh if isinstance(u, Alike) and u.whole is not None]
        self._fresh = [_whole(u) if isinstance(u, Alike) else u for u in self._fresh]
        return bool(narrow)

    @property
    def state(self) -> PendingState:
        """All there is, to go back to."""
        _, few, earliest, buckets = self._rest
        return PendingState(tuple(self._fresh), few, earliest, buckets) if self._fresh else self._rest

    @state.setter
    def state(self, state: PendingState) -> None:
        self._rest = PendingState((), *state[1:]) if state.fresh else state
        self._fresh = list(state.fresh)

    def clear(self) -> None:
        """Have nothing pending."""
        self.state = _NOTHING

    @property
    def size(self) -> int:
        fresh = [u.many if isinstance(u, Alike) else u.shape[1] for u in self._fresh]
        size: int = sum(fresh) + sum(updates.shape[1] for updates in self._old())
        return size

    @property
    def bytes(self) -> int:
        """How much memory they take."""
        fresh = [u.bytes if isinstance(u, Alike) else u.nbytes for u in self._fresh]
        return sum(fresh) + sum(updates.nbytes for updates in self._old())

    def arrays(self) -> list[UpdateArray]:
        """Return all pending updates."""
        return [*map(_matrix, self._fresh), *self._old()]

    def _old(self) -> list[UpdateArray]:
        """Return the updates that were pending before the last frontier."""
        few = [] if self._rest.few is None else [self._rest.few]
        return [*few, *self._rest.buckets.arrays()]

    def __bool__(self) -> bool:
        return bool(self._fresh) or self._rest.held

    def _part(self, updates: UpdateArray, upper: Antichain, due: list[UpdateArray], kept: list[UpdateArray]) -> None:
        """Add the updates that are due to a list, and the others to another."""
        n = updates.shape[1]
        if not n:
            return
        self.compared += n
        if n == 1:
            (time,) = self._layout.times(updates).T.tolist()
            (kept if upper.beyond(tuple(time)) else due).append(updates)
            return
        later = beyond(self._layout.times(updates), upper)
        late = np.count_nonzero(later)
        if late == n:
            kept.append(updates)
        elif not late:
            due.append(updates)
        elif later[(at := int(later.argmax())) :].all():  # as where they are in order of time
            due.append(updates[:, :at])
            kept.append(updates[:, at:])
        else:
            due.append(marked(updates, ~later))
            kept.append(marked(updates, later))

    def _merged(self, arrays: list[UpdateArray]) -> UpdateArray:
        """Return the updates of buckets, without what is equal or cancels out."""
        return arrays[0] if len(arrays) == 1 else in_order(self._layout.summed(stacked(arrays)), self._layout)

    def _with(self, buckets: Buckets, kept: list[UpdateArray], upper: Antichain) -> PendingState:
        """Return what is pending: these buckets and updates, which go to buckets if they are many."""
        few = stacked(kept) if kept else None
        if few is not None and len(kept) > 1 and few.shape[1] > FEW:
            few = self._layout.summed(few)
        if few is None or not few.shape[1]:
            return PendingState((), None, (), buckets)
        if few.shape[1] > FEW:
            return PendingState((), None, (), added(buckets, few, upper, self._layout))
        if few.base is not None:
            few = few.copy()  # else it would keep in memory what has gone
        return PendingState((), few, tuple(self._layout.times(few).min(axis=1).tolist()), buckets)


def _whole(updates: Alike) -> Alike:
    return updates if updates.whole is None else updates.whole()


def _matrix(updates: UpdateArray | Alike) -> UpdateArray:
    return stack(updates.rows) if isinstance(updates, Alike) else updates
