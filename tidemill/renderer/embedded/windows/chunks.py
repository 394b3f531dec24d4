"""Chunks of sorted rows, in memory or read from elsewhere when looked at first, and edits of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints, UpdateArray, first_numbers
from tidemill.renderer.embedded.trace.stored_order import StoredPage
from tidemill.renderer.embedded.windows.summaries import Summarise, Summary

EVERY: Final = np.arange(1 << 12)
"""The starts of peer groups in a chunk whose rows have no peers: one array for all chunks of usual size."""


class Edits(NamedTuple):
    """Copies of rows to put in before positions, or to take out from positions on, where their number is negative.

    Places ascend, and are those before all edits.
    """

    positions: Ints
    rows: Codes
    copies: Ints

    @property
    def ends(self) -> Ints:
        """The position after the rows taken out, of each."""
        return self.positions - np.minimum(self.copies, 0)

    @property
    def end(self) -> int:
        """The last of these."""
        return self.positions.item(-1) - min(self.copies.item(-1), 0)

    def items(self) -> Iterator[tuple[int, int]]:
        """Iterate over positions and copies."""
        return zip(self.positions.tolist(), self.copies.tolist(), strict=True)

    def part(self, low: int, high: int) -> Edits:
        """Return the edits from one up to another."""
        return Edits(self.positions[low:high], self.rows[:, low:high], self.copies[low:high])


class Changed(NamedTuple):
    """Rows that go, and then rows that come."""

    rows: UpdateArray
    """Codes as far as they come out again, the calls' values, and room for a time and a count."""
    gone: int
    """How many go."""


class Chunk:
    """Some rows of the partition, one after another."""

    __slots__ = ("codes", "leads", "starts", "summaries")

    def __init__(self, codes: Codes, leads: Ints) -> None:
        self.codes = codes
        self.leads = leads
        """The sort numbers of the rows' first ORDER BY column, which never fall."""
        self.starts: Ints | None = None
        """Where peer groups begin, once that was asked."""
        self.summaries: dict[Summary, Any] | None = None
        """Summaries of its rows, once they were asked: of most chunks nobody asks, so these have no dict."""

    @property
    def size(self) -> int:
        return len(self.leads)

    @property
    def first(self) -> int:
        """The first row's sort number."""
        return self.leads.item(0)

    @property
    def last(self) -> int:
        return self.leads.item(-1)

    @property
    def groups(self) -> int | None:
        """How many peer groups it has, where that is known without a look at it."""
        return None

    @property
    def bytes(self) -> int:
        leads = 0 if self.leads.base is not None else self.leads.nbytes  # else they are the codes
        starts = 0 if self.starts is None or self.starts.base is EVERY else self.starts.nbytes
        return self.codes.nbytes + leads + starts

    def summary(self, wanted: Summary, summarise: Summarise) -> Any:
        if self.summaries is None:
            self.summaries = {}
        if wanted not in self.summaries:
            self.summaries[wanted] = summarise(wanted, self.codes[wanted.column])
        return self.summaries[wanted]


class StoredChunk(Chunk):
    """Rows outside of memory, which are read when they are looked at first; what is known of them is not."""

    __slots__ = ("_number", "page")

    def __init__(self, page: StoredPage, number: Callable[[Codes], Ints]) -> None:
        # Its codes and numbers are slots without a value: that is what has them read, and costs other chunks nothing.
        self.page: StoredPage | None = page
        self._number = number
        self.starts = None
        self.summaries = None

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


def positions_from(starts: Ints, counts: Ints) -> Ints:
    """Return ``counts`` numbers from each start on, end to end.

    >>> positions_from(np.array([5, 9]), np.array([2, 1])).tolist()
    [5, 6, 9]
    """
    found: Ints = first_numbers(int(counts.sum())) + (starts - counts.cumsum() + counts).repeat(counts)
    return found


def edited(codes: Codes, edits: Edits) -> Codes:
    """Return rows with edits made at their positions among them."""
    return np.concatenate(pieces(codes, edits), axis=1)


def pieces(codes: Any, edits: Edits) -> list[Any]:
    """Return what rows with edits made at their positions among them consist of; or such numbers, where these are."""
    found: list[Any] = []
    done, rows = 0, edits.rows
    for number, (position, copies) in enumerate(edits.items()):
        found.append(codes[..., done:position])
        done = position
        if copies > 0:
            row = rows[..., number : number + 1]
            found.append(row if copies == 1 else row.repeat(copies, axis=-1))
        else:
            done -= copies
    found.append(codes[..., done:])
    return found


def divided(edits: Edits, beyond: Bools, ends: Ints) -> Edits:
    """Return edits with those that go beyond an end divided there."""
    times = beyond + 1
    at = (times.cumsum() - 1).compress(beyond)  # the second parts
    positions, copies, ends = edits.positions.repeat(times), edits.copies.repeat(times), ends.compress(beyond)
    left = edits.ends.compress(beyond) - ends
    copies[at - 1] += left
    copies[at] = -left
    positions[at] = ends
    return Edits(positions, edits.rows.repeat(times, axis=1), copies)
