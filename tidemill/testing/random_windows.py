"""Random window calls over rows ``(k, v)`` of few values, for random dataflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.expressions import aggregate_functions as agg
from tidemill.expressions.sort_keys import desc
from tidemill.expressions.windows import functions
from tidemill.expressions.windows.calls import WindowCall
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.specification import Window

Pick = Callable[[Sequence[Any]], Any]

_PARTITIONS: Final = ((), ("k",), ("v",))
_ORDERS: Final = ("k", "v", desc("v"), ("v", desc("k", nulls="first")), "k + v")
_WITHOUT_FRAME: Final = (
    functions.row_number(), functions.rank(), functions.dense_rank(), functions.ntile(2), functions.lag("v"),
    functions.lag("k", 2, 3), functions.lead("v", ignore_nulls=True), functions.lead("v", "k"),
)  # fmt: skip
_FRAMED: Final[tuple[Any, ...]] = (
    agg.count(), agg.sum("v"), agg.min("v"), agg.max("k"), agg.count("v").filter("k > 0"), agg.count_distinct("v"),
    functions.first_value("v"), functions.last_value("k", ignore_nulls=True), functions.nth_value("v", 2),
)  # fmt: skip
_STRATEGIES: Final = (*["auto"] * 5, *["recompute"] * 6, "prefix_sum")
"""Sums over the order are some hundred operators each, and have tests of their own: seldom drawn here."""
_BOUNDS: Final = (UNBOUNDED, -2, -1, 0, 0, 1, 2, UNBOUNDED)


def some_window_call(pick: Pick) -> WindowCall:
    """Return a call with a whole number for each row, or NULL: now and then as sums over the order."""
    strategy = pick(_STRATEGIES)
    window = Window.partition_by(*pick(_PARTITIONS))
    order = pick(_ORDERS)
    window = window.order_by(*order) if isinstance(order, tuple) else window.order_by(order)
    if pick([True, False]):
        return pick(_WITHOUT_FRAME).over(window, strategy=strategy)  # type: ignore[no-any-return]
    between = pick([window.rows_between, window.groups_between])
    if pick([True, False]):
        window = between(pick(_BOUNDS), pick(_BOUNDS))
    window = window.exclude(pick(["no others", "no others", "current row", "group", "ties"]))
    return pick(_FRAMED).over(window, strategy=strategy)  # type: ignore[no-any-return]
