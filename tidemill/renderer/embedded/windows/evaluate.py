"""The values of window calls at positions of sorted rows: ranks, offsets, and values in frames; aggregates are beside.

The same code evaluates partitions computed whole and excerpts of large ones, at the positions that are to be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, CallError, OffsetCall, RankingCall, ValueCall, Windows
from tidemill.expressions.windows.functions import BELOW_ONE
from tidemill.renderer.embedded.kernels.codec import Interner, float_codes
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints
from tidemill.renderer.embedded.windows.aggregates import aggregate
from tidemill.renderer.embedded.windows.frame import Part, Partitions, RefusedError, frame_parts, prefix_counts
from tidemill.renderer.embedded.windows.ordering import GivenRows, chunks, in_order
from tidemill.renderer.embedded.windows.summaries import Summary

_FARTHEST: Final = 1 << 62
"""From whichever row, what is so far away is beyond all."""


def recompute(windows: Windows, types: Sequence[DType], given: GivenRows, interner: Interner) -> tuple[Ints, Codes]:
    """Return each row of some partitions, as often as its count says, and the calls' values for it.

    Of the rows' columns the types are given. What is returned, in the windows' order, is which of the rows it is, and
    the codes of each call's values. `CallError` has the position among the rows given.
    """
    ordered = in_order(windows, types, given, interner)
    values = np.empty((len(windows.calls), len(ordered.source)), np.int64)
    done = 0
    for chunk in chunks(ordered):
        rows = Partitions(windows, types, given.codes, interner, chunk)
        call_values(rows, values[:, done : done + len(rows)])
        done += len(rows)
    return ordered.source, values


def call_values(rows: Partitions, values: Codes) -> None:
    """Write the codes of each call's value at each position; `CallError` has the position among the rows given."""
    for number, call in enumerate(rows.windows.calls):
        try:
            values[number] = _CALLS[type(call)](rows, call)
        except RefusedError as refused:
            raise CallError(number, int(rows.source[refused.position]), refused.reason) from None


# -- ranks -------------------------------------------------------------------------------------------------------------


def _ranking(rows: Partitions, call: RankingCall) -> Ints:
    """Return the codes of a ranking function at each position."""
    if call.buckets is not None:
        return _ntile(rows, rows.argument(call.buckets))
    return _RANKINGS[call.function](rows)


def _row_number(rows: Partitions) -> Ints:
    return rows.positions - (rows.origin - 1)


def _rank(rows: Partitions) -> Ints:
    return rows.peer_first - (rows.origin - 1)


def _dense_rank(rows: Partitions) -> Ints:
    return rows.group - (rows.first_group - 1)


def _percent_rank(rows: Partitions) -> Ints:
    return float_codes((rows.peer_first - rows.origin) / np.maximum(rows.totals - 1, 1))


def _cume_dist(rows: Partitions) -> Ints:
    return float_codes((rows.peer_end - rows.origin) / rows.totals)


_RANKINGS: Final[dict[str, Callable[[Partitions], Ints]]] = {
    "row_number": _row_number, "rank": _rank, "dense_rank": _dense_rank, "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
}  # fmt: skip


