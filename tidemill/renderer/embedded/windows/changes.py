"""Changes of calls' values under edits: excerpts with the affected rows are evaluated before and after, and compared.

Both sides go through the code that computes whole partitions, many runs in one call. The output is not stored: its old
values are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints, first_numbers
from tidemill.renderer.embedded.windows.affected import Reach, Runs, affected, looked_at
from tidemill.renderer.embedded.windows.chunks import Changed, Edits, pieces, positions_from
from tidemill.renderer.embedded.windows.early_stop import EarlyStop
from tidemill.renderer.embedded.windows.evaluate import call_values
from tidemill.renderer.embedded.windows.frame import Excerpts, Partitions
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.ordering import run_lengths
from tidemill.renderer.embedded.windows.summaries import Summarise, Summary, summariser

RUN_ROWS_AT_ONCE: Final = 1 << 15
"""About how many rows of runs are evaluated at a time, so that arrays stay in cache; a run is never divided."""
ROWS_AT_ONCE: Final = 1 << 14
"""About how many rows of whole partitions are evaluated at a time."""


class Excerpt(NamedTuple):
    """Adjacent rows of a partition: those to evaluate, and those around them that they look at."""

    slices: list[Codes]
    """The rows, as slices of chunks."""
    skipped: int
    """How many rows at the start are only looked at."""
    evaluated: int
    total: int
    """How many rows the partition has."""
    rows_before: int
    groups_before: int
    before: Callable[[Summary], Any]
    """The summary of the rows before the excerpt."""
    after: Callable[[Summary], Any]


@attrs.frozen
class Evaluator:
    """Window calls, and all that is needed to compute their values."""

    windows: Windows
    types: Sequence[DType]
    reach: Reach
    interner: Interner
    kept: Ints
    """The columns of a row that the output keeps."""
    summarise: Summarise = attrs.field(init=False)
    stop: EarlyStop | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "summarise", summariser(self.types, self.interner))
        object.__setattr__(self, "stop", self.reach.early_stop(self.summarise))

    def changed(self, partitions: Sequence[tuple[OrderIndex, Edits]]) -> Iterator[Changed]:
        """Yield how edits, which are not yet applied, change the output's rows for these partitions.

        `CallError` if a call has no value for a row, even for one that is only looked at.
        """
        (by, *_) = self.windows.order
        some: list[_RunsOfPartition] = []
        for index, edits in partitions:
            dtype = self.types[by.column]
            some += _divided_runs(index, edits, affected(index, edits, self.reach, by, dtype, stop=self.stop))
        for batch in _batches(some):
            both = _BeforeAndAfter(batch)
            rows = Partitions(self.windows, self.types, both, self.interner, self._excerpts(batch))
            values = np.empty((len(self.windows.calls), len(rows)), np.int64)
            call_values(rows, values)
            yield both.changed(values, rows.evaluated, self.kept)

    def _excerpts(self, batch: Sequence[_RunsOfPartition]) -> Excerpts:
        """Return the runs as excerpts, of the old rows and then of the new ones; without those that have no rows."""
        old, new, around = list[tuple[int, ...]](), list[tuple[int, ...]](), list[tuple[OrderIndex, int, int]]()
        for index, edits, runs, net_of_all in batch:
            groups = index.groups_before(runs.first).tolist() if self.reach.counts_groups else [0] * len(runs.first)
            copies, total = edits.copies.tolist(), index.size
            net = [sum(copies[a:b]) for a, b in pairwise([*runs.edits.tolist(), len(copies)])]
            for low, high, first, end, come, before in zip(*[of.tolist() for of in runs[1:]], net, groups, strict=True):
                old.append((end - first, low - first, high - first, first, before, total))
                new.append((end - first + come, low - first, high - first + come, first, before, total + net_of_all))
                around.append((index, first, end))
        excerpts = [*old, *new]

        def summaries(values: list[Any]) -> list[Any]:
            return [value for value, excerpt in zip(values * 2, excerpts, strict=True) if excerpt[0]]

        return _arrays_of(
            [excerpt for excerpt in excerpts if excerpt[0]],
            lambda wanted: summaries([index.before(first, wanted, self.summarise) for index, first, _ in around]),
            lambda wanted: summaries([index.after(end, wanted, self.summarise) for index, _, end in around]),
        )

    # -- whole partitions ----------------------------------------------------------------------------------------------

    def rows_with_values(self, partitions: Iterable[OrderIndex]) -> Iterator[tuple[Codes, Codes]]:
        """Yield the rows of partitions in their order, some at a time, with the calls' values."""
        excerpts: list[Excerpt] = []
        for index in partitions:
            low = 0
            while low < index.size:
                high, first, end = self._next_rows(index, low)
                excerpts.append(self.excerpt(index, range(low, high), first, end))
                low = high
                if sum(excerpt.evaluated for excerpt in excerpts) >= ROWS_AT_ONCE:
                    yield self.values_of(excerpts)
                    excerpts = []
        if excerpts:
            yield self.values_of(excerpts)

    def _next_rows(self, index: OrderIndex, low: int) -> tuple[int, int, int]:
        """Return the end of the next rows to evaluate, and the range of rows that they look at.

        At least about half of the rows looked at are evaluated: so wide frames at most double the work.
        """
        (by, *_) = self.windows.order
        count = ROWS_AT_ONCE
        while True:
            high = min(low + count, index.size)
            first, end = looked_at(index, range(low, high), self.reach, by, self.types[by.column])
            if high == index.size or end - first <= 2 * count:
                return high, first, end
            count = end - first

    def excerpt(self, index: OrderIndex, positions: range, first: int, end: int) -> Excerpt:
        """Return the rows at ``positions`` as an excerpt, with the rows from ``first`` to ``end`` around them."""
        groups = index.groups_before(np.array([first])).item() if self.reach.counts_groups else 0
        return Excerpt(
            index.slices(first, end), positions.start - first, len(positions), index.size, first, groups,
            lambda wanted: index.before(first, wanted, self.summarise),
            lambda wanted: index.after(end, wanted, self.summarise),
        )  # fmt: skip

    def values_of(self, excerpts: Sequence[Excerpt]) -> tuple[Codes, Codes]:
        """Return the rows of all excerpts that are to be evaluated, one after another, and the calls' values."""
        codes = Concatenated([codes for excerpt in excerpts for codes in excerpt.slices])
        arrays = _arrays_of(
            [
                (sum([s.shape[1] for s in slices]), skipped, skipped + evaluated, rows_before, groups_before, total)
                for slices, skipped, evaluated, total, rows_before, groups_before, *_ in excerpts
            ],
            lambda summary: [excerpt.before(summary) for excerpt in excerpts],
            lambda summary: [excerpt.after(summary) for excerpt in excerpts],
        )
        values = np.empty((len(self.windows.calls), len(codes)), np.int64)
        call_values(Partitions(self.windows, self.types, codes, self.interner, arrays), values)
        positions = positions_from(arrays.low, arrays.high - arrays.low)
        return codes.take(positions), values.take(positions, axis=1)


