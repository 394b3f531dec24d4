"""Kernels on the time rows of updates: which are beyond a frontier, and compaction to one."""

from __future__ import annotations

from functools import reduce
from typing import Final

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.embedded.kernels.memory import repeated
from tidemill.renderer.embedded.kernels.sorting import PART, parts
from tidemill.renderer.embedded.kernels.updates import Bools, Ints, Times, UpdateArray

_FEW: Final = 8
"""Times that are compared sooner in Python."""


def beyond(times: Times, frontier: Antichain) -> Bools:
    """Return which columns of user times are beyond a frontier."""
    if len(frontier.elements) == 1 == len(times):  # the usual case
        only: Bools = times[0] >= frontier.elements[0][0]
        return only
    mask = np.zeros(times.shape[1], np.bool_)
    for f in frontier.elements:
        mask |= (times >= np.array(f)[:, None]).all(axis=0) if len(f) > 1 else times[0] >= f[0]
    return mask


def alike(rows: Times | list[Ints]) -> bool:
    """Return whether all columns of user times, or of other numbers, are the same.

    >>> alike(np.array([[7, 7, 7], [0, 0, 0]]))
    True
    """
    return all(_has_one_value(row) for row in rows)


def _has_one_value(row: Ints) -> bool:
    n = len(row)
    if row.strides[0] == 0:
        return True
    if n <= PART:
        return not np.count_nonzero(row != row[:1])
    return bool(row[0] == row[-1]) and not any(np.count_nonzero(row[part] != row[0]) for part in parts(n))


def all_up_to(times: Times, time: Times) -> bool:
    """Return whether all columns of user times are at or before one, given as a column."""
    if len(times) == 1:  # the usual case
        latest = times[0].tolist() if times.shape[1] <= _FEW else (int(np.maximum.reduce(times[0])),)
        return max(latest, default=-1) <= int(time[0, 0])
    return bool((times <= time).all())


def advance(updates: UpdateArray, first: int, users: int, frontier: Antichain) -> UpdateArray:
    """Return updates with their user times, rows ``first`` on, replaced by their representatives for a frontier."""
    result = updates.copy()
    advance_times(result[first : first + users], frontier)
    return result


def advance_times(times: Times, frontier: Antichain) -> None:
    """Replace user times, in place, by their representatives for a frontier.

    The same as `Antichain.advance`, on all columns at once: the meet over f of ``t v f``.
    """
    if len(frontier.elements) == 1 == len(times) and times.shape[1]:
        (least,) = frontier.elements[0][:1]
        if times.min() < least:
            np.maximum(times, least, out=times)
    elif frontier.elements:
        times[:] = reduce(np.minimum, [np.maximum(times, np.array(f)[:, None]) for f in frontier.elements])


def advanced_rows(times: list[Ints], frontier: Antichain) -> list[Ints]:
    """Like `advance_times`, for user times given row by row; rows that stay as they are, are not copied."""
    if len(frontier.elements) == 1 == len(times) and len(times[0]):
        (least,), (row,) = frontier.elements[0][:1], times
        if row.strides[0] == 0:  # one time, over and over, which takes no memory
            return [repeated(max(row[0], least), len(row))]
        return [np.maximum(row, least)] if row.min() < least else times
    if not frontier.elements:
        return times
    advanced = np.stack(times)
    advance_times(advanced, frontier)
    return list(advanced)
