"""What changes in the values of window calls where some rows of large partitions change: only these rows' surroundings.

The rows that may have other values, and those that their calls look at, are cut out before and after the change, and
go through the kernel that computes whole partitions. Nothing of the output is kept: what it was is computed once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from operator import eq
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints
from tidemill.renderer.embedded.windows.digests import Digest, digest, together
from tidemill.renderer.embedded.windows.edits import Edit
from tidemill.renderer.embedded.windows.few_changes import FewChanged, changed_few
from tidemill.renderer.embedded.windows.few_rows import CallOfFew
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.partitions import Ahead, Partitions
from tidemill.renderer.embedded.windows.pieces import Pieces
from tidemill.renderer.embedded.windows.reach import Affected, Reach, affected, looked_at
from tidemill.renderer.embedded.windows.recompute import call_values

__all__ = ["Changed", "Cut", "changed_rows", "has_equal_neighbours", "rows_with_values", "valued", "wanted_only"]

PIECE: Final = 1 << 14
"""Rows whose values are worked out at a time where they are those of whole partitions."""
_FEW: Final = 32
"""Rows up to which they are compared one by one."""
FEW_EDITS: Final = 8
"""Edits up to which rows are compared one stretch between them after another."""


class Changed(NamedTuple):
    """Rows, with the calls' values: those that go, and then those that come."""

    rows: Codes
    values: Codes
    gone: int
    """How many go; these come first."""
    differ: bool = False
    """Whether no row, with its values, is known to be among those that go or come twice, or among both."""


class Cut(NamedTuple):
    """Some rows of a partition, as it was or as it is."""

    pieces: list[Codes]
    size: int
    """How many rows these are."""
    skipped: int
    """How many of them are there to be looked at only, before those whose values are wanted."""
    wanted: int
    total: int
    """How many rows the partition has."""
    rows_before: int
    groups_before: int
    before: Callable[[Digest], Any]
    """What the rows of the partition before these come to."""
    behind: Callable[[Digest], Any]


def changed_rows(
    windows: Windows,
    types: Sequence[DType],
    reach: Reach,
    partitions: Sequence[tuple[OrderedPartition, Sequence[Edit]]],
    interner: Interner,
    *,
    calls: Sequence[CallOfFew] | None = None,
) -> Changed:
    """Return how the rows of partitions change, with the calls' values, when edits are made; they are not made yet.

    ``calls`` work the values out where the rows looked at are few. Rows may be among those that go and those that come.
    `CallError` where a call has no value for a row, or for one that is only looked at.
    """
    (by, *_) = windows.order
    settling = reach.settling(types, interner)
    before: list[Cut] = []
    after: list[Cut] = []
    runs: list[Affected] = []
    for rows, edits in partitions:
        size, more = len(rows), sum([edit.copies for edit in edits])
        found = affected(rows, edits, reach, by, types[by.column], settling=settling)
        if calls is not None and len(partitions) == 1:
            few = changed_few(calls, rows, found, size + more, counts_groups=reach.counts_groups)
            if few is not None:
                return _of_few(few, len(types), len(calls), by.column)
        for run in found:
            looked, skipped, wanted = run.end - run.first, run.low - run.first, run.high - run.low
            old, new, shift = rows.pieces(run.first, run.end), _pieces_after(rows, run), run.shift
            beside = _beside(rows, run, reach, types, interner)
            before.append(Cut(old, looked, skipped, wanted, size, *beside))
            after.append(Cut(new, looked + shift, skipped, wanted + shift, size + more, *beside))
            runs.append(run)
    codes, values, starts, asked = valued(windows, types, before + after, interner)
    return _differences(codes, values, starts, asked, runs, by=by.column)


def _of_few(few: FewChanged, width: int, calls: int, by: int) -> Changed:
    """Return a few rows that go and come as `changed_rows` does; ``by`` is the first column of their order."""
    gone, come = few
    block: Codes = np.fromiter(chain(*gone, *come), np.int64).reshape(-1, width + calls).T
    differ = not (_has_equal(gone, width, by) or _has_equal(come, width, by))
    return Changed(block[:width], block[width:], len(gone), differ)


