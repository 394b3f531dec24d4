"""Connected components, and the labels that spread along edges."""

from __future__ import annotations

from tidemill.algorithms.graphs.edges import arcs, ends
from tidemill.collections.collection import Collection
from tidemill.expressions.aggregate_functions import min as least

__all__ = ["connected_components", "least_that_reaches"]


def connected_components(
    edges: Collection, *, a: str = "a", b: str = "b", nodes: Collection | None = None
) -> Collection:
    """Return for each node its connected component, as (node, component): the least node in it.

    Directions make no difference. ``nodes``, with one column of any name, are there also if they are in no edge, each
    then a component of its own.

    Cost: as many iterations as the longest of the shortest paths from a component's least node; a change costs the
    edges at nodes whose label changes in any iteration. An edge that goes and left its component in one piece changes
    little; one that splits it gives the part without the least node a new label. (Label spreading: Shiloach and
    Vishkin, *An O(log n) parallel connectivity algorithm*, 1982, without its shortcuts.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> friends = flow.input("friends", {"a": "string", "b": "string"})
    >>> flow.output("circles", tm.graphs.connected_components(friends))
    >>> run = flow.start()
    >>> run.insert("friends", [("Ben", "Ann"), ("Ben", "Cem"), ("Eve", "Finn")])
    >>> run.advance()
    >>> list(run.snapshot("circles"))
    [('Ann', 'Ann'), ('Ben', 'Ann'), ('Cem', 'Ann'), ('Eve', 'Eve'), ('Finn', 'Eve')]
    >>> run.delete("friends", [("Ben", "Ann")])
    >>> run.advance()
    >>> list(run.snapshot("circles"))
    [('Ben', 'Ben'), ('Cem', 'Ben'), ('Eve', 'Eve'), ('Finn', 'Eve')]
    """
    onward = arcs(edges, a, b, "connected_components")
    every = ends(onward, nodes, "connected_components")
    return least_that_reaches(onward.concat(onward.select(a="b", b="a")), every)


def least_that_reaches(onward: Collection, nodes: Collection) -> Collection:
    """Return for each node the least node from which edges lead there, itself among them, as (node, component)."""
    own = nodes.select("node", component="node")

    def spread(known: Collection) -> Collection:
        reached = known.join(onward, on={"node": "a"}).select(node="b", component="component")
        return own.concat(reached).group_by("node").agg(component=least("component"))

    return own.iterate(spread, error_at=None, name="spread")
