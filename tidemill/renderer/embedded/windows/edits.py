"""Edits of a large partition: one, or so many that they are not looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Codes, Ints, first_numbers

__all__ = ["Changed", "Edit", "ManyEdits", "edited", "edited_pieces", "places_from"]


class Edit(NamedTuple):
    """Copies of a row to be put in before a place, or taken out from it on, where their number is negative."""

    place: int
    row: Ints
    copies: int

    @property
    def end(self) -> int:
        """The place after those taken out."""
        return self.place - self.copies if self.copies < 0 else self.place


class ManyEdits(NamedTuple):
    """Edits as arrays, by ascending places."""

    places: Ints
    rows: Codes
    copies: Ints

    @property
    def ends(self) -> Ints:
        """The place after those taken out, of each."""
        return self.places - np.minimum(self.copies, 0)

    def each(self) -> list[Edit]:
        """Return the edits one by one."""
        return list(map(Edit, self.places.tolist(), self.rows.T, self.copies.tolist()))

    def part(self, low: int, high: int) -> ManyEdits:
        """Return the edits from one up to another."""
        return ManyEdits(self.places[low:high], self.rows[:, low:high], self.copies[low:high])

    def made(self, codes: Codes, places: Ints) -> list[Codes]:
        """Return rows with the edits made at places among them, as pieces."""
        return edited_pieces(codes, places.tolist(), self.copies.tolist(), self.rows, range(len(places)))


class Changed(NamedTuple):
    """Rows that go, and rows that come: codes as far as they come out again, and below them the calls' values."""

    gone: Codes
    come: Codes

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows go, and how many come."""
        return self.gone.shape[1], self.come.shape[1]

    def write(self, gone: Codes, come: Codes) -> None:
        """Write them to where they are to go."""
        gone[:] = self.gone
        come[:] = self.come


def places_from(starts: Ints, counts: Ints) -> Ints:
    """Return so many numbers from each start on.

    >>> places_from(np.array([5, 9]), np.array([2, 1])).tolist()
    [5, 6, 9]
    """
    found: Ints = first_numbers(int(counts.sum())) + (starts - counts.cumsum() + counts).repeat(counts)
    return found


def edited_pieces(codes: Codes, places: Sequence[int], copies: Sequence[int], rows: Codes, which: range) -> list[Codes]:
    """Return rows with some of many edits made, at places among them, as pieces; at last those behind the last edit."""
    pieces: list[Codes] = []
    done = 0
    for i in which:
        place, more = places[i], copies[i]
        pieces.append(codes[:, done:place])
        done = place
        if more > 0:
            pieces.append(rows[:, i : i + 1] if more == 1 else rows[:, i : i + 1].repeat(more, axis=1))
        else:
            done -= more
    pieces.append(codes[:, done:])
    return pieces


def edited(codes: Codes, edits: Sequence[Edit], origin: int = 0) -> Codes:
    """Return rows with edits made, whose places are counted from an origin and ascend."""
    pieces: list[Codes] = []
    done = 0
    for edit in edits:
        at = edit.place - origin
        if at > done:
            pieces.append(codes[:, done:at])
            done = at
        if edit.copies > 0:
            row = edit.row[:, None]
            pieces.append(row if edit.copies == 1 else row.repeat(edit.copies, axis=1))
        else:
            done = at - edit.copies
    pieces.append(codes[:, done:])
    return np.concatenate(pieces, axis=1)
