"""The least or greatest of so many rows around each, where edits are far apart: running extremes out from each edit.

Every frame that changes has the edited row, or would have it, and so is a stretch up to it and one on from it. What
these come to is known for all such frames at once: of the row itself, the rows in front of it, and those behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, Windows
from tidemill.renderer.embedded.kernels.codec import has_codes_in_order
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints
from tidemill.renderer.embedded.windows.edits import Changed, ManyEdits
from tidemill.renderer.embedded.windows.many_places import rows_at
from tidemill.renderer.embedded.windows.many_runs import NEAR
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["LoneExtremes"]

BLOCK: Final = 1 << 15
"""Rows that are looked at at a time, or those around one edit."""
FEW: Final = 32
"""Fewer edits that are far from others are not worth a look of their own."""


class _Extreme(NamedTuple):
    column: int
    sign: int
    """By which codes are multiplied, so that the greatest of them is asked for, and NULL is the least."""


@attrs.frozen
class LoneExtremes:
    """Calls that are all of extremes of the same ROWS around each row, itself among them."""

    calls: tuple[_Extreme, ...]
    before: int
    after: int
    kept: Ints
    """Which of a row's codes come out again."""

    @staticmethod
    def of(windows: Windows, types: Sequence[DType], kept: Ints) -> LoneExtremes | None:
        """Return what works all calls out, of rows of which some codes come out again; None where it cannot."""
        calls = [call for call in windows.calls if isinstance(call, AggregateCall) and call.function in ("min", "max")]
        frames = {call.frame for call in calls}
        if not calls or len(calls) < len(windows.calls) or len(frames) > 1:
            return None
        (frame,) = frames
        low, high = frame.start, frame.end
        if frame.mode != "rows" or frame.exclusion != "no others":
            return None
        if not isinstance(low, int) or not isinstance(high, int) or not low <= 0 <= high:
            return None
        found = []
        for call in calls:
            column = call.aggregate.column
            if column is None or not has_codes_in_order(types[column]):
                return None
            found.append(_Extreme(column, -1 if call.function == "min" else 1))
        return LoneExtremes(tuple(found), -low, high, kept)

    def changed(self, rows: OrderedPartition, edits: ManyEdits) -> tuple[list[Changed], ManyEdits]:
        """Return how rows change around edits that are far from others, and these others."""
        alone = self._are_alone(edits, len(rows))
        if np.count_nonzero(alone) < FEW:
            return [], edits
        found: list[Changed] = []
        for copies in (-1, 1):
            some = _some(edits, alone & (edits.copies == copies))
            for block in self._blocks(some):
                known, other = self._around(rows, block, int(copies < 0))
                found.append(Changed(known, other) if copies < 0 else Changed(other, known))
        return found, _some(edits, ~alone)

    @property
    def _far(self) -> int:
        """How far away from an edited row the frames of others go that have it."""
        return self.before + self.after

    def _are_alone(self, edits: ManyEdits, size: int) -> Bools:
        """Return which edits are of one row, far from the ends, and far from others: runs of these do not touch it."""
        places, far = edits.places, self._far
        found: Bools = (np.abs(edits.copies) == 1) & (places >= far) & (places + far < size)
        is_far = places[1:] - edits.ends[:-1] > far + NEAR
        found[1:] &= is_far
        found[:-1] &= is_far
        return found

    def _blocks(self, edits: ManyEdits) -> Iterator[ManyEdits]:
        """Iterate over edits, some at a time."""
        step = max(BLOCK // (2 * self._far + 1), 1)
        return (edits.part(at, at + step) for at in range(0, len(edits.places), step))

    def _around(self, rows: OrderedPartition, edits: ManyEdits, hole: int) -> tuple[Codes, Codes]:
        """Return rows around edits that differ, with their values: where the edited row is there, it too, and not.

        ``hole`` is 1 where that row lies among the others now, and 0 where it does not yet.
        """
        count, far, after = len(edits.places), self._far, self.after
        without: Codes = np.empty((len(self.calls), count, far), np.int64)
        with_it: Codes = np.empty((len(self.calls), count, far + 1), np.int64)
        for (column, sign), less, more in zip(self.calls, without, with_it, strict=True):
            front, behind = self._running(rows, edits.places, hole, column, sign)
            np.maximum(front[:, :-1], behind[:, 1:], out=less)
            np.maximum(front, behind, out=more)
            np.maximum(more, (edits.rows[column] * sign)[:, None], out=more)
        signs = np.array([sign for _, sign in self.calls])[:, None, None]
        with_it *= signs
        without *= signs
        comes = np.ones((count, far + 1), np.bool_)
        comes[:, :after] = (with_it[:, :, :after] != without[:, :, :after]).any(axis=0)
        comes[:, after + 1 :] = (with_it[:, :, after + 1 :] != without[:, :, after:]).any(axis=0)
        of_edit, at = comes.nonzero()
        is_own = at == after
        places = edits.places.take(of_edit) + (at - after)
        if not hole:
            places -= at > after
        others = rows_at(rows, places.compress(~is_own)).take(self.kept, axis=0)
        width = len(self.kept)
        found: Codes = np.empty((width + len(self.calls), len(at)), np.int64)
        found[:width, ~is_own], found[:width, is_own] = others, edits.rows.take(self.kept, axis=0)
        found[width:] = with_it[:, comes]
        differs = np.concatenate((comes[:, :after], comes[:, after + 1 :]), axis=1)
        return found, np.concatenate((others, without[:, differs]))

    def _running(self, rows: OrderedPartition, places: Ints, hole: int, column: int, sign: int) -> tuple[Codes, Codes]:
        """Return the greatest of rows in front of places, as many as frames may have, and fewer; and of those behind.

        The frame of a row has as many fewer of those in front as it has more of those behind.
        """
        far, size = self._far, 2 * self._far + hole
        codes, first = np.empty(len(places) * size, np.int64), places - self._far
        rows.column_spans(column, first, first + size, codes)
        codes *= sign
        numbers = codes.reshape(len(places), size)
        front, behind = np.full((2, len(places), far + 1), NULL)
        np.maximum.accumulate(numbers[:, :far][:, ::-1], axis=1, out=front[:, :-1][:, ::-1])
        np.maximum.accumulate(numbers[:, far + hole :], axis=1, out=behind[:, 1:])
        return front, behind


def _some(edits: ManyEdits, marks: Bools) -> ManyEdits:
    return ManyEdits(edits.places.compress(marks), edits.rows.compress(marks, axis=1), edits.copies.compress(marks))
