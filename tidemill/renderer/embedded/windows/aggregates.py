"""Aggregates of each row's frame: sums are differences of prefix sums, extremes are looked up in a table of runs.

Whole numbers are added up as such, floats as whole numbers of some unit: so sums are exact, however far a prefix sum
goes round. Of frames that go on to an end of the partition, the summaries of the rows that are not here are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from tidemill.boundary.exact_sums import Exact
from tidemill.boundary.list_columns import MOST_VALUES
from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.windows.bound import AggregateCall
from tidemill.expressions.windows.calls import ONCE_IS_ENOUGH
from tidemill.expressions.windows.frames import Frame
from tidemill.renderer.embedded.kernels.aggregate_values import (
    filled,
    mean_codes,
    or_null,
    quotients,
    room_of,
    spread_codes,
    value_codes,
)
from tidemill.renderer.embedded.kernels.codec import float_codes, float_values, is_long_decimal, order_ranks
from tidemill.renderer.embedded.kernels.long_decimals import values_of
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints, largest
from tidemill.renderer.embedded.windows.distinct import DistinctSums
from tidemill.renderer.embedded.windows.frame import (
    Part,
    Partitions,
    RefusedError,
    frame_parts,
    has_its_row,
    is_around,
    over_groups,
    prefix_counts,
)
from tidemill.renderer.embedded.windows.summaries import ALL, MANTISSA, Extreme, Summary, exact_floats

TRUE: Final = 1
"""The code of true."""
_LARGEST_POWER: Final = 1000


def aggregate(rows: Partitions, call: AggregateCall) -> Ints:
    """Return the codes of an aggregate of the frame at each position."""
    return _AGGREGATES[call.aggregate.function](rows, call)


def _count(rows: Partitions, call: AggregateCall) -> Ints:
    has_value = None if call.aggregate.column is None else rows.non_null(call.aggregate.column)
    beyond = _count_beyond(rows, call)
    if _is_of_distinct(call) or has_value is not None:
        marks = np.ones(len(rows), np.int64) if has_value is None else has_value.astype(np.int64)
        counts: Ints = _summation(rows, call).of(marks)
        return counts if beyond is None else counts + beyond
    lengths = [end - start for start, end in frame_parts(rows, call.frame)]
    lengths += [] if beyond is None else [beyond]
    return lengths[0] if len(lengths) == 1 else np.sum(lengths, axis=0)


def _count_beyond(rows: Partitions, call: AggregateCall) -> Ints | None:
    if call.aggregate.column is None:
        return rows.count_beyond(call.frame)
    counts = rows.beyond(call.frame, Summary("non-null", call.aggregate.column))
    return None if counts is None else np.array(counts, np.int64).repeat(rows.sizes)


def _some(rows: Partitions, call: AggregateCall) -> Bools | None:
    """Return where there is a value in the frame; None where that is everywhere."""
    if has_its_row(call.frame) and rows.non_null(_column(call)) is None:
        return None
    some: Bools = _count(rows, call) > 0
    return None if np.count_nonzero(some) == len(some) else some


def _is_of_distinct(call: AggregateCall) -> bool:
    return call.distinct and call.function not in ONCE_IS_ENOUGH


def _summation(rows: Partitions, call: AggregateCall) -> _FrameSums | DistinctSums:
    if _is_of_distinct(call):
        assert call.aggregate.column is not None
        return DistinctSums(rows, call.aggregate.column, call.frame)
    return _FrameSums(frame_parts(rows, call.frame))


def _added_up(rows: Partitions, call: AggregateCall) -> Ints:
    """Return sums, means, and whether any or all values are true."""
    function, given, output = call.aggregate.function, rows.types[_column(call)], call.output
    summed, some = _summation(rows, call), _some(rows, call)
    counts = None if function == "sum" else _count(rows, call)
    if counts is not None and rows.excerpts is not None:  # frames of rows that are only looked at may be found empty
        counts = np.maximum(counts, 1)
    if given.name == "float64":
        totals = _floats(rows, call, summed)
        return or_null(some, float_codes(totals)) if counts is None else mean_codes(totals, counts, some)
    total = _total(rows, call, summed, times=room_of(function, given, output))

    def refuse(beyond: Bools) -> None:
        position = rows.first_wanted(beyond)
        if position is not None:
            raise RefusedError(position, "overflow")

    return value_codes(function, total, counts, some, (given, output), rows.interner, refuse)


def _total(rows: Partitions, call: AggregateCall, summed: _FrameSums | DistinctSums, *, times: int = 1) -> Any:
    """Return the sums of whole numbers, for `_whole_numbers` that many ``times`` as large."""
    column = _column(call)
    beyond = rows.beyond(call.frame, Summary("whole", column))
    if beyond is None:
        return summed.of(_whole_numbers(rows, column, times=times))
    numbers = _whole_numbers(rows, column, times=times, more=max(map(abs, beyond), default=0))
    return summed.of(numbers) + np.array(beyond, numbers.dtype).repeat(rows.sizes)


def _spread(rows: Partitions, call: AggregateCall) -> Ints:
    """Return variances or standard deviations."""
    column = _column(call)
    dtype = rows.types[column]
    summed, counts = _summation(rows, call), _count(rows, call)
    special, unit, kinds = None, 0, ("whole", "squares")
    if dtype.name == "float64":
        values, special = _finite(rows, column)
        (whole, unit), kinds = exact_floats(values), ("floats", "floats squared")
    else:
        whole = _whole_numbers(rows, column, squared=True, times=2)
    sums, squares = (rows.beyond(call.frame, Summary(kind, column)) for kind in kinds)
    totals, of_totals = _with_those_beyond(rows, summed.of(whole), unit, sums)
    of_squares, of_square = _with_those_beyond(rows, summed.of(whole * whole), 2 * unit, squares)
    unit = min(of_totals, of_square // 2)
    totals, of_squares = totals << (of_totals - unit), of_squares << (of_square - 2 * unit)
    in_one = 10 ** (2 * dtype.scale) << -2 * unit
    special = _special_in_frame(rows, summed, special, sums)
    return spread_codes(call.aggregate.function, totals, of_squares, counts, in_one, special)


def _with_those_beyond(rows: Partitions, totals: Any, unit: int, beyond: list[Any] | None) -> tuple[Any, int]:
    """Return sums over frames, in some unit, with those of the rows that are not here; and their unit."""
    if beyond is None:
        return totals, unit
    sums = [v if isinstance(v, Exact) else Exact(v) for v in beyond]
    least = min([unit, *(v.unit for v in sums)])
    beside = np.array([v.at_unit(least) for v in sums], object)
    return (totals.astype(object) << unit - least) + beside.repeat(rows.sizes), least


def _special_in_frame(
    rows: Partitions,
    summed: _FrameSums | DistinctSums,
    special: Bools | None,
    beyond: list[Any] | None,
) -> Bools | None:
    """Return whether frames have NaN or an infinity, of which it is known where here there are some."""
    in_frame = None if special is None else summed.of(special.astype(np.int64)) > 0
    if beyond is None:
        return in_frame
    elsewhere = np.array([isinstance(v, Exact) and v.special is not None for v in beyond]).repeat(rows.sizes)
    return elsewhere if in_frame is None else in_frame | elsewhere


def _floats(rows: Partitions, call: AggregateCall, summed: _FrameSums | DistinctSums) -> Any:
    """Return the correctly rounded sums of floats, as IEEE has those with NaN and infinities."""
    column = _column(call)
    values, special = _finite(rows, column)
    beyond = rows.beyond(call.frame, Summary("floats", column))
    totals = _float_totals(rows, values, summed, beyond)
    beyond = beyond or []
    if special is None and all(some.special is None for some in beyond):
        return totals
    given = float_values(rows.codes(column))
    if special is None:
        special = np.zeros(len(given), np.bool_)
    nan, plus, minus = (summed.of((special & m).astype(np.int64)) for m in (np.isnan(given), given > 0, given < 0))
    if beyond:
        more = np.array([some[2:] for some in beyond], np.int64).repeat(rows.sizes, axis=0).T
        nan, plus, minus = nan + more[0], plus + more[1], minus + more[2]
    nan, plus, minus = nan > 0, plus > 0, minus > 0
    totals = np.where(plus, math.inf, np.where(minus, -math.inf, totals))
    return np.where(nan | (plus & minus), math.nan, totals)


def _finite(rows: Partitions, column: int) -> tuple[Any, Bools | None]:
    """Return a column's floats, with 0 for NULL, NaN and infinities; and where these last two are, if anywhere."""
    values, has_value = float_values(rows.codes(column)), rows.non_null(column)
    finite = np.isfinite(values)
    if finite.all():
        return filled(has_value, values), None
    special = ~finite if has_value is None else ~finite & has_value
    return np.where(finite if has_value is None else finite & has_value, values, 0.0), special


