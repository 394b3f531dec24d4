"""Grouping pairs of a join whose keys repeat: from each side's sums by key, not pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from tidemill.dataflow.composites import Aggregate
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Join, Map, Node
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.dataflow.passes.row_keys import is_told_apart_by
from tidemill.expressions.aggregates import ORDERED, AggregateCall
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.rewriting import column_uses, moved
from tidemill.expressions.schema import Schema

_Part: TypeAlias = tuple[list[int], set[int]]
"""Some of a group's aggregates, and the sides of the join of which they need the keys alone."""

_WHY: Final = "keys that repeat added up before"


def group_each_side(graph: Graph) -> Graph:
    """Return the graph with joins below groups over keys alone, on sides of which nothing else is read.

    Such a side is arranged as its keys, each as often as it is there, so that a key that is there n times on one side
    and m times on the other is one pair, and not n * m. Where nobody else reads the side's arrangement it becomes that
    anyway, see `prune_columns`; where others do, this makes a second one. A group by the keys with aggregates of both
    sides becomes two, each over one side's columns and the other's keys, joined by what they group by. Counts multiply
    in either, so that all aggregates stay exact; but for those that need an order. Not where keys are there once on a
    side, as far as is known, and not in loops.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert isinstance(node, Aggregate)
        if (pairs := _Pairs.below(graph, node)) and (parts := pairs.parts()):
            made = [pairs.grouped(copy, *part) for part in parts]
            return made[0] if len(made) == 1 else _together(copy, node, made, [calls for calls, _ in parts])
        return copy.put(node, inputs=inputs)

    return rebuild(graph, rewrite, Aggregate)


@attrs.frozen
class _Pairs:
    """A group, the join that it groups the rows of, and which columns of the sides these rows are made of."""

    graph: Graph
    node: Aggregate
    join: Join
    columns: tuple[tuple[int, int], ...]
    """Of each column that the group reads, the side and the column there."""

    @classmethod
    def below(cls, graph: Graph, node: Aggregate) -> _Pairs | None:
        """Return them where between the group and an inner join columns are picked at the most; else None."""
        (source,) = node.inputs
        picked: Sequence[int] = range(len(source.schema))
        while isinstance(source, Map) and source.picked is not None and len(graph.consumers(source)) == 1:
            picked = [source.picked[i] for i in picked]
            (source,) = source.inputs
        if not isinstance(source, Join) or source.scope.parent is not None or len(graph.consumers(source)) != 1:
            return None
        if any(call.function in ORDERED for call in node.aggregates):
            return None
        if not all(isinstance(side, Arrange) and side.keys for side in source.inputs):  # all pairs have no keys
            return None
        width = len(source.inputs[0].schema)
        places = [source.output[i] for i in picked]
        return cls(graph, node, source, tuple((int(p >= width), p - width * (p >= width)) for p in places))

    def parts(self) -> list[_Part]:
        """Return the groups to be made instead, if it is worth it."""
        by = set[int]().union(*map(self._sides_of, self.node.keys))
        read = [self._sides_of(call.argument, call.condition) for call in self.node.aggregates]
        every, repeats = by.union(*read), {side for side in (0, 1) if self._repeats(side)}
        if len(every) < 2:  # noqa: PLR2004 - both sides
            alone = {side for side in repeats - every if len(self.graph.consumers(self.join.inputs[side])) > 1}
            return [([*range(len(read))], alone)] if alone else []
        if by or len(repeats) < 2 or any(len(sides) > 1 for sides in read):  # noqa: PLR2004
            return []
        if not all(isinstance(key, BoundColumn) for key in self.node.keys):
            return []
        first = [i for i, sides in enumerate(read) if 1 not in sides]
        return [(first, {1}), ([i for i in range(len(read)) if i not in first], {0})]

    def grouped(self, copy: Copy, calls: list[int], alone: set[int]) -> Aggregate:
        """Return the group with these of its aggregates, over a join of which these sides are keys alone."""
        used = {i for e in self._expressions(calls) for i in column_uses(e)}
        kept = sorted(used)
        sides = [_keys_alone(copy, a) if side in alone else copy.now(a) for side, a in enumerate(self._arranged)]
        width = len(sides[0].schema)
        output = [self._place(self.columns[i], alone) for i in kept] or [(0, 0)]  # where rows are counted alone: any
        source = self.node.inputs[0].schema
        fields = [source.fields[i] for i in kept] or [sides[0].schema.fields[0]]
        joined = copy.put(
            self.join, inputs=tuple(sides), schema=Schema(tuple(fields)),
            output=tuple(column + width * side for side, column in output), why=_WHY,
        )  # fmt: skip
        given, keys = self.node.schema.fields, len(self.node.keys)
        return copy.put(
            self.node, inputs=(joined,), schema=Schema((*given[:keys], *(given[keys + i] for i in calls))),
            keys=tuple(moved(key, kept.index) for key in self.node.keys),
            aggregates=tuple(_moved_call(self.node.aggregates[i], kept) for i in calls), hashed=None,
        )  # fmt: skip

    def _expressions(self, calls: list[int]) -> list[Bound]:
        chosen = [self.node.aggregates[i] for i in calls]
        found = [*self.node.keys, *(c.argument for c in chosen), *(c.condition for c in chosen)]
        return [e for e in found if e is not None]

    @property
    def _arranged(self) -> list[Arrange]:
        return [side for side in self.join.inputs if isinstance(side, Arrange)]

    def _sides_of(self, *expressions: Bound | None) -> set[int]:
        """Return the sides of which expressions read more than keys."""
        read = {self.columns[i] for e in expressions if e is not None for i in column_uses(e)}
        return {side for side, column in read if column not in self._arranged[side].keys}

    def _repeats(self, side: int) -> bool:
        arrange = self._arranged[side]
        return not is_told_apart_by(arrange.inputs[0], arrange.keys)

    def _place(self, at: tuple[int, int], alone: set[int]) -> tuple[int, int]:
        side, column = at
        return side, self._arranged[side].keys.index(column) if side in alone else column


def _keys_alone(copy: Copy, arrange: Arrange) -> Node:
    """Return the keys of a side, arranged."""
    source, keys = copy.now(arrange.inputs[0]), arrange.keys
    fields = [arrange.schema.fields[k] for k in keys]
    schema = Schema(tuple(fields))
    columns = tuple(BoundColumn(k, f.name, f.dtype, f.nullable) for k, f in zip(keys, fields, strict=True))
    rows = copy.add(Map, arrange, source, schema=schema, columns=columns)
    return copy.add(Arrange, arrange, rows, schema=schema, keys=tuple(range(len(keys))))


def _together(copy: Copy, node: Aggregate, parts: list[Aggregate], calls: list[list[int]]) -> Node:
    """Return the groups' rows side by side: they have the same groups, and one row of each."""
    keys = tuple(range(len(node.keys)))
    arranged = [copy.add(Arrange, node, part, schema=part.schema, keys=keys) for part in parts]
    order = [*calls[0], *calls[1]]
    after = len(keys) * 2  # the second one's keys stand between
    places = [at + (len(keys) if at < len(calls[0]) else after) for at in map(order.index, range(len(order)))]
    return copy.add(
        Join, node, *arranged, schema=node.schema, output=(*keys, *places), nulls_equal=True, why="groups of each side"
    )


def _moved_call(call: AggregateCall, kept: list[int]) -> AggregateCall:
    argument, condition = (e and moved(e, kept.index) for e in (call.argument, call.condition))
    return attrs.evolve(call, argument=argument, condition=condition)
