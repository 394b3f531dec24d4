"""Window calls over a few rows, row by row in Python: there a call of NumPy's costs more than its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, OffsetCall, RankingCall, Windows
from tidemill.renderer.embedded.kernels.codec import float_code
from tidemill.renderer.embedded.kernels.updates import NULL

__all__ = ["FEW", "TOO_LARGE", "CallOfFew", "FewRows", "FrameOfFew", "calls_of_few"]

FEW: Final = 32
"""Up to so many rows, Python is faster."""
TOO_LARGE: Final = -(2**64)
"""Stands for a sum that has no code."""

Code: TypeAlias = Callable[[Sequence[int]], int]
"""Finds the code of an aggregate of a frame's values, which are whole numbers."""


class FewRows(NamedTuple):
    """A few adjacent rows of a partition, in its order."""

    rows: Sequence[Sequence[int]]
    """Their codes."""
    wanted: Sequence[int]
    """The places in them of those that calls are for."""
    rows_before: int = 0
    groups_before: int = 0
    total: int = 0
    """How many rows the partition has."""


class CallOfFew(Protocol):
    """Works a call out for a few rows."""

    def codes(self, few: FewRows) -> list[int]:
        """Return the codes of the call for the rows wanted; among them `TOO_LARGE` where a sum is."""
        ...


def calls_of_few(windows: Windows, types: Sequence[DType]) -> tuple[CallOfFew, ...] | None:
    """Return what works all calls out for a few rows; None where one of them is not for Python."""
    found = [_call(windows, call, types) for call in windows.calls]
    return None if None in found else tuple(call for call in found if call is not None)


def _call(windows: Windows, call: BoundWindowCall, types: Sequence[DType]) -> CallOfFew | None:
    if isinstance(call, AggregateCall):
        return _frame(call, types)
    if isinstance(call, OffsetCall):
        return _offset(call)
    if not isinstance(call, RankingCall):
        return None
    if call.function == "row_number":
        return _Number()
    if call.function in ("rank", "dense_rank"):
        return _Rank([o.column for o in windows.order], dense=call.function == "dense_rank")
    buckets = call.buckets.value if isinstance(call.buckets, BoundLiteral) else None
    return _Bucket(buckets) if buckets is not None and buckets > 0 else None


# -- frames ------------------------------------------------------------------------------------------------------------


class FrameOfFew(NamedTuple):
    """A call over the rows from one distance up to another from each row."""

    code: Code
    column: int
    low: int
    high: int

    def codes(self, few: FewRows) -> list[int]:
        """Return the codes for the rows wanted."""
        return self.of_column([row[self.column] for row in few.rows], few.wanted)

    def of_column(self, column: Sequence[int], wanted: Sequence[int]) -> list[int]:
        """Return the codes for the rows wanted, of whose column all codes are given."""
        found: list[int] = []
        for place in wanted:
            values = column[max(place + self.low, 0) : max(place + self.high + 1, 0)]
            found.append(self.code([v for v in values if v != NULL] if NULL in values else values))
        return found


def _frame(call: AggregateCall, types: Sequence[DType]) -> FrameOfFew | None:
    """Return what works out an aggregate of whole numbers over frames of so many rows before and after."""
    frame, of = call.frame, call.aggregate
    code_of, low, high = _CODES.get(of.function), frame.start, frame.end
    if code_of is None or of.column is None or types[of.column].name != "int64" or call.distinct:
        return None
    if frame.mode != "rows" or frame.exclusion != "no others" or not (isinstance(low, int) and isinstance(high, int)):
        return None
    return FrameOfFew(code_of, of.column, low, high)


def _offset(call: OffsetCall) -> FrameOfFew | None:
    offset, default = call.offset, call.default
    if call.ignore_nulls or not isinstance(offset, BoundLiteral) or offset.value is None:
        return None
    if not isinstance(default, BoundLiteral) or default.value is not None:
        return None
    far = offset.value if call.function == "lead" else -offset.value
    return FrameOfFew(_only, call.column, far, far)


def _sum(values: Sequence[int]) -> int:
    total = sum(values)
    return NULL if not values else total if abs(total) <= INT64_LIMIT else TOO_LARGE


def _avg(values: Sequence[int]) -> int:
    return float_code(sum(values) / len(values)) if values else NULL


def _least(values: Sequence[int]) -> int:
    return min(values, default=NULL)


def _greatest(values: Sequence[int]) -> int:
    return max(values, default=NULL)


def _only(values: Sequence[int]) -> int:
    return values[0] if values else NULL


_CODES: Final[dict[str, Code]] = {"count": len, "sum": _sum, "avg": _avg, "min": _least, "max": _greatest}


# -- ranks -------------------------------------------------------------------------------------------------------------


class _Number:
    """row_number."""

    @staticmethod
    def codes(few: FewRows) -> list[int]:
        first = few.rows_before + 1
        return [first + place for place in few.wanted]


def _no_order(_row: Sequence[int]) -> object:
    """Return the same for each row: without ORDER BY all rows are peers."""
    return 0


class _Rank:
    """rank, or where it is dense dense_rank; of rows with all their peers."""

    def __init__(self, order: Sequence[int], *, dense: bool) -> None:
        self._of_order: Callable[[Sequence[int]], object] = itemgetter(*order) if order else _no_order
        self._dense = dense

    def codes(self, few: FewRows) -> list[int]:
        found: list[int] = []
        dense = self._dense
        rank, before = few.groups_before, None
        for place, own in enumerate(map(self._of_order, few.rows), few.rows_before + 1):
            if own != before:
                rank, before = rank + 1 if dense else place, own
            found.append(rank)
        return [found[place] for place in few.wanted]


class _Bucket:
    """ntile, of one number of buckets for all rows."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def codes(self, few: FewRows) -> list[int]:
        size, larger = divmod(few.total, self._buckets)
        in_larger = larger * (size + 1)
        places = [few.rows_before + place for place in few.wanted]
        return [
            (place // (size + 1) if place < in_larger else larger + (place - in_larger) // size) + 1
            for place in places
        ]  # fmt: skip
