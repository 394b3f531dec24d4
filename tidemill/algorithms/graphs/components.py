"""Leaders of nodes, and connected components by them."""

from __future__ import annotations

from typing import Final

from tidemill.algorithms.graphs.edges import arcs, ends
from tidemill.collections.builder import all_nullable
from tidemill.collections.building import constant
from tidemill.collections.collection import Collection
from tidemill.collections.recursion import letrec
from tidemill.expressions.aggregate_functions import min as least
from tidemill.expressions.sql_text import expr

_TURNS: Final = 20
"""After how many iterations all labels have set out; of 2^20 nodes one in the first, of more nodes more."""
_LOT: Final = "shiftrightunsigned(xxhash64({}), 1)"
_TURN: Final = f"greatest({_TURNS} - 63 + cast(floor(log2(cast(lot as double) + 1)) as int), 0)"
"""When a label sets out: as late as its lot has binary digits, of 63. What comes out does not depend on it."""


def leaders(onward: Collection, nodes: Collection, name: str) -> Collection:
    """Return for each node its leader, as (node, leader): of the nodes from which edges lead there, itself among them.

    It is the first of these by lot, so nodes that the same nodes reach have the same leader.
    """
    own = nodes.select("node", leader="node", lot=_LOT.format("node")).select("node", "leader", turn=_TURN)
    first_turn = constant(nodes.builder, {"turn": "int32"}, [(0,)])
    with letrec(nodes.builder, name, error_at=None) as rec:
        turns = rec.declare("turns", all_nullable(first_turn.schema))
        led = rec.declare("leaders", all_nullable(own.select("node", "leader").schema))
        following = turns.filter(f"turn < {_TURNS}").select(turn="turn + 1")
        rec.define("turns", first_turn.concat(following).distinct())
        set_out = own.semijoin(rec.previous("turns"), on="turn").select("node", "leader")
        reached = led.join(onward, on={"node": "a"}).select(node="b", leader="leader")
        by_lot = [expr(_LOT.format("leader")), "leader"]
        rec.define("leaders", set_out.concat(reached).group_by("node").top_k(1, order_by=by_lot))
    return rec["leaders"]


def named_by_least(led: Collection) -> Collection:
    """Return for each node the least of those with the same leader, as (node, component)."""
    names = led.group_by("leader").agg(component=least("node"))
    return led.join(names, on="leader").select("node", "component")


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
