"""W5: the transitive closure of a small random graph, large against its input."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED, Change, Tables, Workload
from benchmarks.workloads.reachability import exchanged_edges


class Closure(Workload):
    """Delete an edge that was loaded, then insert a random one, in turn.

    In DuckDB, ``USING KEY``, removing duplicates before the union, and doubling the paths were tried and are slower.
    """

    name = "W5"
    title = "transitive closure: 1,000 nodes, 1,500 edges"
    query = """
        WITH RECURSIVE paths(a, b) AS (
            SELECT a, b FROM edges UNION SELECT paths.a, edges.b FROM paths JOIN edges ON edges.a = paths.b
        ) SELECT a, b FROM paths
    """
    nodes = 1_000

    def tables(self) -> Tables:
        rng = np.random.default_rng(SEED)
        a, b = rng.integers(0, self.nodes, (2, self.nodes * 3 // 2))
        return {"edges": pa.table({"a": a, "b": b})}

    def changes(self, tables: Tables) -> Iterator[Change]:
        return exchanged_edges(tables["edges"], self.nodes)

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        edges = flow.input("edges", {"a": "int64", "b": "int64"})
        onward = edges.rename(a="b", b="c")
        flow.output(
            "answer",
            edges.iterate(lambda paths: paths.join(onward, on="b").select("a", b="c").concat(edges).distinct()),
        )
        return flow

    def pathway(self, pw: Any, tables: Any) -> Any:
        def step(paths: Any, edges: Any) -> Any:
            longer = paths.join(edges, paths.b == edges.a).select(a=paths.a, b=edges.b)
            both = pw.Table.concat_reindex(edges, longer)
            return {"paths": both.groupby(pw.this.a, pw.this.b).reduce(pw.this.a, pw.this.b)}

        edges = tables["edges"].select(pw.this.a, pw.this.b)
        first = pw.iterate_universe(edges.groupby(pw.this.a, pw.this.b).reduce(pw.this.a, pw.this.b))
        return pw.iterate(step, paths=first, edges=edges).paths
