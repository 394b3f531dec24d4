"""Changes of calls' values under edits: affected rows are cut out, evaluated before and after, and compared.

Both sides go through the code that computes whole partitions, many runs in one call. The output is not stored: its old
values are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints, first_numbers
from tidemill.renderer.embedded.windows.affected import Reach, Runs, affected, looked_at
from tidemill.renderer.embedded.windows.chunks import Changed, Edits, edited, places_from
from tidemill.renderer.embedded.windows.early_stop import EarlyStop
from tidemill.renderer.embedded.windows.evaluate import call_values
from tidemill.renderer.embedded.windows.frame import Excerpt, Partitions
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.ordering import run_lengths
from tidemill.renderer.embedded.windows.summaries import Summarise, Summary, summariser

BLOCK: Final = 1 << 15
"""About how many rows are evaluated at a time, so that intermediate arrays stay in cache; a run is never divided."""
PIECE: Final = 1 << 14
"""About how many rows of whole partitions are evaluated at a time."""


class Cut(NamedTuple):
    """Adjacent rows of a partition, in pieces: those to evaluate, and those around them that they look at."""

    pieces: list[Codes]
    skipped: int
    """How many rows at the start are only looked at."""
    wanted: int
    total: int
    """How many rows the partition has."""
    rows_before: int
    groups_before: int
    before: Callable[[Summary], Any]
    """The summary of the rows before the cut."""
    after: Callable[[Summary], Any]


@attrs.frozen
class Evaluator:
    """Window calls, and all that is needed to compute their values."""

    windows: Windows
    types: Sequence[DType]
    reach: Reach
    interner: Interner
    kept: Sequence[int]
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
        parts: list[_Part] = []
        for index, edits in partitions:
            dtype = self.types[by.column]
            parts += _parts(index, edits, affected(index, edits, self.reach, by, dtype, stop=self.stop))
        for block in _blocks(parts):
            cuts = _BeforeAndAfter(block)
            rows = Partitions(self.windows, self.types, cuts, self.interner, self._excerpt(block))
            values = np.empty((len(self.windows.calls), len(rows)), np.int64)
            call_values(rows, values)
            yield cuts.changed(values, rows.asked, self.kept)

    def _excerpt(self, parts: Sequence[_Part]) -> Excerpt:
        """Return the excerpt of all cuts that have rows: the old ones, then the new ones."""
        old, new, around = list[tuple[int, ...]](), list[tuple[int, ...]](), list[tuple[OrderIndex, int, int]]()
        for index, edits, runs, of_all in parts:
            groups = index.groups_before(runs.first).tolist() if self.reach.counts_groups else [0] * len(runs.first)
            more = np.add.reduceat(edits.copies, runs.edits).tolist()
            total = index.size
            for low, high, first, end, come, before in zip(
                *[of.tolist() for of in runs[1:]], more, groups, strict=True
            ):
                old.append((end - first, low - first, high - first, first, before, total))
                new.append((end - first + come, low - first, high - first + come, first, before, total + of_all))
                around.append((index, first, end))
        cuts = [*old, *new]

        def summaries(values: list[Any]) -> list[Any]:
            return [value for value, cut in zip(values * 2, cuts, strict=True) if cut[0]]

        return _excerpt_of(
            [cut for cut in cuts if cut[0]],
            lambda wanted: summaries([index.before(first, wanted, self.summarise) for index, first, _ in around]),
            lambda wanted: summaries([index.after(end, wanted, self.summarise) for index, _, end in around]),
        )

    # -- whole partitions ----------------------------------------------------------------------------------------------

    def rows_with_values(self, partitions: Iterable[OrderIndex]) -> Iterator[tuple[Codes, Codes]]:
        """Yield the rows of partitions in their order, some at a time, with the calls' values."""
        cuts: list[Cut] = []
        for index in partitions:
            low = 0
            while low < index.size:
                high, first, end = self._piece(index, low)
                cuts.append(self.cut(index, range(low, high), first, end))
                low = high
                if sum(cut.wanted for cut in cuts) >= PIECE:
                    yield self.values_of(cuts)
                    cuts = []
        if cuts:
            yield self.values_of(cuts)

    def _piece(self, index: OrderIndex, low: int) -> tuple[int, int, int]:
        """Return the end of the next rows to evaluate, and the range of rows that they look at.

        At least about half of the rows looked at are evaluated: so wide frames at most double the work.
        """
        (by, *_) = self.windows.order
        count = PIECE
        while True:
            high = min(low + count, index.size)
            first, end = looked_at(index, range(low, high), self.reach, by, self.types[by.column])
            if high == index.size or end - first <= 2 * count:
                return high, first, end
            count = end - first

    def cut(self, index: OrderIndex, places: range, first: int, end: int) -> Cut:
        """Return the rows at ``places`` as a cut, with the rows from ``first`` to ``end`` around them."""
        groups = index.groups_before(np.array([first])).item() if self.reach.counts_groups else 0
        return Cut(
            index.pieces(first, end), places.start - first, len(places), index.size, first, groups,
            lambda wanted: index.before(first, wanted, self.summarise),
            lambda wanted: index.after(end, wanted, self.summarise),
        )  # fmt: skip

    def values_of(self, cuts: Sequence[Cut]) -> tuple[Codes, Codes]:
        """Return the rows of all cuts that are to be evaluated, one after another, and the calls' values."""
        codes = Pieces([piece for cut in cuts for piece in cut.pieces])
        excerpt = _excerpt_of(
            [
                (sum([p.shape[1] for p in pieces]), skipped, skipped + wanted, rows_before, groups_before, total)
                for pieces, skipped, wanted, total, rows_before, groups_before, *_ in cuts
            ],
            lambda summary: [cut.before(summary) for cut in cuts],
            lambda summary: [cut.after(summary) for cut in cuts],
        )
        values = np.empty((len(self.windows.calls), len(codes)), np.int64)
        call_values(Partitions(self.windows, self.types, codes, self.interner, excerpt), values)
        places = places_from(excerpt.low, excerpt.high - excerpt.low)
        return codes.take(places), values.take(places, axis=1)


