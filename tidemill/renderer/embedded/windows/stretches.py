"""Partitions in stretches of adjacent rows, each looked at by itself: what one has to know of those on both sides.

First each stretch says what it is: how many rows, what they come to, and which of them, at its ends, rows elsewhere may
look at. Of all this, put together in the order of the stretches, each is told what lies around it; and then the values
of its rows are worked out as those of some rows of a large partition are, in `ordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import CallError, Windows
from tidemill.renderer.embedded.kernels.codec import Interner, has_codes_in_order
from tidemill.renderer.embedded.kernels.updates import NULL, Codes
from tidemill.renderer.embedded.windows.digests import Digest, digest, together
from tidemill.renderer.embedded.windows.ordered import Cut, valued, wanted_only
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.partitions import Ahead, Partitions
from tidemill.renderer.embedded.windows.pieces import Pieces
from tidemill.renderer.embedded.windows.reach import Reach, looked_at
from tidemill.renderer.embedded.windows.recompute import call_values

__all__ = ["Around", "Stretch", "around", "can_be_divided", "digests_asked", "stretch_of", "values_of"]

Digests = dict[Digest, Any]


@attrs.frozen
class Stretch:
    """What the rows of a stretch are to others of their partition."""

    rows: int
    groups: int
    """How many peer groups begin in it, where that matters."""
    head: Any
    """The rows at its begin that rows before it may look at: at least one."""
    tail: Any
    """The rows at its end that rows behind it may look at: at least one."""
    head_rows: int
    tail_rows: int
    groups_before_tail: int
    whole: Digests
    """What its rows come to."""
    before_tail: Digests
    behind_head: Digests


@attrs.frozen
class Around:
    """What there is of a partition around a stretch."""

    before: tuple[Any, ...]
    """Rows just before it, in pieces."""
    behind: tuple[Any, ...]
    rows_before: int
    """How many rows are before these."""
    groups_before: int
    total: int
    """How many rows the partition has."""
    of_rows_before: Digests
    """What the rows before these come to."""
    of_rows_behind: Digests


def can_be_divided(windows: Windows, types: Sequence[DType]) -> bool:
    """Return whether values of some rows are worked out from the rows around them and from what others come to.

    Not where rows say how far they look, which those of other stretches do not know, nor where others come to values
    that are compared, not codes.
    """
    reach = Reach.of(windows, types)
    if reach is None or reach.offsets:
        return False
    asked = digests_asked(windows, types)
    return all(has_codes_in_order(types[d.column]) for d in asked if d.kind in ("least", "greatest"))


def digests_asked(windows: Windows, types: Sequence[DType]) -> tuple[Digest, ...]:
    """Return all that calls may ask of rows which are not there: what they ask where a row has no values."""
    asked: dict[Digest, None] = {}

    def answer(wanted: Digest) -> list[Any]:
        asked[wanted] = None
        return [together(wanted, ())]

    one = np.full((len(types), 1), NULL)
    ahead = Ahead(np.zeros(1, np.int64), [0], [0], [1], [1], [(0, 1)], np.ones(1, np.bool_), answer, answer)
    rows = Partitions(windows, types, Pieces([one]), Interner(), ahead)
    call_values(rows, np.empty((len(windows.calls), 1), np.int64))
    return tuple(asked)


def stretch_of(
    rows: OrderedPartition, windows: Windows, types: Sequence[DType], asked: Iterable[Digest], interner: Interner
) -> Stretch:
    """Return what the rows of a stretch, of which there are some, are to others.

    The first and the last of them look at least as far as any row before or behind does.
    """
    reach = Reach.of(windows, types)
    assert reach is not None
    (by, *_) = windows.order
    n = len(rows)
    head = looked_at(rows, range(1), reach, by, types[by.column]).end
    tail = looked_at(rows, range(n - 1, n), reach, by, types[by.column]).first
    made = {wanted: _maker(wanted, types, interner) for wanted in asked}
    counts_groups = reach.counts_groups
    return Stretch(
        n, rows.groups if counts_groups else 0, rows.cut(0, head), rows.cut(tail, n), head, n - tail,
        rows.groups_before(tail) if counts_groups else 0,
        {wanted: rows.before(n, wanted, make) for wanted, make in made.items()},
        {wanted: rows.before(tail, wanted, make) for wanted, make in made.items()},
        {wanted: rows.behind(head, wanted, make) for wanted, make in made.items()},
    )  # fmt: skip


def _maker(wanted: Digest, types: Sequence[DType], interner: Interner) -> Callable[[Any], Any]:
    return partial(digest, wanted, dtype=types[wanted.column], interner=interner)


def around(stretches: Sequence[Stretch]) -> Iterator[Around]:
    """Iterate over what there is around each of a partition's stretches, which are given in their order.

    Of those next to it the rows are needed that rows elsewhere look at; where these are all, the next ones' too.
    """
    total = sum(one.rows for one in stretches)
    asked = list(stretches[0].whole) if stretches else []
    rows, groups = _running([one.rows for one in stretches]), _running([one.groups for one in stretches])
    whole_head = [one.head_rows == one.rows for one in stretches]
    whole_tail = [one.tail_rows == one.rows for one in stretches]
    for number in range(len(stretches)):
        low = number
        while low and (low == number or whole_tail[low]):
            low -= 1
        high = number + 1
        while high < len(stretches) and (high == number + 1 or whole_head[high - 1]):
            high += 1
        before, behind = stretches[low:number], stretches[number + 1 : high]
        skipped = stretches[low].rows - stretches[low].tail_rows if before else 0
        skipped_groups = stretches[low].groups_before_tail if before else 0
        front = {w: [*(s.whole[w] for s in stretches[:low]), *(s.before_tail[w] for s in before[:1])] for w in asked}
        back = {w: [*(s.behind_head[w] for s in behind[-1:]), *(s.whole[w] for s in stretches[high:])] for w in asked}
        yield Around(
            tuple(s.tail for s in before), tuple(s.head for s in behind),
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
    stretches: Sequence[tuple[OrderedPartition, Around]],
    interner: Interner,
) -> tuple[Codes, Codes]:
    """Return the rows of stretches in their order, with the calls' values; `CallError` has the codes of a row."""
    cuts = []
    for rows, beside in stretches:
        before = sum(piece.shape[1] for piece in beside.before)
        size = before + len(rows) + sum(piece.shape[1] for piece in beside.behind)
        pieces: list[Codes] = [*beside.before, *rows.parts(), *beside.behind]
        cuts.append(
            Cut(
                pieces, size, before, len(rows), beside.total, beside.rows_before, beside.groups_before,
                beside.of_rows_before.__getitem__, beside.of_rows_behind.__getitem__,
            )
        )  # fmt: skip
    try:
        return wanted_only(*valued(windows, types, cuts, interner))
    except CallError as error:
        (row,) = Pieces([piece for cut in cuts for piece in cut.pieces]).take(np.array([error.row])).T
        raise CallError(error.call, row, error.reason) from None
