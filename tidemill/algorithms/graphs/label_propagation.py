"""Communities by label propagation: everybody takes up what most of their neighbours say."""

from __future__ import annotations

from tidemill.algorithms.graphs.edges import ends_with_loops, links, whole_number
from tidemill.collections.collection import Collection
from tidemill.expressions.aggregate_functions import count
from tidemill.expressions.sort_keys import desc


def label_propagation(
    edges: Collection, *, a: str = "a", b: str = "b", nodes: Collection | None = None, rounds: int = 10
) -> Collection:
    """Return for each node the label of its community, as (node, label): a node that is in it, or was.

    At first each node is its own label. In each round all nodes at once take the label that is most frequent among
    their neighbours and themselves, the least of those that are equally frequent. So the result is determined, as it is
    not where nodes take turns by chance. Directions make no difference, an edge from a node to itself neither.
    ``nodes``, with one column of any name, are there also if they are in no edge.

    It need not settle: where most neighbours are on the other of two sides labels may go to and fro. Hence ``rounds``.

    Cost: a change costs the neighbours of nodes whose label changes, in all rounds. Where communities are clear that is
    few; where they are not, one edge may turn many over. (Raghavan, Albert and Kumara, *Near linear time algorithm to
    detect community structures in large-scale networks*, 2007.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> edges = flow.input("edges", {"a": "string", "b": "string"})
    >>> flow.output("circles", tm.graphs.label_propagation(edges))
    >>> run = flow.start()
    >>> run.insert("edges", [tuple(edge) for edge in ("ab", "bc", "ca", "cx", "xy", "yz", "zx")])
    >>> run.advance()
    >>> list(run.snapshot("circles"))
    [('a', 'a'), ('b', 'a'), ('c', 'a'), ('x', 'x'), ('y', 'x'), ('z', 'x')]
    """
    whole_number(rounds, "rounds", "label_propagation")
    both = links(edges, a, b, "label_propagation")
    own = ends_with_loops(both, edges, nodes, "label_propagation", a=a, b=b).select("node", label="node")

    def vote(labels: Collection) -> Collection:
        heard = labels.join(both, on={"node": "a"}).select("label", node="b")
        votes = labels.concat(heard).group_by("node", "label").agg(votes=count())
        return votes.group_by("node").top_k(1, order_by=[desc("votes"), "label"]).select("node", "label")

    return own.iterate(vote, return_at=rounds, name="label_propagation")
