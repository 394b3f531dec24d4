"""The six kinds of join, composed of the one primitive inner join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.dataflow.nodes import Join
from tidemill.errors import SchemaError
from tidemill.expressions.expr import col, lit
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import DType

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["join"]

KINDS = ("inner", "left", "right", "full", "semi", "anti")


def join(
    left: Collection, right: Collection, *, on: Any, how: str, suffix: str, where: Any, nulls_equal: bool
) -> Collection:
    """Return the join of two collections; what its parameters mean is said at ``Collection.join``."""
    if how not in KINDS:
        msg = f"join: how={how!r}: expected one of {', '.join(KINDS)}"
        raise SchemaError(msg)
    pairs = _key_pairs(on, left.schema, right.schema)
    if how in ("right", "full"):  # keys may come from the right, so the left's have to hold them
        narrow = [l for l, r in pairs if left.schema.field(l).dtype != right.schema.field(r).dtype]
        left = left.with_columns(**{name: col(name).cast("int64") for name in narrow}) if narrow else left
    if how in ("semi", "anti"):
        return _half(left, right, pairs, how, suffix=suffix, where=where, nulls_equal=nulls_equal)
    inner = _inner(left, right, pairs, suffix, nulls_equal)
    if where is not None:
        inner = inner.filter(where)
    result = inner
    if how in ("left", "full"):
        alone = _partnerless(left, right, pairs, inner, where=where, nulls_equal=nulls_equal)
        result = result.concat(_padded(alone, inner.schema, {}))
    if how in ("right", "full"):
        turned = [(r, l) for l, r in pairs]
        if where is None:
            alone = _half(right, left, turned, "anti", suffix=suffix, where=None, nulls_equal=nulls_equal)
        else:
            # The condition is about (left, right): pair up again to see which right rows it left without a partner.
            both = _inner(left, _with_copy_of_row(right), pairs, suffix, nulls_equal).filter(where)
            kept = both.select(**{f.name: col(_copied(f.name)) for f in right.schema})
            alone = _without(right, kept)
        # In the result the right columns have their own names or, where those clash, suffixed ones; keys have the
        # left's.
        names = {_right_name(f.name, left.schema, suffix): f.name for f in right.schema if f.name not in dict(turned)}
        names |= dict(pairs)
        result = result.concat(_padded(alone, inner.schema, names))
    return result


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


def _right_name(name: str, left: Schema, suffix: str) -> str:
    return name + suffix if name in left else name


def _inner(
    left: Collection, right: Collection, pairs: list[tuple[str, str]], suffix: str, nulls_equal: bool
) -> Collection:
    builder = left.builder
    right_keys = {r for _, r in pairs}
    kept = [i for i, f in enumerate(right.schema) if f.name not in right_keys]
    fields = [*left.schema.fields]
    for i in kept:
        f = right.schema.fields[i]
        fields.append(Field(_right_name(f.name, left.schema, suffix), f.dtype, f.nullable))
    scope = builder.meeting_scope([left.node, right.node])
    arranged = tuple(
        builder.enter(builder.arrange(c.node, tuple(c.schema.index(p[side]) for p in pairs)), scope)
        for side, c in enumerate((left, right))
    )
    node = builder.graph.add(
        Join,
        scope=scope,
        inputs=arranged,
        schema=Schema(tuple(fields)),
        output=(*range(len(left.schema)), *(len(left.schema) + i for i in kept)),
        nulls_equal=nulls_equal,
    )
    return builder.collection(node)


def _half(
    left: Collection,
    right: Collection,
    pairs: list[tuple[str, str]],
    how: str,
    *,
    suffix: str,
    where: Any,
    nulls_equal: bool,
) -> Collection:
    """Semijoin: the join with the distinct keys of the right side. Antijoin: what the semijoin leaves of the left."""
    if where is not None:
        matched = _inner(left, right, pairs, suffix, nulls_equal).filter(where).select(*left.schema.names)
        kept = _inner(left, matched.distinct(), [(n, n) for n in left.schema.names], suffix, nulls_equal=True)
    else:
        # Named by position, so that no key can clash with a column of the left.
        names = {f"{i}{suffix}": r for i, (_, r) in enumerate(pairs)}
        keys = right.select(**{n: col(r) for n, r in names.items()}).distinct() if names else _presence(right)
        to = [(l, n) for (l, _), n in zip(pairs, names, strict=True)]
        kept = _inner(left, keys, to, suffix, nulls_equal)
        if not names:
            kept = kept.select(*left.schema.names)
    return kept if how == "semi" else left.concat(kept.negate())


def _presence(right: Collection) -> Collection:
    return right.select(present=lit(True)).distinct()


def _partnerless(
    left: Collection,
    right: Collection,
    pairs: list[tuple[str, str]],
    inner: Collection,
    *,
    where: Any,
    nulls_equal: bool,
) -> Collection:
    if where is None:
        return _half(left, right, pairs, "anti", suffix="_right", where=None, nulls_equal=nulls_equal)
    return _without(left, inner.select(*left.schema.names))


def _without(side: Collection, matched: Collection) -> Collection:
    """Return the rows of a side that are not among those matched, with their own counts; NULL is a value here."""
    on = [(n, n) for n in side.schema.names]
    return side.concat(_inner(side, matched.distinct(), on, "_right", nulls_equal=True).negate())


def _copied(name: str) -> str:
    return f"{name} of the row"


def _with_copy_of_row(right: Collection) -> Collection:
    """Return the right rows with every column twice, so that the row can be told from the joined pair."""
    return right.with_columns(**{_copied(f.name): col(f.name) for f in right.schema})


def _padded(rows: Collection, schema: Schema, names: dict[str, str]) -> Collection:
    """Return the rows in a wider schema: each column from the one ``names`` says, or its namesake, or NULL."""
    taken = {}
    for f in schema:
        source = names.get(f.name, None if names else f.name)
        there = source is not None and source in rows.schema
        taken[f.name] = (col(source) if there and source is not None else lit(None)).cast(f.dtype)
    return rows.select(**taken)
