"""Sessions of rows, as windows: where one begins, the greatest beginning so far, and the last row of each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable
from typing import Any

import attrs

from tidemill.collections.builder import Builder, Named
from tidemill.collections.windows import with_window_calls
from tidemill.dataflow.nodes import Node
from tidemill.errors import SchemaError
from tidemill.expressions.aggregate_functions import max as greatest
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions.choice import least, when
from tidemill.expressions.instants import greatest_number, least_number, require_instant, units_of, value_of
from tidemill.expressions.ordering import bind_order
from tidemill.expressions.schema import Schema, unused_name
from tidemill.expressions.sql_text import as_expr
from tidemill.expressions.structure import key, replaced
from tidemill.expressions.types import DATE, TIMESTAMP, DType
from tidemill.expressions.windows.calls import SessionCall, sessions_in
from tidemill.expressions.windows.functions import lag
from tidemill.expressions.windows.specification import Window


@attrs.frozen
class Sessions:
    """A session as users ask for it, checked, and the names of the columns that are to have its start and end."""

    partition: tuple[Expr, ...]
    column: str
    gap: int
    start: str
    end: str


def sessions_of(named: Named, schema: Schema) -> dict[Hashable, Sessions]:
    """Return the sessions in expressions, each once."""
    found: dict[Hashable, Sessions] = {}
    taken = {*schema.names, *(name for name, _ in named)}
    for _, expression in named:
        for call in sessions_in(expression):
            if key(call) not in found:
                # which no column gets: names of window calls' values end with #
                names = (unused_name(f"session {what} {len(found)}~", taken, "~") for what in ("start", "end"))
                found[key(call)] = _checked(call, schema, *names)
    return found


def _checked(call: SessionCall, schema: Schema, start: str, end: str) -> Sessions:
    dtype = schema.field(call.column).dtype
    require_instant(dtype, repr(call))
    gap = units_of(call.gap, dtype, repr(call))
    order = bind_order(call.window.order, schema)[0] if call.window.order else None
    by = order.expression if order is not None and not order.descending and order.nulls_first else None
    if not (isinstance(by, BoundColumn) and by.name == call.column):
        msg = f"{call!r}: a session is of rows in the order of {call.column!r}: order the window by it, ascending"
        raise SchemaError(msg)
    partition = tuple(as_expr(e, schema) for e in call.window.partition)
    return Sessions(partition, call.column, gap, start, end)


def with_sessions(builder: Builder, node: Node, named: Named) -> tuple[Node, Named]:
    """Return the rows with the starts of sessions in expressions behind them, and expressions over these rows."""
    found = sessions_of(named, node.schema)
    for session in found.values():
        rows = session_columns(builder, node, session)
        node = builder.pick(rows, [name for name in rows.schema.names if name != session.end])
    return node, over_starts(named, found)


def over_starts(named: Named, found: dict[Hashable, Sessions]) -> Named:
    """Return expressions over rows that have the starts of sessions as columns."""

    def column(part: Expr) -> Expr | None:
        return col(found[key(part)].start) if isinstance(part, SessionCall) else None

    return [(name, replaced(e, column)) for name, e in named] if found else named


def session_columns(builder: Builder, node: Node, session: Sessions) -> Node:
    """Return the rows with two columns more: where each one's session starts, and where it ends so far."""
    value = col(session.column)
    window = Window.partition_by(*session.partition).order_by(value)
    before = lag(value).over(window)
    begins = when(
        before.is_null() | _is_apart(value, before, session.gap, node.schema.field(session.column).dtype), value
    )
    node = _with_column(builder, node, session.end, begins)
    node = _with_column(builder, node, session.start, greatest(session.end).over(window))  # peers begin together
    whole = Window.partition_by(*session.partition, col(session.start))
    return _with_column(builder, node, session.end, greatest(session.column).over(whole))


def _with_column(builder: Builder, node: Node, name: str, value: Expr) -> Node:
    """Return the rows with the value of an expression, in which there is a window call, in this column."""
    rows, named = with_window_calls(builder, node, [(name, value)])
    columns = {n: col(n) for n in node.schema.names} | dict(named)
    return builder.compute(rows, list(columns.items()))


def _is_apart(value: Expr, before: Expr, gap: int, dtype: DType) -> Expr:
    """Return whether a value is more than a gap after another one, which may be less than a gap from the type's end."""
    latest = greatest_number(dtype) - gap
    if latest < least_number(dtype):
        return lit(False)
    apart: Expr = value > least(before, lit(value_of(latest, dtype))) + _distance(gap, dtype)
    return apart


def _distance(units: int, dtype: DType) -> Any:
    if dtype == TIMESTAMP:
        return dt.timedelta(microseconds=units)
    return dt.timedelta(days=units) if dtype == DATE else units
