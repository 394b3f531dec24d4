"""Spines: arrangements as sorted, immutable batches of geometrically growing size, merged a little at a time.

The newest updates lie unsorted in a short tail, where a change of a row or two is found by looking at all of it. It is
consolidated whenever it has grown to twice as many updates, so that a few rows that change in every step stay few. Full
tails become sorted batches, which `Merger` merges with bounded effort at each step. Where hardly anything is looked
up, large arrays stay unsorted until they have as many updates as the batches. Everything a reader sees is
immutable, so a step that fails is undone by going back to the view before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.embedded.array_file import Member
from tidemill.renderer.embedded.kernels.memory import stack
from tidemill.renderer.embedded.kernels.updates import (
    Codes,
    Ints,
    Rows,
    UpdateArray,
    consolidated,
    hashed,
    largest,
    numbered,
    same,
    stacked,
)
from tidemill.renderer.embedded.trace.batch import Batch, Reordered, StoredBatch, UpdateLayout
from tidemill.renderer.embedded.trace.elsewhere import Beside, Range, Spilled
from tidemill.renderer.embedded.trace.merging import RATIO, Gone, Merger, View, without
from tidemill.renderer.embedded.trace.search import Hits, find_few, find_in_tail, found_in, runs_in
from tidemill.renderer.embedded.trace.stored_order import KeyOrder, StoredOrder
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.embedded.trace.unsorted import on_its_own, rows_lost, sorted_together

TAIL: Final = 512
"""Updates in the tail at most: comparing a key with all of them costs about as much as a few binary searches."""
LEAST_TAIL: Final = 32
"""Updates that a tail has room for at first: a row that changes again and again is found with so much of its past."""
STEPS: Final = 16
"""Of how many steps the updates have room in a tail that may be longer."""
IDLE_EFFORT: Final = 1024
"""Updates each merge under way gets on with at the end of a step."""
PUSH_EFFORT: Final = 64
"""Updates each merge under way gets on with for each one that is pushed as a batch.

Enough for it to be done before the batches pushed meanwhile are as large as the newer of the two, so few pile up.
"""
UNSORTED_EFFORT: Final = 16
"""Updates each merge under way gets on with for each one that is left unsorted.

