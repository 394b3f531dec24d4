"""Triangles, by a delta join: dependencies of packages that follow from two others, among what Debian's gnome needs.

Where a needs b, b needs c, and a says that it needs c as well, it need not. A chain of joins would keep all paths of
two dependencies, of which there are many more than dependencies; a delta join keeps these alone, indexed in three ways.
"""

from pathlib import Path

import pyarrow.parquet as pq

import tidemill as tm


def build() -> tm.Dataflow:
    """Return the dataflow: dependencies in, those that follow from others out, with how often they do."""
    flow = tm.Dataflow("triangles")
    needs = flow.input("needs", {"package": "string", "depends_on": "string"})
    ab, bc, ac = (needs.rename(package=x, depends_on=y) for x, y in ("ab", "bc", "ac"))
    triangles = tm.join_all([ab, bc, ac], on=["a", "b", "c"])
    flow.output("follow", triangles.group_by("a", "c").agg(by=tm.count()))
    flow.output("most", triangles.group_by("c").agg(n=tm.count()).group_by().top_k(3, order_by=["n desc", "c"]))
    return flow


if __name__ == "__main__":  # show what need not be said most often; then what a package that needs less changes
    with build().start() as run:
        run.insert("needs", pq.read_table(Path(__file__).parent / "data" / "debian-gnome.parquet"))
        run.advance()
        print(run.snapshot("most"), len(run.changes("follow")), "dependencies follow from others\n", sep="\n")
        run.delete("needs", [("nautilus", "libglib2.0-0")])
        run.advance()
        print("Without nautilus' own dependency on libglib2.0-0:", run.changes("follow"), sep="\n")
        print("\nKept:", *sorted({o.state_rows for o in run.metrics() if o.kind == "Arrange"}), "rows in each index")
