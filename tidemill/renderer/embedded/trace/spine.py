"""Spines: arrangements as sorted, immutable batches of geometrically growing size, merged a little at a time.

The newest updates lie unsorted in a short tail, where a change of a row or two is found by looking at all of it. Full
tails become sorted batches; neighbours of similar size are merged with bounded work at each turn, and merging is where
times are compacted and updates cancel. Everything a reader sees is immutable, so a step that fails is undone by going
back to the view before it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.embedded.kernels.times import advance_times
from tidemill.renderer.embedded.kernels.updates import Block, Ints, consolidated_by, expand, hashed, same, stacked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemill.expressions.types import DType
    from tidemill.renderer.embedded.schedule import Schedule

__all__ = ["Batch", "Below", "Spine", "View"]

TAIL: Final = 512
"""Updates in the tail at most: comparing a key with all of them costs about as much as a few binary searches."""
RATIO: Final = 4
"""Neighbouring batches are merged when the older is less than this many times the size of the newer."""
IDLE_FUEL: Final = 1024
"""Updates each merge under way gets on with at the end of a step."""
PUSH_FUEL: Final = 64
"""Updates each merge under way gets on with for each one that is pushed as a batch.

Enough for it to be done before the batches pushed meanwhile are as large as the newer of the two, so few pile up.
"""
SCAN: Final = 1 << 12
"""Comparisons worth doing against an unsorted tail; beyond it, the tail is sorted first."""


class Batch(NamedTuple):
    """Updates sorted by the hash of their key columns.

    The block may have more columns than there are keys, with nothing in them: a part of it would not be contiguous, and
    ``take`` copies the whole of what is not.
    """

    keys: Ints
    block: Block

    @property
    def updates(self) -> Block:
        return self.block[:, : len(self.keys)]


class Below(Protocol):
    """Updates that belong to a spine and are not in its hands: older ones, kept elsewhere, and got by key."""

    @property
    def size(self) -> int: ...

    @property
    def batches(self) -> int: ...

    def find(self, keys: Block) -> tuple[Ints, Block]:
        """Return all updates with one of these keys, as a spine does."""

    def count(self, keys: Block) -> Ints:
        """Return about how many updates each key has."""

    def everything(self) -> Block: ...

    def held(self) -> Block:
        """Return those that were got and are still in memory."""

    def clear(self) -> None: ...


class View(NamedTuple):
    """What a spine holds at a moment."""

    batches: tuple[Batch, ...]
    tail: Batch
    """Buffers of `TAIL` columns; beyond ``tail_size`` they hold nothing."""
    tail_size: int
    merges: tuple[_Merge, ...] = ()
    """Merges under way, each of two neighbours among the batches, at most one on each level of sizes."""

    @property
    def size(self) -> int:
        return self.tail_size + sum(len(b.keys) for b in self.batches)


class Spine:
    """An index of updates by some of their code columns; see the module.

    ``since`` tells how far user times may be compacted: no reader asks about times that are not beyond it. Where the
    schedule keeps what a step touched it enters itself when first appended to, to be committed or rolled back.
    """

    __slots__ = (
        "_codes", "_mark", "_others", "_rows", "_touched", "below", "coordinates", "key_rows", "keys", "since",
        "types", "users", "view", "weights",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - the shape of its updates, in their order
        self,
        keys: tuple[int, ...],
        types: Sequence[DType | None],
        coordinates: int,
        weights: int,
        schedule: Schedule,
        since: Callable[[], Antichain],
    ) -> None:
        self.keys = keys
        self.types = tuple(types)
        """What the codes of its updates stand for; None for plain numbers."""
        self.coordinates = coordinates
        self.weights = weights
        self.since = since
        self.below: Below | None = None
        codes = len(self.types)
        self._touched = schedule.touched
        first = keys[0] if keys else 0
        adjacent = keys == tuple(range(first, first + len(keys)))
        self.key_rows: slice | list[int] = slice(first, first + len(keys)) if adjacent else list(keys)
        """The same, for blocks to be indexed by."""
        others = [row for row in range(codes + coordinates) if row not in keys]
        self._others = slice(others[0], others[-1] + 1) if others[-1] - others[0] < len(others) else others
        self._codes = codes
        self._rows = codes + coordinates + weights
        self.users = schedule.users
        self.view = View((), _empty_tail(self._rows), 0)
        self._mark: View | None = None

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, block: Block) -> View:
        """Add updates; return the view before."""
        before = self.view
        if self._mark is None:
            self._mark = before
            self._touched.append(self)
        n = block.shape[1]
        size = before.tail_size
        if size + n <= TAIL:
            keys, tail = before.tail
            tail[:, size : size + n] = block
            keys[size : size + n] = hashed(block[self.key_rows])
            self.view = before._replace(tail_size=size + n)
        elif n <= TAIL:
            self._push(self._compacted(np.concatenate((before.tail.block[:, :size], block), axis=1)))
        else:
            self._push(self._sorted(block), keep_tail=True)
        return before

    def commit(self) -> None:
        """Make what was appended permanent, and go on merging."""
        self._mark = None
        if self.view.merges:
            self._work(IDLE_FUEL)

    def rollback(self) -> None:
        """Go back to the view at the last commit."""
        if self._mark is not None:
            self.view = self._mark
            # The tail is shared between views and only appended to. What was undone is overwritten by what comes next.
            self._mark = None

    def exert(self) -> bool:
        """Merge all there is into one batch; return whether anything was done."""
        view = self.view
        if len(view.batches) + (view.tail_size > 0) == 0 or (len(view.batches) == 1 and view.tail_size == 0):
            return False
        parts = [b.updates for b in view.batches] + [view.tail.block[:, : view.tail_size]]
        merged = self._compacted(np.concatenate(parts, axis=1))
        self.view = View((merged,) if len(merged.keys) else (), _empty_tail(self._rows), 0)
        return True

    # -- reading ----------------------------------------------------------------------------------------------------

    def find(self, keys: Block, view: View | None = None) -> tuple[Ints, Block]:
        """Return all updates with one of these keys, as the number of the key and the update, in no special order.

        The keys are columns of codes, which may repeat. Cost: a binary search for each key in each batch.
        """
        owner, block = self._held(keys, view)
        if self.below is None:
            return owner, block
        deeper, under = self.below.find(keys)
        if not len(deeper):
            return owner, block
        return np.concatenate((owner, deeper)), stacked([block, under])

    def _held(self, keys: Block, view: View | None) -> tuple[Ints, Block]:
        """Return what is held here of these keys."""
        view = self.view if view is None else view
        count = keys.shape[1]
        if count * view.tail_size > SCAN:
            view = self._without_tail(view)
        hashes = hashed(keys)
        owners: list[Ints] = []
        found: list[Block] = []
        if view.tail_size:
            if count == 1:
                (at,) = (view.tail.keys[: view.tail_size] == hashes).nonzero()
                owner = np.zeros(len(at), np.int64)
            else:
                owner, at = (hashes[:, None] == view.tail.keys[: view.tail_size]).nonzero()
            if len(at):
                owners.append(owner)
                found.append(view.tail.block.take(at, axis=1))
        if view.batches:
            self._find_sorted(view.batches, hashes, owners, found)
        if not found:
            return _NONE, np.empty((self._rows, 0), np.int64)
        owner, block = (owners[0], found[0]) if len(found) == 1 else (np.concatenate(owners), stacked(found))
        if len(keys) != 1:
            true = same(block[self.key_rows], keys.take(owner, axis=1))
            if not true.all():  # another key with the same hash
                owner, block = owner.compress(true), block.compress(true, axis=1)
        return owner, block

    def count(self, keys: Block) -> Ints:
        """Return about how many updates each key has: without those in the tail."""
        hashes = hashed(keys)
        counts = np.zeros(len(hashes), np.int64)
        for batch in self.view.batches:
            counts += batch.keys.searchsorted(hashes, "right") - batch.keys.searchsorted(hashes)
        return counts if self.below is None else counts + self.below.count(keys)

    def everything(self) -> Block:
        """Return all updates."""
        return self.held() if self.below is None else stacked([self.held(), self.below.everything()])

    def held(self) -> Block:
        """Return the updates that are held here, without those below."""
        view = self.view
        return stacked([*(b.updates for b in view.batches), view.tail.block[:, : view.tail_size]])

    def clear(self) -> None:
        """Hold nothing, here and below."""
        self.let_go()
        if self.below is not None:
            self.below.clear()

    def let_go(self) -> None:
        """Hold nothing here: what was held is below."""
        self.view = View((), _empty_tail(self._rows), 0)
        self._mark = None

    def refill(self, block: Block) -> None:
        """Hold these updates here, and no others; what is below stays."""
        self.view = View((self._sorted(block),), _empty_tail(self._rows), 0)

    @property
    def size(self) -> int:
        return self.view.size + (0 if self.below is None else self.below.size)

    @property
    def batches(self) -> int:
        here = len(self.view.batches) + (self.view.tail_size > 0)
        return here + (0 if self.below is None else self.below.batches)

    def _find_sorted(self, batches: tuple[Batch, ...], hashes: Ints, owners: list[Ints], found: list[Block]) -> None:
        if len(hashes) == 1:
            for keys, block in batches:
                low = keys.searchsorted(hashes)
                if low[0] < len(keys) and keys[low[0]] == hashes[0]:
                    high = keys.searchsorted(hashes, "right")
                    owners.append(np.zeros(high[0] - low[0], np.int64))
                    found.append(block[:, low[0] : high[0]])
            return
        order = hashes.argsort()  # searching for sorted keys is several times faster than for scattered ones
        hashes = hashes.take(order)
        for keys, block in batches:
            low = keys.searchsorted(hashes)
            hits = (keys.take(low, mode="clip") == hashes).nonzero()[0]  # most batches have few of the keys
            if len(hits):
                low = low.take(hits)
                which, at = expand(low, keys.searchsorted(hashes.take(hits), "right") - low)
                owners.append(order.take(hits.take(which)))
                found.append(block.take(at, axis=1))

    # -- merging ----------------------------------------------------------------------------------------------------

    def _push(self, batch: Batch, *, keep_tail: bool = False) -> None:
        view = self.view
        tail, size = (view.tail, view.tail_size) if keep_tail else (_empty_tail(self._rows), 0)
        batches = (*view.batches, batch) if len(batch.keys) else view.batches
        self.view = View(batches, tail, size, view.merges)
        self._work(PUSH_FUEL * max(TAIL, len(batch.keys)))

    def _work(self, fuel: int) -> None:
        """Get on with the merges under way, and begin those of neighbours that have become similar in size."""
        view = self.view
        batches, merges = list(view.batches), list(view.merges)
        merges += self._unbalanced(batches, merges)
        given = tuple(merges)
        while given:
            for merge in given:
                merge.work(fuel)
                if merge.result is not None:
                    merges.remove(merge)
                    place = next(i for i, batch in enumerate(batches) if batch is merge.older)
                    batches[place : place + 2] = [merge.result] if len(merge.result.keys) else []
            given = self._unbalanced(batches, merges)
            merges += given
        self.view = view._replace(batches=tuple(batches), merges=tuple(merges))

    def _unbalanced(self, batches: list[Batch], merges: list[_Merge]) -> tuple[_Merge, ...]:
        """Return merges of neighbours of similar size that are in no merge yet, oldest first."""
        taken = {id(batch) for merge in merges for batch in (merge.older, merge.newer)}
        found: list[_Merge] = []
        for older, newer in itertools.pairwise(batches):
            if len(older.keys) < RATIO * len(newer.keys) and id(older) not in taken and id(newer) not in taken:
                found.append(_Merge(self, older, newer))
                taken |= {id(older), id(newer)}
        return tuple(found)

    def _without_tail(self, view: View) -> View:
        keys, block = view.tail
        order = keys[: view.tail_size].argsort()
        return View((*view.batches, Batch(keys.take(order), block.take(order, axis=1))), view.tail, 0)

    def _compacted(self, block: Block, keys: Ints | None = None) -> Batch:
        """Return updates as a batch, consolidated at compacted times. ``keys`` are their hashes, if of sorted runs.

        The block is the caller's to give: its times are overwritten.
        """
        advance_times(block[self._codes : self._codes + self.users], self.since())
        runs = keys is not None
        keys = hashed(block[self.key_rows]) if keys is None else keys
        return Batch(*consolidated_by(keys, block, self._others, self.weights, runs=runs))

    def _sorted(self, block: Block) -> Batch:
        keys = hashed(block[self.key_rows])
        order = keys.argsort()
        return Batch(keys.take(order), block.take(order, axis=1))


class _Merge:
    """Two neighbouring batches being merged, a run of keys at a time, into arrays of their own."""

    __slots__ = ("_at", "_block", "_done", "_keys", "_spine", "newer", "older", "result")

    def __init__(self, spine: Spine, older: Batch, newer: Batch) -> None:
        self.older = older
        self.newer = newer
        self.result: Batch | None = None
        self._spine = spine
        self._at = (0, 0)
        self._done = 0
        self._keys: Ints | None = None
        self._block: Block | None = None

    def work(self, fuel: int) -> None:
        """Merge about so many updates; with the last of them there is a result."""
        if self.result is not None:  # what finished it has been rolled back, but it is the same merge
            return
        i, j = self._at
        older, newer = self.older, self.newer
        total = len(older.keys) + len(newer.keys)
        if fuel >= total - i - j:
            end_i, end_j = len(older.keys), len(newer.keys)
        else:  # up to a key, whose updates are not to be parted: only together can they cancel
            big, at = (older, i) if len(older.keys) - i >= len(newer.keys) - j else (newer, j)
            last = big.keys[min(at + max(fuel, 1), len(big.keys)) - 1]
            end_i, end_j = int(older.keys.searchsorted(last, "right")), int(newer.keys.searchsorted(last, "right"))
        both = np.concatenate((older.block[:, i:end_i], newer.block[:, j:end_j]), axis=1)
        part = self._spine._compacted(both, np.concatenate((older.keys[i:end_i], newer.keys[j:end_j])))  # noqa: SLF001 - the spine's other half
        self._at = (end_i, end_j)
        if self._keys is None and end_i + end_j == total:
            self.result = part
            return
        self._keep(part, total)
        if end_i + end_j == total:
            self._finish()

    def _keep(self, part: Batch, total: int) -> None:
        if self._keys is None or self._block is None:
            self._keys = np.empty(total, np.int64)
            self._block = np.empty((len(part.block), total), np.int64)
        start, self._done = self._done, self._done + len(part.keys)
        self._keys[start : self._done] = part.keys
        self._block[:, start : self._done] = part.block

    def _finish(self) -> None:
        assert self._keys is not None
        assert self._block is not None
        keys, block = self._keys[: self._done], self._block
        if self._done < len(self._keys) * 3 // 4:  # much has cancelled: do not hold on to the room it took
            keys, block = keys.copy(), block[:, : self._done].copy()
        self.result = Batch(keys, block)


_NONE: Final[Ints] = np.empty(0, np.int64)


def _empty_tail(rows: int) -> Batch:
    return Batch(np.empty(TAIL, np.int64), np.empty((rows, TAIL), np.int64))
