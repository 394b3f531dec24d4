"""What a change costs in each operator: what other systems call incremental or not, said of all of them."""

from __future__ import annotations

from typing import Final

from tidemill.dataflow.composites import Aggregate, ComparingFilter, PartneredJoin, RangeJoin, TopK, Windowed
from tidemill.dataflow.nodes import Arrange, Feedback, Input, Inspect, Join, Node, Output, Reduce, Variable, outside
from tidemill.expressions.windows.in_order import RECOMPUTED

CHANGE: Final = "changes cost O(change)"
MATCHES: Final = "changes cost their matches"
OTHER_SIDE: Final = "each change costs the other side"
REACHED: Final = "changes cost the rows they reach, found in order"
PARTITION: Final = "recomputes its partition"
WHOLE: Final = "recomputes its one partition of all rows"
_LOOKED_UP: Final = frozenset(("count", "sum", "avg", "variance", "stddev", "bool_and", "bool_or"))
"""Aggregates that are put together from the change alone."""


def cost(node: Node) -> str:  # noqa: PLR0911 - one line a kind
    """Return what a change costs in an operator; nothing for those that only pass rows on."""
    if isinstance(node, (Input, Output, Arrange, Variable, Feedback, Inspect)):
        return ""
    if isinstance(node, Windowed):
        return _of_windows(node)
    if isinstance(node, Aggregate):
        kept = [a.function for a in node.aggregates if a.function not in _LOOKED_UP]
        return f"{REACHED} ({', '.join(dict.fromkeys(kept))})" if kept else CHANGE
    if isinstance(node, Join):
        arranged = outside(node.inputs[0])
        return OTHER_SIDE if isinstance(arranged, Arrange) and not arranged.keys else MATCHES
    if isinstance(node, PartneredJoin):
        return MATCHES if node.on else OTHER_SIDE
    if isinstance(node, (ComparingFilter, RangeJoin, TopK)):
        return REACHED
    return "recomputes its group" if isinstance(node, Reduce) else CHANGE


def _of_windows(node: Windowed) -> str:
    if all(rendering.how != RECOMPUTED for _, rendering in node.renderings()):
        return REACHED
    return PARTITION if node.keys else WHOLE