def _arrays_of(
    excerpts: Sequence[tuple[int, ...]], before: Callable[[Summary], list[Any]], after: Callable[[Summary], list[Any]]
) -> Excerpts:
    """Return excerpts (rows, start and end to evaluate, rows before, groups before, partition size) as arrays."""
    found, start = list[tuple[int, ...]](), 0
    for size, low, high, *others in excerpts:
        found.append((start, size, start + low, start + high, *others))
        start += size
    starts, sizes, lows, highs, rows, groups, totals = np.array(found).T.copy()
    return Excerpts(starts, sizes, lows, highs, rows, groups, totals, before, after)


class Concatenated:
    """Matrices of codes side by side, of which each column is concatenated when it is first read.

    >>> rows = Concatenated([np.array([[1, 2], [5, 6]]), np.array([[3], [7]])])
    >>> len(rows), rows[1].tolist(), rows.take(np.array([0, 2])).tolist()
    (3, [5, 6, 7], [[1, 3], [5, 7]])
    """

    def __init__(self, matrices: Sequence[Codes]) -> None:
        self._matrices = matrices
        self._length: int = sum([matrix.shape[1] for matrix in matrices])
        self._columns: dict[int, Ints] = {}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, column: int) -> Ints:
        found = self._columns.get(column)
        if found is None:
            found = self._columns[column] = np.concatenate([matrix[column] for matrix in self._matrices])
        return found

    def take(self, positions: Ints) -> Codes:
        """Return the rows at some positions."""
        return np.array([self[column].take(positions) for column in range(len(self._matrices[0]))])


# -- before and after edits --------------------------------------------------------------------------------------------


class _RunsOfPartition(NamedTuple):
    """Some runs of a partition, and their edits."""

    partition: OrderIndex
    edits: Edits
    runs: Runs
    net: int
    """How many rows all edits of the partition add, net."""


