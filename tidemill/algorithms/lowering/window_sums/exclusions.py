"""What a frame leaves out: up to three intervals in place of one, before the hole, the row itself, behind the hole.

They are in the order of rows: whatever the frame, what is left depends on the row that it is of.
"""

from __future__ import annotations

from typing import Any, Final

from tidemill.algorithms.lowering.window_sums.orders import COPY, PEERS, ROW, Orders
from tidemill.algorithms.prefix_sums.blocks import FoldLists
from tidemill.algorithms.prefix_sums.each_value import each_value
from tidemill.algorithms.prefix_sums.interval_sum import (
    BEYOND,
    HIGH,
    HIGH_COPY,
    HIGH_PATH,
    LOW,
    LOW_COPY,
    LOW_PATH,
    sums_between,
)
from tidemill.algorithms.prefix_sums.order_sums import OrderSums
from tidemill.algorithms.prefix_sums.routing import PATH, route_down
from tidemill.algorithms.prefix_sums.unique_index import TIE_BYTES
from tidemill.collections.collection import Collection
from tidemill.collections.ordered_lists import ordered_lists
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions.choice import when
from tidemill.expressions.schema import Field
from tidemill.expressions.types import BINARY
from tidemill.expressions.windows.frames import Exclusion

_PART: Final = "part#"
_HOLE, _HOLE_END = "hole#", "hole end#"
_NONE: Final = lit(0).cast("int64")


def in_order_of_rows(intervals: Collection) -> Collection:
    """Return the intervals of peer groups with bounds in the order of rows."""
    for place, copy in ((LOW, LOW_COPY), (HIGH, HIGH_COPY)):
        moved = each_value(intervals.rename({place: "place#"}), _among_rows, ["place#", copy], Field(place, BINARY))
        intervals = moved.drop("place#").with_columns(**{copy: _NONE})
    return intervals.drop(LOW_PATH, HIGH_PATH)


def located(order: OrderSums, intervals: Collection) -> Collection:
    """Return intervals with the paths of the blocks that their bounds are in."""
    blocks = order.blocks
    for place, path in ((LOW, LOW_PATH), (HIGH, HIGH_PATH)):
        intervals = route_down(intervals, blocks.ways, blocks.parts, place, blocks.shape).rename({PATH: path})
    return intervals


def _among_rows(place: bytes | None, copy: int) -> bytes | None:
    """Return a place of peers as one in the order of rows: before all of them, or behind."""
    return None if place is None else place + (b"\xff" if copy == BEYOND else b"\0") * TIE_BYTES


def sums_without(orders: Orders, order: OrderSums, intervals: Collection, exclusion: Exclusion) -> Collection:
    """Return the states of sums over the intervals of rows, by copy, without what is left out; none where all is."""
    key = orders.key(by_row=True)
    itself = (col(ROW), col(COPY)), (col(ROW), col(COPY) + 1)
    hole = itself
    if exclusion != "current row":
        peers = intervals
        for name, copy in ((_HOLE, 0), (_HOLE_END, BEYOND)):
            with_copy = peers.with_columns(**{"number#": lit(copy).cast("int64")})
            peers = each_value(with_copy, _among_rows, [PEERS, "number#"], Field(name, BINARY)).drop("number#")
        intervals, hole = peers, ((col(_HOLE), _NONE), (col(_HOLE_END), _NONE))
    low, high = (col(LOW), col(LOW_COPY)), (col(HIGH), col(HIGH_COPY))
    before = _bounded(intervals, key, 0, low, _first_of(hole[0], high, unbounded=high))
    after = _bounded(intervals, key, 2, _last_of(hole[1], low, unbounded=low), high)
    parts = before.concat(after)
    if exclusion == "ties":
        covers = (col(LOW).is_null() | ~_less(itself[0], low)) & (col(HIGH).is_null() | _less(itself[0], high))
        parts = parts.concat(_bounded(intervals.filter(covers), key, 1, *itself))
    states = order.states
    sums = sums_between(order, located(order, parts), [*key, _PART])
    together = ordered_lists(sums, key, _PART, states.flat)
    return apply_table(together, FoldLists(states), states.flat, keep=key)


Bound = tuple[Expr, Expr]


def _bounded(intervals: Collection, key: list[str], part: int, low: Bound, high: Bound) -> Collection:
    columns: dict[str, Any] = dict(zip((LOW, LOW_COPY, HIGH, HIGH_COPY), (*low, *high), strict=True))
    return intervals.select(*key, **columns, **{_PART: lit(part).cast("int64")})


def _less(a: Bound, b: Bound) -> Expr:
    return (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))


def _first_of(a: Bound, b: Bound, *, unbounded: Bound) -> Bound:
    first = unbounded[0].is_null() | _less(a, b)
    return when(first, a[0]).otherwise(b[0]), when(first, a[1]).otherwise(b[1])


def _last_of(a: Bound, b: Bound, *, unbounded: Bound) -> Bound:
    last = unbounded[0].is_null() | _less(b, a)
    return when(last, a[0]).otherwise(b[0]), when(last, a[1]).otherwise(b[1])
