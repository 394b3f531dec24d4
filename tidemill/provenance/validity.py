"""Temporal filters in the words of those who wrote them, whatever operators they are made of.

By the user's time they are a condition at the time that is asked about. By a clock they are dynamic filters over rows
with their bounds beside them, one for each choice of bounds that are known: one operator to who reads a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tidemill.dataflow.composites import CLOCKED, ComparingFilter, TemporalFilter
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import MAX_COORDINATE, Time
from tidemill.dataflow.nodes import Concat, Enter, Filter, Map, Node
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.bound import Bound, BoundCall, BoundLiteral
from tidemill.expressions.sql_text import to_sql
from tidemill.expressions.types import BOOL, INT64

_AFTER_ALL = MAX_COORDINATE - 1
"""A time that comes when inputs are closed."""


def is_validity(node: Node) -> bool:
    """Return whether a node is what `at_one_time` makes of a temporal filter: its name says which."""
    return isinstance(node, Filter) and node.name.startswith(f"{CLOCKED} [")


def at_one_time(graph: Graph, time: Time | None) -> Graph:
    """Return the graph of what holds at a time, or after all: of temporal filters, those rows that are valid then."""
    if not any(isinstance(node, TemporalFilter) for node in graph.nodes):
        return graph

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        if not isinstance(node, TemporalFilter):
            return copy.put(node)
        when = "after all times" if time is None else f"at {time[node.coordinate]}"
        valid = _valid_at(node, _AFTER_ALL if time is None else time[node.coordinate])
        name, place = f"{CLOCKED} [{node.describe()}, {when}]", len(copy.graph.nodes)
        like: dict[str, Any] = {"scope": node.scope, "site": node.site, "schema": node.schema}
        return copy.graph.put(Filter(id=place, name=name, inputs=inputs, predicate=valid, **like))

    made = rebuild(graph, rewrite, keep_unread=True)
    made.freeze()
    return made


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


@attrs.frozen(eq=False)
class ByClock:
    """A temporal filter by a clock, of several operators."""

    rows: Node
    clock: Node
    words: str
    """The condition, as it was written."""


def by_clock(graph: Graph) -> dict[Node, ByClock]:
    """Return for each operator that a temporal filter by a clock is made of, which one that is."""
    found: dict[Node, ByClock] = {}
    unions = [node for node in graph.nodes if isinstance(node, Concat)]
    for node in graph.nodes:  # of its parts the one that compares all bounds comes first
        if isinstance(node, ComparingFilter) and node.name == CLOCKED and node not in found:
            wide, names = _with_bounds(node)
            filter_ = _of(node, wide, names)
            is_whole = (u for u in unions if u.schema.names == wide.schema.names and _picked_of(u.inputs[0]) is node)
            found |= dict.fromkeys(_between(next(is_whole, node), filter_), filter_)
    return found


def _with_bounds(node: ComparingFilter) -> tuple[Map, list[str]]:
    """Return what adds the bounds to the rows, and their columns' names, which what is cast of them begins with."""
    names = [node.schema.names[left].partition(" as ")[0] for left, _, _ in node.conditions]
    (wide, _) = node.inputs
    while not isinstance(wide, Map) or names[0] in wide.inputs[0].schema.names:
        wide = wide.inputs[0]
    return wide, names


def _of(node: ComparingFilter, wide: Map, names: list[str]) -> ByClock:
    bounds = [to_sql(wide.columns[wide.schema.index(name)]) for name in names]
    words = ["from" if comparison == "<=" else "to" for _, comparison, _ in node.conditions]
    clock = node.inputs[1]
    while isinstance(clock, Enter) or (isinstance(clock, Map) and " to compare " in clock.schema.names[-1]):
        clock = clock.inputs[0]
    said = " ".join(f"{word} {bound}" for word, bound in zip(words, bounds, strict=True))
    return ByClock(wide.inputs[0], clock, f"{CLOCKED} [{said}, by a clock]")


def _picked_of(node: Node) -> Node:
    """Return what a node picks columns of, or the node itself."""
    while isinstance(node, Map) and node.picked is not None:
        node = node.inputs[0]
    return node


def _between(top: Node, filter_: ByClock) -> Iterator[Node]:
    """Give the operators from the last one back to the rows and the clock."""
    waiting, seen = [top], {filter_.rows, filter_.clock}
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            yield node
            waiting += node.inputs
