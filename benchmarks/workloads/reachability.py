"""W3: the nodes reachable from one node of a random graph."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED, Change, Tables, Workload


class Reachability(Workload):
    """Delete an edge that was loaded, then insert a random one, in turn.

    In DuckDB, ``USING KEY`` and removing duplicates or known nodes before the union were tried and are slower.
    """

    name = "W3"
    title = "reachability: 50,000 nodes, 150,000 edges"
    query = """
        WITH RECURSIVE reached(v) AS (
            SELECT v FROM start UNION SELECT b FROM reached JOIN edges ON a = v
        ) SELECT v FROM reached
    """

    def tables(self) -> Tables:
        self.nodes = int(50_000 * self.scale)
        rng = np.random.default_rng(SEED)
        a, b = rng.integers(0, self.nodes, (2, 3 * self.nodes))
        return {"edges": pa.table({"a": a, "b": b}), "start": pa.table({"v": pa.array([0], pa.int64())})}

    def changes(self, tables: Tables) -> Iterator[Change]:
        return exchanged_edges(tables["edges"], self.nodes)

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        edges = flow.input("edges", {"a": "int64", "b": "int64"})
        start = flow.input("start", {"v": "int64"})
        flow.output(
            "answer",
            start.iterate(lambda here: here.join(edges, on={"v": "a"}).select(v="b").concat(start).distinct()),
        )
        return flow

    def pathway(self, pw: Any, tables: Any) -> Any:
        def step(here: Any, edges: Any, start: Any) -> Any:
            onward = here.join(edges, here.v == edges.a).select(v=edges.b)
            both = pw.Table.concat_reindex(start, onward)
            return {"here": both.groupby(pw.this.v).reduce(pw.this.v)}

        start = tables["start"]
        first = pw.iterate_universe(start.groupby(pw.this.v).reduce(pw.this.v))
        return pw.iterate(step, here=first, edges=tables["edges"], start=start).here


def exchanged_edges(edges: pa.Table, nodes: int) -> Iterator[Change]:
    """Yield the deletion of a loaded edge and the insertion of a random one, in turn."""
    rng = np.random.default_rng(SEED + 1)
    a, b = (column.to_numpy() for column in edges.columns)
    for gone in rng.permutation(len(edges)).tolist():
        yield Change("edges", [(int(a[gone]), int(b[gone]))], -1)
        yield Change("edges", [tuple(rng.integers(0, nodes, 2).tolist())], +1)
