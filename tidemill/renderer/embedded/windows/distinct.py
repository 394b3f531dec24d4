"""Sums over the distinct values of each frame, all frames at once.

A value counts where it occurs first in the frame: where the same value's occurrence before is before the frame. So
what is asked for is, for each frame, a sum over those of its rows whose previous occurrence is below a bound. Level by
level, from the highest bit of the previous occurrences on, the rows are shared out to those that have the bit and those
that have not, each in their order; a run of rows is then a run in both, and the bound says which of the two is below
it, or goes on to the next level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.expressions.windows.frames import Frame
from tidemill.renderer.embedded.kernels.sorting import sort_by
from tidemill.renderer.embedded.kernels.updates import Ints
from tidemill.renderer.embedded.windows.frame import Partitions, frame_bounds, hole, insertion_points, prefix_counts
from tidemill.renderer.embedded.windows.ordering import run_lengths


class DistinctSums:
    """Sums over one row for each value of a column that is in the frame, NULL aside.

    What a frame leaves out is a run of positions, the hole. Where it splits the frame in two, values of the whole frame
    are added up, less those that are nowhere but in the hole; else what is left is one run all the same. With EXCLUDE
    TIES the row itself comes back to it. Places are counted in rows with a value.
    """

    def __init__(self, rows: Partitions, column: int, frame: Frame) -> None:
        non_null = rows.non_null(column)
        self._taken = rows.positions if non_null is None else non_null.nonzero()[0]
        self._before = np.arange(len(rows) + 1) if non_null is None else prefix_counts(non_null)
        self._exclusion = frame.exclusion
        self._group = rows.group
        self._found = _Occurrences(
            rows.codes(column).take(self._taken), rows.number.take(self._taken), rows.group.take(self._taken)
        )
        first = self._before.take(rows.first)
        self._first, self._own_first = first, first.take(self._taken)
        self._start, self._end = (self._before.take(bound) for bound in frame_bounds(rows, frame))
        if frame.exclusion != "no others":
            low, high = (self._before.take(bound) for bound in hole(rows, frame))
            self._low, self._high = np.clip(low, self._start, self._end), np.clip(high, self._start, self._end)

    def of(self, numbers: Any) -> Any:
        numbers = numbers.take(self._taken)
        if self._exclusion == "no others":
            return self._of_run(numbers, self._start, self._end)
        before, after = self._low > self._start, self._high < self._end
        total = self._of_run(numbers, np.where(before, self._start, self._high), np.where(after, self._end, self._low))
        own, alone = self._own(numbers)
        if self._exclusion == "current row":
            return total - np.where(before & after, own * alone, 0)
        total = total - np.where(before & after, self._of_group(numbers), 0)
        return total + own * alone if self._exclusion == "ties" else total

    def _of_run(self, numbers: Any, start: Ints, end: Ints) -> Any:
        """Return the sums over the distinct values of a run of positions for each row."""
        previous = np.maximum(self._found.previous - self._own_first + 1, 0)
        return _sums_below(previous, numbers, (start, np.maximum(start, end)), start - self._first + 1)

    def _own(self, numbers: Any) -> tuple[Any, Ints]:
        """Return the number of each row and whether its value is in the frame but in no row that stays there."""
        found, of_row = self._found, self._exclusion == "current row"
        start, end = self._start.take(self._taken), self._end.take(self._taken)
        position = np.arange(len(numbers))
        previous, after = (found.previous, found.next) if of_row else (found.before_group, found.after_group)
        alone = (start <= position) & (position < end) & (previous < start) & (after >= end)
        every, marks = np.zeros(len(self._start), numbers.dtype), np.zeros(len(self._start), np.int64)
        every[self._taken], marks[self._taken] = numbers, alone
        return every, marks

    def _of_group(self, numbers: Any) -> Any:
        """Return the sums over the values of each row's peers that are not in the frame but there."""
        found = self._found
        order, *_ = sort_by([found.group.take(found.leaders), found.before_group.take(found.leaders)])
        leaders = found.leaders.take(order)
        group, before = found.group.take(leaders), found.before_group.take(leaders)
        begin = group.searchsorted(self._group)
        some = insertion_points(group, before, self._group, self._start - 1)
        numbers = numbers.take(leaders)
        sums = np.zeros(len(numbers) + 1, numbers.dtype)
        np.cumsum(numbers, out=sums[1:])
        after = found.after_group.take(leaders) - self._own_first.take(leaders)
        also_after = _sums_below(after, numbers, (begin, some), self._end - self._first)
        return sums.take(some) - sums.take(begin) - also_after


class _Occurrences:
    """Where the value of each row occurs before and after it in its partition: -1, and far away, where it does not."""

    def __init__(self, codes: Ints, number: Ints, group: Ints) -> None:
        order, new, _ = sort_by([number, codes])
        n = len(order)
        self.group = group
        self.previous = _scattered(order, np.where(new, -1, np.roll(order, 1)))
        last = np.roll(new, -1)
        self.next = _scattered(order, np.where(last, 2 * n, np.roll(order, -1)))
        groups = group.take(order)
        new[1:] |= groups[1:] != groups[:-1]
        starts = new.nonzero()[0]
        sizes = run_lengths(starts, n)
        self.leaders = order.take(starts)
        """The first row of each value in each peer group."""
        self.before_group = _scattered(order, self.previous.take(self.leaders).repeat(sizes))
        self.after_group = _scattered(order, self.next.take(order.take(starts + sizes - 1)).repeat(sizes))


def _scattered(order: Ints, values: Ints) -> Ints:
    result = np.empty_like(values)
    result[order] = values
    return result


def _sums_below(keys: Ints, numbers: Any, runs: tuple[Ints, Ints], bounds: Ints) -> Any:
    """Return for each run of rows, given by where it starts and ends, the sum over those whose key is below a bound."""
    start, end = runs
    total = np.zeros(len(start), numbers.dtype)
    greatest = max(int(keys.max(initial=0)), int(bounds.max(initial=0)))
    for bit in range(greatest.bit_length() - 1, -1, -1):
        without = (keys >> bit) & 1 == 0
        before = prefix_counts(without)
        start_without, end_without = before.take(start), before.take(end)
        order = np.concatenate((without.nonzero()[0], (~without).nonzero()[0]))
        keys, numbers = keys.take(order), numbers.take(order)
        sums = np.zeros(len(numbers) + 1, numbers.dtype)
        np.cumsum(numbers, out=sums[1:])
        above = (bounds >> bit) & 1 == 1
        total = total + np.where(above, sums.take(end_without) - sums.take(start_without), 0)
        start = np.where(above, before[-1] + start - start_without, start_without)
        end = np.where(above, before[-1] + end - end_without, end_without)
    return total
