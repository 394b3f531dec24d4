"""Rankings and offset calls: where a row is in its partition, and the value some rows before or after it."""

from __future__ import annotations

from typing import Any

from tidemill.algorithms import combine
from tidemill.algorithms.lowering.window_sums.bounds import clamped
from tidemill.algorithms.lowering.window_sums.orders import COPY, GROUPS, ROW, ROWS, Orders
from tidemill.algorithms.prefix_sums.blocks import FoldLists
from tidemill.algorithms.prefix_sums.offset_search import FOUND, search_from, search_from_rows
from tidemill.algorithms.prefix_sums.order_sums import OrderSums
from tidemill.algorithms.prefix_sums.prefix_sum import sums_before_rows
from tidemill.algorithms.prefix_sums.routing import PATH
from tidemill.collections.collection import Collection
from tidemill.collections.table_functions import apply_table, with_row_function
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions.choice import coalesce, when
from tidemill.expressions.schema import Field
from tidemill.expressions.types import INT64
from tidemill.expressions.windows.bound import Argument, OffsetCall, RankingCall

_BEFORE, _UP_TO, _ALL = "before#", "up to#", "all#"
"""The columns of how many rows, or peer groups, there are before a row, up to it, and in its partition."""
_THERE = "there#"
"""The column of the value in the row that was found."""


# -- rankings ---------------------------------------------------------------------------------------------------------


def ranking_sums(orders: Orders, call: RankingCall) -> Collection:
    """Return the counts that a ranking is computed from, by row and copy or by peer group."""
    by_row, key = call.by_row, orders.key(by_row=call.by_row)
    count = GROUPS if call.function == "dense_rank" else ROWS
    order = orders.order(count, by_row=by_row)
    copies = COPY if by_row else None
    found = _counted(order, sums_before_rows(order, copies), key, count, _BEFORE)
    if call.function == "cume_dist":
        up_to = _counted(order, sums_before_rows(order, copies, inclusive=True), key, count, _UP_TO)
        found = found.join(up_to, on=key, nulls_equal=True)
    if call.function in ("percent_rank", "cume_dist", "ntile"):
        whole = _counted(order, partition_sums(order), orders.parts, count, _ALL)
        found = found.join(whole, on=[*orders.parts], nulls_equal=True)
    return found


def partition_sums(order: OrderSums) -> Collection:
    """Return the states of sums over whole partitions."""
    states = order.states
    return apply_table(order.blocks.at(0), FoldLists(states), states.flat, keep=order.blocks.parts)


def _counted(order: OrderSums, sums: Collection, key: Any, count: str, name: str) -> Collection:
    return order.finished(sums, key).rename({count: name})


def finished_ranking(rows: Collection, call: RankingCall, name: str, names: tuple[str, ...]) -> Collection:
    """Return rows, with the counts beside them, with the ranking in a column."""
    before, one = col(_BEFORE), lit(1).cast("int64")
    if call.function == "percent_rank":
        share = before.cast("float64") / (col(_ALL) - one).cast("float64")
        made = rows.with_columns(**{name: when(col(_ALL) > one, share).otherwise(0.0)})
    elif call.function == "cume_dist":
        made = rows.with_columns(**{name: col(_UP_TO).cast("float64") / col(_ALL).cast("float64")})
    elif call.function == "ntile":
        assert call.buckets is not None
        buckets = "buckets#"
        with_buckets = rows.with_columns(**{buckets: _expression(call.buckets, names)})
        made = with_row_function(with_buckets, _ntile, [buckets, _BEFORE, _ALL], Field(name, INT64)).drop(buckets)
    else:
        made = rows.with_columns(**{name: before + one})
    return made.drop(*(c for c in (_BEFORE, _UP_TO, _ALL) if c in rows.schema.names))


def _ntile(buckets: int | None, before: int, rows: int) -> int | None:
    if buckets is None:
        return None
    size, larger = divmod(rows, buckets)
    in_larger = larger * (size + 1)
    return before // (size + 1) + 1 if before < in_larger else larger + (before - in_larger) // size + 1


# -- the value in another row -----------------------------------------------------------------------------------------


