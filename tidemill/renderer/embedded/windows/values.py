"""The value in the first, the last or the nth row of the frame."""

from __future__ import annotations

import numpy as np

from tidemill.expressions.windows.bound import ValueCall
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints
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
    result, found = np.full(len(rows), NULL), np.zeros(len(rows), np.bool_)
    for start, end in parts if len(codes) else ():
        inside = (rest >= 0) & (rest < end - start)
        result = np.where(inside, codes.take(start + rest, mode="clip"), result)
        found |= inside
        rest = rest - (end - start)
    return result if call.function == "nth_value" else _with_ends(rows, call, result, found)


def _with_ends(rows: Partitions, call: ValueCall, result: Ints, found: Bools) -> Ints:
    """Return first or last values, some of which were found, of frames that go on to rows that are not here."""
    of_first = call.function == "first_value"
    wanted = Digest(("first" if of_first else "last") + " known" * call.ignore_nulls, call.column)
    for behind, endless in ((False, call.frame.start is None), (True, call.frame.end is None)):
        beyond = rows.at_end(wanted, behind=behind) if endless else None
        if beyond is not None:
            values, there = beyond
            decides = behind != of_first  # over what is here
            result = np.where(there if decides else there & ~found, values, result)
            found = found | there
    return result


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
