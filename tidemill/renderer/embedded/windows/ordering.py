"""The order of rows in their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import MOST_COPIES, CallError, Windows, too_many_copies
from tidemill.renderer.embedded.kernels.codec import Interner, order_ranks
from tidemill.renderer.embedded.kernels.sorting import refine, sort_by
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints
from tidemill.renderer.embedded.kernels.values import sort_values
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn

CHUNK: Final = 1 << 16
"""About how many rows are looked at at once, so that what is computed from them stays small."""


class GivenRows(NamedTuple):
    """Rows of partitions, in any order."""

    partition: Ints
    """The number of each row's partition."""
    codes: Codes
    """The codes of the rows' columns."""
    counts: Ints
    """How often each row is there, which is positive."""


class OrderedRows(NamedTuple):
    """Rows sorted by partition and in it by the order, each copy a row. A position is where in them a row is."""

    source: Ints
    """Which of the rows given is at each position."""
    starts: Ints
    """The positions at which partitions begin."""
    peer_starts: Ints
    """The positions at which peer groups begin."""
    all_differ: bool = False
    """Whether no two of them are equal, as far as that is known."""


def in_order(windows: Windows, types: Sequence[DType], given: GivenRows, interner: Interner) -> OrderedRows:
    """Return the order of rows, each copy a row; `CallError` for one that is there too often."""
    keys = [_sort_values(o, given.codes[o.column], types[o.column], interner) for o in windows.order]
    order, new, begins = sort_by([given.partition, *keys])
    peer_starts = new.nonzero()[0]
    all_differ = bool(new.all())
    for o in () if all_differ else windows.ties:
        if o.column < len(given.codes):
            refine(order, new, partial(_sort_values_at, o, given.codes[o.column], types[o.column], interner))
        else:
            hashed = [SortColumn(i, types[i]) for i in windows.hash_columns]
            refine(order, new, partial(RowOrder((), interner, hashed).hashes_at, list(given.codes)))
    starts = begins.nonzero()[0]
    if (given.counts == 1).all():
        return OrderedRows(order, starts, peer_starts, all_differ=all_differ or bool(new.all()))
    most = int(given.counts.argmax())
    if given.counts[most] > MOST_COPIES:
        raise CallError(0, most, too_many_copies(int(given.counts[most])))
    copies = given.counts.take(order)
    before = copies.cumsum() - copies
    return OrderedRows(order.repeat(copies), before.take(starts), before.take(peer_starts))


def order_of_rows(windows: Windows, types: Sequence[DType], interner: Interner, keys: int) -> RowOrder:
    """Return the order of the rows of a partition; of the types, which are theirs, the first ``keys`` are the key's."""
    # Where no call depends on the order of peers, rows are found again by all they have.
    ties = windows.ties or tuple(OrderColumn(c) for c in windows.kept(keys)[keys:])
    by_hash = any(o.column >= len(types) for o in ties)
    columns = [
        SortColumn(o.column, types[o.column], o.descending, o.nulls_first)
        for o in (*windows.order, *(() if by_hash else ties))
    ]
    row, hashed = ([SortColumn(i, types[i]) for i in some] * by_hash for some in (windows.row, windows.hash_columns))
    return RowOrder(columns, interner, row, hashed)


def _sort_values(by: OrderColumn, codes: Ints, dtype: DType, interner: Interner) -> Ints:
    ranks = order_ranks(codes, dtype, interner)
    if ranks is not codes:
        codes = np.where(codes == NULL, NULL, ranks)
    return sort_values(codes, descending=by.descending, nulls_first=by.nulls_first)


def _sort_values_at(by: OrderColumn, codes: Ints, dtype: DType, interner: Interner, rows: Ints) -> Ints:
    return _sort_values(by, codes.take(rows), dtype, interner)


def chunks(ordered: OrderedRows) -> Iterator[OrderedRows]:
    """Iterate over whole partitions, some at a time."""
    n = len(ordered.source)
    if 0 < n <= CHUNK:
        yield ordered
        return
    cuts = ordered.starts[ordered.starts.searchsorted(np.arange(CHUNK, ordered.starts.max(initial=0), CHUNK))]
    for begin, end in pairwise(np.unique(np.concatenate(([0], cuts, [n]))).tolist()):
        starts, peer_starts = (
            s[slice(*s.searchsorted([begin, end]))] - begin for s in (ordered.starts, ordered.peer_starts)
        )
        yield OrderedRows(ordered.source[begin:end], starts, peer_starts)


def run_lengths(starts: Ints, end: int) -> Ints:
    """Return how long runs are that follow one another up to an end."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = end
    return ends - starts
