"""How the rows of a key with many of them lie in a sorted file: in an order, in pages that have no other key's.

Of each page the file's index has what is known without reading it: the numbers in the order of its first and last row,
how many rows and peer groups it has. Pages end where that number changes, so that no row elsewhere is a peer of one of
theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Ints, UpdateArray
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.trace.stored_order import KeyOrder, begins_of

_LEAST: Final = 2
"""Pages of a key from which on its rows lie in order."""
_MIXED: Final = -1
"""Instead of a number of peer groups, of pages in which rows lie as they are needed for their keys alone."""
NO_ORDER: Final = (0, 0, 0, _MIXED)
"""What is known of such pages."""
_COPIES: Final = 2
"""So many copies of a row there may be on average, since in order each is a row."""


class Placed(NamedTuple):
    """How rows are to lie."""

    order: Ints
    pages: list[tuple[int, int]]
    """Where each page begins and ends."""
    about: list[tuple[int, int, int, int]]
    """What is known of each page: its first and last number in the order, how many rows and how many peer groups."""


def placed(  # noqa: PLR0917 - what lies how, and in which pages
    hashes: Ints, codes_of: Callable[[Ints], UpdateArray], keys: Sequence[int], by: KeyOrder, most: int, mixed: int
) -> Placed:
    """Return how rows are to lie, sorted by the hash of their key: about so many in a page, or ``mixed`` in no order.

    Of some of them, that have the same hash, the codes are asked for, with how often they are there.
    """
    found: Ints = hashes.argsort(kind="stable")
    pages, about = list[tuple[int, int]](), list[tuple[int, int, int, int]]()
    for start, end, is_large in _stretches(hashes.take(found), _LEAST * most):
        rows = codes_of(found[start:end]) if is_large else None
        if rows is None or not _may_lie_in_order(rows, keys):
            pages += [(low, min(low + mixed, end)) for low in range(start, end, mixed)]
            about += [NO_ORDER] * (len(pages) - len(about))
            continue
        order, some, known = _in_order(rows, by, most)
        found[start:end] = found[start:end].take(order)
        pages += [(start + low, start + high) for low, high in some]
        about += known
    return Placed(found, pages, about)


def _stretches(hashes: Ints, large: int) -> Iterator[tuple[int, int, bool]]:
    """Iterate over the stretches of rows with one hash that are large, and those of all others between them."""
    ends = np.append((hashes[1:] != hashes[:-1]).nonzero()[0] + 1, len(hashes))
    sizes = np.diff(ends, prepend=0)
    done = 0
    for which in (sizes >= large).nonzero()[0].tolist():
        end = int(ends[which])
        start = end - int(sizes[which])
        if done < start:
            yield done, start, False
        yield start, end, True
        done = end
    if done < len(hashes):
        yield done, len(hashes), False


def _may_lie_in_order(rows: UpdateArray, keys: Sequence[int]) -> bool:
    """Return whether all rows have the same key, not just its hash, and are there once, or hardly more often."""
    some, counts = rows[list(keys)], rows[-1]
    return bool((counts > 0).all() and counts.sum() <= _COPIES * len(counts) and (some == some[:, :1]).all())


def _in_order(rows: UpdateArray, by: KeyOrder, most: int) -> tuple[Ints, list[tuple[int, int]], list[Any]]:
    """Return how rows of one key are to lie, their pages, and what is known of each."""
    order = by.order.sorted(list(rows[:-1]), np.zeros(rows.shape[1], np.int64)).order
    peers = [c.row for c in by.order.columns[: by.peers]]
    leads = by.order.number(rows[peers[0]].take(order))
    begins = begins_of(rows[peers].take(order, axis=1), list(range(len(peers))))
    counts = rows[-1].take(order)
    pages = list(_cut(leads, most))
    return (
        order,
        pages,
        [
            (
                int(leads[low]),
                int(leads[high - 1]),
                int(counts[low:high].sum()),
                int(np.count_nonzero(begins[low:high])),
            )
            for low, high in pages
        ],
    )


def _cut(leads: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Iterate over the pages of rows: as many as there is room for, up to where the number changes; or more."""
    changes = np.append((leads[1:] != leads[:-1]).nonzero()[0] + 1, len(leads))
    start = 0
    while start < len(leads):
        last = int(changes.searchsorted(start + most, "right")) - 1
        if last < 0 or changes[last] <= start:  # more rows with one number than a page has
            last = int(changes.searchsorted(start, "right"))
        end = int(changes[last])
        yield start, end
        start = end


def with_interner(by: KeyOrder, interner: Interner) -> KeyOrder:
    """Return the same order, of codes of other values."""
    return KeyOrder(RowOrder(by.order.columns, interner, by.order.row, by.order.hashed), by.peers)


class About(NamedTuple):
    """What is known of a page of which all rows have one key."""

    page: int
    first: int
    last: int
    rows: int
    groups: int


def about_pages(directory: Ints, hashes: Ints) -> dict[int, list[About]]:
    """Return what a file says of pages of one key each, by the hash of that: rows of what `Placed.about` has."""
    if not directory.shape[1]:
        return {}
    found: dict[int, list[About]] = {}
    for page in (directory[:, -1] != _MIXED).nonzero()[0].tolist():
        found.setdefault(int(hashes[page]), []).append(About(page, *directory[page].tolist()))
    return {key: pages for key, pages in found.items() if len(pages) >= _LEAST}
