"""Strongly connected components: a loop that trims edges, around loops that spread labels.

Each node is labelled with the least node that reaches it. An edge between different labels is on no cycle, and goes;
then the same against the edges' direction, and all over again until no edge goes. When an edge is inserted or deleted,
all three loops change by what that edge changes.
"""

import tidemill as tm


def labels(edges: tm.Collection) -> tm.Collection:
    """Return for each node (node, label): the least node that reaches it, itself included."""
    nodes = edges.select(node="src").concat(edges.select(node="dst")).distinct().select("node", label="node")

    def spread(known: tm.Collection) -> tm.Collection:
        reached = known.join(edges, on={"node": "src"}).select("label", node="dst")
        return nodes.concat(reached).group_by("node").agg(label=tm.min("label"))

    return nodes.iterate(spread)


def trim(edges: tm.Collection) -> tm.Collection:
    """Return the edges whose ends have the same label, turned around."""
    label = labels(edges)
    both = edges.join(label, on={"src": "node"}).join(label, on={"dst": "node"})
    return both.filter("label = label_right").select(src="dst", dst="src")


def build() -> tm.Dataflow:
    """Return the dataflow: edges in; the edges on cycles out, and for each node on a cycle its component."""
    flow = tm.Dataflow("scc")
    on_cycles = flow.input("edges", {"src": "string", "dst": "string"}).iterate(lambda edges: trim(trim(edges)))
    flow.output("on_cycles", on_cycles)
    flow.output("components", labels(on_cycles))
    return flow


def main() -> None:
    """Join two components by one more edge."""
    with build().start(keep=1) as run:
        run.insert("edges", [tuple(e) for e in ("ab", "bc", "ca", "cd", "de", "ef", "fd", "fg")])
        run.advance()
        print(run.snapshot("components"), end="\n\n")
        run.insert("edges", [("f", "a")])
        run.advance()
        print("f -> a joins them:", run.changes("components", since=0), sep="\n")


if __name__ == "__main__":
    main()
