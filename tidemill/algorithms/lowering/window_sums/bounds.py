"""Frames as intervals: for each copy of a row, or for each peer group, the places where its frame begins and ends.

A bound is a place, the number of the copy there that it comes before (`BEYOND` for after all copies), and the path of
the block that the place is in. A NULL place means unbounded.
"""

from __future__ import annotations

from typing import Final

from tidemill.algorithms.lowering.window_sums.orders import COPY, GROUPS, ROWS, Orders
from tidemill.algorithms.lowering.window_sums.ranges import AFTER, PLACE, RangeBound
from tidemill.algorithms.prefix_sums.interval_sum import (
    BEYOND,
    HIGH,
    HIGH_COPY,
    HIGH_PATH,
    LOW,
    LOW_COPY,
    LOW_PATH,
)
from tidemill.algorithms.prefix_sums.offset_search import FOUND, FOUND_COPY, search_from_rows
from tidemill.algorithms.prefix_sums.order_index import TIE_BYTES, PlaceBytes
from tidemill.algorithms.prefix_sums.order_sums import OrderSums
from tidemill.algorithms.prefix_sums.routing import PATH, route_down
from tidemill.collections.collection import Collection
from tidemill.collections.table_functions import apply_table, with_row_function
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions.choice import when
from tidemill.expressions.schema import Field
from tidemill.expressions.types import BINARY
from tidemill.expressions.windows.frames import Frame, Offset

_PLACE_COPY: Final = "bound copy#"
_FARTHEST: Final = 1 << 40
"""More rows than any partition has: larger offsets are clamped to it."""


def frame_intervals(orders: Orders, frame: Frame) -> Collection:
    """Return the bounds of all frames, but for those that are empty because a bound is beyond the partition.

    ROWS frames are in the order of rows, a row for each copy; all others are in the order of peer groups.
    """
    by_row = frame.mode == "rows"
    key = orders.key(by_row=by_row)
    low = None if frame.start is None else _bound(orders, frame, frame.start, end=False)
    high = None if frame.end is None else _bound(orders, frame, frame.end, end=True)
    if low is not None:
        low = low.rename({PLACE: LOW, _PLACE_COPY: LOW_COPY, PATH: LOW_PATH})
    if high is not None:
        high = high.rename({PLACE: HIGH, _PLACE_COPY: HIGH_COPY, PATH: HIGH_PATH})
    if low is not None and high is not None:
        return low.join(high, on=key, nulls_equal=True)
    if low is not None:
        return low.with_columns(
            **{HIGH: lit(None).cast("binary"), HIGH_COPY: _int64(0), HIGH_PATH: col(LOW_PATH)},
        )
    assert high is not None
    return high.with_columns(**{LOW: lit(None).cast("binary"), LOW_COPY: _int64(0), LOW_PATH: col(HIGH_PATH)})


def in_order_of_rows(order: OrderSums, intervals: Collection) -> Collection:
    """Return intervals of peer groups as intervals in the order of rows, with the paths of its blocks."""
    blocks, intervals = order.blocks, intervals.drop(LOW_PATH, HIGH_PATH)
    for place, copy, path in ((LOW, LOW_COPY, LOW_PATH), (HIGH, HIGH_COPY, HIGH_PATH)):
        moved = with_row_function(
            intervals.rename({place: "place#"}), _place_of_rows, ["place#", copy], Field(place, BINARY)
        )
        moved = moved.drop("place#").with_columns(**{copy: _int64(0)})
        intervals = route_down(moved, blocks.ways, blocks.parts, place, blocks.shape).rename({PATH: path})
    return intervals


def _place_of_rows(place: bytes | None, copy: int) -> bytes | None:
    """Return the place of a peer group as a place of rows: before all of its rows, or after them."""
    return None if place is None else place + (b"\xff" if copy == BEYOND else b"\0") * TIE_BYTES


def clamped(offset: int) -> int:
    """Return an offset clamped to the rows that a partition may have."""
    return max(-_FARTHEST, min(offset, _FARTHEST))


def _bound(orders: Orders, frame: Frame, offset: Offset, *, end: bool) -> Collection:
    """Return the keys of all frames that are not empty, each with the place, the copy and the path of one bound."""
    if frame.mode == "range" and offset != 0:
        return _range_bound(orders, offset, end=end)
    assert isinstance(offset, int)
    offset = clamped(offset)
    if frame.mode == "rows":
        found = search_from_rows(orders.order(ROWS, by_row=True), offset + end, ROWS, COPY)
        return _reached(orders, found, offset + end, col(FOUND_COPY), end=end, by_row=True)
    found = search_from_rows(orders.order(GROUPS, by_row=False), offset, GROUPS, None)
    return _reached(orders, found, offset, _int64(BEYOND if end else 0), end=end, by_row=False)


def _reached(orders: Orders, found: Collection, offset: int, copy: Expr, *, end: bool, by_row: bool) -> Collection:
    """Return the bounds that searches found: NULL beyond the partition or, if the frame is empty then, no row."""
    empty = offset < 0 if end else offset > 0
    some = found.filter(col(FOUND).is_not_null()) if empty else found
    key = orders.key(by_row=by_row)
    return some.select(*key, PATH, **{PLACE: col(FOUND), _PLACE_COPY: copy})


def _range_bound(orders: Orders, offset: Offset, *, end: bool) -> Collection:
    blocks, key = orders.order(GROUPS, by_row=False).blocks, orders.key(by_row=False)
    (by,) = orders.windows.order
    field = orders.rows.schema.fields[by.column]
    place = PlaceBytes(field.dtype, field.nullable, by.descending, by.nulls_first)
    values = orders.with_peers.select(*key, **{"value#": field.name}).distinct()
    found = apply_table(values, RangeBound(place, field.dtype, offset, end), ["value#"], keep=key)
    located = route_down(found, blocks.ways, blocks.parts, PLACE, blocks.shape)
    copy = when(col(AFTER), _int64(BEYOND)).otherwise(_int64(0))
    return located.select(*key, PLACE, PATH, **{_PLACE_COPY: copy})


def _int64(number: int) -> Expr:
    return lit(number).cast("int64")
