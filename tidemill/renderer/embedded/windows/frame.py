"""Sorted rows of partitions, and the frame of each row: the ranges of positions that it is made of.

A position is the number of a row in the order. A frame is one range, from a bound to another, and at most three if it
leaves rows out. ROWS bounds are arithmetic on positions, GROUPS bounds on the starts of peer groups; RANGE bounds are
found among the sorted values of the order.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import attrs
import numpy as np

from tidemill.expressions.intervals import DAY_MICROSECONDS, MONTHS, Interval, microseconds_of
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Argument, Windows
from tidemill.expressions.windows.frames import Exclusion, Frame, Offset
from tidemill.renderer.embedded.expressions.dates import plus_months
from tidemill.renderer.embedded.kernels.codec import (
    Interner,
    encoder,
    float_codes,
    float_values,
    is_long_decimal,
    order_ranks,
)
from tidemill.renderer.embedded.kernels.long_decimals import large_places, values_of
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints, first_numbers, largest
from tidemill.renderer.embedded.windows.chunks import positions_from
from tidemill.renderer.embedded.windows.ordering import OrderedRows, run_lengths
from tidemill.renderer.embedded.windows.summaries import Summary, together

__all__ = [
    "Columns",
    "Excerpts",
    "Part",
    "Partitions",
    "RefusedError",
    "frame_bounds",
    "frame_parts",
    "has_its_row",
    "hole",
    "insertion_points",
    "is_around",
    "over_groups",
    "plus",
    "prefix_counts",
    "range_bound",
    "units",
]  # fmt: skip

Part: TypeAlias = tuple[Ints, Ints]
"""For each position a run of positions: its start and its end, never before its start."""
_GREATEST: Final = 2**63 - 1
_FARTHEST: Final = 2 * NULL
"""An offset that leads beyond every number, wherever it starts."""
_CENTURIES: Final = 200_000
"""Months beyond all dates, from whichever of them."""
_FEW: Final = 4
"""Partitions that are searched one by one."""


class RefusedError(Exception):
    """A call has no value at a position, and why."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


class Columns(Protocol):
    """Rows whose columns are read by their numbers."""

    def __len__(self) -> int: ...

    def __getitem__(self, column: int) -> Ints: ...


class Excerpts(NamedTuple):
    """Some adjacent rows of each of some partitions, and what there is around them."""

    starts: Ints
    """The positions at which partitions begin."""
    given: Ints
    """How many rows are given, of each partition."""
    low: Ints
    """From which position on calls are evaluated, of each partition; the rows before are only looked at."""
    high: Ints
    rows: Ints
    """How many rows are before those given."""
    groups: Ints
    """How many peer groups."""
    sizes: Ints
    """How many rows each partition has in all."""
    before: Callable[[Summary], list[Any]]
    """The summaries of the rows before, of each partition."""
    after: Callable[[Summary], list[Any]]


