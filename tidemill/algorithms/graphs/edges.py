"""Edges and nodes in the form that graph algorithms take: columns ``a``, ``b`` and ``node``, no NULLs."""

from __future__ import annotations

from tidemill.collections.collection import Collection
from tidemill.errors import GraphError, SchemaError


def arcs(edges: Collection, a: str, b: str, what: str, **others: str) -> Collection:
    """Return the edges as (a, b, others...), as often as they are there; ``what`` is the algorithm, for errors.

    ``others`` are the names of further columns, by what they are called in the result.
    """
    for name in (a, b, *others.values()):
        edges.schema.index(name)
    if a == b:
        msg = f"{what}: both ends of an edge are column {a!r}: name two columns by a= and b="
        raise SchemaError(msg)
    one, other = (edges.schema.field(name).dtype for name in (a, b))
    if one != other:
        msg = (
            f"{what}: column {a!r} is {one} and {b!r} is {other}: both ends of an edge are nodes, of one type: cast "
            "one of them"
        )
        raise SchemaError(msg)
    named = edges.select(a=a, b=b, **others)
    return named.filter("a is not null", "b is not null")


def links(edges: Collection, a: str, b: str, what: str) -> Collection:
    """Return each edge between different nodes in both directions, as (a, b), each once."""
    found = arcs(edges, a, b, what).filter("a <> b")
    return found.concat(found.select(a="b", b="a")).distinct()


def ends(found: Collection, nodes: Collection | None, what: str) -> Collection:
    """Return each node that is at an end of an edge, or among the nodes given, once."""
    every = found.select(node="a").concat(found.select(node="b"))
    if nodes is not None:
        every = every.concat(given_nodes(nodes, found, what, "nodes"))
    return every.distinct()


def ends_with_loops(
    both: Collection, edges: Collection, nodes: Collection | None, what: str, *, a: str, b: str
) -> Collection:
    """Return the ends of links, with nodes that have an edge to themselves alone.

    Each link is there once, whatever edges it is made of, so that none takes a node away that others have.
    """
    loops = arcs(edges, a, b, what).filter("a = b").distinct()
    return ends(both.concat(loops), nodes, what)


def given_nodes(nodes: Collection, found: Collection, what: str, name: str) -> Collection:
    """Return the nodes of a collection with one column, whatever it is called, as ``node``."""
    dtype = found.schema.field("a").dtype
    if len(nodes.schema) != 1 or nodes.schema.dtypes[0] != dtype:
        msg = f"{what}: {name}{nodes.schema}: expected one column, of the edges' type {dtype}: select it"
        raise SchemaError(msg)
    return nodes.select(node=nodes.schema.names[0]).filter("node is not null")


def whole_number(value: object, name: str, what: str) -> int:
    """Return a parameter that has to be a whole number, at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        msg = f"{what}: {name}={value!r}: expected a whole number, at least 1"
        raise GraphError(msg)
    return value
