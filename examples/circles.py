"""Knots among the packages that GNOME needs, by the algorithms in ``tm.graphs``.

Which depend on each other in circles, how many hang together in a core of many dependencies, how far away from GNOME
they are, and on which most of them rest: each is a dataflow of the same edges, and stays right as these change. libc6
and libgcc-s1 need each other; when one of the two dependencies goes, so does the circle, and rank comes to others.
"""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tidemill as tm

DEPENDS = Path(__file__).parent / "data" / "debian-gnome.parquet"
ENDS: Any = {"a": "package", "b": "depends_on"}


def build(k: int = 11) -> tm.Dataflow:
    """Return the dataflow: dependencies in; circles, the k-core, hops from GNOME and the three highest ranks out."""
    flow = tm.Dataflow("circles")
    depends = flow.input("depends", {"package": "string", "depends_on": "string"})
    gnome = flow.constant({"package": "string"}, [("gnome",)])
    circles = tm.graphs.scc(depends, **ENDS).group_by("component").agg(packages=tm.count())
    flow.output("circles", circles.filter("packages > 1"))
    flow.output("core", tm.graphs.k_core(depends, k, **ENDS).agg(packages=tm.count(), most=tm.max("degree")))
    flow.output("hops", tm.graphs.bfs(depends, gnome, **ENDS).group_by("hops").agg(packages=tm.count()))
    flow.output("first", tm.graphs.pagerank(depends, **ENDS, tolerance=0.001).group_by().top_k(3, order_by="rank desc"))
    return flow


if __name__ == "__main__":  # show all four, then take a dependency away
    with build().start(keep=1) as run:
        run.insert("depends", pq.read_table(DEPENDS))
        run.advance()
        for name in ("circles", "core", "hops", "first"):
            print(run.snapshot(name))
        run.delete("depends", [("libc6", "libgcc-s1")])
        run.advance()
        print("\nlibc6 without libgcc-s1", run.changes("circles", since=0), run.changes("first", since=0), sep="\n")
