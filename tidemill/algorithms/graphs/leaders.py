"""Labels that spread along edges: a leader for each node, the first by lot of all that reach it.

Where every node starts at once with itself as a label, most nodes take up one label after another, and each crosses
all their edges: on random graphs a dozen times the edges, all of it kept for later changes. Hence two things. Which of
two labels comes first is drawn by lot, by their hash: what nodes are called makes no difference. And labels set out in
turn, the first ones first, twice as many in each iteration. So a label finds most of what it reaches without one, and
most of those that come later find their own node taken, and end there.
"""

from __future__ import annotations

from typing import Final

from tidemill.collections.builder import all_nullable
from tidemill.collections.building import constant
from tidemill.collections.collection import Collection
from tidemill.collections.recursion import letrec
from tidemill.expressions.aggregate_functions import min as least
from tidemill.expressions.sql_text import expr

_TURNS: Final = 20
"""In so many iterations all labels have set out; of 2^20 nodes one in the first, of more nodes more."""
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
