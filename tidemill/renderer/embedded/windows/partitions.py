"""The rows of partitions in their order: where partitions and peers begin and end, and the columns that calls read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Argument, Windows
from tidemill.expressions.windows.frames import Frame
from tidemill.renderer.embedded.kernels.codec import Interner, encoder
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, first_numbers, largest
from tidemill.renderer.embedded.windows.digests import Digest, together
from tidemill.renderer.embedded.windows.ordering import OrderedRows
from tidemill.renderer.embedded.windows.pieces import Columns

__all__ = ["Ahead", "Part", "Partitions", "RefusedError", "prefix_counts", "run_lengths"]

Part: TypeAlias = tuple[Ints, Ints]
"""For each place a run of places: its start and its end, never before its start."""


class RefusedError(Exception):
    """A call has no value at a place, and why."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


class Ahead(NamedTuple):
    """What there is of partitions of which only some adjacent rows are given, one partition's after another's."""

    starts: Ints
    """The places at which partitions begin."""
    rows: Sequence[int]
    """How many rows are before those given, of each partition."""
    groups: Sequence[int]
    """How many peer groups."""
    sizes: Sequence[int]
    """How many rows each partition has in all."""
    given: Sequence[int]
    """How many of them are given."""
    asked: Sequence[tuple[int, int]]
    """From which place up to which calls are asked for, of each partition; the others are there to be looked at."""
    wanted: Bools
    """The same as marks."""
    before: Callable[[Digest], list[Any]]
    """What the rows before them come to, for each partition."""
    behind: Callable[[Digest], list[Any]]
    """What the rows behind them come to."""