class Partitions:
    """Rows sorted by partition and in it by the order, each copy a row.

    Given in any order, with that in which they are; or in it, as an excerpt of each partition. Where calls
    are ``evaluated`` at some positions only, the values at others are not used: what frames lack there is no error.
    """

    def __init__(
        self,
        windows: Windows,
        types: Any,
        codes: Columns | Any,
        interner: Interner,
        ordered: OrderedRows | Excerpts,
        *,
        evaluated: Bools | None = None,
    ) -> None:
        self.windows = windows
        self.types = types
        self.interner = interner
        self._ordered = ordered
        self.excerpts = ordered if isinstance(ordered, Excerpts) else None
        self.starts = ordered.starts
        self._evaluated = evaluated
        self._length = len(codes) if isinstance(ordered, Excerpts) else len(ordered.source)
        self._codes = codes
        self._columns: dict[int, Ints] = {}
        self._non_null: dict[int, Bools | None] = {}
        self.frames: dict[Frame, list[Part]] = {}
        """The frames found so far."""

    def __len__(self) -> int:
        return self._length

    @cached_property
    def source(self) -> Ints:
        """Which of the rows given is at each position."""
        return self.positions if isinstance(self._ordered, Excerpts) else self._ordered.source

    # -- where partitions and peers begin and end ----------------------------------------------------------------------

    @cached_property
    def positions(self) -> Ints:
        """Every position, from 0 on."""
        return first_numbers(len(self))

    @cached_property
    def sizes(self) -> Ints:
        """How many rows each partition has here."""
        return run_lengths(self.starts, len(self)) if self.excerpts is None else self.excerpts.given

    @cached_property
    def longest(self) -> int:
        """How many rows the largest partition has here."""
        return largest(self.sizes)

    @cached_property
    def number(self) -> Ints:
        """The number of each row's partition."""
        return np.arange(len(self.starts)).repeat(self.sizes)

    @cached_property
    def first(self) -> Ints:
        """Where each row's partition begins."""
        return self.starts.repeat(self.sizes)

    @cached_property
    def end(self) -> Ints:
        """The position after the last of each row's partition."""
        return (self.starts + self.sizes).repeat(self.sizes)

    @cached_property
    def peer_starts(self) -> Ints:
        """The positions at which peer groups begin."""
        if not isinstance(self._ordered, Excerpts):
            return self._ordered.peer_starts
        begins = np.zeros(len(self), np.bool_)
        begins[self.starts] = True
        later = begins[1:]
        for o in self.windows.order:
            codes = self.codes(o.column)
            later |= codes[1:] != codes[:-1]
        return begins.nonzero()[0]

    @property
    def _all_begin(self) -> bool:
        """Whether each row is a peer group."""
        return len(self.peer_starts) == len(self)

    @cached_property
    def peer_sizes(self) -> Ints:
        """How many rows each peer group has."""
        return run_lengths(self.peer_starts, len(self))

    @cached_property
    def group(self) -> Ints:
        """The number of each row's peer group, counted through all partitions."""
        return self.positions if self._all_begin else np.arange(len(self.peer_starts)).repeat(self.peer_sizes)

    @cached_property
    def peer_first(self) -> Ints:
        """Where each row's peer group begins."""
        return self.positions if self._all_begin else self.peer_starts.repeat(self.peer_sizes)

    @cached_property
    def peer_end(self) -> Ints:
        """The position after the last of each row's peer group."""
        return self.positions + 1 if self._all_begin else (self.peer_starts + self.peer_sizes).repeat(self.peer_sizes)

    @cached_property
    def groups_before(self) -> Ints:
        """How many peer groups there are before each partition."""
        return self.peer_starts.searchsorted(self.starts)

    @cached_property
    def groups(self) -> Partitions:
        """The same partitions with a row for each peer group, of which only the positions are known."""
        positions = np.arange(len(self.peer_starts))
        evaluated = None if self.evaluated is None else np.logical_or.reduceat(self.evaluated, self.peer_starts)
        ordered = OrderedRows(positions, self.groups_before, positions)
        return Partitions(
            self.windows, self.types, np.empty((0, 0), np.int64), self.interner, ordered, evaluated=evaluated
        )

    @cached_property
    def origin(self) -> Ints:
        """Where each row's partition would begin, if all of its rows were here."""
        return self.first if self.excerpts is None else (self.starts - self.excerpts.rows).repeat(self.sizes)

    @cached_property
    def first_group(self) -> Ints:
        """The number of the first peer group of each row's partition."""
        before = 0 if self.excerpts is None else self.excerpts.groups
        return (self.groups_before - before).repeat(self.sizes)

    @cached_property
    def totals(self) -> Ints:
        """How many rows each row's partition has in all."""
        return (self.sizes if self.excerpts is None else self.excerpts.sizes).repeat(self.sizes)

    # -- which positions are evaluated --------------------------------------------------------------------------------

    @cached_property
    def evaluated(self) -> Bools | None:
        """Where calls are evaluated; None where that is no matter."""
        if self.excerpts is None:
            return self._evaluated
        found = np.zeros(len(self), np.bool_)
        for low, high in zip(self.excerpts.low.tolist(), self.excerpts.high.tolist(), strict=True):
            found[low:high] = True
        return found

    @cached_property
    def wanted(self) -> Ints | None:
        """The positions of the rows to evaluate; None where these are all. Others may have any value."""
        evaluated = self.evaluated
        return None if evaluated is None or evaluated.all() else evaluated.nonzero()[0]

    def first_wanted(self, marks: Bools) -> int | None:
        """Return the first marked position that is evaluated; None for none."""
        if self.evaluated is not None:
            marks = marks & self.evaluated
        return int(marks.argmax()) if marks.any() else None

    # -- rows outside of the excerpt, in unbounded frames --------------------------------------------------------------

    def goes_beyond(self, frame: Frame) -> bool:
        """Return whether frames may have rows that are not here."""
        return self.excerpts is not None and (frame.start is None or frame.end is None)

    def beyond(self, frame: Frame, wanted: Summary) -> list[Any] | None:
        """Return the summaries of rows that are not here and in all frames, for each partition; None for none."""
        ends = self.at_ends(frame, wanted)
        return None if ends is None else [together(wanted, pair) for pair in zip(*ends, strict=True)]

    def at_ends(self, frame: Frame, wanted: Summary) -> tuple[list[Any], list[Any]] | None:
        """Return the summaries of rows in all frames before those here and after them, for each partition.

        On a side on which frames have a bound, they are those of no rows; None where no rows are missing.
        """
        if self.excerpts is None or not self.goes_beyond(frame):
            return None
        none = [together(wanted, ())] * len(self.starts)
        return (
            none if frame.start is not None else self.excerpts.before(wanted),
            none if frame.end is not None else self.excerpts.after(wanted),
        )

    def count_beyond(self, frame: Frame) -> Ints | None:
        """Return for each row how many rows outside of the excerpt its frame contains; None if there are none."""
        if self.excerpts is None or not self.goes_beyond(frame):
            return None
        before, after = self.excerpts.rows, self.excerpts.sizes - self.excerpts.rows - self.sizes
        return ((frame.start is None) * before + (frame.end is None) * after).repeat(self.sizes)

    # -- columns -------------------------------------------------------------------------------------------------------

    def codes(self, column: int) -> Ints:
        """Return the codes of a column at each position."""
        found = self._columns.get(column)
        if found is None:
            codes = self._codes[column]
            found = self._columns[column] = codes.take(self.source) if self.excerpts is None else codes
        return found

    def argument(self, argument: Argument) -> Ints:
        """Return the codes of an argument at each position, or the one that is at all."""
        if isinstance(argument, int):
            return self.codes(argument)
        value = argument.value
        return np.array([NULL if value is None else encoder(argument.dtype, self.interner)(value)], np.int64)

    def non_null(self, column: int) -> Bools | None:
        """Return where a column is not NULL; None where that is everywhere."""
        if column not in self._non_null:
            codes = self.codes(column)
            has_null = len(codes) > 0 and np.minimum.reduce(codes) == NULL  # the least code there is
            self._non_null[column] = codes != NULL if has_null else None
        return self._non_null[column]


