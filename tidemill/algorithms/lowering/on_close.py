"""Windows that slide over released rows, as the same windows over all of them, of which the closed ones are given."""

from __future__ import annotations

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.collections.on_close import closed_rows, closed_sessions, valued_schema
from tidemill.collections.sessions import Sessions
from tidemill.dataflow.composites import ClosedSessions, SlidingWindows
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import col
from tidemill.expressions.ordering import hash_of_row
from tidemill.expressions.schema import Schema

__all__ = ["over_sessions", "sliding_windows"]


@lowering(SlidingWindows)
def sliding_windows(node: SlidingWindows, source: Collection, mark: Collection) -> Collection:
    """Return the closed rows: the others, and the changes to come, are filtered out or held back."""
    schema, source = valued_schema(source.schema, node.keys, node.windows), _with_hash(node, source)
    made = source.reduce_by(tuple(range(node.keys)), node.windows, schema)
    values = schema.names[len(schema) - len(node.windows.calls) :]
    closing = [values[i] for i in node.closing]
    return closed_rows(made, mark.node, closing, source.schema.names[node.column], node.distance)


def _with_hash(node: SlidingWindows, source: Collection) -> Collection:
    """Return the rows with the hash that breaks ties, where it is not among their columns."""
    schema = source.schema
    if all(o.column < len(schema) for o in node.windows.ties):
        return source
    own = Schema(tuple(schema.fields[i] for i in node.windows.row))
    columns = [(name, bind(col(name), schema)) for name in schema.names]
    return source.map_columns([*columns, ("hash", bind(hash_of_row(own), schema))])


@lowering(ClosedSessions)
def over_sessions(node: ClosedSessions, source: Collection, mark: Collection) -> Collection:
    """Return the rows of all sessions, held back until their ends are a gap behind the watermark."""
    names = source.schema.names
    session = Sessions(tuple(map(col, names[: node.keys])), names[node.column], node.gap, "session", "session end")
    return closed_sessions(source, mark.node, session).drop("session end")