def _extreme(rows: Partitions, call: AggregateCall) -> Ints:
    column = _column(call)
    sign = -1 if call.aggregate.function == "min" else 1  # NULL, turned round, is NULL
    codes, here = rows.codes(column), len(rows)
    beyond = rows.beyond(call.frame, Summary("least" if sign < 0 else "greatest", column))
    if beyond is not None:
        more = np.array([some.code if isinstance(some, Extreme) else some for some in beyond], np.int64)
        codes = np.concatenate((codes, more))
    ranks = order_ranks(codes, rows.types[column], rows.interner)
    numbers = codes if ranks is codes else np.where(codes == NULL, NULL, ranks)
    found = _greatest(sign * numbers[:here], rows, call.frame)
    if beyond is not None:
        found = np.maximum(found, (sign * numbers[here:]).repeat(rows.sizes))
    found = sign * found
    return found if ranks is codes else _of_ranks(found, ranks, codes)


def _of_ranks(found: Ints, ranks: Ints, codes: Ints) -> Ints:
    """Return the codes that have the ranks found, NULL where there are none."""
    of_rank = np.full(int(ranks.max(initial=0)) + 1, NULL)
    of_rank[ranks] = codes
    return np.where(found == NULL, NULL, of_rank.take(np.maximum(found, 0)))