def prefix_counts(marks: Bools) -> Ints:
    """Return how many marks are set before each position, and before the end.

    >>> prefix_counts(np.array([True, False, True]))
    array([0, 1, 1, 2])
    """
    counts = np.zeros(len(marks) + 1, np.int64)
    marks.cumsum(dtype=np.int64, out=counts[1:])
    return counts


# -- frames ------------------------------------------------------------------------------------------------------------


def frame_parts(rows: Partitions, frame: Frame) -> list[Part]:
    """Return each row's frame as runs of positions one after another, which may be empty."""
    found = rows.frames.get(frame)
    if found is None:
        found = rows.frames[frame] = _parts(rows, frame)
    return found


def _parts(rows: Partitions, frame: Frame) -> list[Part]:
    start, end = frame_bounds(rows, frame)
    if frame.exclusion == "no others":
        return [(start, end)]
    low, high = hole(rows, frame)
    parts = [(start, np.maximum(np.minimum(low, end), start))]
    if frame.exclusion == "ties":
        inside = (start <= rows.positions) & (rows.positions < end)
        parts.append((rows.positions, rows.positions + inside))
    parts.append((np.minimum(np.maximum(high, start), end), end))
    return parts


def frame_bounds(rows: Partitions, frame: Frame) -> Part:
    """Return where each row's frame begins and ends, whatever it leaves out; where it is empty, these are equal."""
    start = rows.first if frame.start is None else _bound(rows, frame, frame.start, end=False)
    end = rows.end if frame.end is None else _bound(rows, frame, frame.end, end=True)
    return start, end if is_around(frame) else np.maximum(start, end)


def hole(rows: Partitions, frame: Frame) -> Part:
    """Return the run that a frame leaves out around each row: the row itself, or all its peers."""
    if frame.exclusion == "current row":
        return rows.positions, rows.positions + 1
    return rows.peer_first, rows.peer_end


