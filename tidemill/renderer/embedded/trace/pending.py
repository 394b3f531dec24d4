"""Pending updates, at times of later steps: a step looks at those that are due, not at all that are pending.

What comes in is compared once, when the next frontier is known. What is not due then is laid out in runs of leaves,
each leaf with the meet and the join of its times: a leaf whose meet is beyond the frontier has nothing due, one whose
join is not is due as a whole, and only what lies between is looked at row by row. Runs are of geometrically growing
size, so that many small batches do not stay small. All of it is immutable, so a step that fails is undone by going back
to the state before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.renderer.embedded.kernels.times import beyond
from tidemill.renderer.embedded.kernels.updates import Bools, Ints, UpdateArray, consolidated, grouped, stacked

__all__ = ["PendingState", "PendingUpdates"]

LEAF: Final = 256
"""Updates of a leaf at most."""
RATIO: Final = 2
"""Neighbouring runs are merged when the older is less than this many times the size of the newer."""


class LeafRun(NamedTuple):
    """Updates laid out so that those of a leaf are of similar times."""

    leaves: tuple[UpdateArray, ...]
    meets: Ints
    """The meet of the times of each leaf, as a column."""
    joins: Ints
    size: int
    room: int
    """How many updates the memory is for that the leaves are parts of."""
    meet: Time


PendingState: TypeAlias = tuple[tuple[UpdateArray, ...], tuple[LeafRun, ...]]
"""What came in since the last frontier, and the rest."""


class PendingUpdates:
    """Updates of later steps; see the module. Those of ``weights`` 0 are there or not, with no diff."""

    __slots__ = ("_first", "_fresh", "_runs", "_users", "_weights", "compared")

    def __init__(self, first: int, users: int, weights: int) -> None:
        self._first = first
        self._users = users
        self._weights = weights
        self._fresh: list[UpdateArray] = []
        self._runs: tuple[LeafRun, ...] = ()
        self.compared = 0
        """How many updates and leaves were compared with a frontier so far."""

    def add(self, updates: UpdateArray) -> None:
        """Take updates in."""
        self._fresh.append(updates)

    def take_due(self, upper: Antichain) -> UpdateArray | None:
        """Return the updates that are not beyond a frontier, which are pending no longer; None where there are none."""
        due: list[UpdateArray] = []
        runs = [self._without_due(run, upper, due) for run in self._runs]
        if self._fresh:
            updates = stacked(self._fresh)
            beyond_upper = self._beyond(updates, upper)
            if not np.count_nonzero(beyond_upper):
                due.append(updates)
            else:
                runs.append(self._run(updates.compress(beyond_upper, axis=1)))
                if not beyond_upper.all():
                    due.append(updates.compress(~beyond_upper, axis=1))
        if self._fresh or due:
            self._fresh = []
            self._runs = self._balanced(runs)
        return stacked(due) if due else None

    @property
    def state(self) -> PendingState:
        """All there is, to go back to."""
        return tuple(self._fresh), self._runs

    @state.setter
    def state(self, state: PendingState) -> None:
        fresh, self._runs = state
        self._fresh = list(fresh)

    @property
    def size(self) -> int:
        return sum(updates.shape[1] for updates in self.arrays())

    def arrays(self) -> list[UpdateArray]:
        """Return all pending updates."""
        return [*self._fresh, *(leaf for run in self._runs for leaf in run.leaves)]

    def __bool__(self) -> bool:
        return bool(self._fresh or self._runs)

    def _without_due(self, run: LeafRun, upper: Antichain, due: list[UpdateArray]) -> LeafRun:
        """Return the run without its updates that are due, and add these to a list."""
        if upper.beyond(run.meet):
            return run
        self.compared += len(run.leaves)
        reached: Bools = ~beyond(run.meets, upper)
        whole: Bools = reached & ~beyond(run.joins, upper)
        parted = (reached & ~whole).nonzero()[0].tolist()
        taken = [run.leaves[i] for i in whole.nonzero()[0].tolist()]
        kept: list[UpdateArray] = []
        if parted:
            updates = stacked([run.leaves[i] for i in parted])
            beyond_upper = self._beyond(updates, upper)
            if not beyond_upper.all():
                taken.append(updates.compress(~beyond_upper, axis=1))
            kept = [updates.compress(beyond_upper, axis=1)]
        if not taken:
            return run
        due += taken
        rest = (~reached).nonzero()[0].tolist()
        size = run.size - sum(b.shape[1] for b in taken)
        if RATIO * size < run.room:  # do not hold on to the room of what has gone
            return self._run(stacked([*(run.leaves[i] for i in rest), *kept, run.leaves[0][:, :0]]))
        if kept:
            more = self._run(kept[0])
            meets = np.concatenate((run.meets.take(rest, axis=1), more.meets), axis=1)
            joins = np.concatenate((run.joins.take(rest, axis=1), more.joins), axis=1)
            leaves = (*(run.leaves[i] for i in rest), *more.leaves)
        else:
            meets, joins = run.meets.take(rest, axis=1), run.joins.take(rest, axis=1)
            leaves = tuple(run.leaves[i] for i in rest)
        return LeafRun(leaves, meets, joins, size, run.room, _meet(meets))

    def _beyond(self, updates: UpdateArray, upper: Antichain) -> Bools:
        self.compared += updates.shape[1]
        return beyond(updates[self._first : self._first + self._users], upper)

    def _balanced(self, runs: list[LeafRun]) -> tuple[LeafRun, ...]:
        """Return the runs, oldest first, with neighbours of similar size merged."""
        found: list[LeafRun] = []
        for run in runs:
            if not run.size:
                continue
            found.append(run)
            while len(found) > 1 and found[-2].size < RATIO * found[-1].size:
                newer, older = found.pop(), found.pop()
                merged = self._run(self._summed(stacked([*older.leaves, *newer.leaves])))
                found += [merged] if merged.size else []
        return tuple(found)

    def _summed(self, updates: UpdateArray) -> UpdateArray:
        if self._weights:
            return consolidated(updates, self._weights)
        order, starts = grouped(updates)
        return updates if len(starts) == len(order) else updates.take(order.take(starts), axis=1)

    def _run(self, updates: UpdateArray) -> LeafRun:
        n = updates.shape[1]
        times = updates[self._first : self._first + self._users]
        if n <= LEAF:
            if not n:
                return LeafRun((), times, times, 0, 0, ())
            meets = times.min(axis=1, keepdims=True)
            return LeafRun((updates,), meets, times.max(axis=1, keepdims=True), n, n, _meet(meets))
        order, starts = _laid_out(times)
        updates = updates.take(order, axis=1)
        times = updates[self._first : self._first + self._users]
        meets = np.minimum.reduceat(times, starts, axis=1)
        leaves = tuple(np.split(updates, starts[1:].tolist(), axis=1))
        return LeafRun(leaves, meets, np.maximum.reduceat(times, starts, axis=1), n, n, _meet(meets))


def _meet(times: Ints) -> Time:
    return tuple(times.min(axis=1).tolist()) if times.shape[1] else ()


def _laid_out(times: Ints) -> tuple[Ints, Ints]:
    """Return an order of times, and where in it leaves begin: by time, or halved by each coordinate in turn."""
    if len(times) == 1:
        return times[0].argsort(kind="stable"), np.arange(0, times.shape[1], LEAF)
    parts, axis = [np.arange(times.shape[1])], 0
    while len(parts[0]) > LEAF:  # the first is never smaller than others
        ordered = [part.take(times[axis].take(part).argsort(kind="stable")) for part in parts]
        parts = [half for part in ordered for half in np.split(part, [(len(part) + 1) // 2])]
        axis = (axis + 1) % len(times)
    lengths = np.array([len(part) for part in parts])
    return np.concatenate(parts), lengths.cumsum() - lengths
