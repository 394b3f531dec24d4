"""All values of window calls over whole partitions, many at once: a pure function over arrays of codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, CallError, OffsetCall, RankingCall, ValueCall, Windows
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Codes, Ints
from tidemill.renderer.embedded.windows.aggregates import aggregate
from tidemill.renderer.embedded.windows.offsets import value_at_offset
from tidemill.renderer.embedded.windows.ordering import GivenRows, chunks, in_order
from tidemill.renderer.embedded.windows.partitions import Partitions, RefusedError
from tidemill.renderer.embedded.windows.rankings import ranking
from tidemill.renderer.embedded.windows.values import value_in_frame

__all__ = ["GivenRows", "call_values", "recompute"]


def recompute(windows: Windows, types: Sequence[DType], given: GivenRows, interner: Interner) -> tuple[Ints, Codes]:
    """Return each row of some partitions, as often as its count says, and the calls' values for it.

    Of the rows' columns the types are given. What is returned, in the windows' order, is which of the rows it is, and
    the codes of each call's values. `CallError` has the place among the rows given.
    """
    ordered = in_order(windows, types, given, interner)
    values = np.empty((len(windows.calls), len(ordered.source)), np.int64)
    done = 0
    for chunk in chunks(ordered):
        rows = Partitions(windows, types, given.codes, interner, chunk)
        call_values(rows, values[:, done : done + len(rows)])
        done += len(rows)
    return ordered.source, values


def call_values(rows: Partitions, values: Codes) -> None:
    """Write the codes of each call's value at each place; `CallError` has the place among the rows given."""
    for number, call in enumerate(rows.windows.calls):
        try:
            values[number] = _CALLS[type(call)](rows, call)
        except RefusedError as refused:
            raise CallError(number, int(rows.source[refused.place]), refused.reason) from None


_CALLS: Final[dict[type, Callable[[Partitions, Any], Ints]]] = {
    RankingCall: ranking, OffsetCall: value_at_offset, ValueCall: value_in_frame, AggregateCall: aggregate,
}  # fmt: skip
