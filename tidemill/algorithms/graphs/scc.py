"""Strongly connected components: loops that spread labels, in a loop that trims edges."""

from __future__ import annotations

from tidemill.algorithms.graphs.components import least_that_reaches
from tidemill.algorithms.graphs.edges import arcs, ends
from tidemill.collections.collection import Collection

__all__ = ["scc"]


def scc(edges: Collection, *, a: str = "a", b: str = "b", nodes: Collection | None = None) -> Collection:
    """Return for each node its strongly connected component, as (node, component): the least node in it.

    Two nodes are in one component where edges lead from each to the other. A node on no cycle is a component of its
    own. ``nodes``, with one column of any name, are there also if they are in no edge.

    Edges between nodes that different least nodes reach are on no cycle and go; then the same against the edges'
    direction, and all over again until no edge goes.

    Cost: two loops like that of `connected_components` in each round of trimming, of which there are as many as
    components that hang on each other hide behind one another's labels, few in practice. A change costs what it changes
    in all of them. (McSherry, Murray, Isaacs and Isard, *Differential dataflow*, 2013.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> edges = flow.input("edges", {"a": "string", "b": "string"})
    >>> flow.output("components", tm.graphs.scc(edges))
    >>> run = flow.start()
    >>> run.insert("edges", [tuple(edge) for edge in ("xy", "yx", "yz", "zw")])
    >>> run.advance()
    >>> list(run.snapshot("components"))
    [('w', 'w'), ('x', 'x'), ('y', 'x'), ('z', 'z')]
    >>> run.insert("edges", [("w", "y")])
    >>> run.advance()
    >>> list(run.snapshot("components"))
    [('w', 'w'), ('x', 'w'), ('y', 'w'), ('z', 'w')]
    """
    found = arcs(edges, a, b, "scc").distinct()
    on_cycles = found.iterate(lambda some: _trim(_trim(some)), error_at=None, name="trim")
    return least_that_reaches(on_cycles, ends(found, nodes, "scc"))


def _trim(edges: Collection) -> Collection:
    """Return the edges whose ends the same least node reaches, turned round."""
    labels = least_that_reaches(edges, ends(edges, None, "scc"))
    both = edges.join(labels, on={"a": "node"}).join(labels, on={"b": "node"}, suffix="_of_b")
    return both.filter("component = component_of_b").select(a="b", b="a")