def _ntile(rows: Partitions, buckets: Ints) -> Ints:
    non_null = _at_least_one(buckets)
    size, larger = np.divmod(rows.totals, np.where(non_null, buckets, 1))
    position = rows.positions - rows.origin
    in_larger = larger * (size + 1)
    after = larger + (position - in_larger) // np.maximum(size, 1)
    return np.where(non_null, np.where(position < in_larger, position // (size + 1), after) + 1, NULL)


def _at_least_one(codes: Ints) -> Ints:
    """Return where numbers are not NULL; `RefusedError` where one is below 1."""
    non_null: Ints = codes != NULL
    below = non_null & (codes < 1)
    if below.any():
        position = int(below.argmax())
        raise RefusedError(position, f"{codes[position]}: {BELOW_ONE}")
    return non_null


# -- lag and lead ------------------------------------------------------------------------------------------------------


def _value_at_offset(rows: Partitions, call: OffsetCall) -> Ints:
    """Return the codes of the value in another row of the partition, or of the default, at each position."""
    codes, default = rows.codes(call.column), rows.argument(call.default)
    if isinstance(call.offset, BoundLiteral) and call.offset.value is not None and not call.ignore_nulls:
        far = min(max(call.offset.value, -len(rows)), len(rows)) * (1 if call.function == "lead" else -1)
        positions = rows.positions + far
        inside = positions >= rows.first if far < 0 else positions < rows.end
        return np.where(inside, codes.take(positions, mode="clip"), default)
    offsets = rows.argument(call.offset)
    far = np.minimum(np.maximum(offsets, -_FARTHEST), _FARTHEST)
    distance = far if call.function == "lead" else -far
    if call.ignore_nulls and (rows.excerpts is not None or rows.non_null(call.column) is not None):
        found, inside = _value_counted(rows, call, codes, distance)
    else:
        positions = rows.positions + distance
        inside = (positions >= rows.first) & (positions < rows.end)
        found = codes.take(positions, mode="clip")
    result = np.where(inside, found, default)
    return np.where(offsets == NULL, NULL, result) if (offsets == NULL).any() else result


def _value_counted(rows: Partitions, call: OffsetCall, codes: Codes, distance: Ints) -> tuple[Ints, Bools]:
    """Return the value ``distance`` values away from each row, and whether there is one; at 0, the row's own."""
    non_null = codes != NULL
    before = prefix_counts(non_null)
    first = before.take(rows.first)
    # Values are counted from the first one at or after the row, and those before it from there back.
    ranks = np.where(distance > 0, before[1:] - 1, before[:-1]) + distance - first
    counts = before.take(rows.end) - first
    inside = (ranks >= 0) & (ranks < counts)
    found = codes.compress(non_null).take(ranks + first, mode="clip") if before[-1] else codes
    if rows.excerpts is not None:
        most = max(abs(distance.item()), 1)
        if distance.item() < 0:
            end = _table(rows.excerpts.before(Summary("last non-null", call.column, most)))
            value, some = end.at(rows, ranks + end.counts.repeat(rows.sizes))
        else:
            end = _table(rows.excerpts.after(Summary("first non-null", call.column, most)))
            value, some = end.at(rows, ranks - counts)
        found, inside = np.where(some, value, found), inside | some
    itself = distance == 0
    return np.where(itself, codes, found), inside | itself


# -- values in frames --------------------------------------------------------------------------------------------------


class _End(NamedTuple):
    """Values of the rows outside of the excerpt on one side, all of which every frame contains."""

    codes: Codes
    """For each partition the first ones, or the last."""
    counts: Ints
    """How many these are."""

    def at(self, rows: Partitions, positions: Ints) -> tuple[Ints, Bools]:
        """Return for each row the value at one of the positions, NULL where there is none, and whether there is one."""
        counts = self.counts.repeat(rows.sizes)
        some = (positions >= 0) & (positions < counts)
        return np.where(some, self.codes[rows.number, np.where(some, positions, 0)], NULL), some


def _value_in_frame(rows: Partitions, call: ValueCall) -> Ints:
    """Return the codes of the value in one row of the frame at each position, NULL where the frame has no such row."""
    codes, parts = rows.codes(call.column), frame_parts(rows, call.frame)
    non_null = rows.non_null(call.column) if call.ignore_nulls else None
    if non_null is not None:  # rows without a value do not count: so number those that have one
        before = prefix_counts(non_null)
        codes, parts = codes[non_null], [(before.take(start), before.take(end)) for start, end in parts]
    ends, sizes = _ends(rows, call), np.sum([end - start for start, end in parts], axis=0)
    if call.function == "last_value":
        return _last(rows, ends, *_at(codes, parts, sizes - 1))
    rest = _rank_in_frame(call, rows)
    if ends is None:
        return _at(codes, parts, rest)[0]
    before_all, after_all = ends
    result, _ = before_all.at(rows, rest)
    rest = rest - before_all.counts.repeat(rows.sizes)
    for found, some in (_at(codes, parts, rest), after_all.at(rows, rest - sizes)):
        result = np.where(some, found, result)
    return result


def _at(codes: Ints, parts: list[Part], ranks: Ints) -> tuple[Ints, Bools]:
    """Return the code at a position in each frame, NULL where it has no such position, and whether it has."""
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
    positions = np.zeros(len(rows), np.int64)
    (before, some_before), (after, some_after) = (end.at(rows, positions) for end in ends)
    return np.where(some_after, after, np.where(some_before & ~found, before, result))


def _ends(rows: Partitions, call: ValueCall) -> tuple[_End, _End] | None:
    """Return the values before the rows here and after them, where frames have all of these."""
    n = call.n.value if isinstance(call.n, BoundLiteral) else 1
    kind = ("last" if call.function == "last_value" else "first") + " non-null" * call.ignore_nulls
    ends = rows.at_ends(call.frame, Summary(kind, call.column, n or 1))
    return None if ends is None else (_table(ends[0]), _table(ends[1]))


def _table(values: list[tuple[int, ...]]) -> _End:
    counts = np.array([len(some) for some in values], np.int64)
    codes = np.full((len(values), max(int(counts.max()), 1)), NULL)
    for row, some in zip(codes, values, strict=True):
        row[: len(some)] = some
    return _End(codes, counts)


def _rank_in_frame(call: ValueCall, rows: Partitions) -> Ints:
    """Return how many of the frame's rows are before the one that is asked for; negative where there is none."""
    if call.function == "first_value":
        return np.zeros(len(rows), np.int64)
    assert call.n is not None
    n = rows.argument(call.n)
    ranks: Ints = np.broadcast_to(np.where(_at_least_one(n), n - 1, -1), len(rows))
    return ranks


_CALLS: Final[dict[type, Callable[[Partitions, Any], Ints]]] = {
    RankingCall: _ranking, OffsetCall: _value_at_offset, ValueCall: _value_in_frame, AggregateCall: aggregate,
}  # fmt: skip
