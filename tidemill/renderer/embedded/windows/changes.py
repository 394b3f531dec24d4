"""Changes of calls' values by edits: the affected rows are cut out as they are and as they will be, and compared.

Both are evaluated by the code that computes whole partitions, in one call for many runs. Nothing of the output is kept:
what it was is computed once more. Of columns that no call reads only the rows that change are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import attrs
import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints
from tidemill.renderer.embedded.windows.affected import Reach, Runs, affected, looked_at
from tidemill.renderer.embedded.windows.chunks import Changed, Edits, edited_pieces, places_from
from tidemill.renderer.embedded.windows.early_stop import EarlyStop
from tidemill.renderer.embedded.windows.evaluate import call_values
from tidemill.renderer.embedded.windows.frame import Excerpt, Partitions
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.scalar import FEW, run_of_few
from tidemill.renderer.embedded.windows.summaries import Summarise, Summary, summariser

BLOCK: Final = 1 << 15
"""Rows that are looked at at a time, so that what is worked out of them stays in fast memory; or those of one run."""
PIECE: Final = 1 << 14
"""Rows of whole partitions whose values are worked out at a time."""


class Cut(NamedTuple):
    """Adjacent rows of a partition, in pieces, and what there is around them."""

    pieces: list[Codes]
    skipped: int
    """How many of the rows are before those whose values are wanted, to be looked at only."""
    wanted: int
    total: int
    """How many rows the partition has."""
    rows_before: int
    groups_before: int
    before: Callable[[Summary], Any]
    """The summaries of the rows before these."""
    behind: Callable[[Summary], Any]


@attrs.frozen
class Evaluator:
    """Calls, and what it takes to work out their values."""

    windows: Windows
    types: Sequence[DType]
    reach: Reach
    interner: Interner
    kept: Ints
    """Which of a row's codes come out again."""
    summarise: Summarise = attrs.field(init=False)
    stop: EarlyStop | None = attrs.field(init=False)
    _keeps_all: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_keeps_all", self.kept.tolist() == list(range(len(self.types))))
        object.__setattr__(self, "summarise", summariser(self.types, self.interner))
        object.__setattr__(self, "stop", self.reach.early_stop(self.summarise))

    def changed(self, partitions: Sequence[tuple[OrderIndex, Edits]]) -> Iterator[Changed]:
        """Iterate over how the rows of partitions change when edits are made, which are not made yet.

        `CallError` where a call has no value for a row, or for one that is only looked at.
        """
        (by, *_) = self.windows.order
        parts: list[_Part] = []
        for index, edits in partitions:
            dtype = self.types[by.column]
            runs = run_of_few(index, edits, self.reach, by, dtype, self.stop) if len(edits.places) <= FEW else None
            if runs is None:
                runs = affected(index, edits, self.reach, by, dtype, stop=self.stop)
            parts += _parts(index, edits, runs)
        for block in _blocks(parts):
            cuts = _Cuts(block)
            values = np.empty((len(self.windows.calls), cuts.codes.shape[1]), np.int64)
            rows = Partitions(self.windows, self.types, Pieces([cuts.codes]), self.interner, self._excerpt(block))
            call_values(rows, values)
            places = cuts.differing(values, rows.asked)
            codes = cuts.codes.take(places, axis=1)
            codes = codes if self._keeps_all else codes.take(self.kept, axis=0)
            yield Changed(np.concatenate((codes, values.take(places, axis=1))), int(places.searchsorted(cuts.middle)))

    def _excerpt(self, parts: Sequence[_Part]) -> Excerpt:
        """Return where each of the cuts that have rows begins, and what there is of its partition around it."""
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
        cuts = [cut for cut in (*old, *new) if cut[0]]
        sizes, low, high, rows, groups, totals = np.array([*zip(*cuts, strict=True)])
        starts = sizes.cumsum() - sizes

        def summaries(values: list[Any]) -> list[Any]:
            return [value for value, cut in zip(values * 2, (*old, *new), strict=True) if cut[0]]

        return Excerpt(
            starts, sizes, starts + low, starts + high, rows, groups, totals,
            lambda wanted: summaries([index.before(first, wanted, self.summarise) for index, first, _ in around]),
            lambda wanted: summaries([index.behind(end, wanted, self.summarise) for index, _, end in around]),
        )  # fmt: skip

    # -- whole partitions ----------------------------------------------------------------------------------------------

    def rows_with_values(self, partitions: Iterable[OrderIndex]) -> Iterator[tuple[Codes, Codes]]:
        """Iterate over the rows of partitions in their order, some at a time, and the calls' values of each."""
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
        """Return the end of the rows whose values are worked out next, and from where to where they look.

        They are about half of those looked at, or more: so wide frames cost no more than twice the rows.
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
        """Return the rows at some places of a partition, with those from one place up to another around them."""
        groups = index.groups_before(np.array([first])).item() if self.reach.counts_groups else 0
        return Cut(
            index.pieces(first, end), places.start - first, len(places), index.size, first, groups,
            lambda wanted: index.before(first, wanted, self.summarise),
            lambda wanted: index.behind(end, wanted, self.summarise),
        )  # fmt: skip

    def values_of(self, cuts: Sequence[Cut]) -> tuple[Codes, Codes]:
        """Return the rows of cuts whose values are wanted, one after another, and the calls' values."""
        codes = Pieces([piece for cut in cuts for piece in cut.pieces])
        given = np.array([sum(piece.shape[1] for piece in cut.pieces) for cut in cuts])
        starts = given.cumsum() - given
        skipped, wanted, totals, rows, groups = np.array([cut[1:6] for cut in cuts]).T
        low = starts + skipped
        excerpt = Excerpt(
            starts, given, low, low + wanted, rows, groups, totals,
            lambda summary: [cut.before(summary) for cut in cuts],
            lambda summary: [cut.behind(summary) for cut in cuts],
        )  # fmt: skip
        values = np.empty((len(self.windows.calls), len(codes)), np.int64)
        call_values(Partitions(self.windows, self.types, codes, self.interner, excerpt), values)
        places = places_from(low, wanted)
        return codes.take(places), values.take(places, axis=1)


