"""Breadth-first search: how many edges away nodes are."""

from __future__ import annotations

from tidemill.algorithms.graphs.edges import arcs, given_nodes
from tidemill.collections.collection import Collection
from tidemill.expressions.aggregate_functions import min as least
from tidemill.expressions.expr import lit


def bfs(edges: Collection, roots: Collection, *, a: str = "a", b: str = "b") -> Collection:
    """Return the nodes that can be reached from a root, as (node, hops): the fewest edges from the nearest root.

    Edges go from ``a`` to ``b``; for both directions concat the edges turned round. ``roots`` has one column, of any
    name; a root is at 0 hops from itself, also if it is in no edge.

    Cost: as many iterations as the furthest node has hops; state for each edge and for each node and distinct number of
    hops that it has been at. A change costs the edges at nodes whose hops change. (Moore, *The shortest path through a
    maze*, 1959.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> edges = flow.input("edges", {"a": "string", "b": "string"})
    >>> roots = flow.constant({"at": "string"}, [("Ann",)])
    >>> flow.output("hops", tm.graphs.bfs(edges, roots))
    >>> run = flow.start()
    >>> run.insert("edges", [("Ann", "Ben"), ("Ben", "Cem"), ("Ann", "Cem"), ("Cem", "Ann"), ("Dora", "Ann")])
    >>> run.advance()
    >>> list(run.changes("hops"))
    [(('Ann', 0), 0, 1), (('Ben', 1), 0, 1), (('Cem', 1), 0, 1)]
    >>> run.delete("edges", [("Ann", "Cem")])
    >>> run.advance()
    >>> list(run.changes("hops"))
    [(('Cem', 1), 1, -1), (('Cem', 2), 1, 1)]
    """
    onward = arcs(edges, a, b, "bfs")
    start = given_nodes(roots, onward, "bfs", "roots").distinct().select("node", hops=lit(0))

    def spread(reached: Collection) -> Collection:
        next_ones = reached.join(onward, on={"node": "a"}).select(node="b", hops="hops + 1")
        return next_ones.concat(start).group_by("node").agg(hops=least("hops"))

    return start.iterate(spread, error_at=None, name="bfs")
