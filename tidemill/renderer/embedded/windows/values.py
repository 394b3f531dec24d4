"""The value in the first, the last or the nth row of the frame."""

from __future__ import annotations

import attrs
import numpy as np

from tidemill.expressions.windows.bound import ValueCall
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.digests import Digest
from tidemill.renderer.embedded.windows.frames import frame_parts
from tidemill.renderer.embedded.windows.partitions import Partitions, prefix_counts
from tidemill.renderer.embedded.windows.rankings import at_least_one

__all__ = ["value_in_frame"]


def value_in_frame(rows: Partitions, call: ValueCall) -> Ints:
    """Return the codes of the value in one row of the frame at each place, NULL where the frame has no such row."""
    codes, parts = rows.codes(call.column), frame_parts(rows, call.frame)
    known = rows.known(call.column) if call.ignore_nulls else None
    if known is not None:  # rows without a value do not count: so number those that have one
        before = prefix_counts(known)
        codes, parts = codes[known], [(before.take(start), before.take(end)) for start, end in parts]
    rest = _rank(call, rows, parts)
    result = np.full(len(rows), NULL)
    if not len(codes):
        return result
    for start, end in parts:
        inside = (rest >= 0) & (rest < end - start)
        result = np.where(inside, codes.take(start + rest, mode="clip"), result)
        rest = rest - (end - start)
    return _with_ends(rows, call, result)


def _with_ends(rows: Partitions, call: ValueCall, result: Ints) -> Ints:
    """Return values, of frames that go on to a partition's first or last row, which is not here, the value there."""
    end = {"first_value": call.frame.start, "last_value": call.frame.end}.get(call.function, 0)
    if end is not None or call.ignore_nulls:
        return result
    kind = call.function.removesuffix("_value")
    of_end = attrs.evolve(call.frame, end=0) if kind == "first" else attrs.evolve(call.frame, start=0)
    beyond, count = rows.beyond(of_end, Digest(kind, call.column)), rows.count_beyond(of_end)
    if beyond is None or count is None:
        return result
    return np.where(count > 0, np.array(beyond, np.int64).repeat(rows.sizes), result)


def _rank(call: ValueCall, rows: Partitions, parts: list[tuple[Ints, Ints]]) -> Ints:
    """Return how many of the frame's rows are before the one that is asked for; negative where there is none."""
    if call.function == "first_value":
        return np.zeros(len(rows), np.int64)
    if call.function == "last_value":
        sizes: Ints = np.sum([end - start for start, end in parts], axis=0)
        return sizes - 1
    assert call.n is not None
    n = rows.argument(call.n)
    ranks: Ints = np.where(at_least_one(n), n - 1, -1)
    return ranks