class Pieces:
    """Matrices of codes side by side, which are put together when they are asked for.

    >>> rows = Pieces([np.array([[1, 2], [5, 6]]), np.array([[3], [7]])])
    >>> len(rows), rows[1].tolist(), rows.take(np.array([0, 2])).tolist()
    (3, [5, 6, 7], [[1, 3], [5, 7]])
    """

    def __init__(self, pieces: Sequence[Codes]) -> None:
        self._pieces = pieces
        self._length: int = sum([piece.shape[1] for piece in pieces])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, column: int) -> Ints:
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces, axis=1)]
        found: Ints = self._pieces[0][column]
        return found

    def take(self, places: Ints) -> Codes:
        """Return the rows at some places."""
        found: Codes = np.concatenate(self._pieces, axis=1).take(places, axis=1)
        return found


# -- before and after edits --------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Some runs of a partition, and their edits."""

    partition: OrderIndex
    edits: Edits
    runs: Runs
    more: int
    """By how many rows all edits make the partition larger."""


def _parts(index: OrderIndex, edits: Edits, runs: Runs) -> Iterator[_Part]:
    """Iterate over runs, some at a time, with their edits."""
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
    """Iterate over parts, some at a time."""
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


class _Cuts:
    """Rows cut out for runs: those before the edits, run by run, and then those after."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        pieces = [piece for part in parts for piece in part.partition.pieces_of(part.runs.first, part.runs.end)]
        self.middle = sum([piece.shape[1] for piece in pieces])
        """Where those after begin."""
        self._edits: list[tuple[int, int]] = []
        """Places among the rows before, and copies."""
        moved, start = [], 0
        for part in parts:
            edits, size = _moved(part)
            moved.append((edits, start, start + size))
            self._edits += [(place + start, copies) for place, copies in edits.items()]
            start += size
        more = sum([copies for _, copies in self._edits])
        self.codes: Codes = np.empty((len(edits.rows), 2 * start + more), np.int64)
        before = self.codes[:, :start]
        if pieces:
            np.concatenate(pieces, axis=1, out=before)
        after = [piece for edits, start, end in moved for piece in edited_pieces(before[:, start:end], edits)]
        np.concatenate(after, axis=1, out=self.codes[:, self.middle :])

    def differing(self, values: Codes, asked: Bools | None) -> Ints:
        """Return the places of rows that go, come, or have other values, where these are asked for."""
        changes, moved = np.zeros(self.codes.shape[1], np.bool_), self.middle
        for place, copies in self._edits:
            if copies < 0:
                changes[place : place - copies] = True
            else:
                changes[place + moved : place + moved + copies] = True
            moved += copies
        old, new = (~changes).nonzero()[0].reshape(2, -1)  # the others are, one by one, the same before and after
        differs = values.take(old, axis=1) != values.take(new, axis=1)
        at = (differs[0] if len(differs) == 1 else differs.any(axis=0)).nonzero()[0]
        old, new = old.take(at), new.take(at)
        changes[old] = changes[new] = True if asked is None else asked.take(old)
        return changes.nonzero()[0]


def _moved(part: _Part) -> tuple[Edits, int]:
    """Return the edits of runs at their places among the rows cut out, and how many rows these are."""
    _, edits, runs, _ = part
    if len(runs.first) == 1:
        return Edits(edits.places - runs.first, edits.rows, edits.copies), runs.end.item() - runs.first.item()
    sizes = runs.end - runs.first
    ends = sizes.cumsum()
    moved = (ends - sizes - runs.first).repeat(np.append(runs.edits[1:], len(edits.places)) - runs.edits)
    return Edits(edits.places + moved, edits.rows, edits.copies), ends.item(-1)