def _divided_runs(index: OrderIndex, edits: Edits, runs: Runs) -> Iterator[_RunsOfPartition]:
    """Divide the runs of a partition, with their edits, so that each has about `RUN_ROWS_AT_ONCE` rows."""
    net = sum(edits.copies.tolist())
    if len(runs.first) == 1:
        yield _RunsOfPartition(index, edits, runs, net)
        return
    ends = (runs.end - runs.first).cumsum()
    low, count = 0, len(ends)
    firsts = [*runs.edits.tolist(), len(edits.positions)]
    while low < count:
        before = ends.item(low - 1) if low else 0
        high = max(int(ends.searchsorted(before + RUN_ROWS_AT_ONCE, "right")), low + 1)
        some = edits.part(firsts[low], firsts[high])
        within = Runs(runs.edits[low:high] - firsts[low], *(of[low:high] for of in runs[1:]))
        yield _RunsOfPartition(index, some, within, net)
        low = high


def _batches(some: Sequence[_RunsOfPartition]) -> Iterator[list[_RunsOfPartition]]:
    """Put runs together into batches of about `RUN_ROWS_AT_ONCE` rows."""
    if len(some) == 1:
        yield [*some]
        return
    batch: list[_RunsOfPartition] = []
    size = 0
    for one in some:
        rows = int((one.runs.end - one.runs.first).sum())
        if batch and size + rows > RUN_ROWS_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += rows
    if batch:
        yield batch


class _BeforeAndAfter:
    """The rows of all runs, first as they are before the edits, then as they are after them.

    Of a column that no call reads only the rows that change are copied after them.
    """

    def __init__(self, batch: Sequence[_RunsOfPartition]) -> None:
        slices = [s for some in batch for s in some.partition.slices_of(some.runs.first, some.runs.end)]
        before: int = sum([s.shape[1] for s in slices])
        edits = _moved(batch)
        self._before = before
        """How many of the rows are old ones."""
        self._codes: Codes = np.concatenate([*slices, edits.rows], axis=1)
        numbers = first_numbers(self._codes.shape[1])
        self._after: Ints = np.concatenate(
            pieces(numbers[:before], Edits(edits.positions, numbers[before:], edits.copies))
        )
        """For each row after the edits, the old row it is; or, numbered after these, the edit that inserts it."""
        gone = [position + i for position, copies in edits.items() for i in range(-copies)]
        self._gone: Ints = np.array(gone, np.int64)
        """The old rows that edits take out."""

    def __len__(self) -> int:
        return self._before + len(self._after)

    def __getitem__(self, column: int) -> Ints:
        codes, before = self._codes[column], self._before
        found = np.empty(len(self), np.int64)
        found[:before] = codes[:before]
        codes.take(self._after, out=found[before:], mode="clip")  # all are there, and to raise takes a copy
        return found

    def changed(self, values: Codes, evaluated: Bools | None, kept: Ints) -> Changed:
        """Return the rows that go or come, and the evaluated rows whose values differ."""
        before, after = self._before, self._after
        differ = values[:, before:] != values.take(after, axis=1, mode="clip")
        differs = differ[0] if len(differ) == 1 else differ.any(axis=0)
        if evaluated is not None:
            differs &= evaluated[before:]
        differs |= after >= before
        come = differs.nonzero()[0]
        source = after.take(come)
        gone = np.concatenate((source.compress(source < before), self._gone))
        if len(self._gone):
            gone.sort()  # so copies of a row stay adjacent, which is where equal updates are looked for
        rows = np.empty((len(kept) + len(values) + 2, len(gone) + len(come)), np.int64)
        codes = self._codes.take(np.concatenate((gone, source)), axis=1)
        codes.take(kept, axis=0, out=rows[: len(kept)], mode="clip")
        values.take(np.concatenate((gone, come + before)), axis=1, out=rows[len(kept) : -2], mode="clip")
        return Changed(rows, len(gone))


def _moved(batch: Sequence[_RunsOfPartition]) -> Edits:
    """Return the edits with their positions among the rows of the excerpts."""
    found, start = list[Edits](), 0
    for _, edits, runs, _ in batch:
        ends = [*accumulate((runs.end - runs.first).tolist(), initial=start)]
        moved = np.array(ends[1:]) - runs.end
        if len(moved) > 1:
            moved = moved.repeat(run_lengths(runs.edits, len(edits.positions)))
        found.append(Edits(edits.positions + moved, edits.rows, edits.copies))
        start = ends[-1]
    if len(found) == 1:
        return found[0]
    positions, rows, copies = zip(*found, strict=True)
    return Edits(np.concatenate(positions), np.concatenate(rows, axis=1), np.concatenate(copies))
