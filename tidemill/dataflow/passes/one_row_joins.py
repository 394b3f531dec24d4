"""Filtering by one row: a filter over a cross join with a side of one row, as a dynamic filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from tidemill.dataflow.composites import DynamicFilter
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Filter, Join, Map, Node
from tidemill.dataflow.passes.range_joins import has_all_pairs
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.dataflow.passes.row_keys import is_told_apart_by
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn
from tidemill.expressions.rewriting import all_true, can_fail, column, column_uses, conditions, substituted
from tidemill.expressions.schema import Field, Schema, unused_name

_TURNED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_Compared: TypeAlias = tuple[Bound, str, Bound]
"""A comparison: an expression over the rows, how it compares, and an expression over the one row."""
_COMPARISONS: Final = dict(zip(("eq", "ne", "lt", "le", "gt", "ge"), _TURNED, strict=True))


def filter_by_one_row(graph: Graph) -> Graph:
    """Return the graph with filters over a cross join with a side of one row as dynamic filters.

    That is ``rows.cross_join(total).filter("v > mean").select("v")``: ``total`` is an aggregate without keys, its
    ``top_k(1)`` or what else is known to have no second row, a condition compares what is of the rows with what is of
    the one, and a select keeps columns of the rows alone. Not where times are of several coordinates, where what is
    compared may fail, or where others read the pairs.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert isinstance(node, Map)
        found = _found(copy, node, inputs[0]) if node.scope.coordinates == 1 else None
        return copy.put(node, inputs=inputs) if found is None else found

    return rebuild(graph, rewrite, Map)


@attrs.frozen
class _Pair:
    """The inputs of a cross join with a side of one row, and which of them each of its columns comes from."""

    join: Join
    rows: Node
    one: Node
    turned: bool
    """Whether the one row is on the left."""

    def column(self, index: int) -> tuple[bool, int]:
        """Return whether a column of the pairs is of the one row, and its place there or in the rows."""
        place, width = self.join.output[index], len(self.join.inputs[0].schema)
        is_right = place >= width
        return is_right != self.turned, place - width if is_right else place

    def is_of_one(self, expression: Bound) -> bool | None:
        """Return whether an expression reads the one row alone, or the rows alone; None for both and neither."""
        sides = {self.column(i)[0] for i in column_uses(expression)}
        return sides.pop() if len(sides) == 1 else None

    def of_side(self, expression: Bound) -> Bound:
        """Return an expression of pairs that reads one side alone, as one of that side."""

        def moved(c: BoundColumn) -> Bound:
            of_one, place = self.column(c.index)
            return column((self.one if of_one else self.rows).schema, place)

        return substituted(expression, moved)


def _found(copy: Copy, node: Map, source: Node) -> Node | None:
    """Return the replacement of a map over a filter over a cross join with one row; None where it is none."""
    if not isinstance(source, Filter) or copy.readers(source) > 1:
        return None
    pair = _pair(copy, source.inputs[0])
    if pair is None or any(pair.column(i)[0] for c in node.columns for i in column_uses(c)):
        return None
    compared: list[_Compared] = []
    rest: list[Bound] = []
    for condition in conditions(source.predicate):
        if pair.is_of_one(condition) is False:
            rest.append(pair.of_side(condition))
            continue
        one = _comparison(pair, condition)
        if one is None:
            return None
        compared.append(one)
    return _filtered(copy, node, source, pair, compared=compared, rest=rest) if compared else None


def _pair(copy: Copy, node: Node) -> _Pair | None:
    if not isinstance(node, Join) or copy.readers(node) > 1:
        return None
    if not has_all_pairs(node):
        return None
    (left,), (right,) = (arranged.inputs for arranged in node.inputs)
    if is_told_apart_by(right, ()):
        return _Pair(node, left, right, turned=False)
    return _Pair(node, right, left, turned=True) if is_told_apart_by(left, ()) else None


def _comparison(pair: _Pair, condition: Bound) -> _Compared | None:
    """Return a condition as a comparison of the rows with the one row; None if it is not one."""
    if not isinstance(condition, BoundCall) or condition.function not in _COMPARISONS or can_fail(condition):
        return None
    how, (first, second) = _COMPARISONS[condition.function], condition.args
    if pair.is_of_one(first) is True:
        first, how, second = second, _TURNED[how], first
    if pair.is_of_one(first) is not False or pair.is_of_one(second) is not True or first.dtype != second.dtype:
        return None
    return pair.of_side(first), how, pair.of_side(second)


def _filtered(
    copy: Copy, node: Map, source: Filter, pair: _Pair, *, compared: Sequence[_Compared], rest: Sequence[Bound]
) -> Node:
    rows, lefts = _with_columns(copy, source, pair.rows, [l for l, _, _ in compared])
    one, rights = _with_columns(copy, source, pair.one, [r for _, _, r in compared])
    triples = tuple((l, how, r) for l, (_, how, _), r in zip(lefts, compared, rights, strict=True))
    calls: list[Bound] = []
    for (l, _, r), condition in zip(triples, _kept(pair, source), strict=True):
        right = column(one.schema, r)
        args: tuple[Bound, ...] = (column(rows.schema, l), attrs.evolve(right, index=len(rows.schema) + r))
        if pair.is_of_one(condition.args[0]):
            args = args[::-1]
        calls.append(attrs.evolve(condition, args=args))
    made: Node = copy.add(
        DynamicFilter, source, rows, one, schema=rows.schema, conditions=triples, predicate=all_true(*calls)
    )
    for further in rest:
        made = copy.add(Filter, source, made, schema=made.schema, predicate=further)
    return copy.put(node, inputs=(made,), columns=tuple(map(pair.of_side, node.columns)))


def _kept(pair: _Pair, source: Filter) -> list[BoundCall]:
    """Return the conditions that compare, in their order."""
    return [c for c in conditions(source.predicate) if isinstance(c, BoundCall) and pair.is_of_one(c) is None]


def _with_columns(copy: Copy, like: Node, side: Node, wanted: Sequence[Bound]) -> tuple[Node, list[int]]:
    """Return a side with these expressions as columns, new ones after its own; and the places of all of them."""
    columns: list[Bound] = [column(side.schema, i) for i in range(len(side.schema))]
    fields, places = list(side.schema), []
    for expression in wanted:
        if isinstance(expression, BoundColumn):
            places.append(expression.index)
            continue
        places.append(len(columns))
        columns.append(expression)
        name = unused_name("compared", {f.name for f in fields})
        fields.append(Field(name, expression.dtype, expression.nullable))
    if len(columns) == len(side.schema):
        return side, places
    return copy.add(Map, like, side, schema=Schema(tuple(fields)), columns=tuple(columns)), places
