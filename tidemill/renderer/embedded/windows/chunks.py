"""Chunks: some rows of a large partition, one after another, in memory or read from elsewhere when looked at first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Codes, Ints
from tidemill.renderer.embedded.trace.stored_order import StoredPage
from tidemill.renderer.embedded.windows.digests import Digest
from tidemill.renderer.embedded.windows.edits import ManyEdits, edited_pieces, places_from

__all__ = ["PLACES", "Chunk", "StoredChunk", "edited_chunks", "leads_of", "parts_of"]

PLACES: Final = np.arange(1 << 12)
"""Where peer groups begin in a chunk of which each row is one: for all such chunks of usual size."""


class Chunk:
    """Some rows of the partition, one after another."""

    __slots__ = ("codes", "digests", "leads", "starts")

    def __init__(self, codes: Codes, leads: Ints) -> None:
        self.codes = codes
        self.leads = leads
        """The numbers of the rows' first ORDER BY column, which never fall."""
        self.starts: Ints | None = None
        """Where peer groups begin, once that was asked."""
        self.digests: dict[Digest, Any] | None = None
        """What its rows come to, as far as that was asked: nobody asks most chunks, so these have no dict."""

    @property
    def size(self) -> int:
        return len(self.leads)

    @property
    def first(self) -> int:
        """The first row's number."""
        return int(self.leads[0])

    @property
    def last(self) -> int:
        return int(self.leads[-1])

    @property
    def groups(self) -> int | None:
        """How many peer groups it has, where that is known without a look at it."""
        return None

    @property
    def bytes(self) -> int:
        leads = 0 if self.leads.base is not None else self.leads.nbytes  # else they are the codes
        starts = 0 if self.starts is None or self.starts.base is PLACES else self.starts.nbytes
        return self.codes.nbytes + leads + starts

    def digest(self, wanted: Digest, made: Callable[[Ints], Any]) -> Any:
        if self.digests is None:
            self.digests = {}
        if wanted not in self.digests:
            self.digests[wanted] = made(self.codes[wanted.column])
        return self.digests[wanted]


class StoredChunk(Chunk):
    """Rows outside of memory, which are read when they are looked at first: what is known of them is not."""

    __slots__ = ("_number", "page")

    def __init__(self, page: StoredPage, number: Callable[[Codes], Ints]) -> None:
        # Not those of a chunk: a slot without a value is what has them read, and costs others nothing.
        self.page: StoredPage | None = page
        self._number = number
        self.starts = None
        self.digests = None

    def __getattr__(self, name: str) -> Any:
        if name not in ("codes", "leads") or self.page is None:
            raise AttributeError(name)
        codes = self.page.read()
        self.leads = self._number(codes)
        self.codes = codes
        self.page = None
        return getattr(self, name)

    @property
    def size(self) -> int:
        return super().size if self.page is None else self.page.rows

    @property
    def first(self) -> int:
        return super().first if self.page is None else self.page.first

    @property
    def last(self) -> int:
        return super().last if self.page is None else self.page.last

    @property
    def groups(self) -> int | None:
        return None if self.page is None else self.page.groups

    @property
    def bytes(self) -> int:
        return super().bytes if self.page is None else 0


def edited_chunks(  # noqa: PLR0917 - where edits are, and what they are
    chunks: Sequence[Chunk],
    touched: Sequence[int],
    firsts: Sequence[int],
    places: Sequence[int],
    edits: ManyEdits,
    numbers: Callable[[Codes], Ints],
) -> list[Chunk]:
    """Return chunks with edits made at places in those touched, of each from a first edit on, and rows' numbers anew.

    Chunks may have any number of rows then. Those that are edited are replaced, not written to.
    """
    found, copies, rows = list(chunks), edits.copies.tolist(), edits.rows
    for number, low, high in zip(touched, firsts, [*firsts[1:], len(places)], strict=True):
        made = np.concatenate(edited_pieces(found[number].codes, places, copies, rows, range(low, high)), axis=1)
        found[number] = Chunk(made, numbers(made))
    return found


def parts_of(ends: Ints, lows: Ints, highs: Ints) -> Iterator[tuple[int, int, int]]:
    """Iterate over the chunks that lie from some places up to others, and from where to where in each.

    Chunks are given by the places after their last rows.

    >>> list(parts_of(np.array([4, 9, 12]), np.array([1, 4, 7]), np.array([3, 5, 10])))
    [(0, 1, 3), (1, 0, 1), (1, 3, 5), (2, 0, 1)]
    """
    some = lows < highs
    if not some.all():
        lows, highs = lows.compress(some), highs.compress(some)
    starts, chunks = np.concatenate(([0], ends)), ends.searchsorted(lows, "right")
    counts = ends.searchsorted(highs) - chunks + 1
    if np.count_nonzero(counts != 1):  # some go on in the next chunk
        chunks = places_from(chunks, counts)
        lows = np.maximum(lows.repeat(counts), starts.take(chunks))
        highs = np.minimum(highs.repeat(counts), ends.take(chunks))
    starts = starts.take(chunks)
    return zip(chunks.tolist(), (lows - starts).tolist(), (highs - starts).tolist(), strict=True)


def leads_of(chunks: Sequence[Chunk], asked: Ints) -> Iterator[tuple[Ints, int, int]]:
    """Iterate over the numbers of rows in the chunks that are asked for, and which, one after another, ask for each."""
    firsts = np.concatenate(([True], asked[1:] != asked[:-1])).nonzero()[0] if len(asked) else asked
    bounds = [*firsts.tolist(), len(asked)]
    for number, low, high in zip(asked.take(firsts).tolist(), bounds, bounds[1:], strict=False):
        yield chunks[number].leads, low, high