def _greatest(numbers: Ints, rows: Partitions, frame: Frame) -> Ints:
    by_group = over_groups(rows, frame)
    if by_group is not None:
        of_groups = np.maximum.reduceat(numbers, rows.peer_starts)
        found = _greatest(of_groups, rows.groups, by_group).repeat(rows.peer_sizes)
        if frame.exclusion != "ties" or not is_around(frame):
            return found
        return np.maximum(found, numbers)
    wanted = rows.wanted
    parts = frame_parts(rows, frame)
    if wanted is None:
        return _greatest_of(numbers, parts)
    # Frames of the others are cut off, each elsewhere: lengths of all kinds, and so all levels of the table.
    found = np.full(len(rows), NULL)
    found[wanted] = _greatest_of(numbers, [(start.take(wanted), end.take(wanted)) for start, end in parts])
    return found


def _column(call: AggregateCall) -> int:
    assert call.aggregate.column is not None
    return call.aggregate.column


# -- exact sums --------------------------------------------------------------------------------------------------------


class _FrameSums:
    """Sums over all rows of each frame, which are differences of prefix sums.

    With int64 these are exact whenever the sums themselves fit, however far a prefix sum has gone round.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def of(self, numbers: Any) -> Any:
        before = np.zeros(len(numbers) + 1, numbers.dtype)
        numbers.cumsum(out=before[1:])
        (start, end), *more = self._parts
        total = before.take(end) - before.take(start)
        for start, end in more:
            total += before.take(end) - before.take(start)
        return total


def _whole_numbers(rows: Partitions, column: int, *, squared: bool = False, times: int = 1, more: int = 0) -> Any:
    """Return the values of a column that holds no floats as whole numbers of its last digit, 0 for NULL.

    They are int64 where that holds any sum of a partition's values, which may be by so much larger, or squares of such
    a sum, ``times`` as large; else objects.
    """
    codes, dtype = rows.codes(column), rows.types[column]
    if is_long_decimal(dtype):
        values = values_of(codes, rows.interner)
        if values.dtype == object:
            return values
    else:
        values = filled(rows.non_null(column), codes)
    most = largest(values) * rows.longest + more
    fits = (most**2 if squared else most) * times <= INT64_LIMIT
    return values if fits else values.astype(object)


def _float_totals(rows: Partitions, values: Any, summed: _FrameSums | DistinctSums, beyond: list[Exact] | None) -> Any:
    """Return the correctly rounded sums of finite floats over each frame, with those of the rows that are not here.

    Floats that are not too far apart, a few powers of ten, are two whole numbers of a unit each, whose sums are exact;
    and so is the one floating-point addition that puts these together, but for its rounding.
    """
    magnitudes = np.abs(values)
    least, greatest = magnitudes.min(initial=math.inf), magnitudes.max(initial=0.0)
    if beyond is None and not greatest:
        return np.zeros(len(values))
    if not least:
        least = magnitudes.min(initial=math.inf, where=magnitudes > 0)
    unit, top, more = math.frexp(least)[1] - MANTISSA, math.frexp(greatest)[1], rows.longest.bit_length()
    low_bits = min(MANTISSA - 1, 62 - more)
    if beyond is not None or top - unit + more >= low_bits + MANTISSA:
        numbers, unit = exact_floats(values)
        total, unit = _with_those_beyond(rows, summed.of(numbers), unit, beyond)
        return quotients(total, np.full(len(values), 1 << -unit, object))
    whole = _scaled(values, -unit)
    high = np.floor(_scaled(whole, -low_bits))
    low = whole - _scaled(high, low_bits)
    high, low = summed.of(high.astype(np.int64)), summed.of(low.astype(np.int64))
    high += low >> low_bits
    low &= (1 << low_bits) - 1
    with np.errstate(over="ignore"):  # infinite, as IEEE has it
        return _scaled(_scaled(high.astype(np.float64), low_bits) + low, unit)


def _scaled(values: Any, power: int) -> Any:
    """Return floats times a power of two, where that is exact and in range."""
    return values * math.ldexp(1.0, power) if abs(power) < _LARGEST_POWER else np.ldexp(values, power)


# -- extremes and lists ------------------------------------------------------------------------------------------------


def _greatest_of(numbers: Ints, parts: Sequence[Part]) -> Ints:
    """Return the greatest number in each of some frames; the least number there is, NULL, for none.

    They are looked up in a table of the greatest of every run of 1, 2, 4, 8 and so on, of which one level is held at a
    time: any run is two of the table's, which may overlap.
    """
    result = np.full(len(parts[0][0]), NULL)
    lengths = [end - start for start, end in parts]
    level_of = np.frexp(np.arange(max(map(largest, lengths)) + 1))[1] - 1  # of 0: -1
    levels = [level_of.take(length) for length in lengths]
    counts = [np.bincount(level + 1).tolist() for level in levels]
    table, most = numbers, max(map(len, counts)) - 2
    for power in range(most + 1):
        size = 1 << power
        for (start, end), level, count in zip(parts, levels, counts, strict=True):
            if power + 1 >= len(count) or not count[power + 1]:
                continue
            if count[power + 1] == len(level):
                np.maximum(result, np.maximum(table.take(start), table.take(end - size)), out=result)
                continue
            here = (level == power).nonzero()[0]
            found = np.maximum(table.take(start.take(here)), table.take(end.take(here) - size))
            result[here] = np.maximum(result.take(here), found)
        if power < most:
            table = np.maximum(table[:-size], table[size:])
    return result


def _lists(rows: Partitions, call: AggregateCall) -> Ints:
    """Return the numbers of the lists of each frame's values, in the window's order or, without one, by value."""
    condition, wanted = call.aggregate.condition, slice(None) if rows.wanted is None else rows.wanted
    codes, parts = rows.codes(_column(call)), frame_parts(rows, call.frame)
    if condition is not None:
        taken = rows.codes(condition) == TRUE
        before = prefix_counts(taken)
        codes, parts = codes[taken], [(before.take(start), before.take(end)) for start, end in parts]
    parts = [(start[wanted], end[wanted]) for start, end in parts]
    before_all, after_all = _listed_beyond(rows, call)
    number = rows.number[wanted]
    lengths = np.sum([end - start for start, end in parts], axis=0)
    lengths += np.array([len(a) + len(b) for a, b in zip(before_all, after_all, strict=True)]).take(number)
    if lengths.max(initial=0) > MOST_VALUES:
        raise RefusedError(int(rows.positions[wanted][lengths.argmax()]), "overflow")
    values = codes.tolist()
    runs = zip(*(zip(start.tolist(), end.tolist(), strict=True) for start, end in parts), strict=True)
    inside = (chain.from_iterable(values[a:b] for a, b in run) for run in runs)
    found = [(*before_all[n], *some, *after_all[n]) for n, some in zip(number.tolist(), inside, strict=True)]
    if not rows.windows.order:
        ranks = dict(zip(values, order_ranks(codes, rows.types[_column(call)], rows.interner).tolist(), strict=True))
        found = [tuple(sorted(some, key=ranks.__getitem__)) for some in found]
    result = np.full(len(rows), NULL)
    result[wanted] = [rows.interner.number(some) for some in found]
    return result


def _listed_beyond(rows: Partitions, call: AggregateCall) -> Sequence[Sequence[Sequence[int]]]:
    """Return for each partition the values of the rows outside of the excerpt: before it and after it."""
    condition, kind = call.aggregate.condition, "last" if call.frame.start is None else "first"
    found = rows.at_ends(call.frame, Summary(kind, _column(call), ALL))
    if found is None:
        return [[()] * len(rows.starts)] * 2
    taken = None if condition is None else rows.at_ends(call.frame, Summary(kind, condition, ALL))
    if taken is None:
        return found
    return [
        [[v for v, mark in zip(*pair, strict=True) if mark == TRUE] for pair in zip(*ends, strict=True)]
        for ends in zip(found, taken, strict=True)
    ]


_AGGREGATES: Final[dict[str, Callable[[Partitions, AggregateCall], Ints]]] = {
    "count": _count, "list": _lists, **dict.fromkeys(("sum", "avg", "bool_or", "bool_and"), _added_up),
    **dict.fromkeys(("variance", "stddev"), _spread), **dict.fromkeys(("min", "max"), _extreme),
}  # fmt: skip
