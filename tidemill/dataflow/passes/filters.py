"""Pushing filters down: rows are dropped as early as possible."""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from typing import Any, Final, TypeAlias

from tidemill.dataflow.composites import (
    Aggregate,
    AntiJoin,
    Composite,
    OuterJoin,
    PartneredJoin,
    SemiJoin,
    SetOperation,
    TopK,
    Windowed,
)
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Enter,
    Filter,
    Join,
    Map,
    Negate,
    Node,
    Retime,
    Threshold,
    arranged_keys,
    outside,
)
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.bound import Bound, BoundColumn, BoundLiteral
from tidemill.expressions.rewriting import all_true, can_fail, column, column_uses, conditions, substituted

_PASS_ON: Final = (Consolidate, Enter, Negate, Retime)


def push_filters(graph: Graph) -> Graph:
    """Return the graph with filters as near to the inputs as they can be.

    They go below maps, for columns that a map passes on; below joins, to the side whose columns they read, unless it is
    padded with NULL, and to both sides for keys of an inner join; below groups, top-k and windows, for their keys;
    below concats, set operations and distinct; and out of loops that rows enter. Only predicates that cannot fail move,
    since they will see more rows than before; and only past operators that have no other reader.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert isinstance(node, Filter)
        if not can_fail(node.predicate):
            return _run(_pushed(copy, node, node.predicate, inputs[0]))
        return copy.put(node, inputs=inputs)

    return rebuild(graph, rewrite, Filter)


_Task: TypeAlias = Generator[Any, Any, Node]
"""A coroutine that builds a node and yields the tasks it waits for, so that a long dataflow does not recurse."""


def _run(task: _Task) -> Node:
    """Run a task, and those that it waits for; return the node it builds."""
    waiting, result = [task], None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as stop:
            waiting.pop()
            result = stop.value
    assert isinstance(result, Node)
    return result


def _pushed(copy: Copy, node: Filter, predicate: Bound, source: Node) -> _Task:
    """Return the rows of a source that pass, with the predicate applied as early as possible."""
    if copy.readers(source) <= 1:
        if isinstance(source, _PASS_ON) or (isinstance(source, Threshold) and source.function is None):
            return copy.put(source, inputs=((yield _pushed(copy, node, predicate, source.inputs[0])),))
        if isinstance(source, (Concat, SetOperation)):
            inputs = list(source.inputs)
            for i, one in enumerate(source.inputs):
                inputs[i] = yield _pushed(copy, node, predicate, one)
            return copy.put(source, inputs=tuple(inputs))
        if isinstance(source, Map):
            before = _over_input(predicate, source.columns)
            if before is not None:
                return copy.put(source, inputs=((yield _pushed(copy, node, before, source.inputs[0])),))
        if isinstance(source, Join):
            return (yield from _below_join(copy, node, predicate, source))
        if isinstance(source, Composite):
            return (yield from _below_composite(copy, node, predicate, source))
    return _filtered(copy, node, predicate, source)


def _filtered(copy: Copy, node: Filter, predicate: Bound, source: Node) -> Node:
    """Return a filter with the scope and schema of its source, and all else from the user's filter."""
    return copy.put(node, inputs=(source,), scope=source.scope, schema=source.schema, predicate=predicate)


def _over_input(predicate: Bound, columns: Sequence[Bound | None]) -> Bound | None:
    """Return the predicate over the input of a map with these columns.

    None if it reads a column that has no such expression, or one that is computed, which would then be done twice.
    """

    def taken(asked: BoundColumn) -> Bound:
        found = columns[asked.index]
        assert found is not None, "only columns that are there are asked for"
        return found

    if all(isinstance(columns[i], (BoundColumn, BoundLiteral)) for i in column_uses(predicate)):
        return substituted(predicate, taken)
    return None


def _below_join(copy: Copy, node: Filter, predicate: Bound, join: Join) -> _Task:
    sides, above = list(join.inputs), list[Bound]()
    for condition in conditions(predicate):
        side = _side(condition, join)
        if side is not None and _is_private(copy, sides[side]):
            asked = substituted(condition, functools.partial(_of_side, join, side))
            sides[side] = yield _below_arrangement(copy, node, asked, sides[side])
            other = _of_partner(join, side, asked)
            if other is not None and sides[0] is not sides[1] and _is_private(copy, sides[1 - side]):
                sides[1 - side] = yield _below_arrangement(copy, node, other, sides[1 - side])
        else:
            above.append(condition)
    joined = join if sides == list(join.inputs) else copy.put(join, inputs=tuple(sides))
    return _filtered(copy, node, all_true(*above), joined) if above else joined


