"""Filters that compare with the one row of another collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from tidemill.collections.builder import Builder, Monotone
from tidemill.dataflow.composites import DynamicFilter
from tidemill.dataflow.nodes import Consolidate, Inspect, Map, Node, Watermark
from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind_predicate
from tidemill.expressions.expr import Expr, col
from tidemill.expressions.functions.registry import common_type
from tidemill.expressions.rising import rises_with
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType

Condition: TypeAlias = tuple[str, str, str]

COMPARISONS: Final = {
    "=": Expr.__eq__, "<>": Expr.__ne__, "<": Expr.__lt__, "<=": Expr.__le__, ">": Expr.__gt__, ">=": Expr.__ge__,
}  # fmt: skip
HOW: Final = 'dynamic_filter("amount", ">", right), or dynamic_filter([("amount", ">", "least")], right)'


def dynamic_filter(  # noqa: PLR0917 - two sides, and what is said of them
    builder: Builder, left: Node, said: Sequence[Any], right: Node, monotone: Any, name: str = ""
) -> Node:
    """Return the left rows that compare; what the parameters mean is said at ``Collection.dynamic_filter``.

    ``said`` is what stands before the right side: a column and a comparison, or a list of conditions.
    """
    conditions = _conditions(said, right)
    check_monotone(monotone, "dynamic_filter")
    if monotone and (equal := [c for _, c, _ in conditions if c in ("=", "<>")]):
        msg = f"dynamic_filter: monotone={monotone!r} with {equal[0]}: it is for <, <=, > and >= only; leave it out"
        raise SchemaError(msg)
    names, types = left.schema.names, _types(conditions, left, right)
    left, own = _cast(builder, left, [(l, dtype) for (l, _, _), dtype in zip(conditions, types, strict=True)])
    right, others = _cast(builder, right, [(r, dtype) for (_, _, r), dtype in zip(conditions, types, strict=True)])
    compared = [(l, c, r) for l, (_, c, _), r in zip(own, conditions, others, strict=True)]
    monotone = monotone or _declared(builder, right, compared)
    made = _added(builder, left, right, compared, monotone, name)
    return made if left.schema.names == names else builder.pick(made, names)


def check_monotone(monotone: Any, what: str) -> None:
    """Refuse what is no way to move in."""
    if monotone not in (None, "increasing", "decreasing"):
        msg = f"{what}: monotone={monotone!r}: expected 'increasing' or 'decreasing', or nothing"
        raise SchemaError(msg)


def _declared(builder: Builder, right: Node, conditions: Sequence[tuple[int, str, int]]) -> Monotone | None:
    """Return how the right values move, where that was said of the input that they come from, or is known."""
    ways = {None if how in ("=", "<>") else _moves(builder, right, r) for _, how, r in conditions}
    return ways.pop() if len(ways) == 1 else None


def _moves(builder: Builder, node: Node, column: int) -> Monotone | None:
    while isinstance(node, (Consolidate, Inspect, Map)):
        if isinstance(node, Map):
            rises = rises_with(node.columns[column])
            if rises is None:
                return None
            column = rises
        (node,) = node.inputs
    return "increasing" if isinstance(node, Watermark) else builder.monotone.get(node)


def _added(  # noqa: PLR0917 - as above
    builder: Builder, left: Node, right: Node, conditions: Sequence[tuple[int, str, int]], monotone: Any, name: str
) -> Node:
    names = [f"left {i}" for i in range(len(left.schema))] + [f"right {i}" for i in range(len(right.schema))]
    width = len(left.schema)
    predicate = None
    for l, comparison, r in conditions:
        one = COMPARISONS[comparison](col(names[l]), col(names[width + r]))
        predicate = one if predicate is None else predicate & one
    fields = zip(names, (*left.schema, *right.schema), strict=True)
    paired = Schema(tuple(type(f)(name, f.dtype, f.nullable) for name, f in fields))
    return builder.add(
        DynamicFilter,
        left,
        right,
        name=name,
        conditions=tuple(conditions),
        predicate=bind_predicate(predicate, paired, "dynamic_filter"),
        monotone=monotone,
    )


def _conditions(said: Sequence[Any], right: Node) -> list[Condition]:
    """Return the conditions as triples of names."""
    if len(said) == 2:  # noqa: PLR2004 - a column, and how it compares with the one of the right side
        if len(right.schema) != 1:
            msg = (
                f"dynamic_filter: the right side has the columns {list(right.schema.names)}, and one is compared with: "
                f"select it, or name it, as in dynamic_filter([{(*said, right.schema.names[0])}], right)"
            )
            raise SchemaError(msg)
        conditions = [(said[0], said[1], right.schema.names[0])]
    else:
        conditions = list(said[0]) if isinstance(said[0], (list, tuple)) else []
    if not conditions or not all(isinstance(c, (tuple, list)) and len(c) == 3 for c in conditions):  # noqa: PLR2004
        msg = f"dynamic_filter: {said[0]!r} has no conditions (column, comparison, column of the right side): "
        msg += f"expected {HOW}"
        raise SchemaError(msg)
    for _, comparison, _ in conditions:
        if comparison not in COMPARISONS:
            msg = f"dynamic_filter: {comparison!r} is no comparison: expected one of {' '.join(COMPARISONS)}"
            raise SchemaError(msg)
    return conditions


def _types(conditions: Sequence[Condition], left: Node, right: Node) -> list[DType]:
    """Return as what type the columns of each condition are compared."""
    found = []
    for l, comparison, r in conditions:
        own, other = left.schema.field(l), right.schema.field(r)
        common = common_type([own.dtype, other.dtype])
        if common is None:
            msg = f"dynamic_filter: {own} {comparison} {other}: these types do not compare; cast one of them"
            raise SchemaError(msg)
        found.append(common)
    return found


def _cast(builder: Builder, side: Node, wanted: Sequence[tuple[str, DType]]) -> tuple[Node, list[int]]:
    """Return a side with columns of these types, and their places; those that have to be cast are added behind."""
    columns = [(name, col(name)) for name in side.schema.names]
    places = []
    for i, (name, dtype) in enumerate(wanted):
        place = side.schema.index(name)
        if side.schema.fields[place].dtype != dtype:
            place = len(columns)
            columns.append((f"{name} as {dtype} to compare {i}", col(name).cast(str(dtype))))
        places.append(place)
    return (side if len(columns) == len(side.schema) else builder.compute(side, columns)), places
