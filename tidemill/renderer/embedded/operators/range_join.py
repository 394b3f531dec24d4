"""RangeJoin: both sides are sorted by the compared column; a new row meets a range of each of the other's batches.

With keys, they lie by the hash of the key, and in order among those of one hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.composites import RangeJoin
from tidemill.renderer.embedded.compile_context import CompileContext
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.memory import empty
from tidemill.renderer.embedded.kernels.sorting import ascending, bisected, gather
from tidemill.renderer.embedded.kernels.updates import (
    NULL,
    Bools,
    Codes,
    Ints,
    UpdateArray,
    expand,
    hashed,
    largest,
    same,
    stacked,
)
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import Batch, UpdateLayout
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs import failures

_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FEW: Final = 8
"""How many places are looked for one by one, at most."""


class RangeJoinOperator(Operator):
    """RangeJoin. Its state are both sides, once where they are the same rows in the same order.

    Rows with a NULL that is compared, or in a key that it does not match by, meet nobody, and are not kept.
    """

    def __init__(self, node: RangeJoin, region: Region, interner: Interner) -> None:
        schemas = [source.schema for source in node.inputs]
        super().__init__(node, region, tuple(map(len, schemas)))
        self._columns = node.comparison[0], node.comparison[2]
        self._how = node.comparison[1], _TURNED[node.comparison[1]]
        self._codes = tuple(map(len, schemas))
        width = self._codes[0]
        self._picked = [(int(i >= width), i - width if i >= width else i) for i in node.output]
        self._keys = tuple(tuple(pair[side] for pair in node.keys) for side in (0, 1))
        self._not_null = tuple(
            [column, *(() if node.nulls_equal else keys)]
            for column, keys in zip(self._columns, self._keys, strict=True)
        )
        self._spines: list[Spine] = []
        for schema, column, keys in zip(schemas, self._columns, self._keys, strict=True):
            if self._spines and node.has_one_index:
                self._spines *= 2
                break
            order = RowOrder([SortColumn(column, schema.fields[column].dtype)], interner)
            coordinates, users = node.scope.coordinates, self.schedule.users
            layout = UpdateLayout(keys, schema.dtypes, coordinates, users, order=order)
            self._spines.append(Spine(layout, self.since, self.schedule.transaction))
        self._key_rows = [spine.layout.key_rows for spine in self._spines]

    def run(self) -> None:
        found: list[UpdateArray] = []
        for side, port in enumerate(self.ports):
            new = port.take_consolidated()
            if new is None:
                continue
            there = (new[self._not_null[side]] != NULL).all(axis=0)
            new = new if there.all() else new.compress(there, axis=1)
            if new.shape[1]:
                self._meet(new, side, found)
                if side == 0 or self._spines[0] is not self._spines[1]:  # the right side's are what the left's were
                    self._spines[side].append(new)
                    self._spines[side].check_counts(new)
        if found:
            self.emit(stacked(found), self.region.now)

    def _meet(self, new: UpdateArray, side: int, found: list[UpdateArray]) -> None:
        """Add the pairs of new rows of a side with what is kept of the other."""
        keys, sought, how = new[self._key_rows[side]], new[self._columns[side]], self._how[side]
        order = hashes = None
        if len(keys):  # searching for sorted hashes is several times faster than for scattered ones
            order, hashes = ascending(hashed(keys))
            sought = sought.take(order)
        for batch in self._batches(1 - side, keys):
            others = batch.array  # whose last columns may be nothing
            codes = others[self._columns[1 - side], : len(batch.hashes)]
            if order is None or hashes is None:
                mine, theirs = expand(*_between(codes, sought, how, None))
            else:
                hits, low, counts = batch.runs_of(hashes)
                mine, theirs = expand(*_between(codes, sought.take(hits), how, (low, low + counts)))
                mine = order.take(hits.take(mine))
            if len(mine) and len(keys) > 1:
                true = same(keys.take(mine, axis=1), others[self._key_rows[1 - side]].take(theirs, axis=1))
                if not true.all():  # another key with the same hash
                    mine, theirs = mine.compress(true), theirs.compress(true)
            if len(mine):
                ours = new, mine
                found.append(self._pairs(*((ours, (others, theirs)) if side == 0 else ((others, theirs), ours))))

    def _batches(self, side: int, keys: Codes) -> Iterator[Batch]:
        """Give the stored updates of a side with one of these keys, among others, in order, a batch at a time."""
        column = self._columns[side]
        for view in self._spines[side].views(keys if len(keys) else keys[:, :1]):
            yield from view.batches
            if view.tail_size:
                hashes, tail = view.tail.hashes[: view.tail_size], view.tail.updates[:, : view.tail_size]
                order = np.lexsort((tail[column], hashes)) if len(keys) else tail[column].argsort(kind="stable")
                yield Batch(hashes.take(order), tail.take(order, axis=1))

    def _pairs(self, *sides: tuple[UpdateArray, Ints]) -> UpdateArray:
        """Return pairs of updates of the left side and the right one, which are at these places of an array each."""
        made = empty((len(self._picked) + self.node.scope.coordinates + 1, len(sides[0][1])))
        for row, (of, column) in zip(made, self._picked, strict=False):
            rows, at = sides[of]
            gather(rows[column], at, row)
        for place, row in enumerate(made[len(self._picked) :]):
            one, other = (rows[codes + place].take(at) for (rows, at), codes in zip(sides, self._codes, strict=True))
            if place < self.node.scope.coordinates:
                np.maximum(one, other, out=row)
                continue
            if largest(one) > COUNT_LIMIT or largest(other) > COUNT_LIMIT:
                raise failures.too_many(self.node)
            np.multiply(one, other, out=row)
        return made

    def spines(self) -> dict[str, Spine]:
        if self._spines[0] is self._spines[1]:
            return {"both": self._spines[0]}
        return dict(zip(("left", "right"), self._spines, strict=True))


def _between(codes: Ints, sought: Ints, how: str, runs: tuple[Ints, Ints] | None) -> tuple[Ints, Ints]:
    """Return, for each code sought, the first of the others with which it compares true, and how many these are.

    The others are in order; or, where ``runs`` are given, each of those from one place to another that is sought in.
    """
    right = how in ("<", ">=")
    if runs is None:
        place = codes.searchsorted(sought, "right" if right else "left")
        low, high = np.zeros_like(place), np.full_like(place, len(codes))
    else:
        low, high = runs
        place = _placed(codes, sought, low, high, right=right)
    return (place, high - place) if how in ("<", "<=") else (low, place - low)


def _placed(codes: Ints, sought: Ints, low: Ints, high: Ints, *, right: bool) -> Ints:
    """Return the place of each code that is sought in its part of others, with ``right`` after those equal to it."""
    if len(sought) <= _FEW:
        side: Literal["left", "right"] = "right" if right else "left"
        of_each = zip(sought.tolist(), low.tolist(), high.tolist(), strict=True)
        return np.array([start + codes[start:stop].searchsorted(one, side) for one, start, stop in of_each], np.int64)
    some = (low < high).nonzero()[0]
    wanted = sought.take(some)

    def is_before(at: Ints) -> Bools:
        there = codes.take(at, mode="clip")
        return there <= wanted if right else there < wanted

    place = low.copy()
    place[some] = bisected(low.take(some), high.take(some), is_before)
    return place


@FACTORIES(RangeJoin)
def _range_join(node: RangeJoin, region: Region, made: CompileContext) -> Operator:
    return RangeJoinOperator(node, region, made.interner)
