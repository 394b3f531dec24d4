"""Partitions computed whole, before and after a step, many at once: small ones, and those of which much changes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import NamedTuple

import attrs
import numpy as np

from tidemill.dataflow.nodes import Reduce
from tidemill.errors import StepError
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.bound import CallError, Windows
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.memory import concatenate
from tidemill.renderer.embedded.kernels.updates import (
    Bools,
    Codes,
    Ints,
    UpdateArray,
    consolidated,
    first_numbers,
    largest,
    marked,
    may_be_some,
    numbered,
    stacked,
)
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.windows.affected import Reach
from tidemill.renderer.embedded.windows.evaluate import recompute
from tidemill.renderer.embedded.windows.large_partitions import Key, LargePartitions
from tidemill.renderer.embedded.windows.ordering import GivenRows
from tidemill.renderer.runs import failures


@attrs.define
class NewUpdates:
    """New updates of one time, of partitions by their numbers."""

    names: list[Key]
    """The keys of the partitions, as tuples."""
    keys: Codes
    owner: Ints
    """The number of each update's partition."""
    updates: UpdateArray
    time: int

    def mask(self, numbers: Collection[int]) -> Bools:
        """Return which updates are of some of the partitions."""
        wanted = np.zeros(len(self.names), np.bool_)
        wanted[list(numbers)] = True
        return wanted.take(self.owner)

    def rows_of(self, numbers: Collection[int]) -> GivenRows:
        """Return the rows of some of the partitions."""
        rows = GivenRows(self.owner, self.updates[:-2], self.updates[-1])
        return rows if len(numbers) == len(self.names) else _compressed(rows, self.mask(numbers))


class ComputedWhole(NamedTuple):
    """Partitions, by numbers, computed whole, or of small ones the rows near to those that changed."""

    rows: GivenRows
    """The rows before, and then those after, with other numbers."""
    old: int
    """How many are those before."""
    source: Ints
    """In the windows' order, which of the rows has the values."""
    values: Codes
    after: GivenRows
    """The rows after."""
    stay: Ints
    """Which rows before are the first ones after, as they are."""
    stored_of: Ints
    """The numbers of the partitions of what the spine had of them."""
    stored: UpdateArray

    def of(self, numbers: Collection[int]) -> GivenRows:
        """Return the rows after of some of the partitions."""
        return _compressed(self.after, np.isin(self.after.partition, list(numbers)))

    def differing(self) -> Bools:
        """Return which values are of rows that changed, or are others than before; where rows have copies, all."""
        differs = np.ones(len(self.source), np.bool_)
        if largest(self.rows.counts) == 1:
            place = np.empty(self.rows.codes.shape[1], np.int64)
            place[self.source] = np.arange(len(place))
            before, after = place.take(self.stay), place[self.old : self.old + len(self.stay)]
            equal = np.ones(len(before), np.bool_)
            for row in self.values:
                equal &= row.take(before) == row.take(after)
            differs[before.compress(equal)] = differs[after.compress(equal)] = False
        return differs


