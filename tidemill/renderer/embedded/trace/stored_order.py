"""Stored orders: the sorted rows of one key in pages outside of memory, with a directory, each page read on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Bools, Codes, UpdateArray
from tidemill.renderer.embedded.trace.row_order import RowOrder


class KeyOrder(NamedTuple):
    """The order in which rows of one key are to lie."""

    order: RowOrder
    peers: int
    """How many of the order's columns, which come first, make rows peers: at least one."""


class StoredPage(NamedTuple):
    """Some rows of a key, one after another. No row elsewhere has the same number in the order as one of these."""

    first: int
    """The first row's number in the order (`RowOrder.number`)."""
    last: int
    rows: int
    groups: int
    """How many peer groups there are."""
    read: Callable[[], Codes]


class StoredOrder(NamedTuple):
    """All rows of a key: those that lie in pages, in order, and what was changed since."""

    pages: list[StoredPage]
    rest: UpdateArray

    @property
    def rows(self) -> int:
        """How many rows lie in pages."""
        return sum(page.rows for page in self.pages)


def begins_of(codes: Codes, by: list[int]) -> Bools:
    """Return where rows differ in some columns from the one before; the first one does."""
    new = np.zeros(codes.shape[1], np.bool_)
    new[:1] = True
    for row in by:
        new[1:] |= codes[row, 1:] != codes[row, :-1]
    return new
