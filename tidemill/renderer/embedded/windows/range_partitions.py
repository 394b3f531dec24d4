"""Range partitions: ranges of adjacent rows of one partition, each evaluated by itself, for engines of many workers.

First each range is summarised for the others: its number of rows, their summaries, and the rows at its ends that rows
elsewhere may look at. Merged in the order of the ranges, these say what lies around each range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import CallError, Windows
from tidemill.renderer.embedded.kernels.codec import Interner, has_codes_in_order
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, first_numbers
from tidemill.renderer.embedded.windows.affected import Reach, looked_at
from tidemill.renderer.embedded.windows.changes import Concatenated, Evaluator, Excerpt
from tidemill.renderer.embedded.windows.evaluate import call_values
from tidemill.renderer.embedded.windows.frame import Excerpts, Partitions
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.summaries import Summary, summariser, together

Summaries = dict[Summary, Any]
MOST_BETWEEN: Final = 1 << 12
"""Codes at an end of a range that others are told."""


@attrs.frozen
class RangeSummary:
    """The summary of a range that the other ranges of its partition need, with the rows at its ends."""

    rows: int
    groups: int
    """How many peer groups begin in it, where that matters."""
    head: Any
    """The rows at its begin that rows before it may look at: at least one."""
    tail: Any
    """The rows at its end that rows after it may look at: at least one."""
    head_rows: int
    tail_rows: int
    groups_before_tail: int
    whole: Summaries
    """The summaries of its rows."""
    before_tail: Summaries
    after_head: Summaries


@attrs.frozen
class Surroundings:
    """The rows and summaries of a partition before and after a range."""

    before: tuple[Any, ...]
    """Rows just before it, as matrices."""
    after: tuple[Any, ...]
    rows_before: int
    """How many rows are before these."""
    groups_before: int
    total: int
    """How many rows the partition has."""
    of_rows_before: Summaries
    """The summaries of the rows before these."""
    of_rows_after: Summaries


def can_be_divided(windows: Windows, types: Sequence[DType]) -> bool:
    """Return whether calls can be computed from nearby rows and from mergeable summaries of all others.

    Not with offsets from a column, which other ranges do not know, nor with extremes of types whose codes do not sort
    that are compared, not codes, or to very many.
    """
    reach = Reach.of(windows, types)
    if reach is None or reach.offsets:
        return False
    requested = requested_summaries(windows, types)
    return max((d.most for d in requested), default=0) <= MOST_BETWEEN and all(
        has_codes_in_order(types[d.column]) for d in requested if d.kind in ("least", "greatest")
    )


def requested_summaries(windows: Windows, types: Sequence[DType]) -> tuple[Summary, ...]:
    """Return every summary that calls may request of rows outside of a range: found by evaluating one row of NULLs."""
    requested: dict[Summary, None] = {}

    def answer(wanted: Summary) -> list[Any]:
        requested[wanted] = None
        return [together(wanted, ())]

    one = np.full((len(types), 1), NULL)
    none, all_of_it = np.zeros(1, np.int64), np.ones(1, np.int64)
    excerpts = Excerpts(none, all_of_it, none, all_of_it, none, none, all_of_it, answer, answer)
    rows = Partitions(windows, types, Concatenated([one]), Interner(), excerpts)
    call_values(rows, np.empty((len(windows.calls), 1), np.int64))
    return tuple(requested)


def summary_of_range(
    rows: OrderIndex, windows: Windows, types: Sequence[DType], requested: Iterable[Summary], interner: Interner
) -> RangeSummary:
    """Return the summary of a range, which is not empty, for the other ranges.

    The first and the last of them look at least as far as any row before or after does.
    """
    reach = Reach.of(windows, types)
    assert reach is not None
    (by, *_) = windows.order
    n = len(rows)
    head = looked_at(rows, range(1), reach, by, types[by.column])[1]
    tail = looked_at(rows, range(n - 1, n), reach, by, types[by.column])[0]
    summarise, counts_groups = summariser(types, interner), reach.counts_groups
    return RangeSummary(
        n, rows.groups if counts_groups else 0, rows.between(0, head), rows.between(tail, n), head, n - tail,
        rows.groups_before(np.array([tail])).item() if counts_groups else 0,
        {wanted: rows.before(n, wanted, summarise) for wanted in requested},
        {wanted: rows.before(tail, wanted, summarise) for wanted in requested},
        {wanted: rows.after(head, wanted, summarise) for wanted in requested},
    )  # fmt: skip


def surroundings_of(ranges: Sequence[RangeSummary]) -> Iterator[Surroundings]:
    """Yield the surroundings of each of a partition's ranges, given in their order.

    Of those next to it the rows are needed that rows elsewhere look at; where these are all, the next ones' too.
    """
    total = sum(one.rows for one in ranges)
    requested = list(ranges[0].whole) if ranges else []
    rows, groups = _running([one.rows for one in ranges]), _running([one.groups for one in ranges])
    whole_head = [one.head_rows == one.rows for one in ranges]
    whole_tail = [one.tail_rows == one.rows for one in ranges]
    for number in range(len(ranges)):
        low = number
        while low and (low == number or whole_tail[low]):
            low -= 1
        high = number + 1
        while high < len(ranges) and (high == number + 1 or whole_head[high - 1]):
            high += 1
        before, after = ranges[low:number], ranges[number + 1 : high]
        skipped = ranges[low].rows - ranges[low].tail_rows if before else 0
        skipped_groups = ranges[low].groups_before_tail if before else 0
        front = {w: [*(s.whole[w] for s in ranges[:low]), *(s.before_tail[w] for s in before[:1])] for w in requested}
        back = {w: [*(s.after_head[w] for s in after[-1:]), *(s.whole[w] for s in ranges[high:])] for w in requested}
        yield Surroundings(
            tuple(s.tail for s in before), tuple(s.head for s in after),
            rows[low] + skipped, groups[low] + skipped_groups, total,
            {w: together(w, values) for w, values in front.items()},
            {w: together(w, values) for w, values in back.items()},
        )  # fmt: skip


def _running(counts: Sequence[int]) -> list[int]:
    """Return the sums of what is before each count, and of all."""
    found = [0]
    for count in counts:
        found.append(found[-1] + count)
    return found


def values_of(
    windows: Windows,
    types: Sequence[DType],
    ranges: Sequence[tuple[OrderIndex, Surroundings]],
    interner: Interner,
) -> tuple[Codes, Codes]:
    """Return the rows of ranges in their order, with the calls' values; `CallError` has the codes of a row."""
    reach = Reach.of(windows, types)
    assert reach is not None
    excerpts = [
        Excerpt(
            [*near.before, *rows.chunks(), *near.after], sum(codes.shape[1] for codes in near.before), len(rows),
            near.total, near.rows_before, near.groups_before, near.of_rows_before.__getitem__,
            near.of_rows_after.__getitem__,
        )
        for rows, near in ranges
    ]  # fmt: skip
    try:
        return Evaluator(windows, types, reach, interner, first_numbers(0)).values_of(excerpts)
    except CallError as error:
        (row,) = Concatenated([codes for excerpt in excerpts for codes in excerpt.slices]).take(np.array([error.row])).T
        raise CallError(error.call, row, error.reason) from None