def _excerpt_of(
    cuts: Sequence[tuple[int, ...]], before: Callable[[Summary], list[Any]], after: Callable[[Summary], list[Any]]
) -> Excerpt:
    """Return cuts (rows, start and end to evaluate, rows before, groups before, partition size) as an excerpt."""
    sizes, low, high, rows, groups, totals = np.array([*zip(*cuts, strict=True)])
    starts = sizes.cumsum() - sizes
    return Excerpt(starts, sizes, starts + low, starts + high, rows, groups, totals, before, after)


class Pieces:
    """Matrices of codes side by side, of which each column is concatenated when it is first read.

    >>> rows = Pieces([np.array([[1, 2], [5, 6]]), np.array([[3], [7]])])
    >>> len(rows), rows[1].tolist(), rows.take(np.array([0, 2])).tolist()
    (3, [5, 6, 7], [[1, 3], [5, 7]])
    """

    def __init__(self, pieces: Sequence[Codes]) -> None:
        self._pieces = pieces
        self._length: int = sum([piece.shape[1] for piece in pieces])
        self._columns: dict[int, Ints] = {}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, column: int) -> Ints:
        found = self._columns.get(column)
        if found is None:
            found = self._columns[column] = np.concatenate([piece[column] for piece in self._pieces])
        return found

    def take(self, places: Ints) -> Codes:
        """Return the rows at some places."""
        return np.array([self[column].take(places) for column in range(len(self._pieces[0]))])


# -- before and after edits --------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Some runs of a partition, and their edits."""

    partition: OrderIndex
    edits: Edits
    runs: Runs
    more: int
    """How many rows all edits of the partition add, net."""


