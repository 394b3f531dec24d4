"""Frames of rows: for each place, where its frame begins and ends, in parts where rows are left out of it."""

from __future__ import annotations

from functools import lru_cache

import attrs
import numpy as np

from tidemill.expressions.intervals import Interval
from tidemill.expressions.windows.frames import Exclusion, Frame, Offset
from tidemill.renderer.embedded.kernels.updates import Ints
from tidemill.renderer.embedded.windows.partitions import Part, Partitions, run_lengths
from tidemill.renderer.embedded.windows.ranges import range_bound

__all__ = ["frame_bounds", "frame_parts", "has_its_row", "hole", "is_around", "over_groups"]


def frame_bounds(rows: Partitions, frame: Frame) -> Part:
    """Return where each row's frame begins and ends, whatever it leaves out; where it is empty, these are equal."""
    start = rows.first if frame.start is None else _bound(rows, frame, frame.start, end=False)
    end = rows.end if frame.end is None else _bound(rows, frame, frame.end, end=True)
    return start, end if is_around(frame) else np.maximum(start, end)


@lru_cache
def has_its_row(frame: Frame) -> bool:
    """Return whether every row is in its own frame, for all that can be told without a look at the rows."""
    by_number = frame.mode == "range" and any(isinstance(bound, int) and bound for bound in (frame.start, frame.end))
    return frame.exclusion == "no others" and not by_number and is_around(frame)


@lru_cache
def is_around(frame: Frame) -> bool:
    """Return whether a frame's start is never after its end, for all that can be known of it."""
    start, end = (bound.amount if isinstance(bound, Interval) else bound or 0 for bound in (frame.start, frame.end))
    return isinstance(start, int) and isinstance(end, int) and start <= 0 <= end


def _bound(rows: Partitions, frame: Frame, offset: Offset, *, end: bool) -> Ints:
    if frame.mode == "range" and (isinstance(offset, Interval) or offset != 0):
        return range_bound(rows, offset, end=end)
    assert isinstance(offset, int)
    if frame.mode == "rows":
        far = min(max(offset, -len(rows)), len(rows))
        places = rows.places + (far + end)
        if far > 0:
            places = np.minimum(places, rows.end)
        return np.maximum(places, rows.first) if far + end < 0 else places
    if offset == 0:
        return rows.peer_end if end else rows.peer_first
    groups = len(rows.peer_starts)
    sizes = run_lengths(rows.groups_before, groups)
    least = rows.groups_before.repeat(sizes)
    most = (rows.groups_before + sizes).repeat(sizes)
    wanted = np.arange(groups) + (min(max(offset, -groups), groups) + end)
    starts = np.append(rows.peer_starts, len(rows))
    found: Ints = starts.take(np.minimum(np.maximum(wanted, least), most)).repeat(rows.peer_sizes)
    return found


def hole(rows: Partitions, frame: Frame) -> Part:
    """Return what a frame leaves out around each row: the row itself, or all its peers."""
    if frame.exclusion == "current row":
        return rows.places, rows.places + 1
    return rows.peer_first, rows.peer_end


def over_groups(rows: Partitions, frame: Frame) -> Frame | None:
    """Return the frame that says of peer groups, each taken as a row, which are in the frames of their rows.

    None where frames are not made of whole groups, or groups are hardly fewer than rows. ``exclude ties`` leaves out
    the whole group: the row itself is to be put back in.
    """
    found = _over_groups(frame)
    return None if found is None or 2 * len(rows.peer_starts) > len(rows) else found


@lru_cache
def _over_groups(frame: Frame) -> Frame | None:
    whole = frame.mode == "groups" or (frame.mode == "range" and not frame.offsets)
    if not whole or frame.exclusion == "current row":
        return None
    exclusion: Exclusion = "no others" if frame.exclusion == "no others" else "current row"
    return attrs.evolve(frame, mode="rows", exclusion=exclusion)


def frame_parts(rows: Partitions, frame: Frame) -> list[Part]:
    """Return each row's frame as runs of places one after another, which may be empty."""
    found = rows.frames.get(frame)
    if found is None:
        found = rows.frames[frame] = _parts(rows, frame)
    return found


def _parts(rows: Partitions, frame: Frame) -> list[Part]:
    start, end = frame_bounds(rows, frame)
    if frame.exclusion == "no others":
        return [(start, end)]
    low, high = hole(rows, frame)
    parts = [(start, np.maximum(np.minimum(low, end), start))]
    if frame.exclusion == "ties":
        inside = (start <= rows.places) & (rows.places < end)
        parts.append((rows.places, rows.places + inside))
    parts.append((np.minimum(np.maximum(high, start), end), end))
    return parts
