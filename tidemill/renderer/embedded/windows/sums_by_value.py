"""Sums of whole numbers over frames bounded by value, of a few stretches of rows: straight from the codes.

What the kernel for whole partitions sees to first, for all that frames and values may be, takes longer than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, Windows
from tidemill.renderer.embedded.kernels.codec import float_codes, has_codes_in_order
from tidemill.renderer.embedded.kernels.exact_quotients import quotients
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints, first_numbers
from tidemill.renderer.embedded.windows.digests import Digest
from tidemill.renderer.embedded.windows.frames import is_around
from tidemill.renderer.embedded.windows.partitions import Ahead
from tidemill.renderer.embedded.windows.pieces import Pieces
from tidemill.renderer.embedded.windows.ranges import far, is_counted, plus

__all__ = ["Sum", "SumsByValue", "sums_by_value"]

FEW: Final = 8
"""Stretches of rows that are gone through one by one."""

_Frames: TypeAlias = tuple[Ints | int, Ints | int]
"""Where each row's frame begins and ends."""


class Sum(NamedTuple):
    """An aggregate of a column, from the rows beyond one distance on up to those at another, in units of the order.

    None where it goes on to the partition's first row, or to its last.
    """

    function: str
    column: int | None
    low: int | None
    high: int | None


class _Beyond(NamedTuple):
    """What an aggregate's rows that are not here come to, of those in all of its frames, for each stretch."""

    sums: list[int]
    counts: list[int]


class SumsByValue:
    """Calls that are all sums, counts or averages of whole numbers over RANGE frames with a bound or two."""

    def __init__(self, by: OrderColumn, calls: Sequence[Sum]) -> None:
        self._by = by
        self._calls = calls

    @staticmethod
    def of(windows: Windows, types: Sequence[DType]) -> SumsByValue | None:
        """Return what works all calls out; None where one is something else, or codes of the order are no numbers."""
        calls = sums_by_value(windows, types)
        return None if calls is None else SumsByValue(windows.order[0], calls)

    def write(self, codes: Pieces, ahead: Ahead, values: Codes) -> bool:
        """Write the codes of each call's value where it is asked for; return whether they are for this to work out.

        They are of a few stretches of rows that all have a place in the order and a number, with sums that have a code.
        """
        if not 0 < len(ahead.given) <= FEW:
            return False
        beyond = [_beyond(call, ahead) for call in self._calls]
        order, sums = codes[self._by.column], _sums(codes, self._calls, beyond)
        if sums is None:
            return False
        stretches = zip(ahead.starts.tolist(), ahead.given, ahead.asked, strict=True)
        for number, (start, size, (low, high)) in enumerate(stretches):
            end = start + size
            if NULL in (order.item(start), order.item(end - 1)):  # the first or the last ones
                return False
            here = -order[start:end] if self._by.descending else order[start:end]
            own = range(low - start, high - start)
            alone = not np.count_nonzero(here[1:] == here[:-1])
            frames: dict[tuple[int | None, int | None], _Frames] = {}
            for row, call, more in zip(values, self._calls, beyond, strict=True):
                bounds = frames.get(call[2:])
                if bounds is None:
                    first = 0 if call.low is None else _places(here, own, call.low, alone=alone)
                    last = size if call.high is None else _places(here, own, call.high, alone=alone)
                    bounds = frames[call[2:]] = first, last
                before = None if call.column is None else sums.get(call.column)
                row[low:high] = _codes(
                    call.function,
                    bounds,
                    None if before is None else before[start:],
                    (more.sums[number], more.counts[number]),
                )
        return True


def sums_by_value(windows: Windows, types: Sequence[DType]) -> list[Sum] | None:
    """Return what calls are; None where one is something else, or codes of the order are no numbers."""
    if len(windows.order) != 1 or not has_codes_in_order(types[windows.order[0].column]):
        return None
    found = [_sum(call, types, types[windows.order[0].column]) for call in windows.calls]
    calls = [call for call in found if call is not None]
    return calls if len(calls) == len(found) else None


def _codes(function: str, bounds: _Frames, before: Ints | None, more: tuple[int, int]) -> Ints:
    """Return the codes of an aggregate of frames, from the sums before each row, and the sum and count of others."""
    first, end = bounds
    if function == "count":
        counts: Any = end - first
        found: Ints = counts + more[1]
        return found
    assert before is not None
    total: Ints = before.take(end) - before.take(first)
    if more[0]:
        total += more[0]
    return total if function == "sum" else float_codes(quotients(total, end - first + more[1]))


def _places(order: Ints, own: range, far_from: int, *, alone: bool) -> Ints:
    """Return behind how many rows of an order some of them come when they are so far from where they are.

    Rows that are all ``alone`` have no peers.
    """
    if alone and far_from in (-1, 0):
        return first_numbers(own.stop + 1)[own.start + 1 + far_from : own.stop + 1 + far_from]
    return order.searchsorted(plus(order[own.start : own.stop], far_from), "right")


def _sum(call: BoundWindowCall, types: Sequence[DType], by: DType) -> Sum | None:
    if not isinstance(call, AggregateCall) or call.function not in ("sum", "count", "avg") or call.distinct:
        return None
    frame, column = call.frame, call.aggregate.column
    if frame.mode != "range" or frame.exclusion != "no others" or not is_around(frame):
        return None
    bounds = [bound for bound in (frame.start, frame.end) if bound is not None]
    if not bounds or not all(is_counted(bound, by) for bound in bounds):
        return None
    if column is not None and types[column].name not in ("int64", "int32"):
        return None
    low = None if frame.start is None else far(frame.start, by, end=False)
    return Sum(call.function, column, low, None if frame.end is None else far(frame.end, by, end=True))


def _beyond(call: Sum, ahead: Ahead) -> _Beyond:
    sums = counts = [0] * len(ahead.given)
    column = call.column
    if call.low is not None and call.high is not None:
        return _Beyond(sums, counts)
    side = ahead.before if call.low is None else ahead.behind
    if call.function != "count":
        assert column is not None
        sums = side(Digest("whole", column))
    if call.function == "sum":
        return _Beyond(sums, counts)
    if column is not None:
        counts = side(Digest("known", column))
    elif call.low is None:
        counts = list(ahead.rows)
    else:
        counts = [size - n - m for size, n, m in zip(ahead.sizes, ahead.rows, ahead.given, strict=True)]
    return _Beyond(sums, counts)


def _sums(codes: Pieces, calls: Sequence[Sum], beyond: Sequence[_Beyond]) -> dict[int, Ints] | None:
    """Return the sums of all numbers before each row, by their column; None where some are NULL, or sums too large."""
    found: dict[int, Ints] = {}
    for call, (more, _) in zip(calls, beyond, strict=True):
        if call.column is None:
            continue
        numbers = codes[call.column]
        least, greatest = int(np.minimum.reduce(numbers)), int(np.maximum.reduce(numbers))
        if least == NULL or max(-least, greatest) * len(numbers) + max(map(abs, more)) > INT64_LIMIT:
            return None
        if call.column not in found:
            found[call.column] = before = np.empty(len(numbers) + 1, np.int64)
            before[0] = 0
            numbers.cumsum(out=before[1:])
    return found