@lru_cache
def has_its_row(frame: Frame) -> bool:
    """Return whether every row is in its own frame, for all that can be told without a look at the rows."""
    by_number = frame.mode == "range" and any(isinstance(bound, int) and bound for bound in (frame.start, frame.end))
    return frame.exclusion == "no others" and not by_number and is_around(frame)


@lru_cache
def is_around(frame: Frame) -> bool:
    """Return whether a frame's start is never after its end, for all that can be known of it."""
    start, end = (bound.amount if isinstance(bound, Interval) else bound or 0 for bound in (frame.start, frame.end))
    return isinstance(start, int) and isinstance(end, int) and start <= 0 <= end


def over_groups(rows: Partitions, frame: Frame) -> Frame | None:
    """Return the frame over peer groups, each taken as a row, that says which groups are in the frames of their rows.

    None where frames are not made of whole groups, or groups are hardly fewer than rows. ``exclude ties`` leaves out
    the whole group: the row itself is to be put back in.
    """
    found = _over_groups(frame)
    return None if found is None or 2 * len(rows.peer_starts) > len(rows) else found


@lru_cache
def _over_groups(frame: Frame) -> Frame | None:
    whole = frame.mode == "groups" or (frame.mode == "range" and not frame.offsets)
    if not whole or frame.exclusion == "current row":
        return None
    exclusion: Exclusion = "no others" if frame.exclusion == "no others" else "current row"
    return attrs.evolve(frame, mode="rows", exclusion=exclusion)


def _bound(rows: Partitions, frame: Frame, offset: Offset, *, end: bool) -> Ints:
    if frame.mode == "range" and (isinstance(offset, Interval) or offset != 0):
        return range_bound(rows, offset, end=end)
    assert isinstance(offset, int)
    if frame.mode == "rows":
        far = min(max(offset, -len(rows)), len(rows))
        positions = rows.positions + (far + end)
        if far > 0:
            positions = np.minimum(positions, rows.end)
        return np.maximum(positions, rows.first) if far + end < 0 else positions
    if offset == 0:
        return rows.peer_end if end else rows.peer_first
    groups = len(rows.peer_starts)
    sizes = run_lengths(rows.groups_before, groups)
    least = rows.groups_before.repeat(sizes)
    most = (rows.groups_before + sizes).repeat(sizes)
    wanted = np.arange(groups) + (min(max(offset, -groups), groups) + end)
    starts = np.append(rows.peer_starts, len(rows))
    found: Ints = starts.take(np.minimum(np.maximum(wanted, least), most)).repeat(rows.peer_sizes)
    return found


# -- RANGE by value ----------------------------------------------------------------------------------------------------


def range_bound(rows: Partitions, offset: Offset, *, end: bool) -> Ints:
    """Return where each row's frame begins, or ends, whose bound is an offset from its value in the order.

    A row without a value has its peers there.
    """
    (by,) = rows.windows.order
    dtype = rows.types[by.column]
    non_null = rows.non_null(by.column)
    codes, starts, excerpts = rows.codes(by.column), rows.starts, rows.excerpts
    if non_null is not None:
        before = prefix_counts(non_null)
        lacking = rows.end - rows.first - before.take(rows.end) + before.take(rows.first)
        codes, starts, excerpts = codes[non_null], before.take(starts), None
    values = order_ranks(codes, dtype, rows.interner)
    values = -values if by.descending else values
    if not _is_counted(offset, dtype) or (is_long_decimal(dtype) and len(large_places(codes))):
        up = end == by.descending  # towards the inside of the frame, where no value is just there
        moved = _moved(codes, -offset if by.descending else offset, dtype, rows.interner, up=up)
        bounds = (-moved if by.descending else moved) - (not end)
    else:
        bounds = plus(values, _far(offset, dtype, end=end))
    found = _insertion_points_in_own(starts, values, bounds, excerpts)
    if non_null is None:
        return found
    result = np.where(non_null, 0, rows.peer_end if end else rows.peer_first)
    first = rows.first[non_null]
    result[non_null] = found - before.take(first) + first + (lacking[non_null] if by.nulls_first else 0)
    return result


def _is_counted(offset: Offset, dtype: DType) -> bool:
    """Return whether codes and the offset are whole numbers of the same unit."""
    months = isinstance(offset, Interval) and offset.dtype == MONTHS
    return not (months or dtype.name == "float64")


