"""Semi, anti and outer joins: by inner joins with the distinct keys, or rows, that have a partner.

Where it is known that no key is there twice on the other side, the rows that have a partner are those of the pairs.
Else, without a condition, it is a distinct key of the other side. With one, it is the row itself, among those that are
left of the pairs: then the counts of both sides say whether there are any.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.collections.joins import Pairs, inner_join
from tidemill.dataflow.composites import AntiJoin, DeltaJoin, OuterJoin, PartneredJoin, SemiJoin, SetOperation
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.expr import col, lit
from tidemill.expressions.schema import Schema, unused_name


@lowering(SemiJoin)
def semi_join(node: SemiJoin, left: Collection, right: Collection) -> Collection:
    """Return the left rows with a partner."""
    return _partnered(node, left, right)


@lowering(AntiJoin)
def anti_join(node: AntiJoin, left: Collection, right: Collection) -> Collection:
    """Return the left rows, less those with a partner."""
    return left.concat(_partnered(node, left, right).negate())


@lowering(OuterJoin)
def outer_join(node: OuterJoin, left: Collection, right: Collection) -> Collection:
    """Return the pairs, and of one side or both what has no partner, padded with NULL."""
    pairs = _pairs(node, left, right)
    result = pairs
    if node.how in ("left", "full"):
        partnered = _partnered(node, left, right, pairs)
        result = result.concat(_padded(_without(left, partnered), pairs.schema, left.schema.names))
    if node.how in ("right", "full"):
        turned = [(r, l) for l, r in node.on]
        if node.once[0] and _have_one_type(left, right, node.on):
            partnered = _rights_of(pairs, left, right, node.on)
        elif node.condition is None:
            partnered = _with_key_among(right, left, turned, node)
        else:
            partnered = _among(right, _rights_of_pairs(node, left, right))
        of_left = dict(node.on)
        sources = [of_left.get(name) for name in left.schema.names]
        sources += [name for name in right.schema.names if name not in dict(turned)]
        result = result.concat(_padded(_without(right, partnered), pairs.schema, sources))
    return result


def _pairs(node: PartneredJoin, left: Collection, right: Collection) -> Collection:
    pairs = _joined(left, right, node.on, node.suffix, node.nulls_equal)
    return pairs if node.condition is None else pairs.filter_by(node.condition)


def _joined(left: Collection, right: Collection, pairs: Pairs, suffix: str, nulls_equal: bool) -> Collection:
    """Return the pairs with equal keys; keys are as `collections.joins` has them, and there may be none."""
    return Collection(left.builder, inner_join(left.builder, left.node, right.node, pairs, suffix, nulls_equal))


def _partnered(node: PartneredJoin, left: Collection, right: Collection, pairs: Collection | None = None) -> Collection:
    """Return the left rows with a partner, given the pairs or not."""
    if node.condition is None and not node.once[1]:
        return _with_key_among(left, right, node.on, node)
    found = (_pairs(node, left, right) if pairs is None else pairs).select(*left.schema.names)
    return found if node.once[1] else _among(left, found)


def _have_one_type(left: Collection, right: Collection, on: Pairs) -> bool:
    return all(left.schema.field(l).dtype == right.schema.field(r).dtype for l, r in on)


def _rights_of(pairs: Collection, left: Collection, right: Collection, on: Pairs) -> Collection:
    """Return the right rows of pairs: keys as the left has them, the rest as it stands after the left's columns."""
    keys, further = {r: l for l, r in on}, iter(pairs.schema.names[len(left.schema) :])
    named = [(f, keys[f.name] if f.name in keys else next(further)) for f in right.schema]
    return pairs.map_columns([(f.name, bind(col(name), pairs.schema)) for f, name in named])


def _with_key_among(left: Collection, right: Collection, on: Pairs, node: PartneredJoin) -> Collection:
    """Return the left rows whose key a right row has, with their own counts."""
    if not on:
        (name,) = new_names(["present"], left.schema, suffix=node.suffix)
        some = right.select(**{name: lit(True)}).distinct()
        return _joined(left, some, (), node.suffix, node.nulls_equal).select(*left.schema.names)
    # Named by position, so that no key can clash with a column of the left.
    names = [f"{i}{node.suffix}" for i in range(len(on))]
    keys = right.select(**{name: col(r) for name, (_, r) in zip(names, on, strict=True)}).distinct()
    return _joined(left, keys, [(l, n) for (l, _), n in zip(on, names, strict=True)], node.suffix, node.nulls_equal)


