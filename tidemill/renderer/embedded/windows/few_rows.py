"""Aggregates over frames of a few rows, row by row in Python: there a call of NumPy's costs more than its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall
from tidemill.renderer.embedded.kernels.codec import float_code
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.partitions import Partitions

__all__ = ["FEW", "TOO_LARGE", "Code", "aggregate_of_few", "code_of_few"]

FEW: Final = 32
"""Up to so many rows, Python is faster."""

Code: TypeAlias = Callable[[Sequence[int]], int]
"""Finds the code of an aggregate of a frame's values, which are whole numbers."""


def code_of_few(call: AggregateCall, types: Sequence[DType]) -> Code | None:
    """Return what finds the codes of an aggregate of whole numbers over frames of so many rows before and after.

    None for any other call.
    """
    frame, of = call.frame, call.aggregate
    if of.column is None or types[of.column].name != "int64" or call.distinct:
        return None
    if frame.mode != "rows" or frame.exclusion != "no others":
        return None
    return _CODES.get(of.function) if isinstance(frame.start, int) and isinstance(frame.end, int) else None


def aggregate_of_few(rows: Partitions, call: AggregateCall) -> Ints | None:
    """Return what `aggregate` does, of calls for which there is a `code_of_few`.

    None for any other call, and where a sum is too large.
    """
    column, low, high = call.aggregate.column, call.frame.start, call.frame.end
    code_of = code_of_few(call, rows.types)
    if code_of is None or column is None or not (isinstance(low, int) and isinstance(high, int)):
        return None
    codes = rows.codes(column).tolist()
    asked = None if rows.wanted is None else set(rows.wanted.tolist())
    found = [NULL] * len(codes)
    for start, end in pairwise([*rows.starts.tolist(), len(codes)]):
        for place in range(start, end):
            if asked is None or place in asked:
                values = codes[max(place + low, start) : max(min(place + high + 1, end), start)]
                found[place] = code_of([v for v in values if v != NULL] if NULL in values else values)
    return None if TOO_LARGE in found else np.array(found, np.int64)


TOO_LARGE: Final = -(2**64)
"""Stands for a sum that has no code."""


def _sum(values: Sequence[int]) -> int:
    total = sum(values)
    return NULL if not values else total if abs(total) <= INT64_LIMIT else TOO_LARGE


def _avg(values: Sequence[int]) -> int:
    return float_code(sum(values) / len(values)) if values else NULL


def _least(values: Sequence[int]) -> int:
    return min(values, default=NULL)


def _greatest(values: Sequence[int]) -> int:
    return max(values, default=NULL)


_CODES: Final[dict[str, Code]] = {"count": len, "sum": _sum, "avg": _avg, "min": _least, "max": _greatest}
