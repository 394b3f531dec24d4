"""Filters that compare with the one row of another collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tidemill.dataflow.composites import DynamicFilter
from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind_predicate
from tidemill.expressions.expr import Expr, col
from tidemill.expressions.functions.registry import common_type
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["COMPARISONS", "Monotone", "dynamic_filter"]

Monotone: TypeAlias = Literal["increasing", "decreasing"]
Condition: TypeAlias = tuple[str, str, str]

COMPARISONS: Final = {
    "=": Expr.__eq__, "<>": Expr.__ne__, "<": Expr.__lt__, "<=": Expr.__le__, ">": Expr.__gt__, ">=": Expr.__ge__,
}  # fmt: skip
_HOW: Final = 'dynamic_filter("amount", ">", right), or dynamic_filter([("amount", ">", "least")], right)'


def dynamic_filter(left: Collection, said: Sequence[Any], monotone: Any, *, name: str = "") -> Collection:
    """Return the left rows that compare; what the parameters mean is said at ``Collection.dynamic_filter``."""
    conditions, right = _conditions(left, said)
    if monotone not in (None, "increasing", "decreasing"):
        msg = f"dynamic_filter: monotone={monotone!r}: expected 'increasing' or 'decreasing', or nothing"
        raise SchemaError(msg)
    if monotone and (equal := [c for _, c, _ in conditions if c in ("=", "<>")]):
        msg = f"dynamic_filter: monotone={monotone!r} with {equal[0]}: it is for <, <=, > and >= only; leave it out"
        raise SchemaError(msg)
    names, types = left.schema.names, _types(conditions, left, right)
    left, own = _cast(left, [(l, dtype) for (l, _, _), dtype in zip(conditions, types, strict=True)])
    right, others = _cast(right, [(r, dtype) for (_, _, r), dtype in zip(conditions, types, strict=True)])
    compared = [(l, c, r) for l, (_, c, _), r in zip(own, conditions, others, strict=True)]
    made = _added(left, right, compared, monotone, name)
    return made if left.schema.names == names else made.select(*names)


def _added(
    left: Collection,
    right: Collection,
    conditions: Sequence[tuple[int, str, int]],
    monotone: Monotone | None,
    name: str,
) -> Collection:
    builder = left.builder
    names = [f"left {i}" for i in range(len(left.schema))] + [f"right {i}" for i in range(len(right.schema))]
    width = len(left.schema)
    predicate = None
    for l, comparison, r in conditions:
        one = COMPARISONS[comparison](col(names[l]), col(names[width + r]))
        predicate = one if predicate is None else predicate & one
    fields = zip(names, (*left.schema, *right.schema), strict=True)
    paired = Schema(tuple(type(f)(name, f.dtype, f.nullable) for name, f in fields))
    scope = builder.meeting_scope([left.node, right.node])
    made = builder.graph.add(
        DynamicFilter,
        name=name,
        scope=scope,
        inputs=(builder.enter(left.node, scope), builder.enter(right.node, scope)),
        schema=left.schema,
        conditions=tuple(conditions),
        predicate=bind_predicate(predicate, paired, "dynamic_filter"),
        monotone=monotone,
    )
    return builder.collection(made)


def _conditions(left: Collection, said: Sequence[Any]) -> tuple[list[Condition], Collection]:
    """Return the conditions as triples of names, and the right side."""
    if len(said) not in (2, 3):
        msg = f"dynamic_filter was given {len(said)} arguments: expected {_HOW}"
        raise SchemaError(msg)
    right = left.builder.own(said[-1], "dynamic_filter")
    if len(said) == 3:  # noqa: PLR2004 - a column, how it compares, with what
        if len(right.schema) != 1:
            msg = (
                f"dynamic_filter: the right side has the columns {list(right.schema.names)}, and one is compared with: "
                f"select it, or name it, as in dynamic_filter([{(*said[:2], right.schema.names[0])}], right)"
            )
            raise SchemaError(msg)
        conditions = [(said[0], said[1], right.schema.names[0])]
    else:
        conditions = list(said[0]) if isinstance(said[0], (list, tuple)) else []
    if not conditions or not all(isinstance(c, (tuple, list)) and len(c) == 3 for c in conditions):  # noqa: PLR2004
        msg = f"dynamic_filter: {said[0]!r} has no conditions (column, comparison, column of the right side): "
        msg += f"expected {_HOW}"
        raise SchemaError(msg)
    for _, comparison, _ in conditions:
        if comparison not in COMPARISONS:
            msg = f"dynamic_filter: {comparison!r} is no comparison: expected one of {' '.join(COMPARISONS)}"
            raise SchemaError(msg)
    return conditions, right


def _types(conditions: Sequence[Condition], left: Collection, right: Collection) -> list[DType]:
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


def _cast(side: Collection, wanted: Sequence[tuple[str, DType]]) -> tuple[Collection, list[int]]:
    """Return a side with columns of these types, and their places; those that have to be cast are added behind."""
    added: dict[str, Expr] = {}
    places = []
    for i, (name, dtype) in enumerate(wanted):
        place = side.schema.index(name)
        if side.schema.fields[place].dtype != dtype:
            place = len(side.schema) + len(added)
            added[f"{name} as {dtype} to compare {i}"] = col(name).cast(str(dtype))
        places.append(place)
    return (side.with_columns(**added) if added else side), places
