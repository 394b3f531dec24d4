"""Delta joins as chains of joins of two."""

from __future__ import annotations

from tidemill.algorithms.lowering.registry import lowering
from tidemill.collections.collection import Collection
from tidemill.collections.joins import inner_join
from tidemill.dataflow.composites import DeltaJoin
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.expr import col


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
