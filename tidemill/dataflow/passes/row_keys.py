"""What tells the rows of a collection apart, where a dataflow says so: columns with no values twice."""

from __future__ import annotations

from typing import Final

from tidemill.dataflow.composites import Aggregate, AntiJoin, SemiJoin, SetOperation, TopK, Windowed
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Consolidate,
    Enter,
    Filter,
    Input,
    Inspect,
    Leave,
    Map,
    Node,
    Reduce,
    Retime,
    Threshold,
)
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.aggregates import Aggregates
from tidemill.expressions.bound import BoundColumn

_SOME_OF_THE_SAME: Final = (
    AntiJoin, Arrange, Consolidate, Enter, Filter, Inspect, Leave, Retime, SemiJoin, TopK, Windowed,
)  # fmt: skip
"""What has rows of its first input, each as often as there, and their columns first."""


def row_key(node: Node) -> frozenset[int] | None:
    """Return columns by which rows are told apart, at every time; None where that is not known.

    No two rows have the same values in them, no row is there twice, and none has a negative count.
    """
    picks: list[Map] = []
    while isinstance(node, (*_SOME_OF_THE_SAME, Map)):
        if isinstance(node, Map):
            picks.append(node)
        elif isinstance(node, Retime) and node.steps is None:
            return None  # a user's function may bring what takes a row away before the row
        node = node.inputs[0]
    found = _declared(node)
    for one in reversed(picks):
        if found is None:
            return None
        places = {c.index: i for i, c in enumerate(one.columns) if isinstance(c, BoundColumn)}
        found = frozenset(places[i] for i in found) if found <= places.keys() else None
    return found


def without_keys(graph: Graph) -> Graph:
    """Return the graph with inputs that have no keys, for who is given updates of them that nobody holds to keys."""
    if not any(node.key for node in graph.inputs.values()):
        return graph

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        return copy.put(node, key=()) if isinstance(node, Input) else copy.put(node, inputs=inputs)

    made = rebuild(graph, rewrite, keep_unread=True)
    made.freeze()
    return made


def _declared(node: Node) -> frozenset[int] | None:
    """Return what tells rows apart that are made by an operator or come in."""
    whole = frozenset(range(len(node.schema)))
    if isinstance(node, Input):
        distinct = node.unique if node.rows is None else len(set(node.rows)) == len(node.rows)
        return frozenset(node.key) or (whole if distinct else None)
    if isinstance(node, Aggregate) or (isinstance(node, Reduce) and isinstance(node.logic, Aggregates)):
        return frozenset(range(len(node.keys)))
    each_once = (isinstance(node, Threshold) and node.function is None) or (
        isinstance(node, SetOperation) and node.operation != "except_all"
    )
    return whole if each_once else None
