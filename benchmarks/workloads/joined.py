"""W2: join on a key."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED, Change, Tables, Workload, rows_of


class Joined(Workload):
    """Insert and delete a row, on the left and on the right, in turn. A row meets one partner on average."""

    name = "W2"
    title = "join of 200,000 x 200,000 rows on a key"
    query = "SELECT k, x, y FROM l JOIN r USING (k)"

    def tables(self) -> Tables:
        self.rows = int(200_000 * self.scale)
        rng = np.random.default_rng(SEED)
        return {
            "l": pa.table({"k": rng.integers(0, self.rows, self.rows), "x": np.arange(self.rows)}),
            "r": pa.table({"k": rng.integers(0, self.rows, self.rows), "y": np.arange(self.rows)}),
        }

    def changes(self, tables: Tables) -> Iterator[Change]:
        rng = np.random.default_rng(SEED + 1)
        loaded = {side: rows_of(table) for side, table in tables.items()}
        for number, gone in zip(count(self.rows), rng.permutation(self.rows).tolist(), strict=False):
            for side in "lr":
                yield Change(side, [(int(rng.integers(self.rows)), number)], +1)
                yield Change(side, [loaded[side][gone]], -1)

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        left = flow.input("l", {"k": "int64", "x": "int64"})
        right = flow.input("r", {"k": "int64", "y": "int64"})
        flow.output("answer", left.join(right, on="k"))
        return flow

    def pathway(self, pw: Any, tables: Any) -> Any:  # noqa: ARG002
        left, right = tables["l"], tables["r"]
        return left.join(right, left.k == right.k).select(left.k, left.x, right.y)
