"""Sliding windows over a few rows that come, row by row in Python: there a call of NumPy's costs more than its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.updates import UpdateArray, consolidated, largest
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.windows.few_rows import TOO_LARGE, FewRows, FrameOfFew, calls_of_few

__all__ = ["FEW", "Row", "RowsByKey", "Slid", "SlidingRows", "few_updates"]

FEW: Final = 32
"""Up to so many rows that come, Python is faster."""

Row: TypeAlias = tuple[int, ...]


class RowsByKey(NamedTuple):
    """Rows that are each there once, by their keys, and how many these are; never changed, but replaced.

    After its codes a row has -1, as the time of what was there before a step.
    """

    rows: Mapping[Row, Sequence[Row]]
    size: int

    @staticmethod
    def of(rows: UpdateArray, keys: int) -> RowsByKey | None:
        """Return rows that are given with their counts, if each is there once; else None."""
        if rows.shape[1] and largest(rows[-1]) > 1:
            return None
        found: dict[Row, list[Row]] = {}
        for row in map(tuple, rows[:-1].T.tolist()):
            found.setdefault(row[:keys], []).append((*row, -1))
        return RowsByKey(found, rows.shape[1])

    def updates(self, width: int) -> UpdateArray:
        """Return the rows, which are so many codes wide, with their counts."""
        rows = [(*row[:-1], 1) for some in self.rows.values() for row in some]
        return consolidated(np.array(rows, np.int64).reshape(-1, width + 1).T.copy())

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        return sum(len(key) + len(row) for key, some in self.rows.items() for row in some) * 8


class Slid(NamedTuple):
    """What comes of some new rows."""

    given: list[Row]
    """What goes out: rows as far as they are kept, their values, times and counts."""
    changes: list[Row]
    """What rows come and go, with times and counts."""
    at_hand: RowsByKey


class SlidingRows:
    """Calls over so many rows before each row, which are closed as soon as it comes; of each key the last are kept."""

    def __init__(self, frames: Sequence[FrameOfFew], order: RowOrder, kept: Sequence[int], keys: int) -> None:
        self._frames = frames
        self._order = order
        self._kept = kept
        self._keys = keys
        self._before = max([0, *(-frame.low for frame in frames)])

    @staticmethod
    def of(windows: Windows, types: Sequence[DType], order: RowOrder, keys: int) -> SlidingRows | None:
        """Return what works the calls out; None where it cannot, for one of them."""
        frames = [
            call for call in calls_of_few(windows, types) or () if isinstance(call, FrameOfFew) and call.high <= 0
        ]
        return SlidingRows(frames, order, windows.kept(keys), keys) if len(frames) == len(windows.calls) else None

    def slide(self, new: UpdateArray, at_hand: RowsByKey) -> Slid | None:
        """Return what comes of new updates; None where these are not rows that come once, or a sum is too large."""
        come: dict[Row, list[Row]] = {}
        for *row, count in new.T.tolist():
            if count != 1:
                return None
            come.setdefault(tuple(row[: self._keys]), []).append(tuple(row))
        rows = dict(at_hand.rows)
        given: list[Row] = []
        changes: list[Row] = []
        for key, some in come.items():
            old = rows.get(key, ())
            ordered = self._order.in_order([*old, *some])
            if not self._give(ordered, given):
                return None
            split = max(len(ordered) - self._before, 0)
            changes += [(*row[:-1], 0, -1) for row in ordered[:split] if row[-1] < 0]  # whatever their time was
            left = rows[key] = []
            for row in ordered[split:]:
                if row[-1] < 0:
                    left.append(row)
                else:
                    changes.append((*row, 1))
                    left.append((*row[:-1], -1))
            if not left:
                del rows[key]
        return Slid(given, changes, RowsByKey(rows, at_hand.size + sum([change[-1] for change in changes])))

    def _give(self, ordered: Sequence[Row], given: list[Row]) -> bool:
        """Add to what is given the new ones among a key's rows, with their values; return whether there are some."""
        few = FewRows(ordered, [place for place, row in enumerate(ordered) if row[-1] >= 0])
        values = [frame.codes(few) for frame in self._frames]
        if any(TOO_LARGE in codes for codes in values):
            return False
        for place, *codes in zip(few.wanted, *values, strict=True):
            row = ordered[place]
            given.append((*[row[column] for column in self._kept], *codes, row[-1], 1))
        return True


def few_updates(updates: Sequence[Row]) -> UpdateArray:
    """Return a few updates as a matrix, consolidated."""
    found: UpdateArray = np.array(list(zip(*updates, strict=True)), np.int64)
    return found if len(set(updates)) == len(updates) else consolidated(found)
