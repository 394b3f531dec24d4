"""Strongly connected components: a loop that trims edges, around loops that label nodes by the least that reaches them.

An edge between different labels is on no cycle, and goes; then the same against the edges' direction, until none goes.
"""

import tidemill as tm


def labels(edges: tm.Collection) -> tm.Collection:
    """Return for each node (node, label): the least node that reaches it, itself included."""
    nodes = edges.select(node="src").concat(edges.select(node="dst")).distinct().select("node", label="node")

    def spread(known: tm.Collection) -> tm.Collection:
        reached = known.join(edges, on={"node": "src"}).select("label", node="dst")
        return nodes.concat(reached).group_by("node").agg(label=tm.min("label"))

    return nodes.iterate(spread)


def build() -> tm.Dataflow:
    """Return the dataflow: edges in; the edges on cycles out, and for each node on a cycle its component."""

    def trim(edges: tm.Collection) -> tm.Collection:  # keep those within a label, and turn them around
        label = labels(edges)
        both = edges.join(label, on={"src": "node"}).join(label, on={"dst": "node"})
        return both.filter("label = label_right").select(src="dst", dst="src")

    flow = tm.Dataflow("scc")
    on_cycles = flow.input("edges", {"src": "string", "dst": "string"}).iterate(lambda edges: trim(trim(edges)))
    flow.output("on_cycles", on_cycles)
    flow.output("components", labels(on_cycles))
    return flow


if __name__ == "__main__":  # join two components by one more edge
    with build().start() as run:
        for edges in (["ab", "bc", "ca", "cd", "de", "ef", "fd", "fg"], ["fa"]):
            run.insert("edges", [tuple(edge) for edge in edges])
            run.advance()
            print("With " + " ".join(edges) + ":", run.changes("components"), sep="\n")
