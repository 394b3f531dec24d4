"""W6: what a Debian package depends on, directly or not."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workload import SEED, Change, Tables, Workload, rows_of

DEBIAN = "BENCHMARKS_DEBIAN"
"""The environment variable by which ``--debian`` reaches the processes that measure."""

_OWN_COPY = Path(__file__).parents[1] / "data" / "debian-depends.parquet"


class Debian(Workload):
    """Delete a dependency of a package that `gnome` needs, then restore it.

    Dependencies of other packages are left alone: taking them changes nothing, which is quick. In DuckDB, ``USING KEY``
    and removing duplicates before the union make no difference.
    """

    name = "W6"
    title = "reachability from gnome in Debian: 275,496 dependencies"
    query = """
        WITH RECURSIVE needed(package) AS (
            SELECT package FROM start
            UNION SELECT depends_on FROM needed JOIN depends ON depends.package = needed.package
        ) SELECT package FROM needed
    """

    def tables(self) -> Tables:
        depends = pq.read_table(os.environ.get(DEBIAN, _OWN_COPY))
        return {"depends": depends, "start": pa.table({"package": ["gnome"]})}

    def changes(self, tables: Tables) -> Iterator[Change]:
        rng = np.random.default_rng(SEED + 1)
        rows = rows_of(tables["depends"])
        needed = _reachable("gnome", rows)
        near = [row for row in rows if row[0] in needed]
        for gone in rng.permutation(len(near)).tolist():
            yield Change("depends", [near[gone]], -1)
            yield Change("depends", [near[gone]], +1)

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        depends = flow.input("depends", {"package": "string", "depends_on": "string"})
        start = flow.input("start", {"package": "string"})

        def step(needed: Any) -> Any:
            return needed.join(depends, on="package").select(package="depends_on").concat(start).distinct()

        flow.output("answer", start.iterate(step))
        return flow

    def pathway(self, pw: Any, tables: Any) -> Any:
        def step(needed: Any, depends: Any, start: Any) -> Any:
            onward = needed.join(depends, needed.package == depends.package).select(package=depends.depends_on)
            both = pw.Table.concat_reindex(start, onward)
            return {"needed": both.groupby(pw.this.package).reduce(pw.this.package)}

        start = tables["start"]
        first = pw.iterate_universe(start.groupby(pw.this.package).reduce(pw.this.package))
        return pw.iterate(step, needed=first, depends=tables["depends"], start=start).needed


def _reachable(root: str, rows: list[tuple[str, str]]) -> set[str]:
    onward: dict[str, list[str]] = {}
    for package, other in rows:
        onward.setdefault(package, []).append(other)
    reached, waiting = {root}, [root]
    while waiting:
        new = set(onward.get(waiting.pop(), ())) - reached
        reached |= new
        waiting += new
    return reached
