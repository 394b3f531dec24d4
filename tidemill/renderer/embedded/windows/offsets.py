"""Lag and lead: the value so many rows away."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.windows.bound import OffsetCall
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.partitions import Partitions, prefix_counts

__all__ = ["value_at_offset"]

_FEW: Final = 4
"""Partitions that are gone through one by one."""


def value_at_offset(rows: Partitions, call: OffsetCall) -> Ints:
    """Return the codes of the value in another row of the partition, or of the default, at each place."""
    codes, default = rows.codes(call.column), rows.argument(call.default)
    if isinstance(call.offset, BoundLiteral) and call.offset.value is not None and not call.ignore_nulls:
        far = min(max(call.offset.value, -len(rows)), len(rows)) * (1 if call.function == "lead" else -1)
        if len(rows.starts) <= _FEW:
            return _moved(rows, codes, default, far)
        places = rows.places + far
        inside = places >= rows.first if far < 0 else places < rows.end
        return np.where(inside, codes.take(places, mode="clip"), default)
    offsets = rows.argument(call.offset)
    far = np.minimum(np.maximum(offsets, -len(rows)), len(rows))
    distance = far if call.function == "lead" else -far
    known = rows.known(call.column) if call.ignore_nulls else None
    if known is None:
        places = rows.places + distance
        inside = (places >= rows.first) & (places < rows.end)
        found = codes.take(places, mode="clip")
    else:
        before = prefix_counts(known)
        # Values are counted from the first one at or after the row, and those before it from there back.
        own = np.where(distance > 0, before[1:] - 1, before[:-1])
        ranks = own + distance
        inside = (ranks >= before.take(rows.first)) & (ranks < before.take(rows.end))
        values = codes[known]
        found = values.take(ranks, mode="clip") if len(values) else codes
        itself = distance == 0
        inside, found = inside | itself, np.where(itself, codes, found)
    result = np.where(inside, found, default)
    return np.where(offsets == NULL, NULL, result) if (offsets == NULL).any() else result


def _moved(rows: Partitions, codes: Ints, default: Ints, far: int) -> Ints:
    """Return the codes so far away in the partition of each row, or the default; of a few partitions."""
    found = np.empty(len(codes), np.int64)
    for start, end in pairwise([*rows.starts.tolist(), len(codes)]):
        if far > 0:
            middle = max(end - far, start)
            found[start:middle] = codes[start + far : end]
            found[middle:end] = default if len(default) == 1 else default[middle:end]
        else:
            middle = min(start - far, end)
            found[middle:end] = codes[start : max(end + far, start)]
            found[start:middle] = default if len(default) == 1 else default[start:middle]
    return found