def _side(condition: Bound, join: Join) -> int | None:
    """Return the side of a join that a condition reads; None if it reads both or neither."""
    width = len(join.inputs[0].schema)
    sides = {int(join.output[i] >= width) for i in column_uses(condition)}
    return sides.pop() if len(sides) == 1 else None


def _of_side(join: Join, side: int, output: BoundColumn) -> BoundColumn:
    place = join.output[output.index] - (len(join.inputs[0].schema) if side else 0)
    return column(join.inputs[side].schema, place)


def _of_partner(join: Join, side: int, asked: Bound) -> Bound | None:
    """Return a condition on the keys of one side as one on the other's equal keys; None if it reads anything else."""
    keys = dict(zip(arranged_keys(join.inputs[side]), arranged_keys(join.inputs[1 - side]), strict=True))
    mine, other = (source.schema for source in (join.inputs[side], join.inputs[1 - side]))
    if any(i not in keys or mine.dtypes[i] != other.dtypes[keys[i]] for i in column_uses(asked)):
        return None
    return substituted(asked, lambda c: column(other, keys[c.index]))


def _is_private(copy: Copy, arranged: Node) -> bool:
    """Return whether a node is an arrangement with no other reader."""
    return isinstance(outside(arranged), Arrange) and _is_read_once(copy, arranged)


def _is_read_once(copy: Copy, node: Node) -> bool:
    """Return whether a node, inside and outside of the loops that it enters, has at most one reader."""
    while isinstance(node, Enter) and copy.readers(node) <= 1:
        (node,) = node.inputs
    return copy.readers(node) <= 1


def _below_arrangement(copy: Copy, node: Filter, predicate: Bound, arranged: Node) -> _Task:
    (source,) = arranged.inputs
    if isinstance(arranged, Enter):
        return copy.put(arranged, inputs=((yield _below_arrangement(copy, node, predicate, source)),))
    return copy.put(arranged, inputs=((yield _pushed(copy, node, predicate, source)),))


def _below_composite(copy: Copy, node: Filter, predicate: Bound, source: Composite) -> _Task:
    """Return a composite with the conditions below it that read only columns it passes on from one input.

    A join with partners keeps its filter if its input has other readers, so that they can share an arrangement.
    """
    side, columns = _passed_on(source)
    if isinstance(source, PartneredJoin) and not _is_read_once(copy, source.inputs[side]):
        return _filtered(copy, node, predicate, source)
    inputs, above = list(source.inputs), list[Bound]()
    for condition in conditions(predicate):
        before = _over_input(condition, columns) if set(column_uses(condition)) else None
        if before is None:
            above.append(condition)
        else:
            inputs[side] = yield _pushed(copy, node, before, inputs[side])
    made = source if inputs == list(source.inputs) else copy.put(source, inputs=tuple(inputs))
    return _filtered(copy, node, all_true(*above), made) if above else made


def _passed_on(source: Composite) -> tuple[int, Sequence[Bound | None]]:
    """Return the input whose rows may be dropped instead, and for each output column its expression there, or None.

    Of a join, the side that is not padded (left for semi and anti joins); of groups, top-k and windows, the keys.
    """
    nothing: list[Bound | None] = [None] * len(source.schema)
    if isinstance(source, (SemiJoin, AntiJoin)) or (isinstance(source, OuterJoin) and source.how == "left"):
        left = source.inputs[0].schema
        return 0, [*(column(left, i) for i in range(len(left))), *nothing[len(left) :]]
    if isinstance(source, OuterJoin) and source.how == "right":
        return 1, _of_right(source)
    if isinstance(source, Aggregate):
        return 0, [*source.keys, *nothing[len(source.keys) :]]
    if isinstance(source, TopK):
        own = [column(source.schema, i) for i in range(len(source.schema))]
        return 0, [c if c in source.keys else None for c in own]
    if isinstance(source, Windowed):
        rows = source.inputs[0].schema
        own = [column(rows, i) for i in range(len(rows))]
        return 0, [*(c if c in source.keys else None for c in own), *nothing[len(rows) :]]
    return 0, nothing


def _of_right(join: OuterJoin) -> list[Bound | None]:
    """Return for each output column of a right join its right column; for keys only if the types agree."""
    left, right = (source.schema for source in join.inputs)
    keys = dict(join.on)
    wanted = [keys.get(name) for name in left.names]
    wanted += [name for name in right.names if name not in keys.values()]
    found = [None if name is None else column(right, right.index(name)) for name in wanted]
    return [c if c and c.dtype == f.dtype else None for c, f in zip(found, join.schema, strict=True)]