def rows_with_values(
    windows: Windows,
    types: Sequence[DType],
    reach: Reach,
    partitions: Iterable[OrderedPartition],
    interner: Interner,
) -> Iterator[tuple[Codes, Codes]]:
    """Iterate over the rows of partitions in their order, so many at a time, and the calls' values of each.

    `CallError` as above. What is worked out on the way is that of some rows, however large a partition is.
    """
    (by, *_) = windows.order
    cuts: list[Cut] = []
    for rows in partitions:
        low = 0
        while low < len(rows):
            run = _piece(rows, low, reach, by, types[by.column])
            beside = _beside(rows, run, reach, types, interner)
            pieces, looked = rows.pieces(run.first, run.end), run.end - run.first
            cuts.append(Cut(pieces, looked, low - run.first, run.high - low, len(rows), *beside))
            low = run.high
            if sum(cut.wanted for cut in cuts) >= PIECE:
                yield wanted_only(*valued(windows, types, cuts, interner))
                cuts = []
    if cuts:
        yield wanted_only(*valued(windows, types, cuts, interner))


def _piece(rows: OrderedPartition, low: int, reach: Reach, by: OrderColumn, dtype: DType) -> Affected:
    """Return the next rows whose values are worked out at a time: about half of those looked at for it, or more.

    So wide frames cost no more than twice the rows, and the room that is needed to look at one anyway.
    """
    count = PIECE
    while True:
        run = looked_at(rows, range(low, min(low + count, len(rows))), reach, by, dtype)
        if run.high == len(rows) or run.end - run.first <= 2 * count:
            return run
        count = run.end - run.first


def wanted_only(codes: Pieces, values: Codes, _starts: Sequence[int], wanted: Bools) -> tuple[Codes, Codes]:
    """Return the rows of what `valued` gives that are not there to be looked at only, with their values."""
    places = wanted.nonzero()[0]
    return codes.take(places), values.take(places, axis=1)


def _beside(
    rows: OrderedPartition, run: Affected, reach: Reach, types: Sequence[DType], interner: Interner
) -> tuple[int, int, Callable[[Digest], Any], Callable[[Digest], Any]]:
    """Return what a cut says of the rows of its partition that it has not."""
    groups = rows.groups_before(run.first) if reach.counts_groups else 0
    front = _digests(partial(rows.before, run.first), types, interner) if reach.to_first else _nothing
    back = _digests(partial(rows.behind, run.end), types, interner) if reach.to_last else _nothing
    return run.first, groups, front, back


def valued(
    windows: Windows,
    types: Sequence[DType],
    cuts: Sequence[Cut],
    interner: Interner,
) -> tuple[Pieces, Codes, list[int], Bools]:
    """Return the rows of cuts, one after another, the calls' values, where each begins, and which rows are wanted."""
    codes = Pieces([piece for cut in cuts for piece in cut.pieces])
    starts = [0, *accumulate([cut.size for cut in cuts])]
    values = np.empty((len(windows.calls), len(codes)), np.int64)
    ahead = _ahead(cuts, starts)
    call_values(Partitions(windows, types, codes, interner, ahead), values)
    return codes, values, starts, ahead.wanted


def _pieces_after(rows: OrderedPartition, run: Affected) -> list[Codes]:
    """Return the rows that a run looks at, with its edits made."""
    found: list[Codes] = []
    done = run.first
    for edit in run.edits:
        found += rows.pieces(done, edit.place)
        if edit.copies > 0:
            found.append(edit.row[:, None] if edit.copies == 1 else edit.row[:, None].repeat(edit.copies, axis=1))
        done = edit.end
    return found + rows.pieces(done, run.end)


def _ahead(cuts: Sequence[Cut], starts: Sequence[int]) -> Ahead:
    """Return where each of the cuts that have rows begins, and what there is of its partition beside it."""
    here: list[Cut] = []
    begins: list[int] = []
    asked: list[tuple[int, int]] = []
    wanted = np.zeros(starts[-1], np.bool_)
    for start, cut in zip(starts, cuts, strict=False):
        if cut.size:
            low = start + cut.skipped
            high = low + cut.wanted
            wanted[low:high] = True
            here.append(cut)
            begins.append(start)
            asked.append((low, high))
    return Ahead(
        np.array(begins, np.int64),
        [cut.rows_before for cut in here],
        [cut.groups_before for cut in here],
        [cut.total for cut in here],
        [cut.size for cut in here],
        asked,
        wanted,
        lambda digest: [cut.before(digest) for cut in here],
        lambda digest: [cut.behind(digest) for cut in here],
    )


