"""Which rows of partitions are closed, and since when; and which of them frames to come still look at."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tidemill.expressions.windows.closing import Reach
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints
from tidemill.renderer.embedded.windows.ordering import OrderedRows
from tidemill.renderer.embedded.windows.partitions import run_lengths

__all__ = ["NEVER", "Arrivals", "closed_at", "still_needed"]

NEVER: Final = 2**63 - 1
"""The time of what has not come."""


class Arrivals(NamedTuple):
    """Rows in their order, and when they came."""

    ordered: OrderedRows
    sizes: Ints
    """How many rows each partition has."""
    released: Ints
    """The time at which each row was released; -1 for before the step."""
    values: Ints
    """The codes of the rows' values in the order."""


def closed_at(rows: Arrivals, reach: Reach, times: Ints, limits: Ints | None) -> Ints:
    """Return when each row's frames were closed: -1 for before the step, `NEVER` where they are not.

    ``limits`` say, where it matters, below what values of the order rows are far enough behind the watermark since
    each of the times.
    """
    found = rows.released.copy()
    if reach.rows_after:
        end = (rows.ordered.starts + rows.sizes).repeat(rows.sizes)
        _wait_for(found, rows.released, np.arange(len(found)) + min(reach.rows_after, len(found)), end)
    if reach.groups_after:
        starts = rows.ordered.peer_starts
        last = np.append(starts.searchsorted(rows.ordered.starts)[1:], len(starts)).repeat(rows.sizes)
        group = np.arange(len(starts)).repeat(run_lengths(starts, len(found)))
        wanted = group + min(reach.groups_after, len(starts))
        first = np.append(starts, len(found)).take(np.minimum(wanted, len(starts)))
        first[wanted >= last] = len(found)
        _wait_for(found, rows.released, first, np.full(len(found), len(found)))
    if limits is not None:
        since = limits.searchsorted(rows.values, "right")
        np.maximum(found, np.append(times, NEVER).take(since), out=found)
    return found


def _wait_for(found: Ints, released: Ints, places: Ints, ends: Ints) -> None:
    """Have rows closed no sooner than what is at these places came, if it is before the ends."""
    here = places < ends
    waited = np.full(len(found), NEVER)
    waited[here] = released.take(places[here])
    np.maximum(found, waited, out=found)


def still_needed(rows: Arrivals, reach: Reach, is_closed: Bools, watermark: int) -> Bools:
    """Return which rows are not closed, or looked at by the frames of some that are not, or that are to come."""
    sizes, starts, peers = rows.sizes, rows.ordered.starts, rows.ordered.peer_starts
    n = len(is_closed)
    closed = np.add.reduceat(is_closed, starts, dtype=np.int64)
    first = starts + closed  # the first row that is not closed, which may be the next that comes
    ends = np.concatenate((peers, [n]))
    group = ends.searchsorted(first, "right") - 1  # its peer group, which may be the next as well
    least = ends.take(np.maximum(group - reach.groups_before, 0))
    needed: Bools = np.arange(n) >= np.minimum(first - reach.rows_before, least).repeat(sizes)
    if reach.distance_before:
        values = np.where(closed < sizes, rows.values.take(np.minimum(first, n - 1)), watermark)
        least = np.maximum(values, NULL + reach.distance_before) - reach.distance_before
        needed |= rows.values >= least.repeat(sizes)
    if reach.ranks:  # whole peer groups are forgotten
        kept = np.logical_or.reduceat(needed, peers)
        needed = kept.repeat(run_lengths(peers, n))
    return needed
