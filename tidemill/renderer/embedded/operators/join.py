"""Join: every pair of updates with equal keys, once."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.nodes import Join
from tidemill.renderer.embedded.compile_context import CompileContext
from tidemill.renderer.embedded.kernels.memory import cleared, empty
from tidemill.renderer.embedded.kernels.sorting import ascending, gather
from tidemill.renderer.embedded.kernels.updates import (
    NULL,
    Codes,
    Ints,
    UpdateArray,
    expand,
    hashed,
    largest,
    numbered,
    same,
    stacked,
)
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.schedule import Operator, Region, Round
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.merging import View
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.runs import failures

MANY: Final = 1 << 12
"""Of more updates the keys are looked up once each."""
_FEWER: Final = 4
"""Where there are this many times fewer updates than keys, the updates are looked up among the keys."""
_NONE: Final[Ints] = np.empty(0, np.int64)


class TooManyPairsError(Exception):
    """A join is to make more pairs at once than its schedule allows."""


class JoinOperator(Operator):
    """Join of two arrangements.

    Each side's new updates meet the other side's arrangement. Both arrangements already have this round's updates; so
    that no pair is met twice, the right side's meet the left arrangement as it was before.
    """

    def __init__(self, node: Join, region: Region, sides: tuple[ArrangeOperator, ArrangeOperator]) -> None:
        super().__init__(node, region, tuple(len(s.schema) for s in sides))
        self._sides = sides
        self._nulls_equal = node.nulls_equal
        self._codes = tuple(len(s.schema) for s in sides)
        self._keys = tuple(np.array(s.keys, np.int64) for s in sides)
        self._key_rows = tuple(s.spine.layout.key_rows for s in sides)
        self._nullable = [any(s.schema.fields[i].nullable for i in s.keys) for s in sides]
        left = self._codes[0]
        self._picked = (
            np.array([i for i in node.output if i < left], np.int64),
            np.array([i - left for i in node.output if i >= left], np.int64),
        )
        order = [i for i in node.output if i < left] + [i for i in node.output if i >= left]
        self._order = None if list(node.output) == order else np.array([order.index(i) for i in node.output])
        self._coordinates = node.scope.coordinates
        for side, port in enumerate(self.ports):
            port.index = self._index(side, self.schedule.transaction)

    def run(self) -> None:
        new = [port.take() for port in self.ports]
        found: list[UpdateArray] = []
        if new[0] is not None:
            self._join_with(new[0], 0, self._sides[1].spine, None, found)
        if new[1] is not None:
            if self.schedule.frontiers_differ:
                self._join_with(new[1], 1, self._sides[0].spine, None, found)
            else:
                self._join_with(
                    new[1], 1, self._sides[0].spine, self._sides[0].before if new[0] is not None else None, found
                )
        if self.schedule.frontiers_differ:
            self._retract_unmet(new, found)
        if found:
            updates = stacked(found)
            if self._order is not None:
                updates = np.concatenate((updates[self._order], updates[len(self._order) :]))
            self.emit(updates, common_round(self.region, updates))

    def _retract_unmet(self, new: list[UpdateArray | None], found: list[UpdateArray]) -> None:
        """Where frontiers differ, the arrangements hold updates that are still pending for this operator.

        What was found with those is retracted: they will meet the other side when they come. That is exact, since
        joining is bilinear.
        """
        unmet: list[UpdateArray] = []
        for side in (0, 1):
            updates, unjoined = new[side], self.ports[1 - side].index
            if updates is not None and unjoined is not None and unjoined.size:
                self._join_with(updates, side, unjoined, None, unmet)
        if new[0] is not None and new[1] is not None:
            both = self._index(0, Transaction())
            both.append(new[0])
            self._join_with(new[1], 1, both, None, unmet)
        for updates in unmet:
            np.negative(updates[-1], out=updates[-1])
        found += unmet

    def _index(self, side: int, transaction: Transaction) -> Spine:
        """Return a spine for updates of one side."""
        of = self._sides[side]
        layout = UpdateLayout(of.keys, [f.dtype for f in of.schema], self._coordinates, self.schedule.users)
        return Spine(layout, self.since, transaction)

    def _join_with(
        self, new: UpdateArray, side: int, spine: Spine, view: View | None, found: list[UpdateArray]
    ) -> None:
        """Add what new updates of one side make with the other side's."""
        most = self.schedule.most_pairs
        many = new.shape[1] > MANY or (most is not None and new.shape[1] * spine.size > most)
        hashes = self._known_hashes(new, side) if many else None
        keys = new[self._key_rows[side]] if many else new.take(self._keys[side], axis=0)
        if self._nullable[side] and not self._nulls_equal and np.count_nonzero(keys == NULL):
            valid = (keys != NULL).all(axis=0)
            new, keys, hashes = new.compress(valid, axis=1), keys.compress(valid, axis=1), None
        if many:
            mine, theirs, others = pairs_of_many(keys, hashes, spine, view, most)
        else:
            mine, others = spine.find(keys, view)
            theirs = None
        count = len(mine) if mine is not None else new.shape[1]
        if not count:
            return
        if largest(new[-1]) > COUNT_LIMIT or largest(others[-1]) > COUNT_LIMIT:
            raise failures.too_many(self.node)
        width = len(self._picked[0]) + len(self._picked[1])
        updates = (cleared if many else empty)((width + self._coordinates + 1, count))
        split = len(self._picked[0])
        own_place, other_place = (slice(0, split), slice(split, width))[:: 1 if side == 0 else -1]
        _take(new, self._picked[side], mine, updates[own_place])
        _take(others, self._picked[1 - side], theirs, updates[other_place])
        ours, others = new[self._codes[side] :], others[self._codes[1 - side] :]
        if not (many and _put_the_same(updates[width:], ours, others)):
            self._put_times_and_counts(updates[width:], ours, mine, others, theirs)
        found.append(updates)

    def _known_hashes(self, new: UpdateArray, side: int) -> Ints | None:
        """Return the hashes of the keys of new updates, if these are what was added to the arrangement just now."""
        latest = self._sides[side].spine.view.batches[-1:]
        return latest[0].hashes if latest and latest[0].array is new else None

    def _put_times_and_counts(
        self, result: UpdateArray, ours: UpdateArray, mine: Ints | None, others: UpdateArray, theirs: Ints | None
    ) -> None:
        """Write the joins of the times of pairs, and the products of their counts."""
        if mine is not None:
            ours = ours.take(mine, axis=1)
        if theirs is not None:
            others = others.take(theirs, axis=1)
        shared = len(others) - 1  # an arrangement from outside a loop has fewer coordinates: 0 in the others
        np.maximum(ours[:shared], others[:-1], out=result[:shared])
        if shared < self._coordinates:
            result[shared:-1] = ours[shared:-1]
        np.multiply(ours[-1], others[-1], out=result[-1])


