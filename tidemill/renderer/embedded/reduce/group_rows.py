"""Some columns of the rows of groups, with their counts: the state of min, max and of the first rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.errors import StepError
from tidemill.renderer.embedded.kernels.memory import concatenate
from tidemill.renderer.embedded.kernels.updates import (
    Bools,
    Codes,
    Ints,
    Rows,
    UpdateArray,
    compressed,
    consolidated,
    first_numbers,
    largest,
    marked,
    may_be_some,
)
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes, SingleTime
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import MANY, Accumulator, Groups, Shape
from tidemill.renderer.embedded.trace.ordered_groups import OrderedGroups
from tidemill.renderer.embedded.trace.row_order import RowOrder

TRUE: Final = 1
"""The code of true."""
LARGE_FROM: Final = 2048
"""Updates of a group from which on reading its first rows in order beats looking through all."""


class GroupRows(Accumulator):
    """The rows of groups.

    Where an order is given, times are of one coordinate and no loop is around, the rows lie in that order, and of large
    groups only what is asked for is read. The others are looked through, many at once, which is cheaper as long as they
    are small. The order is of the key's codes and these columns.
    """

    def __init__(
        self,
        columns: Sequence[int],
        order: RowOrder | None,
        input_width: int,
        shape: Shape,
        *,
        condition: int | None = None,
        named: Sequence[int] | None = None,
    ) -> None:
        ordered = order is not None and shape.schedule.users == 1 and shape.coordinates == 1
        types = [shape.node.inputs[0].schema.fields[c].dtype for c in columns]
        super().__init__(shape, types, 1, order if ordered else None)
        self.columns = list(columns)
        self._input = input_width
        self._condition = condition
        """A column that is true in those rows that take part; None where all do."""
        self._named = list(self.columns if named is None else named)
        """The columns that an error names a row by."""
        self._groups = (
            OrderedGroups(self.spine, order, shape.schedule.transaction) if ordered and order is not None else None
        )
        self._is_large: Bools | None = None
        """Which of the keys of this round have groups that are read in order; None where none has."""
        self._deleted = np.empty((self.spine.layout.rows, 0), np.int64)
        """The new updates of these groups that take rows away."""

    def project(self, owner: Ints, new: UpdateArray) -> tuple[Ints, UpdateArray]:
        rows = [*range(self.width), *self.columns, *range(self._input, len(new))]
        if self._condition is not None:
            taken = new[self._condition] == TRUE
            owner, new = owner.compress(taken), new.compress(taken, axis=1)
        return owner, new.take(rows, axis=0)

    def _taking_part(self, owner: Ints, new: Rows) -> tuple[Ints, Rows]:
        """Return the new updates that take part, and the numbers of their keys: row by row where they are many."""
        if not isinstance(new, list) and new.shape[1] <= MANY:
            return self.project(owner, new)
        rows = [new[row] for row in (*range(self.width), *self.columns, *range(self._input, len(new)))]
        if self._condition is not None:
            taken = new[self._condition] == TRUE
            if not taken.all():
                return owner.compress(taken), [row.compress(taken) for row in rows]
        return owner, rows

    def gather(self, keys: Codes, owner: Ints, new: Rows) -> Stored:
        """Return the updates of the groups that are not large."""
        self._is_large = None
        if self._groups is None:
            stored = super().gather(keys, owner, new)
            self._check_counts(owner, new)
            return stored
        owner, rows = self._taking_part(owner, new)
        if len(owner):
            if isinstance(rows, list):
                self.spine.append_rows(rows)
            else:
                self.spine.append(consolidated(rows))
            self._groups.added(rows)
            self._check_counts(owner, new)
        runs = self.spine.runs(keys)
        large = self.spine.count(keys, runs, LARGE_FROM) > LARGE_FROM
        if not np.count_nonzero(large):
            return Stored(*self.spine.find(keys, runs=runs), self.codes)
        self._is_large = large
        deleted = compressed(rows, large.take(owner) & (rows[-1] < 0))
        self._deleted = np.stack(deleted) if isinstance(deleted, list) else deleted
        small = (~large).nonzero()[0]
        if not len(small):
            return Stored(small, np.empty((self.spine.layout.rows, 0), np.int64), self.codes)
        found, updates = self.spine.find(keys.take(small, axis=1))
        return Stored(small.take(found), updates, self.codes)

    def _check_counts(self, owner: Ints, new: Rows) -> None:
        """Refuse a row whose count is beyond 64 bits with these updates, which are stored."""
        if len(owner) and largest(new[-1]) > COUNT_LIMIT:
            _, rows = self._taking_part(owner, new)
            self.spine.check_counts(np.stack(rows) if isinstance(rows, list) else rows)

    def accumulated(self, group: Groups, interesting: InterestingTimes, seen: Stored) -> UpdateArray:
        """Return the rows of groups not indexed, at each interesting time: its number, the row's columns, the count.

        A negative count is an error. A row may be there twice, with two positive counts.
        """
        if isinstance(interesting, SingleTime):
            accumulated = self._at_one(seen)
        else:
            at, which = interesting.pairs(seen.owner, seen.updates[self.codes : self.codes + self.users])
            rows = seen.updates[self.width : self.codes].take(which, axis=1)
            accumulated = consolidated(np.concatenate((at[None], rows, seen.updates[-1:].take(which, axis=1))))
        negative = (accumulated[-1] < 0).nonzero()[0]
        if len(negative):
            at_first, *row, count = accumulated[:, negative[0]].tolist()
            raise self._negative(group, at_first, row, count)
        return accumulated

    def _at_one(self, seen: Stored) -> UpdateArray:
        """Return for a single time what `accumulated` does; only what deletions can cancel has to be consolidated."""
        rows = concatenate((seen.owner[None], seen.updates[self.width : self.codes], seen.updates[-1:]))
        deleted = (rows[-1] < 0).nonzero()[0]
        if not len(deleted):
            return rows
        changed = may_be_some(rows[:-1], deleted)
        return concatenate((marked(rows, ~changed), consolidated(rows.compress(changed, axis=1))), axis=1)

    def first(
        self,
        group: Groups,
        interesting: InterestingTimes,
        count: int,
        *,
        last: bool = False,
        non_null: int | None = None,
    ) -> tuple[Ints, UpdateArray]:
        """Return the first rows of large groups, or the last: interesting times in order; codes and count of each row.

        See `OrderedGroups.first`.
        """
        if self._groups is None or self._is_large is None:
            return first_numbers(0), np.empty((self.codes + 1, 0), np.int64)
        at = self._is_large.take(interesting.keys).nonzero()[0]
        self._check_deleted(group, interesting, at)
        until = interesting.times_at(at)[0]
        if len(until) < len(at):  # one for all
            until = until.repeat(len(at))
        owner, rows = self._groups.first(group.codes(at), until, count, last=last, non_null=non_null)
        return at.take(owner), rows

    def _check_deleted(self, group: Groups, interesting: InterestingTimes, large: Ints) -> None:
        """Refuse a row of a large group with a negative count: only what took some away can have led there."""
        deleted, self._deleted = self._deleted, self._deleted[:, :0]
        if self._groups is None or not deleted.shape[1]:
            return
        counts = self._groups.counts(deleted[: self.codes], deleted[self.codes])
        negative = (counts < 0).nonzero()[0]
        if len(negative):
            first = int(negative[deleted[self.codes].take(negative).argmin()])
            *row, time, _ = deleted[:, first].tolist()
            here = (group.codes(large) == deleted[: self.width, first : first + 1]).all(axis=0)
            here &= interesting.times_at(large)[0] == time
            raise self._negative(group, int(large[here.argmax()]), row[self.width :], int(counts[first]))

    def _negative(self, group: Groups, at: int, row: list[int], count: int) -> StepError:
        codes = dict(enumerate(group.codes(at).tolist())) | dict(zip(self.columns, row, strict=True))
        return group.negative(at, self._named, [codes[c] for c in self._named], count)

    def drop_derived(self) -> None:
        """Forget what is known of groups: the spine was given other updates."""
        if self._groups is not None:
            self._groups.clear()
