"""Where many rows are, or would be, in a large partition: all of them are looked for at once."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Bools, Codes, Ints
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["places_of", "rows_at"]

TIED: Final = 256
"""Where more rows than these begin alike, halving them is cheaper than to put a row in its order with all."""


def places_of(rows: OrderedPartition, new: Codes) -> tuple[Ints, Bools]:
    """Return the first place at which each of some rows is, or would be, and which of them are there.

    The rows are given in their order.
    """
    numbers = rows.order.number(new[rows.by[0]])
    places = rows.places_of_numbers(numbers)
    inside = (places < len(rows)).nonzero()[0]
    low = places.take(inside)
    here, sought = rows.spans(low, low + 1), new.take(inside, axis=1)
    there = np.zeros(len(places), np.bool_)
    there[inside] = same = (here == sought).all(axis=0)
    begins_alike = rows.order.number(here[rows.by[0]]) == numbers.take(inside)
    tied = inside.compress(begins_alike & ~same)
    if len(tied):
        widths = rows.places_of_numbers(numbers.take(tied), right=True) - places.take(tied)
        for some, find in ((widths <= TIED, _among_few), (widths > TIED, _one_by_one)):
            if some.any():
                at = tied.compress(some)
                places[at], there[at] = find(rows, new.take(at, axis=1), places.take(at), widths.compress(some))
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