class WholePartitions:
    """What computes partitions whole, whose rows are in a spine, or in their order where they are large."""

    def __init__(
        self,
        node: Reduce,
        interner: Interner,
        order: RowOrder,
        reach: Reach | None,
        *,
        spine: Spine,
        large: LargePartitions,
    ) -> None:
        assert isinstance(node.logic, Windows)
        self._node, self._windows, self._schema = node, node.logic, node.inputs[0].schema
        self._interner, self._order, self._spine, self._large = interner, order, spine, large
        self._far = _rows_between(reach)
        """How many rows far calls look, where that decides which values a change reaches."""

    def computed(self, new: NewUpdates, which: Ints, most: int) -> ComputedWhole:
        """Return some of the partitions computed whole, before and after.

        Where all stay smaller than ``most``, it may be the rows near to those that change.
        """
        found, stored = self._spine.find(new.keys.take(which, axis=1))
        found = which.take(found)
        before = [concatenate((found[None], stored[:-2], stored[-1:]))] if len(found) else []
        for number in self._large.held(new.names).intersection(which.tolist()):
            before += self._large.numbered(new.names[number], number)
        change = new.rows_of(which.tolist())
        if not before:
            none = first_numbers(0)
            return ComputedWhole(change, 0, *self._values(change, change), change, none, found, stored)
        old = consolidated(stacked(before))
        come = np.concatenate((change.partition[None], change.codes, change.counts[None]))
        gone = old.shape[1]
        rows = concatenate((old, come), axis=1)
        changed = _equal_to_later(rows[:-1], gone)
        if self._is_small_in(rows, 2 * int(np.count_nonzero(changed)), most) and not self._large.among(new.names):
            near = self._near(rows, changed)
            some = marked(rows, near), int(np.count_nonzero(near[:gone])), changed.compress(near)
            with contextlib.suppress(StepError):  # perhaps of a row that is only looked at: computed whole, it shows
                return ComputedWhole(*self._before_and_after(*some, len(new.names)), found, stored)
        return ComputedWhole(*self._before_and_after(rows, gone, changed, len(new.names)), found, stored)

    def _before_and_after(
        self, rows: UpdateArray, gone: int, changed: Bools, partitions: int
    ) -> tuple[GivenRows, int, Ints, Codes, GivenRows, Ints]:
        """Return what a `ComputedWhole` begins with, of the rows before, and those that come or go."""
        old, stays = rows[:, :gone], ~changed[:gone]
        rows = concatenate((old, marked(old, stays), consolidated(rows.compress(changed, axis=1))), axis=1)
        after = GivenRows(rows[0, gone:].copy(), rows[1:-1, gone:], rows[-1, gone:])
        rows[0, gone:] += partitions
        given = GivenRows(rows[0], rows[1:-1], rows[-1])
        return given, gone, *self._values(given, after), after, stays.nonzero()[0]

    def _is_small_in(self, rows: UpdateArray, changed: int, most: int) -> bool:
        """Return whether few of the rows decide what changes, and all are of partitions that stay small."""
        if self._far is None or (4 * self._far + 1) * changed > rows.shape[1]:
            return False
        return bool(np.bincount(rows[0], np.abs(rows[-1])).max() < most)

    def _near(self, rows: UpdateArray, changed: Bools) -> Bools:
        """Return which rows are so near to one that changed that they decide a value that changes.

        A value looks so many rows far. Twice as far all are taken, so that those once as far see what they saw, and of
        those beyond the values stay, whatever they are now.
        """
        assert self._far is not None
        order = self._order.sorted(list(rows[1:-1]), rows[0]).order
        at, n = changed.take(order).nonzero()[0], len(order)
        begins, ends = np.maximum(at - 2 * self._far, 0), np.minimum(at + 2 * self._far + 1, n)
        near = np.empty(n, np.bool_)
        near[order] = (np.bincount(begins, minlength=n + 1) - np.bincount(ends, minlength=n + 1)).cumsum()[:n] > 0
        return near

    def _values(self, given: GivenRows, after: GivenRows) -> tuple[Ints, Codes]:
        """Return the values of rows, among them those after."""
        negative = (after.counts < 0).nonzero()[0]
        if len(negative):
            raise self.negative(after.codes[:, negative[0]], int(after.counts[negative[0]]))
        try:
            return recompute(self._windows, self._schema.dtypes, given, self._interner)
        except CallError as error:
            (row,) = decode_rows(self._schema, given.codes[:, [error.row]], self._interner)
            raise failures.no_window_value(self._node, self._windows, row, error) from None

    def negative(self, row: Ints, count: int) -> Exception:
        """Return the error of a row whose count would be negative."""
        fields, width = self._schema.fields, self._windows.partitioned_by(len(self._node.keys))
        (key,) = decode_rows(Schema(fields[:width]), row[:width, None], self._interner)
        own = list(self._windows.row)
        (shown,) = decode_rows(Schema(tuple(fields[i] for i in own)), row[own, None], self._interner)
        return failures.negative_count(self._node, key, shown, count)


def _rows_between(reach: Reach | None) -> int | None:
    """Return how many rows far calls look, where that alone says which values a change reaches; else None."""
    return max(reach.rows) if reach is not None and attrs.evolve(reach, rows=(0, 0)) == Reach() else None


def _equal_to_later(rows: Codes, first: int) -> Bools:
    """Return which rows are equal to one of those from the first of the later ones on: those themselves, too."""
    equal = may_be_some(rows, np.arange(first, rows.shape[1]))
    some = equal.nonzero()[0]
    _, owner = numbered(rows.take(some, axis=1))
    equal[some] = np.bincount(owner, some >= first).take(owner) > 0
    return equal


def _compressed(rows: GivenRows, mask: Bools) -> GivenRows:
    """Return the rows that are marked."""
    if mask.all():
        return rows
    return GivenRows(rows.partition.compress(mask), rows.codes.compress(mask, axis=1), rows.counts.compress(mask))