def _among(side: Collection, rows: Collection) -> Collection:
    """Return the rows of a side that are among others, with their own counts; NULL is a value here."""
    return _joined(side, rows.distinct(), [(n, n) for n in side.schema.names], "_right", nulls_equal=True)


def _without(side: Collection, partnered: Collection) -> Collection:
    return side.concat(partnered.negate())


def _rights_of_pairs(node: OuterJoin, left: Collection, right: Collection) -> Collection:
    """Return the right rows of the pairs: paired up again, with copies of all of their columns, keys too."""
    names = right.schema.names
    copies = new_names([f"{name} of the row" for name in names], left.schema, right.schema, suffix=node.suffix)
    pairs = _pairs(node, left, right.with_columns(**dict(zip(copies, map(col, names), strict=True))))
    return pairs.select(**dict(zip(names, map(col, copies), strict=True)))


def new_names(names: Iterable[str], *schemas: Schema, suffix: str) -> list[str]:
    """Return these names, with # appended where one clashes with a column of these schemas, suffixed or not."""
    taken = {name for schema in schemas for name in schema.names}
    taken |= {name + suffix for name in taken}
    found = []
    for name in names:
        found.append(unused_name(name, taken))
        taken.add(found[-1])
    return found


def _padded(rows: Collection, schema: Schema, sources: Sequence[str | None]) -> Collection:
    """Return the rows in a wider schema: its columns from these of theirs, in order; NULL where it is none."""
    columns = [
        (field.name, bind((lit(None) if source is None else col(source)).cast(field.dtype), rows.schema))
        for field, source in itertools.zip_longest(schema, sources)
    ]
    return rows.map_columns(columns)


@lowering(SetOperation)
def set_operation(node: SetOperation, left: Collection, right: Collection) -> Collection:
    """Return the differences of counts, or once each left row that is, or is not, among the right ones."""
    if node.operation == "except_all":
        return left.concat(right.negate()).threshold(_not_below_zero)
    how = left.distinct().semijoin if node.operation == "intersect" else left.distinct().antijoin
    return how(right, on=left.schema.names, nulls_equal=True)


def _not_below_zero(_row: Any, count: int) -> int:
    return max(count, 0)


@lowering(DeltaJoin)
def delta_join(node: DeltaJoin, *arrangements: Collection) -> Collection:
    """Return the first relation joined with the others, in the order in which its changes would look them up."""
    names: dict[tuple[int, int], str] = {}
    joined = _named(node, arrangements, 0)
    names.update({(0, c): name for c, name in enumerate(joined.schema.names)})
    for lookup in node.lookups[0]:
        right = _named(node, arrangements, lookup.relation)
        pairs = [(names[at], right.schema.names[c]) for at, c in zip(lookup.key, lookup.own, strict=True)]
        made = inner_join(joined.builder, joined.node, right.node, pairs, "", node.nulls_equal)
        joined = Collection(joined.builder, made)
        names.update({(lookup.relation, c): name for c, name in enumerate(right.schema.names)})
        names.update({(lookup.relation, c): left for (left, _), c in zip(pairs, lookup.own, strict=True)})
    columns = []
    for at, field in zip(node.output, node.schema, strict=True):
        index = joined.schema.index(names[at])
        columns.append((field.name, BoundColumn(index, names[at], field.dtype, field.nullable)))
    return joined.map_columns(columns)


def _named(node: DeltaJoin, arrangements: tuple[Collection, ...], relation: int) -> Collection:
    """Return the columns of a relation that matter, with names that no other has."""
    port = node.ports[relation][0]
    rows = arrangements[port]
    picked = {f"{relation}.{i}": col(rows.schema.names[c]) for i, c in enumerate(node.columns[port])}
    return rows.select(**picked)
