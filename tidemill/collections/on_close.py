"""Window calls whose values come once and for all: when a row, and its frames' last rows, have been released."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.collections.builder import Builder, Named
from tidemill.collections.sessions import Sessions, over_starts, session_columns, sessions_of
from tidemill.collections.watermarks import held_back, released, watermark_of
from tidemill.collections.windows import each_once, over_values, with_window_calls
from tidemill.dataflow.added_columns import columns_before_added
from tidemill.dataflow.composites import ClosedSessions, SlidingWindows
from tidemill.dataflow.nodes import Node
from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import Column, col
from tidemill.expressions.rewriting import column as column_of
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.structure import key
from tidemill.expressions.windows.binding import bind_windows
from tidemill.expressions.windows.bound import Windows, value_fields
from tidemill.expressions.windows.closing import Closing, closing_of, order_column, reach_of
from tidemill.expressions.windows.functions import row_number
from tidemill.expressions.windows.specification import Window


def with_calls_on_close(builder: Builder, rows: Node, named: Named) -> tuple[Node, Named]:
    """Return the rows whose frames are closed, with the values of calls behind them, and expressions over these."""
    found_calls = each_once(named, taken=set(rows.schema.names))
    calls = [call for _, call in found_calls.values()]
    sessions = sessions_of(named, rows.schema)
    if not calls and not sessions:
        msg = "emit='on_close' without a window call: rows alone are sorted and given once by sort_buffer(column)"
        raise SchemaError(msg)
    columns = dict.fromkeys(order_column(call, rows.schema) for call in calls)
    columns |= dict.fromkeys(session.column for session in sessions.values())
    if len(columns) > 1:
        msg = f"emit='on_close': windows are ordered by {' and by '.join(columns)} first: expected one column for all"
        raise SchemaError(msg)
    (column,) = columns
    position = rows.schema.index(column)
    bind_windows(found_calls.values(), rows.schema)  # what is wrong with any window comes first
    closing = closing_of(calls, rows.schema.fields[position].dtype)
    mark = watermark_of(builder, rows, column, "emit='on_close' over ")
    sorted_rows = released(builder, rows, mark, position)
    together = [*named, *((f"closed {i}", call) for i, call in enumerate(closing.calls))]
    found = None
    if not sessions:
        found = _sliding(builder, sorted_rows, mark, position, together, closing)
    elif not calls and len(sessions) == 1:
        (session,) = sessions.values()
        return _closed_session(builder, sorted_rows, mark, session), over_starts(named, sessions)
    if found is None:
        found = _waiting(builder, sorted_rows, mark, together, closing, list(sessions.values()), column)
    return found[0], over_starts(found[1][: len(named)], sessions)


def _sliding(  # noqa: PLR0917 - as below
    builder: Builder, rows: Node, mark: Node, position: int, named: Named, closing: Closing
) -> tuple[Node, Named] | None:
    """Return the rows with calls of which what they no longer look at can be forgotten; None for other calls."""
    schema = rows.schema
    dtype = schema.fields[position].dtype
    calls = each_once(named, taken=set(schema.names))
    bounds = bind_windows(calls.values(), schema, columns_before_added(rows))
    if len(bounds) != 1 or bounds[0].strategy != "auto" or reach_of(bounds[0].windows, dtype) is None:
        return None
    (bound,) = bounds
    windows = bound.windows
    wide = builder.map(rows, bound.without_hash)
    made = builder.add(
        SlidingWindows,
        wide,
        mark,
        schema=valued_schema(wide.schema, bound.keys, windows),
        keys=bound.keys,
        windows=windows,
        closing=tuple(windows.names.index(calls[key(call)][0]) for call in closing.calls),
        column=windows.order[0].column,
        distance=closing.distance,
    )
    there = windows.kept(bound.keys)
    wanted = (*map(there.index, windows.row), *range(len(there), len(made.schema)))
    names = (*schema.names, *windows.names)
    picked = [(name, column_of(made.schema, i)) for name, i in zip(names, wanted, strict=True)]
    return builder.map(made, picked), over_values(named, calls)


def _waiting(  # noqa: PLR0917 - all that there is to know
    builder: Builder, rows: Node, mark: Node, named: Named, closing: Closing, sessions: Sequence[Sessions], column: str
) -> tuple[Node, Named]:
    """Return the rows with calls for which all of them are kept.

    Where there are windows of several kinds, copies of a row are told apart by a number, so that which copy has which
    values of one window does not depend on the values of another one, which may not be known yet.
    """
    copy = row_number().over(Window.partition_by(*map(col, rows.schema.names)).order_by(col(column)))
    wide, found = with_window_calls(builder, rows, [("copy", copy), *named])
    closed = [e.name for _, e in found[len(found) - len(closing.calls) :] if isinstance(e, Column)]
    for session in sessions:
        wide = session_columns(builder, wide, session)
    wide = closed_rows(builder, wide, mark, closed, column, closing.distance)
    for session in sessions:
        wide = held_back(builder, wide, mark, wide.schema.index(session.end), session.gap)
    return wide, found[1:]


def _closed_session(builder: Builder, rows: Node, mark: Node, session: Sessions) -> Node:
    """Return the rows of sessions that are over, with their starts: nothing is kept of them then."""
    schema = rows.schema
    keys = [(f"key {i}", e) for i, e in enumerate(session.partition)]
    wide = builder.compute(rows, [*keys, *((f"row {n}", col(n)) for n in schema.names)])
    field = schema.field(session.column)
    made = builder.add(
        ClosedSessions,
        wide,
        mark,
        schema=Schema((*wide.schema, Field("session", field.dtype))),
        keys=len(keys),
        column=len(keys) + schema.index(session.column),
        gap=session.gap,
    )
    names = (*schema.names, session.start)
    return builder.map(made, [(name, column_of(made.schema, len(keys) + i)) for i, name in enumerate(names)])


def closed_sessions(builder: Builder, rows: Node, mark: Node, session: Sessions) -> Node:
    """Return the rows of sessions that are over with two columns more, as windows over all rows have them."""
    rows = session_columns(builder, rows, session)
    return held_back(builder, rows, mark, rows.schema.index(session.end), session.gap)


def valued_schema(wide: Schema, keys: int, windows: Windows) -> Schema:
    """Return the columns of rows with their calls' values, which are named so that none clashes with another column."""
    rows = (wide.fields[i] for i in windows.kept(keys))
    values = (Field(f"call {f.name}", f.dtype, f.nullable) for f in value_fields(windows))
    return Schema((*rows, *values))


def closed_rows(  # noqa: PLR0917 - as above
    builder: Builder, rows: Node, mark: Node, closing: Sequence[str], column: str, distance: int
) -> Node:
    """Return those of rows with calls' values whose frames are closed."""
    for name in closing:
        rows = builder.filter(rows, bind(col(name).is_not_null(), rows.schema))
    return held_back(builder, rows, mark, rows.schema.index(column), distance) if distance else rows
