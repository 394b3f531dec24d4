"""Joins of several collections at once, that keep nothing of what lies between: delta joins.

Columns that are to be equal make a *class*. A change of one collection is extended by the others, one after another,
each looked up by all of its columns that are in a class of what has been found by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from tidemill.collections.collection import Collection, own
from tidemill.dataflow.composites import DeltaJoin, Lookup
from tidemill.dataflow.nodes import Map, Node
from tidemill.errors import GraphError, SchemaError, did_you_mean
from tidemill.expressions.schema import Field, Schema

Classes: TypeAlias = Sequence[dict[int, int]]
"""For each class, the column that each relation has in it, if it has one."""

_LEAST: Final = 2


def join_all(collections: Sequence[Collection], *, on: Any, nulls_equal: bool = False) -> Collection:
    """Return the combinations of rows of all collections that have equal keys, without storing any join in between.

    ``on`` lists what has to be equal: a column name, in all collections that have it; or a tuple of names, one for each
    collection that takes part. Rows have the columns of the first collection, then those of the others that are no
    keys named before. Counts multiply, and times are joined; a NULL key matches nothing unless ``nulls_equal``. What
    cannot be reached from the first collection by equal keys is an error, and so are clashing names: rename them.

    A change of one collection looks up the others in their arrangements, which joins elsewhere share. Cost: an
    arrangement for each set of columns by which a collection is looked up, mostly two or three; a change costs the rows
    that it finds on its way. A chain of ``join`` has fewer arrangements, and those of what each but the last one gives:
    it is cheaper where these are small. Spark, and the reference engine, run such a chain. The pass ``join_by_deltas``
    makes a delta join of a chain where this needs no further arrangement, as where all are joined by the same columns.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> edges = flow.constant({"a": "int64", "b": "int64"}, [(1, 2), (2, 3), (1, 3), (3, 4)])
    >>> triangles = tm.join_all([edges, edges.rename(a="b", b="c"), edges.rename(b="c")], on=["a", "b", "c"])
    >>> flow.output("triangles", triangles)
    >>> flow.start().snapshot("triangles")
    a  b  c
    -  -  -
    1  2  3
    """
    found = list(collections)
    if len(found) < _LEAST or not isinstance(found[0], Collection):
        msg = f"join_all: {collections!r}: expected a list of two or more collections"
        raise GraphError(msg)
    builder = found[0].builder
    found = [own(builder, c, "join_all") for c in found]
    schemas = [c.schema for c in found]
    classes = _classes(on, schemas)
    paths = [_path(start, classes, len(found)) for start in range(len(found))]
    kept = _kept(schemas, classes)
    output = [(r, c) for r, columns in enumerate(kept) for c in columns]
    fields = [schemas[r].fields[c] for r, c in output]
    _refuse_clashes(fields)
    keys = {(r, c) for members in classes for r, c in members.items()}
    used = [sorted(c for r, c in {*output, *keys} if r == i) for i in range(len(found))]
    scope = builder.meeting_scope([c.node for c in found])
    bare = [_without_renaming(c.node) for c in found]
    arranged: dict[tuple[int, tuple[int, ...]], int] = {}
    inputs: list[Node] = []

    def port(relation: int, columns: Sequence[int]) -> int:
        """Return which input arranges a relation by these columns."""
        node, places = bare[relation]
        keys = tuple(places[c] for c in columns)
        if (relation, keys) not in arranged:
            arranged[relation, keys] = len(inputs)
            inputs.append(builder.enter(builder.arrange(node, keys), scope))
        return arranged[relation, keys]

    def lookup(relation: int, by: list[tuple[int, tuple[int, int]]]) -> Lookup:
        by = sorted(by, key=lambda pair: bare[relation][1][pair[0]])  # so that who asks by the same shares
        return Lookup(
            relation,
            port(relation, [c for c, _ in by]),
            tuple((r, used[r].index(c)) for _, (r, c) in by),
            tuple(used[relation].index(c) for c, _ in by),
        )

    lookups = tuple(tuple(lookup(relation, by) for relation, by in path) for path in paths)
    ports = tuple(tuple(p for (r, _), p in arranged.items() if r == i) for i in range(len(found)))
    owners = {p: r for (r, _), p in arranged.items()}
    made = builder.add(
        DeltaJoin,
        *inputs,
        schema=Schema(tuple(fields)),
        ports=ports,
        columns=tuple(tuple(bare[owners[p]][1][c] for c in used[owners[p]]) for p in range(len(inputs))),
        lookups=lookups,
        output=tuple((r, used[r].index(c)) for r, c in output),
        nulls_equal=nulls_equal,
    )
    return Collection(builder, made)


Step: TypeAlias = "tuple[int, list[tuple[int, tuple[int, int]]]]"
"""A relation, and its columns by which it is looked up, each with the column of another that it is to be equal to."""


def _path(start: int, classes: Classes, count: int) -> list[Step]:
    """Return in which order the others are looked up, those with the most columns to ask by first."""
    bound, path = [start], list[Step]()
    while len(bound) < count:
        best: Step = (-1, [])
        for relation in range(count):
            if relation not in bound:
                by = _equal_columns(relation, bound, classes)
                if len(by) > len(best[1]):
                    best = (relation, by)
        if best[0] < 0:
            lost = sorted(set(range(count)) - set(bound))
            numbers = ", ".join(str(i + 1) for i in lost)
            msg = (
                f"join_all: nothing in on= connects collection {numbers} with collection {start + 1}: "
                "name columns that are to be equal, or cross_join them"
            )
            raise SchemaError(msg)
        path.append(best)
        bound.append(best[0])
    return path


def _equal_columns(relation: int, bound: Sequence[int], classes: Classes) -> list[tuple[int, tuple[int, int]]]:
    """Return the columns of a relation that are to be equal to ones that are known, in their order, with these."""
    found = []
    for members in classes:
        known = next((r for r in bound if r in members), None)
        if relation in members and known is not None:
            found.append((members[relation], (known, members[known])))
    return sorted(found)


def _kept(schemas: Sequence[Schema], classes: Classes) -> list[list[int]]:
    """Return the columns of each relation that come out: of a class that of the first relation alone."""
    dropped = {(r, c) for members in classes for r, c in members.items() if r != min(members)}
    return [[c for c in range(len(schema)) if (r, c) not in dropped] for r, schema in enumerate(schemas)]


def _classes(on: Any, schemas: Sequence[Schema]) -> list[dict[int, int]]:
    entries = [on] if isinstance(on, str) else on
    if not isinstance(entries, Sequence) or not entries:
        msg = f"join_all: on={on!r}: expected a column name, or a list of names and of tuples of names"
        raise SchemaError(msg)
    found: list[dict[int, int]] = []
    for entry in entries:
        names = [entry] if isinstance(entry, str) else list(entry)
        members: dict[int, int] = {}
        for name in names:
            having = [i for i, schema in enumerate(schemas) if name in schema]
            if not having:
                known = [n for schema in schemas for n in schema.names]
                msg = f"join_all: on={entry!r}: no collection has a column {name!r}{did_you_mean(name, known)}"
                raise SchemaError(msg)
            for i in having:
                if i in members:
                    msg = (
                        f"join_all: on={entry!r} names two columns of collection {i + 1}: "
                        "filter it for equal ones before"
                    )
                    raise SchemaError(msg)
                members[i] = schemas[i].index(name)
        if len(members) < _LEAST:
            msg = f"join_all: on={entry!r} is in one collection alone: give all names that are to be equal, as a tuple"
            raise SchemaError(msg)
        _refuse_types(entry, [schemas[i].fields[c] for i, c in members.items()])
        if any(members.get(i) == c for known in found for i, c in known.items()):
            msg = f"join_all: on={entry!r} names a column again: give all names that are to be equal in one tuple"
            raise SchemaError(msg)
        found.append(members)
    return found


def _refuse_types(entry: Any, fields: Sequence[Field]) -> None:
    if len({f.dtype for f in fields}) > 1:
        given = ", ".join(str(f) for f in fields)
        msg = f"join_all: on={entry!r}: {given} cannot be equal: the types must be the same; cast them"
        raise SchemaError(msg)


def _refuse_clashes(fields: Sequence[Field]) -> None:
    names = [f.name for f in fields]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        msg = f"join_all: several collections have a column {twice[0]!r} that is not in on=: rename or drop it"
        raise SchemaError(msg)


def _without_renaming(node: Node) -> tuple[Node, list[int]]:
    """Return what a node renames and reorders the columns of, if it does no more, and where its columns are in it.

    So collections that differ in names alone share arrangements.
    """
    places = list(range(len(node.schema)))
    while isinstance(node, Map) and node.picked is not None:
        (source,) = node.inputs
        if sorted(node.picked) != list(range(len(source.schema))):
            break
        places = [node.picked[p] for p in places]
        node = source
    return node, places
