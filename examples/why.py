"""Why does GNOME need a package, and why does it not need another? A run that is asked says from what a row follows.

The reason for a package is a path of dependencies, of thousands just these few, by what operators and in which
iterations; it was checked by running on them alone. When a dependency of it is taken away, another path is the reason,
or there is none; then what is missing is shown, backwards from the row that is not there.
"""

from pathlib import Path

import pyarrow.parquet as pq

import tidemill as tm

DEPENDS = Path(__file__).parent / "data" / "debian-gnome.parquet"


def build() -> tm.Dataflow:
    """Return the dataflow: dependencies in, what gnome-shell needs out."""
    flow = tm.Dataflow("why")
    depends = flow.input("depends", {"package": "string", "depends_on": "string"})
    shell = flow.constant({"package": "string"}, [("gnome-shell",)])

    def step(needed: tm.Collection) -> tm.Collection:
        return needed.join(depends, on="package").select(package="depends_on").concat(shell).distinct()

    flow.output("needed", shell.iterate(step))
    return flow


if __name__ == "__main__":  # ask for a reason, take it away, and ask again; then for what is not needed
    with build().start(why=True) as run:
        run.insert("depends", pq.read_table(DEPENDS))
        run.advance()
        print(run.why("needed", ("libjack-jackd2-0",)), end="\n\n")
        reason = run.why("needed", ("libc6",))
        print(reason, end="\n\n")
        run.delete("depends", reason.rows["depends"])
        run.advance()
        print(run.why("needed", ("libc6",)), end="\n\n")
        print(run.why("needed", ("gnome",)))
