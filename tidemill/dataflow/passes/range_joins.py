"""Joining by range: a filter by an inequality over pairs as a join that looks up those that pass."""

from __future__ import annotations

from typing import Final

import attrs

from tidemill.dataflow.composites import RangeJoin
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Filter, Join, Node
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.dataflow.passes.row_keys import is_told_apart_by
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn
from tidemill.expressions.rewriting import all_true, column, conditions
from tidemill.expressions.types import DATE, FLOAT64, TIMESTAMP, DType

_COMPARISONS: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DIGITS: Final = 18
"""Decimals of more do not lie in order as they are kept."""


def join_by_range(graph: Graph) -> Graph:
    """Return the graph with joins that look up ranges, for pairs of rows of which a column is less than another.

    That is ``a.cross_join(b).filter("x < y")``, or a join with such a ``where``, with keys or ``on=[]``: numbers, dates
    or timestamps of the same type, one of each side, as they stand. Further conditions are a filter after it. Not in
    loops, and not where others read the pairs.

    Joins by key look up in arrangements that others may look up in, too; those of joins by range nobody shares. So they
    are left alone where anybody else reads one of the two, or both sides read it as one and would need two; and where
    no key is there twice on either side.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert isinstance(node, Filter)
        found = _found(copy, node, inputs[0]) if node.scope.parent is None else None
        return copy.put(node, inputs=inputs) if found is None else found

    return rebuild(graph, rewrite, Filter)


def _found(copy: Copy, node: Filter, source: Node) -> Node | None:
    """Return the range join that replaces a filter over pairs; None if there is none."""
    if not isinstance(source, Join) or copy.readers(source) > 1:
        return None
    if not has_all_pairs(source) and not _pays_by_key(copy, source):
        return None
    parts = list(conditions(node.predicate))
    for place, condition in enumerate(parts):
        comparison = _comparison(source, condition)
        if comparison is not None and _needs_no_more(source, comparison):
            return _joined(copy, node, source, comparison, parts[:place] + parts[place + 1 :])
    return None


def has_all_pairs(node: Node) -> bool:
    """Return whether a node is a join without a key, of two collections that are of its scope."""
    return isinstance(node, Join) and all(isinstance(side, Arrange) and not side.keys for side in node.inputs)


def _pays_by_key(copy: Copy, source: Join) -> bool:
    """Return whether the arrangements of a join are its own, and a look-up by key may find many rows in one of them."""
    found = [side for side in source.inputs if isinstance(side, Arrange)]
    if len(found) < len(source.inputs) or any(copy.readers(side) > source.inputs.count(side) for side in found):
        return False
    return not all(is_told_apart_by(side, side.keys) for side in found)


def _needs_no_more(source: Join, comparison: tuple[int, str, int]) -> bool:
    """Return whether a join by key needs no index more than arrangements: with itself a collection has but one."""
    left, right = source.inputs
    return has_all_pairs(source) or left is not right or comparison[0] == comparison[2]


def _comparison(source: Join, condition: Bound) -> tuple[int, str, int] | None:
    """Return a condition as (left column, how it compares, right column); None if it is no such comparison."""
    if not isinstance(condition, BoundCall) or condition.function not in _COMPARISONS:
        return None
    how, (first, second), width = _COMPARISONS[condition.function], condition.args, len(source.inputs[0].schema)
    if not (isinstance(first, BoundColumn) and isinstance(second, BoundColumn)):
        return None
    if first.dtype != second.dtype or not _lies_in_order(first.dtype):
        return None
    l, r = source.output[first.index], source.output[second.index]
    if l >= width:
        l, how, r = r, _TURNED[how], l
    return (l, how, r - width) if l < width <= r else None


def _lies_in_order(dtype: DType) -> bool:
    return dtype.is_integer or dtype in (FLOAT64, DATE, TIMESTAMP) or (dtype.is_decimal and dtype.precision <= _DIGITS)


def _joined(copy: Copy, node: Filter, source: Join, comparison: tuple[int, str, int], rest: list[Bound]) -> Node:
    (left,), (right,) = (arranged.inputs for arranged in source.inputs)
    keys = [side.keys for side in source.inputs if isinstance(side, Arrange)]
    l, how, r = comparison
    own, other = column(left.schema, l), column(right.schema, r)
    names = {shown: name for name, shown in _COMPARISONS.items()}
    args = (own, attrs.evolve(other, index=len(left.schema) + r))
    predicate = BoundCall(names[how], args, node.predicate.dtype, own.nullable or other.nullable)
    made: Node = copy.add(
        RangeJoin,
        source,
        left,
        right,
        schema=source.schema,
        keys=tuple(zip(*keys, strict=True)),
        nulls_equal=source.nulls_equal,
        comparison=comparison,
        predicate=predicate,
        output=source.output,
    )
    return copy.put(node, inputs=(made,), predicate=all_true(*rest)) if rest else made
