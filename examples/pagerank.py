"""PageRank with whole surfers, twenty rounds of a loop: which packages does GNOME rest on?

Every package starts with a million surfers. In each round 15% of them are replaced by new ones and the others follow a
dependency, shared out evenly, rounded down. When an edge goes, only those ranks are worked out again that it reaches,
in all rounds; as surfers are whole a change dies out on its way, and the result is exactly that of playing all again.
"""

from pathlib import Path

import pyarrow.parquet as pq

import tidemill as tm

DEPENDS = Path(__file__).parent / "data" / "debian-gnome.parquet"


def build(rounds: int = 20) -> tm.Dataflow:
    """Return the dataflow: edges in, the rank of each node out."""
    flow = tm.Dataflow("pagerank")
    edges = flow.input("edges", {"package": "string", "depends_on": "string"})
    nodes = edges.select(node="package").concat(edges.select(node="depends_on")).distinct()
    links = edges.join(edges.group_by("package").agg(degree=tm.count()), on="package")

    def play(ranks: tm.Collection) -> tm.Collection:
        moved = ranks.join(links, on={"node": "package"}).select(node="depends_on", rank="rank * 85 DIV (100 * degree)")
        return moved.concat(nodes.select("node", rank=150_000)).group_by("node").agg(rank=tm.sum("rank"))

    flow.output("ranks", nodes.select("node", rank=1_000_000).iterate(play, return_at=rounds))
    return flow


if __name__ == "__main__":  # print the five best; then see whose rank it was that libc6 passed on
    with build().start(keep=1) as run:
        run.insert("edges", pq.read_table(DEPENDS))
        run.advance()
        for node, rank in sorted(run.snapshot("ranks"), key=lambda row: -row[1])[:5]:
            print(f"{node:14}{rank / 1e6:8.1f}")
        run.delete("edges", [("libc6", "libgcc-s1")])
        run.advance()
        print("libc6 without libgcc-s1:", run.changes("ranks", since=0), sep="\n")