@lru_cache(typed=True)
def _far(offset: Offset, dtype: DType, *, end: bool) -> int:
    """Return how many units a bound is from a value, so that what is at most so far away ends there."""
    exact = units(offset, dtype)
    return math.floor(exact) if end else math.ceil(exact) - 1


def units(offset: Offset, dtype: DType) -> Fraction:
    if isinstance(offset, Interval):
        return Fraction(microseconds_of(offset), DAY_MICROSECONDS if dtype.name == "date" else 1)
    exact: Fraction = Fraction(offset) * 10**dtype.scale
    return exact


def plus(numbers: Ints, amount: int) -> Ints:
    """Return sums; the greatest or the least int64 where they would be beyond it.

    >>> plus(np.array([-5, 5]), -(2**63) - 3).tolist() == [-(2**63), 2 - 2**63]
    True
    >>> plus(np.array([-(2**63)]), 2**65).tolist() == [2**63 - 1]
    True
    """
    if not NULL <= amount <= _GREATEST:  # two numbers may be farther apart than an int64 says
        most = _GREATEST if amount > 0 else NULL
        return plus(plus(numbers, most), min(max(amount, _FARTHEST), -_FARTHEST) - most)
    if amount > 0:
        return np.minimum(numbers, _GREATEST - amount) + amount
    return np.maximum(numbers, NULL - amount) + amount


def _moved(codes: Ints, offset: Offset, dtype: DType, interner: Interner, *, up: bool) -> Ints:
    """Return codes of values that are some way from others; where none is just there, of the next one up or down.

    Of decimals with large values, the numbers that `order_ranks` gives them.
    """
    if isinstance(offset, Interval):
        months = min(max(offset.amount, -_CENTURIES), _CENTURIES)
        if dtype.name == "date":
            return plus_months(codes, months)
        days, rest = np.divmod(codes, DAY_MICROSECONDS)
        return plus_months(days, months) * DAY_MICROSECONDS + rest
    if dtype.name == "float64":
        with np.errstate(over="ignore", invalid="ignore"):
            return float_codes(float_values(codes) + offset)
    distinct, inverse = np.unique(codes, return_inverse=True)
    values = values_of(distinct, interner).tolist()
    in_order, more = sorted(values), units(offset, dtype)
    ranks = [bisect_left(in_order, v + more) if up else bisect_right(in_order, v + more) - 1 for v in values]
    return np.array(ranks, np.int64).take(inverse)


def _insertion_points_in_own(starts: Ints, values: Ints, bounds: Ints, excerpts: Excerpts | None) -> Ints:
    """Return the `insertion_points` of a bound for each of the values, in its own group; groups begin at ``starts``.

    Of rows of an excerpt that are only looked at it may be their own position.
    """
    ends = [*starts[1:].tolist(), len(values)]
    low, high = (starts, np.array(ends)) if excerpts is None else (excerpts.low, excerpts.high)
    found = first_numbers(len(values)).copy()
    if len(starts) > _FEW:
        at = positions_from(low, high - low)
        number = np.arange(len(starts)).repeat(run_lengths(starts, len(values)))
        found[at] = insertion_points(number, values, number.take(at), bounds.take(at))
        return found
    for start, end, first, last in zip(starts.tolist(), ends, low.tolist(), high.tolist(), strict=True):
        found[first:last] = values[start:end].searchsorted(bounds[first:last], "right") + start
    return found


def insertion_points(groups: Ints, values: Ints, of: Ints, bounds: Ints) -> Ints:
    """Return where, in values sorted by group and then by themselves, those of a group that are at most a bound end.

    >>> insertion_points(np.array([0, 0, 1]), np.array([5, 7, 1]), np.array([1, 0, 0]), np.array([0, 5, 6]))
    array([2, 1, 1])
    """
    if not len(values):
        return np.zeros(len(bounds), np.int64)
    least, greatest = int(values.min()), int(values.max())
    if (int(groups[-1]) + 1) * (greatest - least + 2) > _GREATEST:  # too far apart for one word: count them
        distinct = np.unique(values)
        values, bounds = distinct.searchsorted(values), distinct.searchsorted(bounds, "right") - 1
        least, greatest = 0, len(distinct) - 1
    width = greatest - least + 2
    bounds = np.clip(bounds, least - 1, greatest)
    return (groups * width + (values - least)).searchsorted(of * width + (bounds - least), "right")
