"""Strongly connected components: leaders spread along edges, and are sought against them; what is found is cut off."""

from __future__ import annotations

from tidemill.algorithms.graphs.components import leaders, named_by_least
from tidemill.algorithms.graphs.edges import arcs, ends
from tidemill.collections.builder import all_nullable
from tidemill.collections.collection import Collection
from tidemill.collections.recursion import letrec


def scc(edges: Collection, *, a: str = "a", b: str = "b", nodes: Collection | None = None) -> Collection:
    """Return for each node its strongly connected component, as (node, component): the least node in it.

    Two nodes are in one component where edges lead from each to the other. A node on no cycle is a component of its
    own. ``nodes``, with one column of any name, are there also if they are in no edge.

    First all goes that no cycle leads to, then all that leads to none, and edges there with it. Of what is left each
    node learns its leader: of those that reach it, the first by lot. Edges between nodes of different leaders are on no
    cycle, and go; those who reach their leader, too, are a component, and edges between them and others go; all over
    again until no edge goes.

    Cost: iterations for the longest way that is on no cycle, and loops like that of `connected_components` in each
    round, of which there are as many as components are reached from one another's leaders: few, since these
    are drawn by lot. A change costs what it changes in all of them. (Trimming, and the search back from the leader:
    Orzan, *On distributed verification and verified distribution*, 2004; McLendon, Hendrickson, Plimpton and
    Rauchwerger, *Finding strongly connected components in distributed graphs*, 2005.)

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
    every = ends(found, nodes, "scc")
    named = named_by_least(_leaders_on_cycles(_between_cycles(found)))
    alone = every.antijoin(named, on="node").select("node", component="node")
    return named.concat(alone)


def _between_cycles(edges: Collection) -> Collection:
    """Return the edges that lie on a cycle or on a way from a cycle to a cycle."""
    fed = edges.semijoin(_fed(edges), on={"a": "node"})
    return fed.semijoin(_fed(fed.select(a="b", b="a")), on={"b": "node"})


def _fed(edges: Collection) -> Collection:
    """Return the nodes that a cycle reaches: those left when nodes go that no edge leads to, again and again."""

    def successors(left: Collection) -> Collection:
        return left.join(edges, on={"node": "a"}).select(node="b").distinct()

    return ends(edges, None, "scc").iterate(successors, error_at=None, name="fed")


def _leaders_on_cycles(edges: Collection) -> Collection:
    """Return for each node at an edge its leader among edges inside of components, as (node, leader)."""
    nodes = ends(edges, None, "scc")
    with letrec(edges.builder, "scc", error_at=None) as rec:
        cut = rec.declare("cut", all_nullable(edges.schema))
        rec.declare("leaders", all_nullable(nodes.select("node", leader="node").schema))
        left = edges.antijoin(cut, on=["a", "b"])
        led = leaders(left, nodes, "leaders")
        both = left.join(led, on={"a": "node"}).join(led, on={"b": "node"}, suffix="_of_b")
        within = both.filter("leader = leader_of_b").select("a", "b")
        between = both.filter("leader <> leader_of_b").select("a", "b")
        back = _who_reach_their_leader(led, within)
        out_of_component = within.semijoin(back, on={"a": "node"}).antijoin(back, on={"b": "node"})
        rec.define("cut", cut.concat(between, out_of_component).distinct())
        rec.define("leaders", led)
    return rec["leaders"]


def _who_reach_their_leader(led: Collection, within: Collection) -> Collection:
    """Return the nodes from which edges, all between nodes with the same leader, lead to it."""
    themselves = led.filter("node = leader").select("node")

    def before(found: Collection) -> Collection:
        return found.join(within, on={"node": "b"}).select(node="a").concat(themselves).distinct()

    return themselves.iterate(before, error_at=None, name="back")
