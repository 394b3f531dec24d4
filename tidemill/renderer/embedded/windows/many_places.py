"""Where many rows are, or would be, in a large partition: all of them are looked for at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints
from tidemill.renderer.embedded.windows.edits import ManyEdits
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["Check", "edits_of", "places_of", "places_where_tied", "rows_at"]

Check: TypeAlias = Callable[[slice, Bools], None]
"""What is told which of some of the rows that were looked for are there; it raises `CallError` where one is lacking."""

TIED: Final = 256
"""Where more rows than these begin alike, halving them is cheaper than to put a row in its order with all."""


def edits_of(rows: OrderedPartition, new: Codes, copies: Ints, check: Check) -> ManyEdits:
    """Return edits, given by rows in their order, at their places."""
    places, there = places_of(rows, new)
    check(slice(len(copies)), there)
    return ManyEdits(places, new, copies)


def places_of(rows: OrderedPartition, new: Codes) -> tuple[Ints, Bools]:
    """Return the first place at which each of some rows is, or would be, and which of them are there.

    The rows are given in their order.
    """
    first = rows.places_of_numbers(rows.order.number(new[rows.by[0]]))
    inside = (first < len(rows)).nonzero()[0]
    low = first.take(inside)
    return places_where_tied(rows, new, first, inside, rows.spans(low, low + 1))


def places_where_tied(rows: OrderedPartition, new: Codes, first: Ints, inside: Ints, here: Codes) -> tuple[Ints, Bools]:
    """Return what `places_of` does, given the first places of rows that have the new rows' numbers, or greater ones.

    And what rows are there, for those of the new rows that are ``inside``: no others are in the partition.
    """
    places, sought = first, new.take(inside, axis=1)
    there = np.zeros(len(places), np.bool_)
    there[inside] = same = (here == sought).all(axis=0)
    by = rows.by[0]
    begins_alike = rows.order.number(here[by]) == rows.order.number(sought[by])
    tied = inside.compress(begins_alike & ~same)
    if len(tied):
        places = first.copy()
        last = rows.places_of_numbers(rows.order.number(new[by].take(tied)), right=True)
        widths = last - first.take(tied)
        for some, find in ((widths <= TIED, _among_few), (widths > TIED, _one_by_one)):
            if some.any():
                at = tied.compress(some)
                places[at], there[at] = find(rows, new.take(at, axis=1), first.take(at), widths.compress(some))
    return places, there


def rows_at(rows: OrderedPartition, places: Ints) -> Codes:
    """Return the rows at places, which ascend: those one after another are cut out together."""
    begins = np.concatenate(([True], places[1:] != places[:-1] + 1)).nonzero()[0] if len(places) else places
    low = places.take(begins)
    return rows.spans(low, low + np.diff(begins, append=len(places)))


def _among_few(rows: OrderedPartition, new: Codes, low: Ints, widths: Ints) -> tuple[Ints, Bools]:
    """Return the places of rows, and which are there, each among so many from a place on: by sorting.

    Those that begin alike are all among the same rows, which are looked at once.
    """
    count = len(low)
    begins = np.concatenate(([True], low[1:] != low[:-1]))
    firsts, number = low.compress(begins), begins.cumsum() - 1
    sizes = widths.compress(begins)
    around = rows.spans(firsts, firsts + sizes)
    codes = np.concatenate((new, around), axis=1)
    group = np.concatenate((number, np.arange(len(firsts)).repeat(sizes)))
    is_old = (np.arange(len(group)) >= count).astype(np.int64)
    rank = np.empty(len(group), np.int64)
    rank[rows.order.sorted(list(codes), group, [is_old]).order] = np.arange(len(group))
    at = rank[:count] - np.arange(count)  # among the rows around: the new ones in front are as many as are given
    found = at - (sizes.cumsum() - sizes).take(number)
    there = found < widths
    there[there] = (around.take(at.compress(there), axis=1) == new.compress(there, axis=1)).all(axis=0)
    return low + found, there


def _one_by_one(rows: OrderedPartition, new: Codes, _low: Ints, _widths: Ints) -> tuple[Ints, Bools]:
    places = np.array([rows.place_of(row) for row in new.T.tolist()], np.int64)
    there = places < len(rows)
    at = places.compress(there)
    there[there] = (rows.spans(at, at + 1) == new.compress(there, axis=1)).all(axis=0)
    return places, there
