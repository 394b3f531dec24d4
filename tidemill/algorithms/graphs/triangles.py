"""Triangles: listed, and counted by node."""

from __future__ import annotations

from tidemill.algorithms.graphs.edges import ends_with_loops, links
from tidemill.collections.collection import Collection
from tidemill.expressions.aggregate_functions import count
from tidemill.expressions.aggregate_functions import sum as total
from tidemill.expressions.expr import lit


def triangles(edges: Collection, *, a: str = "a", b: str = "b") -> Collection:
    """Return each triangle once, as (a, b, c) with a < b < c: three nodes, each with an edge to each other one.

    Directions make no difference. A node with very many edges costs no more than its neighbours with few: an edge is
    looked at from the end whose degree has fewer digits (or, of two with as many, from the lesser node), and pairs of
    neighbours are made there only, of which there are at most some four times the number of edges to the power of 1.5.

    Cost: a change costs the neighbours of one end; where a degree gets, or loses, a digit, those of all its edges.
    (Chiba and Nishizeki, *Arboricity and subgraph listing algorithms*, 1985; Schank and Wagner, *Finding, counting and
    listing all triangles in large graphs*, 2005.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> edges = flow.input("edges", {"a": "int64", "b": "int64"})
    >>> flow.output("triangles", tm.graphs.triangles(edges))
    >>> run = flow.start()
    >>> run.insert("edges", [(1, 2), (2, 3), (3, 1), (3, 4), (4, 2)])
    >>> run.advance()
    >>> list(run.changes("triangles"))
    [((1, 2, 3), 0, 1), ((2, 3, 4), 0, 1)]
    >>> run.delete("edges", [(1, 2)])
    >>> run.advance()
    >>> list(run.changes("triangles"))
    [((1, 2, 3), 1, -1)]
    """
    return _triangles(links(edges, a, b, "triangles"))


def triangle_count(edges: Collection, *, a: str = "a", b: str = "b") -> Collection:
    """Return for each node in how many triangles it is, as (node, triangles); 0 where it is in none.

    As `triangles` otherwise. Triangles in all are a third of the sum.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> edges = flow.constant({"a": "int64", "b": "int64"}, [(1, 2), (2, 3), (3, 1), (3, 4)])
    >>> flow.output("counts", tm.graphs.triangle_count(edges))
    >>> list(flow.start().snapshot("counts"))
    [(1, 1), (2, 1), (3, 1), (4, 0)]
    """
    both = links(edges, a, b, "triangle_count")
    found = _triangles(both)
    corners = [found.select(node=name, triangles=lit(1)) for name in found.schema.names]
    none = ends_with_loops(both, edges, None, "triangle_count", a=a, b=b).select("node", triangles=lit(0))
    return none.concat(*corners).group_by("node").agg(triangles=total("triangles"))


def _triangles(both: Collection) -> Collection:
    digits = both.group_by("a").agg(degree=count()).select("a", digits="length(cast(degree as string))")
    by_degree = both.join(digits, on="a").join(digits, on={"b": "a"}, suffix="_of_b")
    outward = by_degree.filter("digits < digits_of_b or (digits = digits_of_b and a < b)").select("a", "b")
    pairs = outward.join(outward, on="a", suffix="_too", where="b < b_too")
    closed = pairs.semijoin(both, on={"b": "a", "b_too": "b"})
    return closed.select(
        a="least(a, b)",
        b="case when a < b then b when a < b_too then a else b_too end",
        c="greatest(a, b_too)",
    )
