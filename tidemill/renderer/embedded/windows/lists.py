"""The list of a frame's values, one list after another."""

from __future__ import annotations

from itertools import chain
from typing import Final

import numpy as np

from tidemill.boundary.list_columns import MOST_VALUES
from tidemill.expressions.windows.bound import AggregateCall
from tidemill.renderer.embedded.kernels.codec import order_ranks
from tidemill.renderer.embedded.kernels.updates import Ints
from tidemill.renderer.embedded.windows.frames import frame_parts
from tidemill.renderer.embedded.windows.partitions import Partitions, RefusedError, prefix_counts

__all__ = ["lists"]

TRUE: Final = 1
"""The code of true."""


def lists(rows: Partitions, call: AggregateCall) -> Ints:
    """Return the numbers of the lists of each frame's values, in the window's order or, without one, by value."""
    column, condition = call.aggregate.column, call.aggregate.condition
    assert column is not None
    codes, parts = rows.codes(column), frame_parts(rows, call.frame)
    if condition is not None:
        taken = rows.codes(condition) == TRUE
        before = prefix_counts(taken)
        codes, parts = codes[taken], [(before.take(start), before.take(end)) for start, end in parts]
    lengths = np.sum([end - start for start, end in parts], axis=0)
    if lengths.max(initial=0) > MOST_VALUES:
        raise RefusedError(int(lengths.argmax()), "overflow")
    values = codes.tolist()
    runs = zip(*(zip(start.tolist(), end.tolist(), strict=True) for start, end in parts), strict=True)
    found = [tuple(chain.from_iterable(values[a:b] for a, b in run)) for run in runs]
    if not rows.windows.order:
        ranks = dict(zip(values, order_ranks(codes, rows.types[column], rows.interner).tolist(), strict=True))
        found = [tuple(sorted(some, key=ranks.__getitem__)) for some in found]
    return np.array([rows.interner.number(some) for some in found], np.int64)
