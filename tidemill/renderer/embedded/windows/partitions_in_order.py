"""Rows of many partitions, in any order, as partitions in their order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Codes, Ints, largest
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.windows import ordered_partition
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["partitions_in_order"]


def partitions_in_order(
    codes: Codes, counts: Ints, number: Ints, order: RowOrder, peers: int
) -> Iterator[tuple[int, OrderedPartition]]:
    """Iterate over the partitions of rows in any order, each as often as its count says, by their numbers."""
    chunk = ordered_partition.CHUNK
    source = order.sorted(list(codes), number).order
    codes = np.ascontiguousarray(codes)  # else all of it would be copied for each piece that is taken
    once = largest(counts) == 1
    sizes = np.bincount(number, None if once else counts).astype(np.int64).tolist()
    if not once:
        source = source.repeat(counts.take(source))
    start = 0
    for owner, size in enumerate(sizes):
        if size:
            end = start + size
            pieces = (codes.take(source[at : min(at + chunk, end)], axis=1) for at in range(start, end, chunk))
            yield owner, OrderedPartition(pieces, order, peers)
            start = end
