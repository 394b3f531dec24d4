"""Edits of a chunk where it lies: the rows on the shorter side of an edit move, into room that was left for them.

Copying a chunk for each edit costs as much as all else that an epoch of many edits does to it. What moves is noted, so
that it can be moved back where the step fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Codes

__all__ = ["SPARE", "Move", "edited_in_place", "has_room", "undo", "with_room"]

SPARE: Final = 32
"""Rows that there is room for at each end of a chunk that was copied."""

Move: TypeAlias = tuple[Codes, int, int, int, int, int, Codes, int]
"""A room, from where to where in it rows lay and by how much they moved; and from where to where some were taken out.

Then rows, and the number of that which these were. A plain tuple: one is made for every edit.
"""


def with_room(pieces: Sequence[Codes]) -> Codes:
    """Return pieces side by side, with room for more rows before and behind them.

    >>> with_room([np.array([[1, 2]]), np.array([[3]])]).shape
    (1, 67)
    """
    size = sum([piece.shape[1] for piece in pieces])
    room: Codes = np.empty((len(pieces[0]), size + 2 * SPARE), np.int64)
    np.concatenate(pieces, axis=1, out=room[:, SPARE : SPARE + size])
    return room


def has_room(room: Codes, begin: int, end: int, more: int) -> bool:
    """Return whether so many rows have room at either end of those that lie in a room, and fill half of it."""
    size: int = room.shape[1]
    return more <= begin and end + more <= size <= 2 * (end - begin)


def edited_in_place(  # noqa: PLR0917 - called for each of many chunks
    room: Codes,
    begin: int,
    end: int,
    places: Sequence[int],
    copies: Sequence[int],
    rows: Codes,
    which: range,
    moves: list[Move],
) -> tuple[int, int]:
    """Return where the rows of a room begin and end after some of many edits, at places among them, were made there.

    There has to be room enough; see `has_room`. What moves is noted.
    """
    for i in reversed(which):  # so that the rows before an edit are those that there were
        place, more = begin + places[i], copies[i]
        rest = place if more > 0 else place - more
        is_front = place - begin < end - rest
        low, high, by = (begin, place, -more) if is_front else (rest, end, more)
        move = (room, low, high, by, place, rest, rows, i)
        # No call is between these two: that is where an interrupt would find one of them done, and not the other.
        room[:, low + by : high + by] = room[:, low:high]
        moves += (move,)
        if more > 0:
            first = place + by if is_front else place
            room[:, first : first + more] = rows[:, i : i + 1]
        if is_front:
            begin += by
        else:
            end += by
    return begin, end


def undo(moves: Sequence[Move]) -> None:
    """Move back what moved, in rooms that are as they were after the last of these moves."""
    for room, low, high, by, place, rest, rows, i in reversed(moves):
        room[:, low:high] = room[:, low + by : high + by]
        room[:, place:rest] = rows[:, i : i + 1]
