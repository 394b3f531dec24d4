"""What breaks when a Debian package is removed: ``gnome`` and the 1,145 others that it needs, with their dependencies.

What depends on something broken is broken, at one hop more. libgcc-s1 and libc6 depend on each other, so once broken,
each is reason enough for the other; still, when the culprit is put back both are well again. A removal costs what it
breaks, not the size of Debian.
"""

from pathlib import Path

import pyarrow.parquet as pq

import tidemill as tm


def build() -> tm.Dataflow:
    """Return the dataflow: dependencies and removed packages in; what is broken, and how many by hops, out."""
    flow = tm.Dataflow("debian")
    depends = flow.input("depends", {"package": "string", "depends_on": "string"})
    removed = flow.input("removed", {"package": "string"}).select("package", hops=0)

    def spread(broken: tm.Collection) -> tm.Collection:
        next_ones = depends.join(broken, on={"depends_on": "package"}).select("package", hops="hops + 1")
        return next_ones.concat(removed).group_by("package").agg(hops=tm.min("hops"))

    broken = removed.iterate(spread)
    flow.output("broken", broken)
    flow.output("by_hops", broken.group_by("hops").agg(packages=tm.count()))
    return flow


if __name__ == "__main__":  # remove a package that few need, then one that nearly all need, and put that back
    with build().start() as run:
        run.on_step(lambda step: print(f"\nStep {step.number} took {1000 * step.seconds:.0f} ms"))
        run.insert("depends", pq.read_table(Path(__file__).parent / "data" / "debian-gnome.parquet"))
        for change, package in (run.insert, "libgtk-4-1"), (run.insert, "gcc-12-base"), (run.delete, "gcc-12-base"):
            change("removed", [(package,)])
            run.advance()
            print(f"{change.__name__} {package}: {len(run.changes('broken'))} changes")
            print(run.snapshot("by_hops"))
