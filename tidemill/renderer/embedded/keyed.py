"""What operators that look at whole groups have in common: which keys and times a round has to look at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidemill.dataflow.nodes import Node
from tidemill.renderer.embedded.active import Active, find_active
from tidemill.renderer.embedded.blocks import Block, Bools, Ints, consolidated, grouped
from tidemill.renderer.embedded.schedule import Operator, Port, Region

__all__ = ["KeyedOperator", "Stored"]

NEW, PENDING = 0, 1


class Stored(NamedTuple):
    """Updates of the keys of a round: the number of each one's key, the updates, and how many codes they have."""

    owner: Ints
    block: Block
    codes: int


class KeyedOperator(Operator):
    """An operator whose output at a time depends on all of a key's updates up to it.

    Its second port holds pending times: keys and times at which the output may have to change although no input does.
    """

    def __init__(self, node: Node, region: Region, codes: int, keys: tuple[int, ...]) -> None:
        super().__init__(node, region, (codes,))
        self.ports.append(Port(self, len(keys), weights=0))
        self._columns = np.array(keys, np.int64)
        self._width = codes
        self._coordinates = node.scope.coordinates

    def begin(self, *, consolidate: bool = True) -> tuple[Block, Ints, Block, Block] | None:
        """Return the keys to look at, each once; the seeds, as key numbers and user times; and the new updates.

        Seeds are the times of the raw new batch, which come first and one for one, and the pending times that are due.
        Consolidating the batch within itself makes fewer of them, and is a saving only.
        """
        new = self.ports[NEW].take_consolidated() if consolidate else self.ports[NEW].take()
        due = self.ports[PENDING].take()
        if new is None and due is None:
            return None
        if new is None:
            new = np.empty((self._width + self._coordinates + 1, 0), np.int64)
        users = self.schedule.users
        keys = new if len(self._columns) == self._width else new.take(self._columns, axis=0)
        keys, times = keys[: len(self._columns)], new[self._width : self._width + users]
        if due is not None:
            order, starts = grouped(due)  # what several rounds owed is one time to look at
            due = due.take(order.take(starts), axis=1)
            keys = np.concatenate((keys, due[: len(self._columns)]), axis=1)
            times = np.concatenate((times, due[len(self._columns) : len(self._columns) + users]), axis=1)
        order, starts = grouped(keys)
        numbers = np.empty(keys.shape[1], np.int64)
        starting = np.zeros(keys.shape[1], np.int64)
        starting[starts[1:]] = 1
        numbers[order] = starting.cumsum()
        return keys.take(order.take(starts), axis=1), numbers, times, new

    def activate(self, keys: Block, seed_keys: Ints, seeds: Block, stored: list[Stored]) -> tuple[Active, list[Stored]]:
        """Return the active times of this round, and of the stored updates those visible in it.

        ``stored`` are all updates of the keys, of input and output. Those of later iterations put times on record that
        have to be looked at in those rounds; and so do times beyond the frontier, for a later step.
        """
        users = self.schedule.users
        visible = [self._visible(keys, seed_keys, seeds, s) for s in stored]
        base_keys = np.concatenate([s.owner for s in visible])
        base = np.concatenate([s.block[s.codes : s.codes + users] for s in visible], axis=1)
        active, late_keys, late = find_active(keys.shape[1], seed_keys, seeds, base_keys, base, self.frontier.upper)
        if len(late_keys):
            loops = np.array(self.region.now, np.int64)[:, None].repeat(len(late_keys), axis=1)
            self.ports[PENDING].hold(np.concatenate((keys.take(late_keys, axis=1), late, loops)))
        return active, visible

    def _visible(self, keys: Block, seed_keys: Ints, seeds: Block, stored: Stored) -> Stored:
        """Return the updates at or before this round in every loop; owe the rounds of the others."""
        loops = self._loops(stored.block, stored.codes)
        if not len(loops) or not stored.block.shape[1]:
            return stored
        seen: Bools = np.less_equal(loops, np.array(self.region.now)[:, None]).all(axis=0)
        if seen.all():
            return stored
        after: Bools = ~seen
        self._owe_rounds(keys, seed_keys, seeds, Stored(stored.owner[after], stored.block[:, after], stored.codes))
        return Stored(stored.owner[seen], stored.block[:, seen], stored.codes)

    def _owe_rounds(self, keys: Block, seed_keys: Ints, seeds: Block, later: Stored) -> None:
        """Each seed joined with a stored update of a later iteration is a time to be looked at in that round."""
        users, (owner, block, codes) = self.schedule.users, later
        order = seed_keys.argsort(kind="stable")
        sorted_keys = seed_keys.take(order)
        low = sorted_keys.searchsorted(owner)
        counts = sorted_keys.searchsorted(owner, "right") - low
        which = np.arange(len(owner)).repeat(counts)
        place = np.arange(len(which)) + (low - counts.cumsum() + counts).take(which)
        time = np.maximum(seeds.take(order.take(place), axis=1), block[codes : codes + users].take(which, axis=1))
        now = np.array(self.region.now)[:, None]
        loops = np.maximum(now, self._loops(block, codes).take(which, axis=1))
        owed = np.concatenate((keys.take(owner.take(which), axis=1), time, loops, np.ones((1, len(which)), np.int64)))
        owed = consolidated(owed)
        self.ports[PENDING].put(owed[:-1], None)

    def at_active(self, keys: Block, active: Active, which: Ints, diffs: Ints) -> Block:
        """Return updates of keys at some of the active times, in this round."""
        out = np.empty((len(keys) + self._coordinates + 1, len(which)), np.int64)
        self.fill_times(out, len(keys), active, which)
        out[: len(keys)] = keys.take(active.keys.take(which), axis=1)
        out[-1] = diffs
        return out

    def fill_times(self, out: Block, codes: int, active: Active, which: Ints) -> None:
        """Write the times of these active times into the time rows of a block."""
        users = self.schedule.users
        out[codes : codes + users] = active.times.take(which, axis=1)
        for i, now in enumerate(self.region.now or ()):
            out[codes + users + i] = now

    def _loops(self, block: Block, codes: int) -> Block:
        return block[codes + self.schedule.users : codes + self._coordinates]
