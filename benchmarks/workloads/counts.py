"""W1: count by key."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED, Change, Tables, Workload


class Counts(Workload):
    """Insert a row of a random key, then delete one that was loaded, in turn."""

    name = "W1"
    title = "count by key: 1,000,000 rows, 100,000 keys"
    query = "SELECT k, count(*) AS n FROM events GROUP BY k"

    def tables(self) -> Tables:
        self.keys = int(100_000 * self.scale)
        rng = np.random.default_rng(SEED)
        return {"events": pa.table({"k": rng.integers(0, self.keys, 10 * self.keys)})}

    def changes(self, tables: Tables) -> Iterator[Change]:
        rng = np.random.default_rng(SEED + 1)
        loaded = tables["events"].column("k").to_numpy()
        for gone in rng.permutation(len(loaded)).tolist():
            yield Change("events", [(int(rng.integers(self.keys)),)], +1)
            yield Change("events", [(int(loaded[gone]),)], -1)

    def bulk_changes(self, tables: Tables, rows: int) -> Iterator[list[Change]]:
        """Yield changes of many rows, one list an epoch: half of them leave, as many come."""
        rng = np.random.default_rng(SEED + 2)
        loaded, half = tables["events"], rows // 2
        for start in range(0, len(loaded) - half + 1, half):
            yield [
                Change("events", loaded.slice(start, half), -1),
                Change("events", pa.table({"k": rng.integers(0, self.keys, half)}), +1),
            ]

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        events = flow.input("events", {"k": "int64"})
        flow.output("answer", events.group_by("k").agg(n=tm.count()))
        return flow

    def pathway(self, pw: Any, tables: Any) -> Any:
        return tables["events"].groupby(pw.this.k).reduce(pw.this.k, n=pw.reducers.count())
