"""How many rows of a large partition, with the calls' values, change where many of its rows do: all at once.

The runs of rows that edits reach are cut out some at a time, so that what is worked out of them stays in fast memory,
and needs none from the system; each time there is one call of the kernel over the rows before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, Windows
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints, UpdateArray, consolidated
from tidemill.renderer.embedded.windows.digests import Digest, together
from tidemill.renderer.embedded.windows.edits import Changed, ManyEdits
from tidemill.renderer.embedded.windows.many_cuts import CutColumns, Cuts, Part, blocks, parts
from tidemill.renderer.embedded.windows.many_runs import Runs, can_be_found_at_once, runs_of_many
from tidemill.renderer.embedded.windows.ordered import has_equal_neighbours
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.partitions import Ahead, Partitions
from tidemill.renderer.embedded.windows.pieces import Pieces
from tidemill.renderer.embedded.windows.reach import Reach
from tidemill.renderer.embedded.windows.recompute import call_values

__all__ = ["CallsOfMany"]

EXTREMES: Final = frozenset({"min", "max", "bool_and", "bool_or"})
"""What many rows around one that changes have as before."""


@attrs.frozen
class CallsOfMany:
    """Calls whose changes are worked out for many edits at once."""

    windows: Windows
    types: Sequence[DType]
    reach: Reach
    interner: Interner
    kept: Ints
    """Which of a row's codes come out again."""

    @staticmethod
    def of(
        windows: Windows, types: Sequence[DType], reach: Reach | None, interner: Interner, kept: Ints
    ) -> CallsOfMany | None:
        """Return what works the calls out; None where it cannot."""
        if reach is None or not windows.order:
            return None
        found = CallsOfMany(windows, types, reach, interner, kept)
        return found if can_be_found_at_once(reach, types[windows.order[0].column]) else None

    @property
    def _leading(self) -> int:
        """The first of the ORDER BY columns among those that come out again, if it does."""
        kept = self.kept.tolist()
        (by, *_) = self.windows.order
        return kept.index(by.column) if by.column in kept else 0

    def updates(self, partitions: Sequence[tuple[OrderedPartition, ManyEdits]], time: int) -> UpdateArray:
        """Return the output's updates for edits of partitions, not made yet; `CallError` as `changed_rows`."""
        to_cut: list[Part] = []
        for rows, edits in partitions:
            to_cut += parts(rows, edits, self._runs(rows, edits))
        found = [self._changed(block) for block in blocks(to_cut)]
        counts = [some.counts for some in found]
        count = sum(gone for gone, _ in counts)
        width = len(self.kept) + len(self.windows.calls)
        updates = np.empty((width + 2, count + sum(come for _, come in counts)), np.int64)
        old, new = 0, count
        for some, (gone, come) in zip(found, counts, strict=True):
            some.write(updates[:width, old : old + gone], updates[:width, new : new + come])
            old, new = old + gone, new + come
        updates[-2], updates[-1, :count], updates[-1, count:] = time, -1, 1
        if not has_equal_neighbours(updates[: len(self.kept)], count, self._leading):
            return updates
        alike = _with_copies(updates[: len(self.kept)], count)
        return np.concatenate((updates[:, ~alike], consolidated(updates[:, alike])), axis=1)

    def _runs(self, rows: OrderedPartition, edits: ManyEdits) -> Runs:
        (by, *_) = self.windows.order
        return runs_of_many(rows, edits, self.reach, by, self.types[by.column])

    def _changed(self, block: Sequence[Part]) -> Changed:
        """Return how the rows of some runs change."""
        cuts = Cuts(block)
        codes = None if self._are_extremes and cuts.are_long else cuts.codes()
        values = np.empty((len(self.windows.calls), cuts.end), np.int64)
        of_each = [len(rows) + more * after for after in (0, 1) for rows, _, _, more in block]
        totals = np.array(of_each).repeat(np.tile([len(some.low) for _, _, some, _ in block], 2))
        groups = None
        if self.reach.counts_groups:
            groups = [rows.groups_before(first) for rows, _, some, _ in block for first in some.first.tolist()]
        ahead = _ahead(np.tile(cuts.runs.first, 2), groups, totals, cuts.sizes, cuts.wanted())
        given = CutColumns(cuts) if codes is None else Pieces([codes])
        call_values(Partitions(self.windows, self.types, given, self.interner, ahead), values)
        gone, come = cuts.differing(values)
        if codes is not None:
            return Changed(self._taken(codes, values, gone), self._taken(codes, values, come))
        found = zip(cuts.looked_up(gone, come), (gone, come), strict=True)
        return Changed(*(np.concatenate((rows.take(self.kept, axis=0), values.take(at, axis=1))) for rows, at in found))

    @property
    def _are_extremes(self) -> bool:
        """Whether most rows looked at are likely to have the values they had, so that hardly any is needed whole."""
        calls = self.windows.calls
        return all(isinstance(call, AggregateCall) and call.function in EXTREMES for call in calls)

    def _taken(self, both: Codes, values: Codes, places: Ints) -> Codes:
        width = len(self.kept)
        found: Codes = np.empty((width + len(values), len(places)), np.int64)
        for source, row in zip(self.kept.tolist(), found, strict=False):
            both[source].take(places, out=row, mode="clip")
        values.take(places, axis=1, out=found[width:], mode="clip")
        return found


def _ahead(before: Ints, groups: list[int] | None, totals: Ints, sizes: Ints, wanted: tuple[Ints, Ints]) -> Ahead:
    """Return where each of the cuts that have rows begins, and what there is of its partition beside it."""
    here = sizes.nonzero()[0]
    of_rows, of_all, given, low, high = (some.take(here).tolist() for some in (before, totals, sizes, *wanted))
    of_groups = [0] * len(here) if groups is None else np.tile(groups, 2).take(here).tolist()
    begins = sizes.cumsum() - sizes
    starts, nothing = begins.take(here), _nothing(len(here))
    lengths = np.stack((wanted[0] - begins, wanted[1] - wanted[0], begins + sizes - wanted[1]), axis=1).ravel()
    marks = np.tile(np.array([False, True, False]), len(sizes)).repeat(lengths)
    asked = list(zip(low, high, strict=True))
    return Ahead(starts, of_rows, of_groups, of_all, given, asked, marks, nothing, nothing)


def _nothing(count: int) -> Callable[[Digest], list[Any]]:
    """Return what so many times says what no rows come to: nobody asks, where frames have bounds."""
    return lambda wanted: [together(wanted, ())] * count


def _with_copies(rows: Codes, gone: int) -> Bools:
    """Return which of some rows, those that go first, may be equal to others: all that some equal neighbours have."""
    equal = (rows[:, 1:] == rows[:, :-1]).all(axis=0)
    equal[gone - 1 : gone] = False
    found = np.ones(rows.shape[1], np.bool_)
    for row, some in zip(rows, rows[:, :-1][:, equal], strict=True):
        known = np.unique(some)
        found &= known.take(known.searchsorted(row), mode="clip") == row
    return found
