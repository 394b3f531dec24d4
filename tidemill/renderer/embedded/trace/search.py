"""Search for hashes in batches: a few are searched for one by one, many in order, and no batch twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidemill.renderer.embedded.kernels.sorting import ascending, gathered
from tidemill.renderer.embedded.kernels.updates import Ints, UpdateArray, expand
from tidemill.renderer.embedded.trace.batch import Batch
from tidemill.renderer.embedded.trace.merging import View


class Hits(NamedTuple):
    """Where the hashes lie that a batch has: their numbers, each one's first place, and how often it is there."""

    batch: Batch
    hits: Ints
    low: Ints
    counts: Ints


def runs_in(batches: Sequence[Batch], hashes: Ints) -> list[Hits]:
    """Return where many hashes lie in each of the batches.

    Searching for sorted hashes is several times faster than for scattered ones; keys mostly come in order.
    """
    if not batches:
        return []
    if (hashes[1:] >= hashes[:-1]).all():
        return [Hits(batch, *batch.runs_of(hashes)) for batch in batches]
    order, hashes = ascending(hashes)
    found = [(batch, *batch.runs_of(hashes)) for batch in batches]
    return [Hits(batch, order.take(hits), low, counts) for batch, hits, low, counts in found]


def found_in(run: Hits) -> tuple[Ints, UpdateArray]:
    """Return the updates of a run, and the number of each one's hash."""
    batch, hits, low, counts = run
    if int(counts.sum()) == len(batch.hashes) and (low[1:] > low[:-1]).all():  # all there is, each of it once
        return hits.repeat(counts), batch.updates
    which, at = expand(low, counts)
    return hits.take(which), gathered(batch.array, at)


def find_in_tail(view: View, hashes: Ints, owners: list[Ints], found: list[UpdateArray]) -> None:
    """Add the updates in the tail whose keys have these hashes, and the number of each one's hash."""
    in_tail = view.tail.hashes[: view.tail_size]
    if len(hashes) == 1:
        (at,) = (in_tail == hashes[0]).nonzero()
        owner = np.zeros(len(at), np.int64)
    else:
        owner, at = (hashes[:, None] == in_tail).nonzero()
    if len(at):
        owners.append(owner)
        found.append(view.tail.array.take(at, axis=1))


def find_few(batches: Sequence[Batch], hashes: Ints, owners: list[Ints], found: list[UpdateArray]) -> None:
    """Add the updates in the batches whose keys have these few hashes, and the number of each one's hash."""
    sought = hashes.tolist()
    for batch in batches:
        in_batch = batch.hashes
        for number, low in enumerate(in_batch.searchsorted(hashes).tolist()):
            if low < len(in_batch) and in_batch.item(low) == sought[number]:
                high = int(in_batch.searchsorted(sought[number], "right"))
                owners.append(np.zeros(high - low, np.int64) if number == 0 else np.full(high - low, number))
                found.append(batch.array[:, low:high])
