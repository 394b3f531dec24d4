"""The value in the first, the last or the nth row of the frame."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.windows.bound import ValueCall
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints
from tidemill.renderer.embedded.windows.digests import Digest
from tidemill.renderer.embedded.windows.frames import frame_parts
from tidemill.renderer.embedded.windows.partitions import Part, Partitions, prefix_counts
from tidemill.renderer.embedded.windows.rankings import at_least_one

__all__ = ["value_in_frame"]


class _End(NamedTuple):
    """Values of the rows that are not here on one side, which all frames have."""

    codes: Codes
    """For each partition the first ones, or the last."""
    counts: Ints
    """How many these are."""

    def at(self, rows: Partitions, places: Ints) -> tuple[Ints, Bools]:
        """Return for each row the value at one of the places, NULL where there is none, and whether there is one."""
        counts = self.counts.repeat(rows.sizes)
        some = (places >= 0) & (places < counts)
        return np.where(some, self.codes[rows.number, np.where(some, places, 0)], NULL), some


def value_in_frame(rows: Partitions, call: ValueCall) -> Ints:
    """Return the codes of the value in one row of the frame at each place, NULL where the frame has no such row."""
    codes, parts = rows.codes(call.column), frame_parts(rows, call.frame)
    known = rows.known(call.column) if call.ignore_nulls else None
    if known is not None:  # rows without a value do not count: so number those that have one
        before = prefix_counts(known)
        codes, parts = codes[known], [(before.take(start), before.take(end)) for start, end in parts]
    ends, sizes = _ends(rows, call), np.sum([end - start for start, end in parts], axis=0)
    if call.function == "last_value":
        return _last(rows, ends, *_at(codes, parts, sizes - 1))
    rest = _rank(call, rows)
    if ends is None:
        return _at(codes, parts, rest)[0]
    in_front, behind = ends
    result, _ = in_front.at(rows, rest)
    rest = rest - in_front.counts.repeat(rows.sizes)
    for found, some in (_at(codes, parts, rest), behind.at(rows, rest - sizes)):
        result = np.where(some, found, result)
    return result


def _at(codes: Ints, parts: list[Part], ranks: Ints) -> tuple[Ints, Bools]:
    """Return the code at a place in each frame, NULL where it has no such place, and whether it has."""
    result, found = np.full(len(ranks), NULL), np.zeros(len(ranks), np.bool_)
    for start, end in parts if len(codes) else ():
        inside = (ranks >= 0) & (ranks < end - start)
        result = np.where(inside, codes.take(start + ranks, mode="clip"), result)
        found |= inside
        ranks = ranks - (end - start)
    return result, found


def _last(rows: Partitions, ends: tuple[_End, _End] | None, result: Ints, found: Bools) -> Ints:
    if ends is None:
        return result
    places = np.zeros(len(rows), np.int64)
    (in_front, some_in_front), (behind, some_behind) = (end.at(rows, places) for end in ends)
    return np.where(some_behind, behind, np.where(some_in_front & ~found, in_front, result))


def _ends(rows: Partitions, call: ValueCall) -> tuple[_End, _End] | None:
    """Return the values before the rows here and behind them, where frames have all of these."""
    n = call.n.value if isinstance(call.n, BoundLiteral) else 1
    kind = ("last" if call.function == "last_value" else "first") + " known" * call.ignore_nulls
    ends = rows.at_ends(call.frame, Digest(kind, call.column, n or 1))
    return None if ends is None else (_table(ends[0]), _table(ends[1]))


def _table(values: list[tuple[int, ...]]) -> _End:
    counts = np.array([len(some) for some in values], np.int64)
    codes = np.full((len(values), max(int(counts.max()), 1)), NULL)
    for row, some in zip(codes, values, strict=True):
        row[: len(some)] = some
    return _End(codes, counts)


def _rank(call: ValueCall, rows: Partitions) -> Ints:
    """Return how many of the frame's rows are before the one that is asked for; negative where there is none."""
    if call.function == "first_value":
        return np.zeros(len(rows), np.int64)
    assert call.n is not None
    n = rows.argument(call.n)
    ranks: Ints = np.broadcast_to(np.where(at_least_one(n), n - 1, -1), len(rows))
    return ranks