def common_round(region: Region, updates: UpdateArray) -> Round | None:
    """Return the round all results are of, where that is one: mostly this one, but a stored update may be later."""
    now = region.now
    if not now:
        return now
    loops = updates[-1 - len(now) : -1]
    here = loops[0] == now[0] if len(now) == 1 else loops == np.array(now)[:, None]
    return now if np.count_nonzero(here) == here.size else None


def pairs_of_many(
    keys: Codes, hashes: Ints | None, spine: Spine, view: View | None, most: int | None = None
) -> tuple[Ints | None, Ints | None, UpdateArray]:
    """Return, of many keys, pairs of a key and an update in the spine; and these updates. Each key is looked up once.

    None stands for all keys in their order, each once. If the hashes of the keys are given, they are in order.
    `TooManyPairsError` where these are more than ``most``.
    """
    there = spine.view if view is None else view
    if spine.spilled is None and not there.size:
        return _NONE, _NONE, there.tail.array[:, :0]
    in_order = hashes is not None
    if hashes is None:
        hashes = hashed(keys)
        in_order = bool((hashes[1:] >= hashes[:-1]).all())
    if in_order and spine.spilled is None and there.size * _FEWER < len(hashes):
        return _pairs_of_few(keys, hashes, there, spine, most)
    one, number = _runs(keys) if in_order else numbered(keys)
    owner, others = spine.find(keys.take(one, axis=1), view)
    counts = np.bincount(owner, minlength=len(one))
    by_owner, _ = ascending(owner)
    starts, wanted = counts.cumsum() - counts, counts.take(number)
    if (wanted == 1).all():
        return None, by_owner.take(starts.take(number)), others
    mine, at = _expanded(starts.take(number), wanted, most)
    return mine, by_owner.take(at), others


def _expanded(starts: Ints, counts: Ints, most: int | None) -> tuple[Ints, Ints]:
    """Like `expand`, but an error where there are too many pairs."""
    if most is not None and counts.sum() > most:
        raise TooManyPairsError
    return expand(starts, counts)


def _pairs_of_few(
    keys: Codes, hashes: Ints, view: View, spine: Spine, most: int | None
) -> tuple[Ints, Ints, UpdateArray]:
    """Like `pairs_of_many`, for few updates: these are looked up among the keys' hashes."""
    updates = stacked([*(b.updates for b in view.batches), view.tail.updates[:, : view.tail_size]])
    sought = np.concatenate([*(b.hashes for b in view.batches), view.tail.hashes[: view.tail_size]])
    starts = hashes.searchsorted(sought)
    theirs, mine = _expanded(starts, hashes.searchsorted(sought, "right") - starts, most)
    if len(keys) != 1:
        true = same(keys.take(mine, axis=1), updates[spine.layout.key_rows].take(theirs, axis=1))
        if not true.all():  # another key with the same hash
            mine, theirs = mine.compress(true), theirs.compress(true)
    return mine, theirs, updates


def _runs(keys: Codes) -> tuple[Ints, Ints]:
    """Return the first of each run of equal keys, and for each key the number of its run."""
    new = np.empty(keys.shape[1], np.bool_)
    new[:1] = True
    np.any(keys[:, 1:] != keys[:, :-1], axis=0, out=new[1:])
    return new.nonzero()[0], new.cumsum() - 1


def _put_the_same(result: UpdateArray, ours: UpdateArray, others: UpdateArray) -> bool:
    """Write the time and the count of pairs where they are the same for all; return whether they are.

    Where these are zeros, they are there: zeros that nobody writes take no memory.
    """
    if not others.shape[1] or any((row != row[0]).any() for block in (others, ours) for row in block):
        return False
    one, other = ours[:, 0].tolist(), others[:, 0].tolist()
    shared = len(other) - 1  # as above
    both = [*map(max, one[:shared], other), *one[shared:-1], one[-1] * other[-1]]
    for row, value in zip(result, both, strict=True):
        if value:
            row.fill(value)
    return True


def _take(updates: UpdateArray, rows: Ints, at: Ints | None, result: UpdateArray) -> None:
    """Write some columns of some rows of a matrix."""
    for row, taken in zip(rows.tolist(), result, strict=True):
        if at is None:
            taken[:] = updates[row]
        elif len(at) <= MANY:
            updates[row].take(at, out=taken, mode="clip")  # with "raise" it would go through a buffer
        else:
            gather(updates[row], at, taken)


@FACTORIES(Join)
def _join(node: Join, region: Region, made: CompileContext) -> Operator:
    left, right = node.inputs
    return JoinOperator(node, region, (made.arrangement(left), made.arrangement(right)))
