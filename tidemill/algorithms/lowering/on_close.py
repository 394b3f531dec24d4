"""Windows that slide over released rows, as the same windows over all of them, of which the closed ones are given."""

from __future__ import annotations

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.collections.on_close import closed_rows, closed_sessions, valued_schema
from tidemill.collections.sessions import Sessions
from tidemill.dataflow.composites import ClosedSessions, SlidingWindows
from tidemill.dataflow.nodes import Reduce
from tidemill.dataflow.told import Told
from tidemill.expressions.expr import col


@lowering(SlidingWindows)
def sliding_windows(node: SlidingWindows, source: Collection, mark: Collection) -> Collection:
    """Return the closed rows: the others, and the changes to come, are filtered out or held back."""
    schema = valued_schema(source.schema, node.keys, node.windows)
    builder = source.builder
    made = builder.add(Reduce, source.node, schema=schema, keys=tuple(range(node.keys)), logic=node.windows)
    values = schema.names[len(schema) - len(node.windows.calls) :]
    closing = [values[i] for i in node.closing]
    column = source.schema.names[node.column]
    return Collection(builder, closed_rows(builder, made, mark.node, closing, column, node.distance))


@lowering(ClosedSessions)
def over_sessions(node: ClosedSessions, source: Collection, mark: Collection) -> Collection:
    """Return the rows of all sessions, held back until their ends are a gap behind the watermark."""
    names = source.schema.names
    session = Sessions(tuple(map(col, names[: node.keys])), names[node.column], node.gap, "session", "session end")
    with source.builder.graph.telling(Told(names[node.keys :], ())):
        rows = closed_sessions(source.builder, source.node, mark.node, session)
        return Collection(source.builder, rows).drop("session end")
