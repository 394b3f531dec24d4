"""Threshold: each row with a count computed from its accumulated count. Distinct is the commonest."""

from __future__ import annotations

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.nodes import Input, Node, Threshold
from tidemill.expressions.windows.bound import MOST_COPIES, RowCheck
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.memory import empty
from tidemill.renderer.embedded.kernels.sorting import PART, gather, nonzero
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, UpdateArray, consolidated, largest
from tidemill.renderer.embedded.operator_registry import operator_of
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes, SingleTime
from tidemill.renderer.embedded.operators.keyed import KeyedOperator, Stored, Work
from tidemill.renderer.embedded.schedule import Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs import failures
from tidemill.renderer.runs import user_functions as functions


@operator_of(Threshold, interner=True)
class ThresholdOperator(KeyedOperator):
    """Threshold. The row is its own key; the state is what came in and what went out, as two weights of one spine."""

    consolidated = True

    def __init__(self, node: Node, region: Region, interner: Interner) -> None:
        self.schema = node.schema
        super().__init__(node, region, len(self.schema), tuple(range(len(self.schema))))
        self.interner = interner
        columns = tuple(range(len(self.schema)))
        types = [f.dtype for f in self.schema]
        layout = UpdateLayout(columns, types, self._coordinates, self.schedule.users, weights=2)
        self._spine = Spine(layout, self.since, self.schedule.transaction)
        self._output_rows = np.array([*range(len(columns) + self._coordinates), -1])
        """The rows of the spine's updates that are an update of the output."""
        self._user = node if isinstance(node, Threshold) and node.function is not None else None

    def run(self) -> None:
        work = self.begin(consolidate=False)
        if work is None:
            return
        owner, stored = self._spine.find(work.keys)
        interesting, (seen,) = self.interesting_times(work, [Stored(owner, stored, len(self.schema))])
        at = self._at_once if isinstance(interesting, SingleTime) else self._at_times
        stored, out = at(work, interesting, seen)
        if stored.shape[1]:
            self._spine.append(stored)
        self.emit(out, self.region.now)

    def _at_once(self, work: Work, interesting: InterestingTimes, seen: Stored) -> tuple[UpdateArray, UpdateArray]:
        """Return the updates to store and those to emit, where all is at one time: one for each row in both."""
        new = work.new
        assert isinstance(new, np.ndarray)  # whole rows are its keys, and come as a matrix
        self._check_sums(work.new_owner, new[-1], seen.owner, seen.updates[-2])
        (came,) = interesting.sums(work.new_owner, work.times, new[-1:])
        count, produced = interesting.sums(seen.owner, work.times, seen.updates[-2:])
        change = self.desired(work.keys, interesting, came + count) - produced
        some = np.bitwise_or(came, change).nonzero()[0]
        change = change.take(some)
        stored = self.updates_at(work.keys, interesting, some, came.take(some), change)
        if len(change) <= PART:
            return stored, stored.compress(change, axis=1).take(self._output_rows, axis=0)
        changed = nonzero(change)
        out: UpdateArray = empty((len(self._output_rows), len(changed)))
        for row, found in zip(self._output_rows.tolist(), out, strict=True):
            gather(stored[row], changed, found)
        return stored, out

    def _at_times(self, work: Work, interesting: InterestingTimes, seen: Stored) -> tuple[UpdateArray, UpdateArray]:
        """Return the updates to store and those to emit."""
        new, k = work.new, len(self.schema)
        assert isinstance(new, np.ndarray)  # whole rows are its keys, and come as a matrix
        self._check_sums(work.new_owner, new[-1], seen.owner, seen.updates[-2])
        users = slice(k, k + self.schedule.users)
        times = np.concatenate((new[users], seen.updates[users]), axis=1)
        came = np.concatenate((new[-1], seen.updates[-2]))
        counts = interesting.sums(np.concatenate((work.new_owner, seen.owner)), times, came[None])[0]
        produced = interesting.produced(seen.owner, seen.updates[users], seen.updates[-1])
        change = interesting.changes(self.desired(work.keys, interesting, counts)) - produced
        changed = change.nonzero()[0]
        out = self.updates_at(work.keys, interesting, changed, change.take(changed))
        return _side_by_side(new, out), out

    def _check_sums(self, new_owner: Ints, came: Ints, owner: Ints, stored: Ints) -> None:
        """Refuse counts whose sum for a row is beyond 64 bits, which only large ones can reach."""
        if largest(came) > COUNT_LIMIT:
            consolidated(np.stack((np.concatenate((new_owner, owner)), np.concatenate((came, stored)))))

    def desired(self, keys: Codes, interesting: InterestingTimes, counts: Ints) -> Ints:
        """Return the new counts for these accumulated ones."""
        if self._user is None:
            return (counts > 0).astype(np.int64)
        if isinstance(self._user.function, RowCheck):
            return self._checked(self._user, self._user.function, keys, interesting, counts)
        rows = decode_rows(self.schema, keys, self.interner)
        for row in rows:
            functions.thresholded(self._user, row, 0)  # a row that is nowhere has count 0, and must stay nowhere
        pairs = zip(interesting.keys.tolist(), counts.tolist(), strict=True)
        return np.array([functions.thresholded(self._user, rows[key], n) if n else 0 for key, n in pairs], np.int64)

    def _checked(
        self, node: Threshold, check: RowCheck, keys: Codes, interesting: InterestingTimes, counts: Ints
    ) -> Ints:
        """Return the counts of rows of windows, of which one that is refused is looked for at once."""
        refused: Bools = (counts < 0) | (counts > MOST_COPIES)
        for column in check.at_least_one.values():  # whole numbers, whose codes are themselves
            numbers = keys[column].take(interesting.keys)
            refused |= (counts != 0) & (numbers < 1) & (numbers != NULL)
        for place in refused.nonzero()[0][:1].tolist():
            (row,) = decode_rows(self.schema, keys[:, [interesting.keys[place]]], self.interner)
            functions.thresholded(node, row, int(counts[place]))
        return counts

    def spines(self) -> dict[str, Spine]:
        return {"spine": self._spine}


class UniqueCheck(ThresholdOperator):
    """The check of an input declared unique: raises where a count is neither 0 nor 1, and changes nothing."""

    def desired(self, keys: Codes, interesting: InterestingTimes, counts: Ints) -> Ints:
        wrong: Bools = (counts != 0) & (counts != 1)
        if wrong.any():
            first = int(wrong.argmax())
            (row,) = decode_rows(self.schema, keys[:, [interesting.keys[first]]], self.interner)
            assert isinstance(self.node, Input)
            raise failures.not_unique(self.node, row, int(counts[first]), tuple(interesting.times[:, first].tolist()))
        return counts


def _side_by_side(came: UpdateArray, went: UpdateArray) -> UpdateArray:
    """Return updates that came and updates that went as updates of two weights."""
    stored = np.zeros((len(came) + 1, came.shape[1] + went.shape[1]), np.int64)
    stored[:-1, : came.shape[1]] = came
    stored[:-2, came.shape[1] :] = went[:-1]
    stored[-1, came.shape[1] :] = went[-1]
    return stored
