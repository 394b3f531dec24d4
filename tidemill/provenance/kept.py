"""The graph of a run that can be asked why: what its inputs hold can be read like outputs."""

from __future__ import annotations

from typing import Final

from tidemill.dataflow.composites import TemporalFilter
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import MAX_COORDINATE, Time
from tidemill.dataflow.nodes import (
    Feedback,
    Filter,
    Input,
    LateRows,
    Leave,
    Limits,
    Node,
    Output,
    Retime,
    SortBuffer,
    Watermark,
)
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.errors import GraphError
from tidemill.expressions.bound import Bound, BoundCall, BoundLiteral
from tidemill.expressions.types import BOOL, INT64

__all__ = [
    "at_one_time",
    "kept_name",
    "observed_name",
    "with_every_node_observed",
    "with_inputs_kept",
    "with_one_output",
]


_TIMED: Final = (LateRows, Retime, SortBuffer, Watermark)
"""What gives rows by when others came, and not by what there is."""
_AFTER_ALL: Final = MAX_COORDINATE - 1
"""A time that comes when inputs are closed."""


def kept_name(name: str) -> str:
    """Return the name of the output that holds what an input does."""
    return f"{name} (as put in)"


def observed_name(node: Node) -> str:
    """Return the name of the output that shows a node's contents, at a loop's end."""
    return f"node {node.id}"


def with_inputs_kept(graph: Graph) -> Graph:
    """Return a graph that has an output more for each input, with what the input holds."""
    for node in graph.nodes:
        if isinstance(node, _TIMED):
            msg = f"why=True: {node.where} depends on when rows came, and reasons are sought at one time"
            raise GraphError(msg)
    copy = _copied(graph)
    for node in graph.inputs.values():
        if node.rows is None:
            _observe(copy, node, kept_name(node.name))
    return _frozen(copy)


def at_one_time(graph: Graph, time: Time | None) -> Graph:
    """Return the graph of what holds at a time, or after all: of temporal filters, those rows that are valid then."""
    if not any(isinstance(node, TemporalFilter) for node in graph.nodes):
        return graph
    copy = Copy(graph)
    for node in graph.nodes:
        if isinstance(node, TemporalFilter):
            valid = _valid_at(node, _AFTER_ALL if time is None else time[node.coordinate])
            copy.stands_for(copy.add(Filter, node, *copy.inputs(node), schema=node.schema, predicate=valid), node)
        else:
            copy.stands_for(copy.put(node), node)
    return _frozen(copy)


def _valid_at(node: TemporalFilter, time: int) -> Bound:
    """Return the condition that a row is valid at a time: NULL is no bound."""
    now, parts = BoundLiteral(time, INT64), list[Bound]()
    for bound, comparison in ((node.valid_from, "le"), (node.valid_to, "gt")):
        if bound is not None:
            wide = bound if bound.dtype == INT64 else BoundCall("cast", (bound,), INT64, bound.nullable)
            holds = BoundCall(comparison, (wide, now), BOOL, bound.nullable)
            parts.append(
                BoundCall("or", (BoundCall("is_null", (bound,), BOOL, nullable=False), holds), BOOL, bound.nullable)
            )
    return parts[0] if len(parts) == 1 else BoundCall("and", tuple(parts), BOOL, any(part.nullable for part in parts))


def with_one_output(graph: Graph, name: str) -> Graph:
    """Return a graph that has this output, and what it depends on; inputs take rows as they are, with a key or not."""
    copy = Copy(graph)
    for node in graph.nodes:
        if not isinstance(node, Output) or node.name == name:
            copy.stands_for(_put_plainly(copy, node), node)
    made = rebuild(copy.finished(), lambda again, node, _: again.put(node))  # without what nobody reads now
    made.freeze()
    return made


def with_every_node_observed(graph: Graph) -> Graph:
    """Return a graph that has an output for each node; of those in loops, for what they hold in the end."""
    copy = Copy(graph)
    for node in graph.nodes:
        if not isinstance(node, Output):
            copy.stands_for(_put_plainly(copy, node), node)
    for node in graph.nodes:
        if node.schema.names and not isinstance(node, Output):
            _observe(copy, node, observed_name(node))
    return _frozen(copy)


def _put_plainly(copy: Copy, node: Node) -> Node:
    """Add a node as it is; an input without what it checks, since of what it held only some is put in."""
    return copy.put(node, key=(), unique=False) if isinstance(node, Input) else copy.put(node)


def _copied(graph: Graph) -> Copy:
    copy = Copy(graph)
    for node in graph.nodes:
        copy.stands_for(copy.put(node), node)
    return copy


def _observe(copy: Copy, node: Node, name: str) -> None:
    graph, seen = copy.graph, copy.now(node)
    limits = {f.scope: f.limits for f in copy.old.nodes if isinstance(f, Feedback)}
    while seen.scope.parent is not None:
        seen = graph.put(
            Leave(
                id=len(graph.nodes),
                name=name,
                scope=seen.scope.parent,
                site=node.site,
                schema=node.schema,
                inputs=(seen,),
                limits=limits.get(seen.scope, Limits()),
            )
        )
    graph.put(
        Output(
            id=len(graph.nodes),
            name=name,
            scope=seen.scope,
            site=node.site,
            schema=node.schema,
            inputs=(seen,),
            changes=False,
        )
    )


def _frozen(copy: Copy) -> Graph:
    made = copy.finished()
    made.freeze()
    return made
