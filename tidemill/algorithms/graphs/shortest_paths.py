"""Shortest paths: by the number of edges, and over edges with weights."""

from __future__ import annotations

from typing import Any, Never

from tidemill.algorithms.graphs.edges import arcs, given_nodes
from tidemill.collections.collection import Collection
from tidemill.errors import SchemaError, brief
from tidemill.expressions.aggregate_functions import min as least
from tidemill.expressions.expr import col, lit
from tidemill.expressions.types import FLOAT64, INT32, INT64

_WHAT = "shortest_paths"


def shortest_paths(
    edges: Collection, roots: Collection, *, a: str = "a", b: str = "b", weight: str = "weight"
) -> Collection:
    """Return the nodes that can be reached from a root, as (node, distance): the least sum of weights from any root.

    Edges go from ``a`` to ``b``. Weights are int64, int32 or float64; of several edges between two nodes the lightest
    counts, and 0 is a weight. ``roots`` has one column, of any name; a root is at distance 0 from itself, also if it
    is in no edge. Distances of floats are the sums along a path, added from the root on.

    A weight that is negative, NULL or NaN is an error of the step (``UserFunctionError``) that names the edge, wherever
    the edge is: the step is not taken.

    Cost: as many iterations as the most edges of a path that is shorter than all paths with fewer edges; a change costs
    the edges at nodes whose distance, or whose shortest distance by that many edges, changes. (Bellman, *On a routing
    problem*, 1958; Ford, *Network flow theory*, 1956.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> roads = flow.input("roads", {"a": "string", "b": "string", "weight": "int64"})
    >>> start = flow.constant({"at": "string"}, [("Oslo",)])
    >>> flow.output("distances", tm.graphs.shortest_paths(roads, start))
    >>> run = flow.start()
    >>> run.insert("roads", [("Oslo", "Hamar", 120), ("Hamar", "Roros", 270), ("Oslo", "Roros", 420)])
    >>> run.advance()
    >>> list(run.snapshot("distances"))
    [('Hamar', 120), ('Oslo', 0), ('Roros', 390)]
    >>> run.delete("roads", [("Hamar", "Roros", 270)])
    >>> run.insert("roads", [("Roros", "Hamar", -5)])
    >>> run.advance()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tidemill.errors.UserFunctionError: ...ValueError: weight -5 of the edge from 'Roros' to 'Hamar': ...
    """
    onward = _with_sound_weights(arcs(edges, a, b, _WHAT, weight=weight), weight)
    none = lit(0).cast(onward.schema.field("weight").dtype)
    start = given_nodes(roots, onward, _WHAT, "roots").distinct().select("node", distance=none)

    def spread(reached: Collection) -> Collection:
        next_ones = reached.join(onward, on={"node": "a"}).select(node="b", distance="distance + weight")
        return next_ones.concat(start).group_by("node").agg(distance=least("distance"))

    return start.iterate(spread, error_at=None, name=_WHAT)


def _with_sound_weights(edges: Collection, name: str) -> Collection:
    """Return the edges; Python sees those alone that are an error, so that the check costs a filter."""
    dtype = edges.schema.field("weight").dtype
    if dtype not in {INT32, INT64, FLOAT64}:
        msg = f"{_WHAT}: weights in column {name!r} are {dtype}: expected int64, int32 or float64: cast them"
        raise SchemaError(msg)
    if dtype == INT32:
        edges = edges.with_columns(weight=col("weight").cast(INT64))  # sums of int32 would overflow
    sound = "weight >= 0 and not isnan(weight)" if dtype == FLOAT64 else "weight >= 0"
    unsound = edges.filter(f"not coalesce({sound}, false)").map_rows(_refuse, edges.schema)
    return edges.filter(sound).concat(unsound)


def _refuse(edge: Any) -> Never:
    weight = "NULL" if edge.weight is None else edge.weight
    msg = (
        f"weight {weight} of the edge from {brief(edge.a)} to {brief(edge.b)}: shortest_paths takes weights from 0 on: "
        "delete the edge in the same step, or filter such edges out"
    )
    raise ValueError(msg)


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