def _digests(
    of_rows: Callable[[Digest, Callable[[Ints], Any]], Any], types: Sequence[DType], interner: Interner
) -> Callable[[Digest], Any]:
    """Return what says, of each digest once, what some rows come to, which are asked with how to find it from codes."""
    known: dict[Digest, Any] = {}

    def of(wanted: Digest) -> Any:
        if wanted not in known:
            known[wanted] = of_rows(wanted, partial(digest, wanted, dtype=types[wanted.column], interner=interner))
        return known[wanted]

    return of


def _nothing(wanted: Digest) -> Any:
    """Return what no rows come to: nobody asks, where no frame goes on to an end of its partition."""
    return together(wanted, ())


def _differences(
    codes: Pieces, values: Codes, starts: Sequence[int], wanted: Bools, runs: Sequence[Affected], *, by: int
) -> Changed:
    """Return the rows before and after, without those that were and are there, with the same values.

    ``by`` is the column that they are in the order of.
    """
    find = _differing_between if sum([len(run.edits) for run in runs]) <= FEW_EDITS else _differing
    gone, found = find(values, starts, wanted, runs)
    rows = codes.take(found)
    return Changed(rows, values.take(found, axis=1), gone, not has_equal_neighbours(rows, gone, by))


def _differing(values: Codes, starts: Sequence[int], wanted: Bools, runs: Sequence[Affected]) -> tuple[int, Ints]:
    """Return the places of rows that go, or come, or have other values, in ascending order; before, how many go.

    Without what is taken out and put in, the rows before are, one by one, those after.
    """
    changes = np.zeros(len(wanted), np.bool_)  # what is edited, at first
    half = len(runs)
    for before, after, run in zip(starts[:half], starts[half:-1], runs, strict=True):
        shift = 0
        for place, _, copies in run.edits:
            at = place - run.first
            if copies < 0:
                changes[before + at : before + at - copies] = True
            else:
                changes[after + at + shift : after + at + shift + copies] = True
            shift += copies
    kept_old, kept_new = (wanted > changes).nonzero()[0].reshape(2, -1)
    for of_call in values:
        differs = (of_call.take(kept_old) != of_call.take(kept_new)).nonzero()[0]
        changes[kept_old.take(differs)] = True
        changes[kept_new.take(differs)] = True
    found = changes.nonzero()[0]
    return int(found.searchsorted(starts[half])), found


def _differing_between(
    values: Codes, starts: Sequence[int], _wanted: Bools, runs: Sequence[Affected]
) -> tuple[int, Ints]:
    """Return what `_differing` does, one stretch between edits after another."""
    changes = np.zeros(starts[-1], np.bool_)
    half = len(runs)
    for before, after, run in zip(starts[:half], starts[half:-1], runs, strict=True):
        old, new = before + run.low - run.first, after + run.low - run.first
        for place, copies in (*[(edit.place, edit.copies) for edit in run.edits], (run.high, 0)):
            old_end = before + place - run.first
            new_end = new + old_end - old
            for of_call in values if old < old_end else ():
                differs = of_call[old:old_end] != of_call[new:new_end]
                changes[old:old_end] |= differs
                changes[new:new_end] |= differs
            old, new = old_end + max(-copies, 0), new_end + max(copies, 0)
            changes[old_end:old] = True
            changes[new_end:new] = True
    found = changes.nonzero()[0]
    return int(found.searchsorted(starts[half])), found


def has_equal_neighbours(rows: Codes, gone: int, by: int) -> bool:
    """Return whether rows that go, or rows that come, may be equal: only copies are, which lie side by side.

    Of copies of a row, some may get what others had. ``by`` is the column looked at first: most tell rows apart.
    """
    if rows.shape[1] <= _FEW:
        as_lists = rows.T.tolist()
        return _has_equal(as_lists[:gone], len(rows), by) or _has_equal(as_lists[gone:], len(rows), by)
    equal = rows[by, 1:] == rows[by, :-1]
    if gone:
        equal[gone - 1 : gone] = False
    for row in rows:
        if not np.count_nonzero(equal):
            return False
        equal &= row[1:] == row[:-1]
    return bool(equal.any())


def _has_equal(rows: Sequence[list[int]], width: int, by: int) -> bool:
    """Return whether a few rows have equal neighbours, of which so many codes are looked at, that of ``by`` first."""
    first = [row[by] for row in rows]
    if not any(map(eq, first, first[1:])):
        return False
    return any(row[:width] == before[:width] for before, row in pairwise(rows))
