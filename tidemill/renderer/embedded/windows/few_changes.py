"""How a few rows of a large partition, with the calls' values, change where rows around them do: row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from tidemill.renderer.embedded.kernels.updates import Ints
from tidemill.renderer.embedded.windows.few_rows import FEW, TOO_LARGE, CallOfFew, FewRows
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.reach import Affected, edited_rows

__all__ = ["FewChanged", "changed_few"]

_Row: TypeAlias = list[int]


class FewChanged(NamedTuple):
    """Rows, each with the calls' values behind its codes."""

    gone: list[_Row]
    come: list[_Row]


def changed_few(
    calls: Sequence[CallOfFew],
    rows: OrderedPartition,
    runs: Sequence[Affected],
    size: int,
    *,
    counts_groups: bool,
) -> FewChanged | None:
    """Return how the rows of runs change; None where these are not few, or a sum is too large.

    ``size`` is how many rows the partition has afterwards.
    """
    if sum([2 * (run.end - run.first) + run.shift for run in runs]) > FEW:
        return None
    found = FewChanged([], [])
    for run in runs:
        old = [row for piece in rows.pieces(run.first, run.end) for row in piece.T.tolist()]
        low, high = run.low - run.first, run.high - run.first
        groups = rows.groups_before(run.first) if counts_groups else 0
        before = _valued(calls, FewRows(old, range(low, high), run.first, groups, len(rows)))
        new = edited_rows(old, run.edits, run.first, _as_list)
        after = _valued(calls, FewRows(new, range(low, high + run.shift), run.first, groups, size))
        if before is None or after is None:
            return None
        _add_differing(found, before, after, run)
    return found


def _as_list(row: Ints) -> _Row:
    codes: _Row = row.tolist()
    return codes


def _valued(calls: Sequence[CallOfFew], few: FewRows) -> list[_Row] | None:
    """Return the rows wanted with the values of calls; None where a sum is too large."""
    values = [call.codes(few) for call in calls]
    if any(TOO_LARGE in codes for codes in values):
        return None
    rows = few.rows
    return [[*rows[place], *codes] for place, codes in zip(few.wanted, zip(*values, strict=True), strict=True)]


def _add_differing(found: FewChanged, before: Sequence[_Row], after: Sequence[_Row], run: Affected) -> None:
    """Add rows of a run that go, or come, or have other values.

    Without what is taken out and put in, the rows before are, one by one, those after.
    """
    old = new = 0
    for place, copies in (*((edit.place, edit.copies) for edit in run.edits), (run.high, 0)):
        while old < place - run.low:
            if before[old] != after[new]:
                found.gone.append(before[old])
                found.come.append(after[new])
            old, new = old + 1, new + 1
        gone, come = max(-copies, 0), max(copies, 0)
        found.gone.extend(before[old : old + gone])
        found.come.extend(after[new : new + come])
        old, new = old + gone, new + come