class Partitions:
    """Rows sorted by partition and in it by the order, each copy a row. A place is where in them a row is.

    Given in any order, with that in which they are; or in it, in pieces, as some adjacent rows of each partition only.
    Where calls are ``asked`` for some places only, what the others come to is nobody's: what frames lack there is no
    error.
    """

    def __init__(
        self,
        windows: Windows,
        types: Sequence[DType],
        codes: Codes | Columns,
        interner: Interner,
        ordered: OrderedRows | Ahead,
        *,
        asked: Bools | None = None,
    ) -> None:
        self.windows = windows
        self.types = types
        self.interner = interner
        self._ordered = ordered
        self._ahead = ordered if isinstance(ordered, Ahead) else None
        self._asked = self._ahead.wanted if self._ahead else asked
        self.starts = ordered.starts
        self._length = len(codes) if isinstance(ordered, Ahead) else len(ordered.source)
        self._codes = codes
        self._columns: dict[int, Ints] = {}
        self._known: dict[int, Bools | None] = {}
        self.frames: dict[Frame, list[Part]] = {}
        """The frames found so far."""

    def __len__(self) -> int:
        return self._length

    @cached_property
    def source(self) -> Ints:
        """Which of the rows given is at each place."""
        return self.places if isinstance(self._ordered, Ahead) else self._ordered.source

    # -- where partitions and peers begin and end ----------------------------------------------------------------------

    @cached_property
    def places(self) -> Ints:
        """Every place, from 0 on."""
        return first_numbers(len(self))

    @cached_property
    def sizes(self) -> Ints:
        """How many rows each partition has."""
        if self._ahead is not None:
            return np.array(self._ahead.given, np.int64)
        return run_lengths(self.starts, len(self))

    @cached_property
    def longest(self) -> int:
        """How many rows the largest partition has."""
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
        """The place after the last of each row's partition."""
        return (self.starts + self.sizes).repeat(self.sizes)

    @cached_property
    def peer_starts(self) -> Ints:
        """The places at which peer groups begin."""
        if not isinstance(self._ordered, Ahead):
            return self._ordered.peer_starts
        begins = np.zeros(len(self), np.bool_)
        begins[self.starts] = True
        for o in self.windows.order:
            codes = self.codes(o.column)
            begins[1:] |= codes[1:] != codes[:-1]
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
        return self.places if self._all_begin else np.arange(len(self.peer_starts)).repeat(self.peer_sizes)

    @cached_property
    def peer_first(self) -> Ints:
        """Where each row's peer group begins."""
        return self.places if self._all_begin else self.peer_starts.repeat(self.peer_sizes)

    @cached_property
    def peer_end(self) -> Ints:
        """The place after the last of each row's peer group."""
        return self.places + 1 if self._all_begin else (self.peer_starts + self.peer_sizes).repeat(self.peer_sizes)

    @cached_property
    def groups_before(self) -> Ints:
        """How many peer groups there are before each partition."""
        return self.peer_starts.searchsorted(self.starts)

    @cached_property
    def groups(self) -> Partitions:
        """The same partitions with a row for each peer group, of which only the places are known."""
        places = np.arange(len(self.peer_starts))
        asked = None if self._asked is None else np.logical_or.reduceat(self._asked, self.peer_starts)
        ordered = OrderedRows(places, self.groups_before, places)
        return Partitions(self.windows, self.types, np.empty((0, 0), np.int64), self.interner, ordered, asked=asked)

    @cached_property
    def origin(self) -> Ints:
        """Where each row's partition would begin, if all of its rows were here."""
        return self.first if self._ahead is None else (self.starts - self._rows_before).repeat(self.sizes)

    @cached_property
    def first_group(self) -> Ints:
        """The number of the first peer group of each row's partition."""
        before = self.groups_before if self._ahead is None else self.groups_before - np.array(self._ahead.groups)
        return before.repeat(self.sizes)

    @cached_property
    def totals(self) -> Ints:
        """How many rows each row's partition has."""
        return (self.sizes if self._ahead is None else np.array(self._ahead.sizes)).repeat(self.sizes)

    @property
    def asked(self) -> Sequence[tuple[int, int]] | None:
        """From which place up to which calls are asked for, of each partition; None where that is no matter."""
        return None if self._ahead is None else self._ahead.asked

    @cached_property
    def wanted(self) -> Ints | None:
        """The places of the rows that calls are asked for; None where these are all. Others may have any value."""
        return None if self._asked is None or self._asked.all() else self._asked.nonzero()[0]

    def first_wanted(self, marks: Bools) -> int | None:
        """Return the first marked place that calls are asked for; None for none."""
        if self._asked is not None:
            marks = marks & self._asked
        return int(marks.argmax()) if marks.any() else None

    # -- what is not here, of frames without a bound -------------------------------------------------------------------

    def beyond(self, frame: Frame, wanted: Digest) -> list[Any] | None:
        """Return what the rows that are not here come to, of those in all frames, for each partition; None for none."""
        if self._ahead is None or (frame.start is not None and frame.end is not None):
            return None
        before, behind = self._ahead.before, self._ahead.behind
        if frame.end is not None:
            return before(wanted)
        if frame.start is not None:
            return behind(wanted)
        return [together(wanted, pair) for pair in zip(before(wanted), behind(wanted), strict=True)]

    def at_ends(self, frame: Frame, wanted: Digest) -> tuple[list[Any], list[Any]] | None:
        """Return what the rows come to that are in all frames, before those here and behind them, for each partition.

        On a side on which frames have a bound, that is what no rows come to; None where no rows are missing.
        """
        if self._ahead is None or (frame.start is not None and frame.end is not None):
            return None
        none = [together(wanted, ())] * len(self.starts)
        return (
            none if frame.start is not None else self._ahead.before(wanted),
            none if frame.end is not None else self._ahead.behind(wanted),
        )

    def count_beyond(self, frame: Frame) -> Ints | None:
        """Return how many rows are not here of those in all frames, for each row; None for none."""
        if self._ahead is None or (frame.start is not None and frame.end is not None):
            return None
        counts = np.zeros(len(self.starts), np.int64)
        if frame.start is None:
            counts += self._rows_before
        if frame.end is None:
            counts += self._rows_behind
        return counts.repeat(self.sizes)

    @property
    def _rows_before(self) -> Ints:
        return np.array(self._ahead.rows if self._ahead else [0] * len(self.starts), np.int64)

    @property
    def _rows_behind(self) -> Ints:
        sizes = self.sizes if self._ahead is None else np.array(self._ahead.sizes, np.int64)
        return sizes - self._rows_before - self.sizes

    # -- columns -------------------------------------------------------------------------------------------------------

    def codes(self, column: int) -> Ints:
        """Return the codes of a column at each place."""
        found = self._columns.get(column)
        if found is None:
            codes = self._codes[column]
            found = self._columns[column] = codes.take(self.source) if self._ahead is None else codes
        return found

    def argument(self, argument: Argument) -> Ints:
        """Return the codes of an argument at each place, or the one that is at all."""
        if isinstance(argument, int):
            return self.codes(argument)
        value = argument.value
        return np.array([NULL if value is None else encoder(argument.dtype, self.interner)(value)], np.int64)

    def known(self, column: int) -> Bools | None:
        """Return where a column is not NULL; None where that is everywhere."""
        if column not in self._known:
            codes = self.codes(column)
            has_null = np.minimum.reduce(codes, initial=0) == NULL  # the least code there is
            self._known[column] = codes != NULL if has_null else None
        return self._known[column]


def run_lengths(starts: Ints, end: int) -> Ints:
    """Return how long runs are that follow one another up to an end."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = end
    return ends - starts


def prefix_counts(marks: Bools) -> Ints:
    """Return how many marks are set before each place, and before the end.

    >>> prefix_counts(np.array([True, False, True]))
    array([0, 1, 1, 2])
    """
    counts = np.zeros(len(marks) + 1, np.int64)
    marks.cumsum(dtype=np.int64, out=counts[1:])
    return counts
