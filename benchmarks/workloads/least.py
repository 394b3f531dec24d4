"""W11: the least of one large group, while the least leaves: what an index by value is for."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED, Change, NotSupportedError, Tables, Workload


class Least(Workload):
    """Delete the least row, epoch after epoch. The question is by group, as it would be with more groups than one."""

    name = "W11"
    title = "min of 1,000,000 rows in one group, the least deleted"
    query = "SELECT g, min(v) FROM events GROUP BY g"
    rows = 1_000_000

    def tables(self) -> Tables:
        rng = np.random.default_rng(SEED)
        return {"events": pa.table({"g": np.zeros(self.rows, np.int64), "v": rng.permutation(self.rows)})}

    def changes(self, tables: Tables) -> Iterator[Change]:  # noqa: ARG002 - the values are 0, 1, 2, ...
        for least in range(self.rows):
            yield Change("events", [(0, least)], -1)

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        events = flow.input("events", {"g": "int64", "v": "int64"})
        flow.output("answer", events.group_by("g").agg(least=tm.min("v")))
        return flow

    def pathway(self, pw: Any, tables: Any) -> Any:
        return tables["events"].groupby(pw.this.g).reduce(pw.this.g, least=pw.reducers.min(pw.this.v))


class LeastTen(Least):
    """The same with the ten least rows. In DuckDB, ``QUALIFY row_number() <= 10`` is slower."""

    name = "W11k"
    title = "top_k(10) of 1,000,000 rows in one group, the least deleted"
    query = "SELECT g, unnest(min(v, 10)) FROM events GROUP BY g"

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        groups = flow.input("events", {"g": "int64", "v": "int64"}).group_by("g")
        if not hasattr(groups, "top_k"):
            msg = "Grouped.top_k does not exist yet"
            raise NotSupportedError(msg)
        flow.output("answer", groups.top_k(10, order_by=["v"]).select("g", "v"))
        return flow

    def pathway(self, pw: Any, tables: Any) -> Any:  # noqa: ARG002
        msg = "Pathway has no top-k of a group, short of keeping the group sorted as one value"
        raise NotSupportedError(msg)
