"""The six kinds of join: inner ones are primitives, the others composites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidemill.collections.builder import Builder
from tidemill.dataflow.composites import AntiJoin, OuterJoin, PartneredJoin, SemiJoin
from tidemill.dataflow.nodes import Join, Node
from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind_predicate
from tidemill.expressions.expr import col
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import DType

Pairs = Sequence[tuple[str, str]]
"""Names of key columns, left and right."""

KINDS: Final = ("inner", "left", "right", "full", "semi", "anti")


def join(
    builder: Builder, left: Node, right: Node, *, on: Any, how: str, suffix: str, where: Any, nulls_equal: bool
) -> Node:
    """Return the join of two collections; what its parameters mean is said at ``Collection.join``."""
    if how not in KINDS:
        msg = f"join: how={how!r}: expected one of {', '.join(KINDS)}"
        raise SchemaError(msg)
    pairs = _key_pairs(on, left.schema, right.schema)
    if not pairs and where is None and how not in ("semi", "anti"):
        msg = (
            f"join: on={on!r} names no key: cross_join(other) is what gives all pairs; with a condition, say where=..."
        )
        raise SchemaError(msg)
    if how == "inner":
        joined = inner_join(builder, left, right, pairs, suffix, nulls_equal)
        return joined if where is None else builder.filter(joined, bind_predicate(where, joined.schema, "join: where"))
    if how in ("right", "full"):  # keys may come from the right, so the left's have to hold them
        narrow = {l for l, r in pairs if left.schema.field(l).dtype != right.schema.field(r).dtype}
        casts = [(name, col(name).cast("int64") if name in narrow else col(name)) for name in left.schema.names]
        left = builder.compute(left, casts) if narrow else left
    kind: type[PartneredJoin] = {"semi": SemiJoin, "anti": AntiJoin}.get(how, OuterJoin)
    schema, fields, condition = left.schema, {}, None
    if kind is OuterJoin or where is not None:
        paired = _pair_schema(left.schema, right.schema, pairs, suffix)
        condition = None if where is None else bind_predicate(where, paired, "join: where")
        if kind is OuterJoin:
            schema, fields = _outer_schema(paired, left.schema, right.schema, pairs, how), {"how": how}
    return builder.add(
        kind,
        left,
        right,
        schema=schema,
        on=tuple(pairs),
        condition=condition,
        nulls_equal=nulls_equal,
        suffix=suffix,
        **fields,
    )


def inner_join(  # noqa: PLR0917 - two sides, and how they meet
    builder: Builder, left: Node, right: Node, pairs: Pairs, suffix: str, nulls_equal: bool
) -> Node:
    """Return the pairs of rows with equal keys: the left columns, then the right ones that are no keys."""
    kept = _no_keys(right.schema, pairs)
    return builder.add(
        Join,
        *(builder.arrange(n, tuple(n.schema.index(p[side]) for p in pairs)) for side, n in enumerate((left, right))),
        schema=_pair_schema(left.schema, right.schema, pairs, suffix),
        output=(*range(len(left.schema)), *(len(left.schema) + i for i in kept)),
        nulls_equal=nulls_equal,
    )


def _pair_schema(left: Schema, right: Schema, pairs: Pairs, suffix: str) -> Schema:
    fields = [right.fields[i] for i in _no_keys(right, pairs)]
    renamed = (Field(f.name + suffix if f.name in left else f.name, f.dtype, f.nullable) for f in fields)
    return Schema((*left.fields, *renamed))


def _no_keys(right: Schema, pairs: Pairs) -> list[int]:
    keys = {r for _, r in pairs}
    return [i for i, f in enumerate(right) if f.name not in keys]


def _outer_schema(paired: Schema, left: Schema, right: Schema, pairs: Pairs, how: str) -> Schema:
    """Return the columns of pairs, with NULL allowed where a row without a partner has it."""
    keys = {l: right.field(r).nullable for l, r in pairs}
    fields = []
    for i, f in enumerate(paired):
        of_right = i >= len(left)
        if f.name in keys and not of_right:
            more = how != "left" and keys[f.name]
        else:
            more = how in ("full", "left" if of_right else "right")
        fields.append(Field(f.name, f.dtype, f.nullable or more))
    return Schema(tuple(fields))


def _key_pairs(on: Any, left: Schema, right: Schema) -> list[tuple[str, str]]:
    if isinstance(on, str):
        pairs = [(on, on)]
    elif isinstance(on, Mapping):
        pairs = list(on.items())
    elif isinstance(on, Sequence):
        pairs = [(name, name) for name in on]
    else:
        msg = f"join: on={on!r}: expected a column name, a list of them, or a mapping left -> right"
        raise SchemaError(msg)
    for a, b in pairs:
        l, r = left.field(a), right.field(b)
        if not _comparable(l.dtype, r.dtype):
            msg = f"join: key {l} cannot equal {r}: the types must be the same; cast one of them"
            raise SchemaError(msg)
    return pairs


def _comparable(a: DType, b: DType) -> bool:
    return a == b or (a.is_integer and b.is_integer)
