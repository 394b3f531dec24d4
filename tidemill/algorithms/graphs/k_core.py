"""The k-core: what is left when nobody with fewer than k neighbours stays."""

from __future__ import annotations

from tidemill.algorithms.graphs.edges import links, whole_number
from tidemill.collections.collection import Collection
from tidemill.expressions.aggregate_functions import count
from tidemill.expressions.expr import col


def k_core(edges: Collection, k: int, *, a: str = "a", b: str = "b") -> Collection:
    """Return the nodes of the k-core, as (node, degree): the largest part of the graph where all have k neighbours.

    Directions make no difference, an edge from a node to itself neither. ``degree`` is how many neighbours the node has
    in the core, at least ``k``.

    Cost: an iteration for each time that somebody falls below k because others did; a change costs the edges of nodes
    that leave, or leave in another iteration. (Seidman, *Network structure and minimum degree*, 1983.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> friends = flow.input("friends", {"a": "string", "b": "string"})
    >>> flow.output("core", tm.graphs.k_core(friends, 2))
    >>> run = flow.start()
    >>> run.insert("friends", [("Ann", "Ben"), ("Ben", "Cem"), ("Cem", "Ann"), ("Cem", "Dora")])
    >>> run.advance()
    >>> list(run.snapshot("core"))
    [('Ann', 2), ('Ben', 2), ('Cem', 2)]
    >>> run.delete("friends", [("Cem", "Ann")])
    >>> run.advance()
    >>> len(run.snapshot("core"))
    0
    """
    whole_number(k, "k", "k_core")

    def drop(core: Collection) -> Collection:
        stay = core.group_by("a").agg(degree=count()).filter(col("degree") >= k)
        return core.semijoin(stay, on="a").semijoin(stay, on={"b": "a"})

    core = links(edges, a, b, "k_core").iterate(drop, error_at=None, name="k_core")
    return core.group_by(node="a").agg(degree=count())
