"""The graph of a run that can be asked why: what its inputs hold can be read like outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Feedback,
    Input,
    LateRows,
    Leave,
    LoopLimits,
    Node,
    Output,
    Retime,
    SortBuffer,
    Watermark,
)
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.errors import GraphError

_TIMED: Final[dict[type[Node], str]] = {
    Retime: "delay",
    Watermark: "a watermark",
    SortBuffer: 'emit="on_close"',
    LateRows: "late_rows or on_time",
}
"""Operators whose rows depend on when others came, and not only on what is there; as users call them."""


def kept_name(name: str) -> str:
    """Return the name of the output that holds what an input does."""
    return f"{name} (kept for why)"


def observed_name(node: Node) -> str:
    """Return the name of the output that shows a node's contents, at a loop's end."""
    return f"node {node.id}"


def with_inputs_kept(graph: Graph) -> Graph:
    """Return a graph that has an output more for each input, with what the input holds."""
    for node in graph.nodes:
        called = next((words for kind, words in _TIMED.items() if isinstance(node, kind)), None)
        if called is not None:
            msg = (
                f"why=True: {called} ({node.site.location}) gives rows by when others came, and reasons are sought in "
                "what is there at one time: start this dataflow without why=True; what has no need of it can be asked "
                "about in a dataflow of its own"
            )
            raise GraphError(msg)
    copy = _copied(graph, graph.nodes)
    for node in graph.inputs.values():
        if node.rows is None:
            _observe(copy, node, kept_name(node.name))
    return _frozen(copy)


def with_one_output(graph: Graph, name: str) -> Graph:
    """Return a graph that has this output, and what it depends on; inputs take rows as they are, with a key or not."""
    copy = _copied(graph, [n for n in graph.nodes if not isinstance(n, Output) or n.name == name], key=(), unique=False)
    made = rebuild(copy.finished(), lambda again, node, _: again.put(node))  # without what nobody reads now
    made.freeze()
    return made


def with_every_node_observed(graph: Graph) -> Graph:
    """Return a graph that has an output for each node; of those in loops, for what they hold in the end."""
    copy = _copied(graph, [n for n in graph.nodes if not isinstance(n, Output)], key=(), unique=False)
    for node in graph.nodes:
        if node.schema.names and not isinstance(node, Output):
            _observe(copy, node, observed_name(node))
    return _frozen(copy)


def _copied(graph: Graph, nodes: Iterable[Node], **of_inputs: Any) -> Copy:
    """Return a copy of these nodes; inputs without what they check, where only some of what they held is put in."""
    copy = Copy(graph)
    for node in nodes:
        copy.stands_for(copy.put(node, **(of_inputs if isinstance(node, Input) else {})), node)
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
                limits=limits.get(seen.scope, LoopLimits()),
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