def _parts(index: OrderIndex, edits: Edits, runs: Runs) -> Iterator[_Part]:
    """Split runs into parts of about `BLOCK` rows, each with its edits."""
    more = sum(edits.copies.tolist())
    if len(runs.first) == 1:
        yield _Part(index, edits, runs, more)
        return
    ends = (runs.end - runs.first).cumsum()
    low, count = 0, len(ends)
    firsts = [*runs.edits.tolist(), len(edits.places)]
    while low < count:
        before = ends.item(low - 1) if low else 0
        high = max(int(ends.searchsorted(before + BLOCK, "right")), low + 1)
        some = edits.part(firsts[low], firsts[high])
        yield _Part(index, some, Runs(runs.edits[low:high] - firsts[low], *(of[low:high] for of in runs[1:])), more)
        low = high


def _blocks(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Group parts into blocks of about `BLOCK` rows."""
    if len(parts) == 1:
        yield [*parts]
        return
    block: list[_Part] = []
    size = 0
    for part in parts:
        more = int((part.runs.end - part.runs.first).sum())
        if block and size + more > BLOCK:
            yield block
            block, size = [], 0
        block.append(part)
        size += more
    if block:
        yield block


class _BeforeAndAfter:
    """The rows of all runs, first as they are before the edits, then as they are after them.

    A column that no call reads is gathered only at the rows that change.
    """

    def __init__(self, parts: Sequence[_Part]) -> None:
        pieces = [piece for part in parts for piece in part.partition.pieces_of(part.runs.first, part.runs.end)]
        before: int = sum([piece.shape[1] for piece in pieces])
        edits = _moved(parts)
        self._before = before
        """How many of the rows are old ones."""
        self._pieces = Pieces([*pieces, edits.rows])
        numbers = first_numbers(len(self._pieces))[None]
        self._source: Ints = edited(numbers[:, :before], edits._replace(rows=numbers[:, before:]))[0]
        """For each new row, the old row it is; or, numbered after the old ones, the edit that inserts it."""

    def __len__(self) -> int:
        return self._before + len(self._source)

    def __getitem__(self, column: int) -> Ints:
        codes = self._pieces[column]
        return np.concatenate((codes[: self._before], codes.take(self._source)))

    def changed(self, values: Codes, asked: Bools | None, kept: Sequence[int]) -> Changed:
        """Return the rows that go or come, and the evaluated rows whose values differ."""
        stay = (self._source < self._before).nonzero()[0]
        old, new = self._source.take(stay), stay + self._before
        differ = values.take(old, axis=1) != values.take(new, axis=1)
        differs = differ[0] if len(differ) == 1 else differ.any(axis=0)
        if asked is not None:
            differs &= asked.take(old)
        changes = np.ones(len(self), np.bool_)
        changes[old] = changes[new] = differs
        places = changes.nonzero()[0]
        gone = int(places.searchsorted(self._before))
        source = np.concatenate((places[:gone], self._source.take(places[gone:] - self._before)))
        rows = np.empty((len(kept) + len(values), len(places)), np.int64)
        for row, column in zip(rows, kept, strict=False):
            self._pieces[column].take(source, out=row, mode="clip")
        values.take(places, axis=1, out=rows[len(kept) :], mode="clip")
        return Changed(rows, gone)


def _moved(parts: Sequence[_Part]) -> Edits:
    """Return the edits with places among the rows cut out."""
    found, start = list[Edits](), 0
    for _, edits, runs, _ in parts:
        sizes = runs.end - runs.first
        ends = sizes.cumsum() + start
        moved = ends - sizes - runs.first
        if len(moved) > 1:
            moved = moved.repeat(run_lengths(runs.edits, len(edits.places)))
        found.append(edits._replace(places=edits.places + moved))
        start = ends.item(-1)
    if len(found) == 1:
        return found[0]
    places, rows, copies = zip(*found, strict=True)
    return Edits(np.concatenate(places), np.concatenate(rows, axis=1), np.concatenate(copies))