Enough for it to be done long before as many lie unsorted as are sorted, and that is when the next one begins.
"""
SCAN: Final = 1 << 12
"""Comparisons worth doing against an unsorted tail; beyond it, the tail is sorted first."""
FEW: Final = 8
"""Keys that are looked for in batches one by one."""
SAMPLE: Final = 1 << 14
MOST_DIFFER: Final = 50
"""If fewer than one update in this many equals another, consolidating them is not worth it."""
_NONE: Final[Ints] = np.empty(0, np.int64)


class Spine:
    """An index of updates by some of their code columns; see the module.

    ``since`` tells how far user times may be compacted: no reader asks about times that are not beyond it. A spine
    joins the transaction when it is appended to. Where it is read whole, and hardly anything is looked for in it, the
    tail may get as long as ``most_in_tail`` says, if there are many updates a step, and large arrays lie unsorted: as
    many updates of them, or as many as are sorted, less what is taken away meanwhile: so whoever reads it goes through
    twice as many at most, and what is gone is let go of.
    """

    __slots__ = (
        "_key_rows", "_merger", "_most_in_tail", "_nothing", "_transaction", "beside", "by", "layout", "since",
        "spilled", "view",
    )  # fmt: skip

    def __init__(
        self, layout: UpdateLayout, since: Callable[[], Antichain], transaction: Transaction, most_in_tail: int = 0
    ) -> None:
        self.layout = layout
        self._most_in_tail = max(most_in_tail, TAIL)
        self.since = since
        self.spilled: Spilled | None = None
        """Older updates, outside of memory; None where there are none."""
        self.beside: Beside | None = None
        """Updates of other keys, which the operator holds; None where it holds none."""
        self.by: KeyOrder | None = None
        """In which order rows of a key are to lie where they are spilled and many; None where that is no matter."""
        self.view = View((), _empty_tail(layout), 0)
        self._key_rows = layout.key_rows
        self._nothing = np.empty((layout.rows, 0), np.int64)
        self._merger = Merger(layout, since)
        self._transaction = transaction

    @property
    def gone(self) -> Gone | None:
        """Which updates nobody asks for any more; they are left out where batches are merged."""
        return self._merger.gone

    @gone.setter
    def gone(self, gone: Gone | None) -> None:
        self._merger.gone = gone

    # -- writing ----------------------------------------------------------------------------------------------------

    def append_rows(self, rows: list[Ints]) -> tuple[View, Batch | None]:
        """Add many updates, given as the rows of an array; return the view before, and the batch that they make.

        Equal ones are added up where there seem to be many: where hardly any are equal, finding these costs more than
        they do, and merging finds them. There is no batch of its own where they are too few.
        """
        if len(rows[0]) <= TAIL:
            return self.append(self.layout.consolidated(np.stack(rows))), None
        before = self.view
        self._transaction.join(self, before)
        differ = self.layout.order is None and _seem_different(rows[: -self.layout.weights])
        batch = self.layout.sorted_batch([*rows]) if differ else self.layout.compacted(rows, self.since())
        self._push(batch)
        return before, batch

    def append(self, updates: UpdateArray) -> View:
        """Add updates, which stay as they are from now on; return the view before."""
        before = self.view
        self._transaction.join(self, before)
        n = updates.shape[1]
        size = before.tail_size
        if n > TAIL and self._may_lie_unsorted(updates[-1]):
            self._leave_unsorted(updates)
        elif size + n <= before.tail.array.shape[1]:
            hashes, tail = before.tail.hashes, before.tail.array
            tail[:, size : size + n] = updates
            hashes[size : size + n] = hashed(updates[self._key_rows])
            self.view = View(before.batches, before.tail, size + n, before.merges, before.unsorted, before.lost)
        elif n <= self._most_in_tail:
            both = np.concatenate((before.tail.array[:, :size], updates), axis=1)
            batch = self.layout.compacted(both, self.since())
            few = TAIL if before.tail.array.shape[1] < TAIL else TAIL // 2
            if n <= few and len(batch.hashes) <= few:
                grown = self._tail(batch, n)
                self.view = View(before.batches, grown, len(batch.hashes), before.merges, before.unsorted, before.lost)
            else:
                self._push(batch, tail=max(TAIL, min(STEPS * n, self._most_in_tail)))
                if before.unsorted:
                    self._lose(rows_lost(both[-1]))
        else:
            self._sort_unsorted()
            self._push(self.layout.sorted_batch(updates, shared=True))
        return before

    def append_batch(self, updates: Rows) -> Reordered:
        """Append many consolidated updates as a batch; return them as they are held, and the order in which they came.

        A list of rows may be empty afterwards: each is let go of once it is stored, so that not all are there twice.
        """
        self._transaction.join(self, self.view)
        if self._may_lie_unsorted(updates[-1]):
            return Reordered(self._leave_unsorted(stack(updates) if isinstance(updates, list) else updates), None)
        self._sort_unsorted()
        batch, order = self.layout.batch_and_order(updates, shared=True)
        self._push(batch)
        return Reordered(batch.array, order)

    def remove(self, updates: UpdateArray) -> None:
        """Have updates gone that are all in memory: what is merged is without them."""
        if updates.shape[1] == self.view.size:
            self._transaction.join(self, self.view)
            self.view = View((), _empty_tail(self.layout), 0)
            return
        gone = updates.copy()
        np.negative(updates[-self.layout.weights :], out=gone[-self.layout.weights :])
        self.append(gone)

    def check_counts(self, updates: UpdateArray) -> None:
        """Refuse a row whose count is beyond 64 bits with these updates, which are here: only large ones lead there."""
        if largest(updates[-1]) > COUNT_LIMIT:
            keys = updates[self._key_rows].compress(abs(updates[-1]) > COUNT_LIMIT, axis=1)
            one, _ = numbered(keys)  # what is found by a key twice would count twice
            stored = self.find(keys.take(one, axis=1))[1]
            consolidated(np.concatenate((stored[: len(self.layout.types)], stored[-1:])))

    def commit(self) -> None:
        """Go on merging: the appended updates are committed."""
        if self.view.merges:
            self._work(IDLE_EFFORT)

    def rollback(self, state: View) -> None:
        """Go back to a view before.

        The tail is shared between views and only appended to: what was undone is overwritten by what comes next.
        """
        self.view = state

    def exert(self) -> bool:
        """Merge all that is in memory into one batch, with whatever effort it takes; return whether anything was done.

        The name is differential dataflow's, for merging that no append pays for.
        """
        view = self.view
        is_sorted = not view.tail_size and not view.unsorted
        if is_sorted and (not view.batches or (len(view.batches) == 1 and self._is_folded(view.batches[0]))):
            return False
        arrays = [*(b.updates for b in view.batches), *view.unsorted, view.tail.array[:, : view.tail_size]]
        updates = np.concatenate(arrays, axis=1)
        updates, _ = without(self.gone, updates, updates[-1])
        merged = self.layout.compacted(updates, self.since())
        self.view = View((merged,) if len(merged.hashes) else (), _empty_tail(self.layout), 0)
        return True

    def settle(self, least: int) -> None:
        """Merge all that is in no file, with batches in files that are not much larger, or have less than ``least``."""
        view = self.view
        stored = [b for b in view.batches if b.stored is not None and b.size >= least]
        new = view.size - sum(b.size for b in stored)
        while stored and new >= least and (smallest := min(stored, key=lambda b: b.size)).size < RATIO * new:
            stored.remove(smallest)
            new += smallest.size
        kept = {id(b) for b in stored}
        others = [b for b in view.batches if id(b) not in kept]
        if not view.tail_size and not view.unsorted and len(others) <= 1:
            return
        arrays = [*(b.updates for b in others), *view.unsorted, view.tail.array[:, : view.tail_size]]
        updates = np.concatenate(arrays, axis=1)
        updates, _ = without(self.gone, updates, updates[-1])
        merged = self.layout.compacted(updates, self.since())
        more = (merged,) if len(merged.hashes) else ()
        self.view = View((*stored, *more), _empty_tail(self.layout), 0)

    @property
    def unstored(self) -> int:
        """How many updates in memory no file has."""
        return self.in_memory - sum(b.size for b in self.view.batches if b.stored is not None)

    def _is_folded(self, batch: Batch) -> bool:
        """Return whether a batch is to stay as it is.

        Its updates are at one time, so that none are equal that were not when it was made; and all are asked for.
        """
        width = len(self.layout.types)
        times = batch.updates[width : width + self.layout.users]
        return bool((times == times[:, :1]).all()) and (self.gone is None or self.gone(batch.updates) is None)

    def forget_keys(self) -> None:
        """Forget which keys of what is spilled were read: their codes may be those of others from now on."""
        if self.spilled is not None:
            self.spilled.forget_keys()

    def clear(self) -> None:
        """Hold nothing, spilled updates included."""
        self.evict()
        if self.spilled is not None:
            self.spilled.clear()

    def evict(self) -> None:
        """Hold nothing in memory: what was held is spilled."""
        self.view = View((), _empty_tail(self.layout), 0)
        if self.beside is not None:
            self.beside.clear()
        self._transaction.leave(self)

    def refill(self, updates: UpdateArray) -> None:
        """Hold these updates in memory, and no others; what is spilled stays."""
        if self.beside is not None:
            self.beside.clear()
        batches = (self.layout.sorted_batch(updates),) if updates.shape[1] else ()  # nothing is found in one of none
        self.view = View(batches, _empty_tail(self.layout), 0)

    def refill_later(self, stored: Iterable[tuple[int, Callable[[], UpdateArray], Member | None]]) -> None:
        """Hold so many updates each, which are read when somebody first looks at them, and where they are stored."""
        if self.beside is not None:
            self.beside.clear()
        batches = [
            StoredBatch(count, partial(self._read_batch, read), member)
            for count, read, member in sorted(stored, key=lambda one: -one[0])
        ]
        self.view = View(tuple(batches), _empty_tail(self.layout), 0)

    def _read_batch(self, read: Callable[[], UpdateArray]) -> Batch:
        return self.layout.sorted_batch(read(), shared=True)

    def _tail(self, batch: Batch, step: int) -> Batch:
        """Return a tail that begins with a batch, with room for as many updates again, or a few such steps."""
        n = len(batch.hashes)
        tail = _empty_tail(self.layout, min(max(2 * n, 4 * step), TAIL))
        tail.hashes[:n], tail.array[:, :n] = batch.hashes, batch.array
        return tail

    def _push(self, batch: Batch, *, tail: int | None = None, merge: bool = True) -> None:
        """Append a batch; with the size of a new ``tail``, the batch replaces the tail."""
        view = self.view
        new_tail, size = (view.tail, view.tail_size) if tail is None else (_empty_tail(self.layout, tail), 0)
        batches = (*view.batches, batch) if len(batch.hashes) else view.batches
        self.view = View(batches, new_tail, size, view.merges, view.unsorted, view.lost)
        self._work(PUSH_EFFORT * max(TAIL, len(batch.hashes)) if merge else 0)

    def _may_lie_unsorted(self, diffs: Ints) -> bool:
        """Return whether new updates may lie as they came: not the first ones, nor more than are sorted and stay."""
        if not self._most_in_tail > TAIL or not TAIL < len(diffs) <= self._most_unsorted() or not self.view.sorted_size:
            return False
        return len(diffs) <= self._most_unsorted(rows_lost(diffs))

    def _most_unsorted(self, lost: int = 0) -> int:
        """Return how many updates may lie as they came, where these take away ``lost`` rows."""
        return max(self._most_in_tail, self.view.sorted_size - max(lost, 0))

    def _leave_unsorted(self, updates: UpdateArray) -> UpdateArray:
        """Hold updates as they came, and return them; those before are sorted where there would be too many."""
        updates, lost = on_its_own(updates), rows_lost(updates[-1])
        if self.view.unsorted_size + updates.shape[1] > self._most_unsorted(self.view.lost + lost):
            self._sort_unsorted()
        elif self.view.merges:  # not in the step that sorts, which takes as long
            self._work(UNSORTED_EFFORT * updates.shape[1])
        view = self.view
        self.view = view._replace(unsorted=(*view.unsorted, updates), lost=view.lost + lost)
        return updates

    def _lose(self, lost: int) -> None:
        """Count rows that small changes retract: with few rows left, too much may lie unsorted."""
        self.view = self.view._replace(lost=self.view.lost + lost)
        if self.view.unsorted_size > self._most_unsorted(self.view.lost):
            self._sort_unsorted()

    def _sort_unsorted(self) -> None:
        """Sort all unsorted updates into a batch."""
        view = self.view
        if view.unsorted:
            self.view = view._replace(unsorted=(), lost=0)
            self._push(sorted_together(view.unsorted, self.layout, self.since()), merge=False)

    def _work(self, effort: int) -> None:
        view = self.view
        batches, merges = self._merger.work(view.batches, view.merges, effort)
        self.view = view._replace(batches=batches, merges=merges)

    # -- reading ----------------------------------------------------------------------------------------------------

    def views(self, keys: Codes) -> list[View]:
        """Return what is in memory, with all updates that have one of these keys: some may have been spilled."""
        return [self.view] if self.spilled is None else [self.view, self.spilled.loaded(keys)]

    def views_between(self, ranges: Sequence[Range]) -> list[View]:
        """Return what is in memory, with all updates in these ranges of the order in which it lies, without a key."""
        return [self.view] if self.spilled is None else [self.view, self.spilled.loaded_between(ranges)]

    def find(self, keys: Codes, view: View | None = None, runs: Sequence[Hits] = ()) -> tuple[Ints, UpdateArray]:
        """Return all updates with one of these keys, as the number of the key and the update, in no special order.

        The keys are columns of codes, which may repeat. Cost: a binary search for each key in each batch, but for
        those batches of the view, the first ones, of which ``runs`` tells where the keys lie.
        """
        owner, updates = self._find_in_memory(keys, view, runs)
        if self.spilled is None:
            return owner, updates
        spilled_owner, spilled = self.spilled.find(keys)
        if not len(spilled_owner):
            return owner, updates
        return np.concatenate((owner, spilled_owner)), stacked([updates, spilled])

    def in_order(self, keys: Codes, most: int) -> dict[int, StoredOrder]:
        """Return how rows lie of spilled keys, as `Spilled` does, with what is in memory as a part of the rest."""
        if self.spilled is None:
            return {}
        found: dict[int, StoredOrder] = {}
        for number, stored in self.spilled.in_order(keys, most).items():
            _, here = self._find_in_memory(keys[:, number : number + 1])
            rest = stacked([here, stored.rest])
            if rest.shape[1] * most <= stored.rows:
                found[number] = StoredOrder(stored.pages, rest)
        return found

    def loaded(self, keys: Codes) -> View:
        """Return what is in memory, as `Spilled` has it: a spine may lie below another."""
        del keys
        return self.view

    def loaded_between(self, ranges: Sequence[Range]) -> View:
        """Return what is in memory, likewise."""
        del ranges
        return self.view

    def runs(self, keys: Codes) -> list[Hits]:
        """Return where many keys lie in the batches; an empty list for few."""
        return runs_in(self.view.batches, hashed(keys)) if keys.shape[1] > FEW else []

    def count(self, keys: Codes, runs: Sequence[Hits] = (), enough: int | None = None) -> Ints:
        """Return about how many updates each key has: without those in the tail.

        The ``runs`` of the keys, where they are known, save a search. Few keys are not counted on when all of them have
        more than is ``enough``.
        """
        counts = np.zeros(keys.shape[1], np.int64)
        if keys.shape[1] > FEW:
            for _, hits, _, times in runs or self.runs(keys):
                counts[hits] += times
        else:
            hashes = hashed(keys)
            for batch in self.view.batches:
                counts += batch.hashes.searchsorted(hashes, "right") - batch.hashes.searchsorted(hashes)
                if enough is not None and min(counts.tolist(), default=0) > enough:
                    return counts
        return counts if self.spilled is None else counts + self.spilled.count(keys)

    def all_updates(self) -> UpdateArray:
        """Return all updates."""
        here = self.updates_in_memory()
        return here if self.spilled is None else stacked([here, self.spilled.all_updates()])

    def updates_in_memory(self) -> UpdateArray:
        """Return the updates in memory, without those that are spilled."""
        return stacked(list(self.arrays_in_memory()))

    def arrays_in_memory(self) -> Iterator[UpdateArray]:
        """Iterate over the updates in memory as they lie there, an array a batch."""
        yield from (b.updates for b in self.view.batches)
        yield from self.arrays_beside()

    def arrays_beside(self) -> Iterator[UpdateArray]:
        """Iterate over the updates in memory that are in no batch."""
        view = self.view
        yield from view.unsorted
        yield view.tail.array[:, : view.tail_size]
        if self.beside is not None:
            yield from self.beside.arrays()

    @property
    def size(self) -> int:
        """How many updates there are."""
        return self.in_memory + (0 if self.spilled is None else self.spilled.size)

    @property
    def in_memory(self) -> int:
        """How many updates are in memory, without those that were read of what is spilled."""
        return self.view.size + (0 if self.beside is None else self.beside.size)

    @property
    def state(self) -> tuple[View, Any]:
        """All that is in memory between two steps, to go back to."""
        return self.view, None if self.beside is None else self.beside.state

    @state.setter
    def state(self, state: tuple[View, Any]) -> None:
        self.view, beside = state
        if self.beside is not None:
            self.beside.state = beside

    @property
    def held(self) -> int:
        """How many rows memory is taken by: the updates in memory, and what is held of them a second time."""
        return self.in_memory + (0 if self.beside is None else self.beside.cached)

    @property
    def bytes(self) -> int:
        """How much memory they take, with what was read of those that are spilled."""
        here = sum(batch.bytes for batch in (*self.view.batches, self.view.tail))
        here += sum(updates.nbytes for updates in self.view.unsorted)
        here += 0 if self.beside is None else self.beside.bytes
        return here + (0 if self.spilled is None else self.spilled.bytes)

    @property
    def on_disk(self) -> Mapping[str, int]:
        """How large the files are of those that are spilled, by name; other spines may have them, too."""
        return {} if self.spilled is None else self.spilled.on_disk

    @property
    def batches(self) -> int:
        """How many batches there are, the tail being one, and so is what is not sorted."""
        here = len(self.view.batches) + (self.view.tail_size > 0) + bool(self.view.unsorted)
        return here + (0 if self.spilled is None else self.spilled.batches)

    def _find_in_memory(
        self, keys: Codes, view: View | None = None, runs: Sequence[Hits] = ()
    ) -> tuple[Ints, UpdateArray]:
        view = self.view if view is None else view
        if view.unsorted:
            batch = sorted_together(view.unsorted, self.layout, self.since())
            more = (batch,) if len(batch.hashes) else ()
            view = view._replace(batches=(*view.batches, *more), unsorted=())
        count = keys.shape[1]
        if count * view.tail_size > SCAN:
            view = _with_sorted_tail(view)
        hashes = hashed(keys)
        owners: list[Ints] = []
        found: list[UpdateArray] = []
        if view.tail_size:
            find_in_tail(view, hashes, owners, found)
        if count <= FEW:
            find_few(view.batches, hashes, owners, found)
        else:
            for run in (*runs, *runs_in(view.batches[len(runs) :], hashes)):
                if len(run.hits):
                    of_run, in_batch = found_in(run)
                    owners.append(of_run)
                    found.append(in_batch)
        if not found:
            return _NONE, self._nothing
        owner, updates = (owners[0], found[0]) if len(found) == 1 else (np.concatenate(owners), stacked(found))
        if len(keys) != 1:
            true = same(updates[self._key_rows], keys if count == 1 else keys.take(owner, axis=1))
            if np.count_nonzero(true) < len(true):  # another key with the same hash
                owner, updates = owner.compress(true), updates.compress(true, axis=1)
        return owner, updates


def _seem_different(rows: list[Ints]) -> bool:
    """Return whether hardly any columns of a matrix, given by its rows, are equal, by a sample of them."""
    sample = np.arange(0, len(rows[0]), max(len(rows[0]) // SAMPLE, 1))
    codes = np.stack([row.take(sample) for row in rows])
    return len(numbered(codes)[0]) * MOST_DIFFER > len(sample) * (MOST_DIFFER - 1)


def _with_sorted_tail(view: View) -> View:
    hashes, array = view.tail.hashes, view.tail.array
    order = hashes[: view.tail_size].argsort()
    return View((*view.batches, Batch(hashes.take(order), array.take(order, axis=1))), view.tail, 0)


def _empty_tail(layout: UpdateLayout, room: int = 0) -> Batch:
    room = max(room, min(LEAST_TAIL, TAIL))
    return Batch(np.empty(room, np.int64), np.empty((layout.rows, room), np.int64))
