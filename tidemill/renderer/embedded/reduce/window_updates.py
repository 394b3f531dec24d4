"""What changes of partitions at one time, by their numbers, and partitions computed whole for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import attrs
import numpy as np

from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints, UpdateArray
from tidemill.renderer.embedded.windows.large_partitions import Key
from tidemill.renderer.embedded.windows.ordering import GivenRows

__all__ = ["ComputedWhole", "NewUpdates", "added_up", "by_time", "compressed"]


@attrs.define
class NewUpdates:
    """New updates of one time, of partitions by their numbers."""

    names: list[Key]
    """The keys of the partitions, as tuples."""
    keys: Codes
    owner: Ints
    """The number of each update's partition."""
    updates: UpdateArray
    time: int

    def mask(self, numbers: Collection[int]) -> Bools:
        """Return which updates are of some of the partitions."""
        wanted = np.zeros(len(self.names), np.bool_)
        wanted[list(numbers)] = True
        return wanted.take(self.owner)


class ComputedWhole(NamedTuple):
    """Partitions, by numbers, computed whole."""

    rows: GivenRows
    """The rows before, and then those after, with other numbers."""
    old: int
    """How many are those before."""
    source: Ints
    """In the windows' order, which of the rows has the values."""
    values: Codes
    after: GivenRows
    """The rows after."""
    stored_of: Ints
    """The numbers of the partitions of what the spine had of them."""
    stored: UpdateArray

    def of(self, numbers: Collection[int]) -> GivenRows:
        """Return the rows after of some of the partitions."""
        return compressed(self.after, np.isin(self.after.partition, list(numbers)))


def by_time(updates: UpdateArray, row: int) -> list[UpdateArray]:
    """Return updates by their times, which a row has, the latest first."""
    times = updates[row]
    if len(times) == 1 or (times == times[0]).all():
        return [updates]
    return [updates.compress(times == t, axis=1) for t in np.unique(times)[::-1]]


def added_up(owner: Ints, counts: Ints, most: int) -> list[int]:
    """Return the sums of the counts of each owner."""
    sums: list[int] = (counts if len(owner) == most == 1 else np.bincount(owner, counts, minlength=most)).tolist()
    return sums


def compressed(rows: GivenRows, mask: Bools) -> GivenRows:
    """Return the rows that are marked."""
    if mask.all():
        return rows
    return GivenRows(rows.partition.compress(mask), rows.codes.compress(mask, axis=1), rows.counts.compress(mask))