def value_at_offset(orders: Orders, call: OffsetCall, name: str) -> Collection:
    """Return the call's value for all rows by copy.

    The row just before needs no search: what is last before a row is a prefix sum, which seldom changes.
    """
    names, key = orders.names, orders.key(by_row=True)
    value, default = names[call.column], _expression(call.default, names)
    if isinstance(call.offset, BoundLiteral) and not call.offset.value:
        nothing = lit(None).cast(orders.rows.schema.field(value).dtype)
        return orders.copies.select(*key, **{name: nothing if call.offset.value is None else col(value)})
    if _is_row_before(call):
        order = orders.order(f"before {name}", f"any {name}", by_row=True)
        found = _with_row(orders, order.finished(sums_before_rows(order, COPY), key, at_rows=True), call.default)
        given = when(col(f"any {name}").is_not_null(), col(f"before {name}")).otherwise(default)
        return found.select(*key, **{name: given})
    return _searched(orders, call, name)


def _with_row(orders: Orders, found: Collection, *arguments: Argument) -> Collection:
    """Return what was found for rows, joined with their columns if one of the arguments is a column."""
    if all(isinstance(a, BoundLiteral) for a in arguments):
        return found
    return orders.copies.join(found, on=orders.key(by_row=True), nulls_equal=True)


def ask_offset(orders: Orders, call: OffsetCall, name: str) -> None:
    """Ask for the sums that a call needs, whose names begin as those of no call, nor of a column of the rows."""
    value = col(orders.names[call.column])
    known = value.is_not_null() if call.ignore_nulls else None
    if _is_row_before(call):
        orders.ask(f"before {name}", combine.last(value, ignore_nulls=call.ignore_nulls), by_row=True)
        orders.ask(f"any {name}", combine.last(lit(value=True)).filter(known), by_row=True)
    elif call.ignore_nulls:
        orders.ask(f"known {name}", combine.count(value), by_row=True)


def _is_row_before(call: OffsetCall) -> bool:
    by = call.offset.value if isinstance(call.offset, BoundLiteral) else None
    return by is not None and by == (1 if call.function == "lag" else -1)


def _searched(orders: Orders, call: OffsetCall, name: str) -> Collection:
    """Return the value that a search finds: by rows, or where NULLs are passed over by rows with a value."""
    names, key = orders.names, orders.key(by_row=True)
    count = f"known {name}" if call.ignore_nulls else ROWS
    order = orders.order(count, by_row=True)
    value, default = col(names[call.column]), _expression(call.default, names)
    if isinstance(call.offset, BoundLiteral) and not call.ignore_nulls:
        offset = clamped(call.offset.value)
        found = search_from_rows(order, offset if call.function == "lead" else -offset, count, COPY)
        found = _with_row(orders, found.select(*key, FOUND), call.default)
    else:
        paths = order.blocks.entries[-1].select(*orders.parts, ROW, PATH).distinct()
        located = orders.copies.join(paths, on=[*orders.parts, ROW], nulls_equal=True)
        found = search_from(order, located, *_way(call, names, value), count)
    there = orders.with_places.select(*orders.parts, **{FOUND: ROW, _THERE: value}).distinct()
    met = found.join(there, on=[*orders.parts, FOUND], how="left", nulls_equal=True)
    given = when(col(FOUND).is_null(), default).otherwise(col(_THERE))
    if not isinstance(call.offset, BoundLiteral):
        by = _expression(call.offset, names)
        given = when(by.is_null(), lit(None)).when(by == 0, value).otherwise(given)
    return met.select(*key, **{name: given})


def _way(call: OffsetCall, names: tuple[str, ...], value: Expr) -> tuple[Expr, Expr]:
    """Return how far to go, counted from the first copy, and the number of the copy to begin at, in rows that count.

    A row that does not count stands before the next one that does.
    """
    far = lit(clamped(1 << 62)).cast("int64")
    near = lit(clamped(-(1 << 62))).cast("int64")
    given = coalesce(_expression(call.offset, names), lit(0).cast("int64"))
    by = when(given > far, far).when(given < near, near).otherwise(given)
    by = by if call.function == "lead" else lit(0).cast("int64") - by
    if not call.ignore_nulls:
        return by, col(COPY)
    counts = value.is_not_null()
    one = lit(1).cast("int64")
    return when(~counts & (by > 0), by - one).otherwise(by), when(counts, col(COPY)).otherwise(lit(0).cast("int64"))


def _expression(argument: Argument, names: tuple[str, ...]) -> Expr:
    if isinstance(argument, int):
        return col(names[argument])
    return lit(argument.value).cast(argument.dtype)
