"""Connected components."""

from __future__ import annotations

from tidemill.algorithms.graphs.edges import arcs, ends
from tidemill.algorithms.graphs.leaders import leaders, named_by_least
from tidemill.collections.collection import Collection


def connected_components(
    edges: Collection, *, a: str = "a", b: str = "b", nodes: Collection | None = None
) -> Collection:
    """Return for each node its connected component, as (node, component): the least node in it.

    Directions make no difference. ``nodes``, with one column of any name, are there also if they are in no edge, each
    then a component of its own.

    Labels spread from node to node, the first by a hash of them winning; each component is named afterwards.

    Cost: iterations for the longest of the shortest paths from the nodes whose labels win, and some twenty more; a
    change costs the edges at nodes whose label changes in any iteration. An edge that goes and leaves its component in
    one piece changes little; one that splits it gives the part without the label that won another one. (Label
    spreading: Shiloach and Vishkin, *An O(log n) parallel connectivity algorithm*, 1982, without its shortcuts; that
    some labels set out before others: McSherry, Murray, Isaacs and Isard, *Differential dataflow*, 2013.)

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
    both = onward.concat(onward.select(a="b", b="a"))
    return named_by_least(leaders(both, every, "connected_components"))
