"""PageRank in whole numbers, so that it settles exactly and a change dies out on its way."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from tidemill.algorithms.graphs.edges import arcs, ends, whole_number
from tidemill.collections.collection import Collection
from tidemill.errors import GraphError
from tidemill.expressions.aggregate_functions import count
from tidemill.expressions.aggregate_functions import sum as total
from tidemill.expressions.expr import lit
from tidemill.expressions.sql_text import expr

_DAMPING: Final = 10**6
"""The largest denominator of the damping: ranks are multiplied by it, and are to stay in 64 bits."""
_UNITS: Final = 10**12
"""The largest denominator of the tolerance."""


def pagerank(
    edges: Collection,
    *,
    a: str = "a",
    b: str = "b",
    nodes: Collection | None = None,
    damping: float = 0.85,
    tolerance: float = 1e-6,
    rounds: int | None = None,
) -> Collection:
    """Return the rank of each node, as (node, rank).

    A node has ``1 - damping`` of its own, and of each node with an edge to it an equal share of ``damping`` times that
    one's rank. Ranks so defined have a mean of 1 where every node has an edge to go on by; what arrives at a node
    without one is lost, and all ranks the smaller. Divided by their sum they are those of other libraries, in which
    what comes there is given to all. ``nodes``, with one column of any name, are there also if they are in no edge.

    Ranks are whole multiples of ``tolerance``, and shares are rounded down to them. Therefore the loop ends by itself,
    when no rank changes any more (by as much as the tolerance); the result is exact in that sense, the same on every
    engine and however it was arrived at. The errors of all ranks together are at most ``tolerance / (1 - damping)`` for
    each edge and node. ``damping`` is taken to the nearest fraction with a denominator of up to a million,
    ``tolerance`` to one of up to 10^12. With ``rounds=n`` it is the state after n rounds: the part of ranks
    that comes along at most n edges.

    Unless told otherwise it is 1e-6, as exact as networkx is. Give 0.01 where edges come and go: ranks are some 2 % off
    then, taken together, and a change costs less than the load from some thousand nodes on.

    Cost: about ``log(tolerance) / log(damping)`` rounds, each over the ranks that still change. A change to an edge
    costs what it changes, in all rounds: it spreads until shares of it are less than the tolerance. So one edge of a
    million costs 0.3 % of the load at 0.01; but where every rank changes by more than the tolerance, as on graphs with
    fewer nodes than ``1 / tolerance``, it costs up to twice the load, and starting anew is cheaper.
    (Page, Brin, Motwani and Winograd, *The PageRank citation ranking*, 1999.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> links = flow.input("links", {"a": "string", "b": "string"})
    >>> flow.output("ranks", tm.graphs.pagerank(links, tolerance=0.001))
    >>> run = flow.start()
    >>> run.insert("links", [tuple(link) for link in ("xy", "yx", "xz", "zx")])
    >>> run.advance()
    >>> list(run.snapshot("ranks"))
    [('x', 1.452), ('y', 0.767), ('z', 0.767)]
    """
    of_rank = _fraction(damping, "damping", _DAMPING)
    unit = _fraction(tolerance, "tolerance", _UNITS)
    if rounds is not None:
        whole_number(rounds, "rounds", "pagerank")
    found = arcs(edges, a, b, "pagerank").distinct()
    every = ends(found, nodes, "pagerank")
    onward = found.join(found.group_by("a").agg(degree=count()), on="a")
    own = every.select("node", rank=lit(int((1 - of_rank) / unit)))
    share = expr(f"rank * {of_rank.numerator} DIV ({of_rank.denominator} * degree)")

    def play(ranks: Collection) -> Collection:
        moved = ranks.join(onward, on={"node": "a"}).select(node="b", rank=share)
        return moved.concat(own).group_by("node").agg(rank=total("rank"))

    limits: dict[str, Any] = {"error_at": None} if rounds is None else {"return_at": rounds}
    ranks = own.iterate(play, name="pagerank", **limits)
    return ranks.select("node", rank=f"rank * {unit.numerator} / {unit.denominator}")


def _fraction(value: float, name: str, most: int) -> Fraction:
    """Return a parameter between 0 and 1 as it is written, or the nearest fraction that leaves room for ranks."""
    if not isinstance(value, (int, float)) or not 0 < value < 1:
        msg = f"pagerank: {name}={value!r}: expected a number between 0 and 1"
        raise GraphError(msg)
    written = Fraction(repr(float(value)))
    found = written.limit_denominator(most)
    if written < Fraction(1, most) or found == 1:
        msg = f"pagerank: {name}={value!r}: expected a number from 1/{most:,} to 1 - 1/{most:,}"
        raise GraphError(msg)
    return found
