"""Columns that rows had before others were added: they break ties, so that adding a column changes no order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidemill.dataflow import composites, nodes
from tidemill.dataflow.nodes import Node
from tidemill.expressions.bound import BoundColumn

_ROWS_AS_THEY_ARE: Final = (
    nodes.Arrange, nodes.Consolidate, nodes.Enter, nodes.Filter, nodes.Inspect, nodes.LateRows, nodes.Leave,
    nodes.Negate, nodes.Retime, nodes.SortBuffer, nodes.Threshold, composites.AntiJoin, composites.ComparingFilter,
    composites.SemiJoin, composites.TemporalFilter, composites.TopK,
)  # fmt: skip
"""Operators that give rows of their first input and change nothing in them."""
_ADDING: Final = (nodes.Map, composites.Windowed, composites.SlidingWindows, composites.ClosedSessions)
"""Operators that make one row of each of their first input, with columns of it at their places and others."""


def columns_before_added(node: Node) -> tuple[int, ...] | None:
    """Return the columns that a node's rows had before the steps that only added to them; None for all, in order.

    A row is the same row as long as it has all of these. A step that changes or drops one of them makes other rows,
    and what these have are its columns.
    """
    chain: list[Node] = []
    while isinstance(node, (*_ADDING, *_ROWS_AS_THEY_ARE)):
        chain.append(node)
        node = node.inputs[0]
    held = [*range(len(node.schema))]
    for step in reversed(chain):
        places = _places(step)
        kept = all(column in places for column in held)
        held = [places[column] for column in held] if kept else [*range(len(step.schema))]
        node = step
    return None if held == [*range(len(node.schema))] else tuple(held)


def _places(step: Node) -> Mapping[int, int]:
    """Return where columns of the first input are after a step: of those that it leaves as they are."""
    if isinstance(step, nodes.Map):
        found = reversed([*enumerate(step.columns)])
        return {bound.index: place for place, bound in found if isinstance(bound, BoundColumn)}
    if isinstance(step, composites.SlidingWindows):
        return {column: place for place, column in enumerate(step.windows.kept(step.keys))}
    return {column: column for column in range(len(step.inputs[0].schema))}
