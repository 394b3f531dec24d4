"""W1 to W6, W11: counts, a join, recursion, the least of many: one row an epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workload import SEED, Change, Tables, Workload, rows_of

DEBIAN = "BENCHMARKS_DEBIAN"
"""The environment variable by which another table for W6 reaches the processes that measure."""
_OWN_COPY = Path(__file__).parents[1] / "data" / "debian-depends.parquet"
_EDGES = {"a": "int64", "b": "int64"}


class Counts(Workload):
    """Insert a row of a random key, then delete one that was loaded, in turn."""

    name = "W1"
    title = "count by key: 1,000,000 rows, 100,000 keys"
    query = "SELECT k, count(*) AS n FROM events GROUP BY k"
    inputs: ClassVar = {"events": {"k": "int64"}}

    def tables(self) -> Tables:
        self.keys = int(100_000 * self.scale)
        return {"events": pa.table({"k": np.random.default_rng(SEED).integers(0, self.keys, 10 * self.keys)})}

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
            come = pa.table({"k": rng.integers(0, self.keys, half)})
            yield [Change("events", loaded.slice(start, half), -1), Change("events", come, +1)]

    def answer(self, tm: Any, **tables: Any) -> Any:
        return tables["events"].group_by("k").agg(n=tm.count())

    def pathway(self, pw: Any, tables: Any) -> Any:
        return tables["events"].groupby(pw.this.k).reduce(pw.this.k, n=pw.reducers.count())


class Joined(Workload):
    """Insert and delete a row, on the left and on the right, in turn. A row meets one partner on average."""

    name = "W2"
    title = "join of 200,000 x 200,000 rows on a key"
    query = "SELECT k, x, y FROM l JOIN r USING (k)"
    inputs: ClassVar = {"l": {"k": "int64", "x": "int64"}, "r": {"k": "int64", "y": "int64"}}

    def tables(self) -> Tables:
        self.rows = int(200_000 * self.scale)
        rng = np.random.default_rng(SEED)
        sides = (("l", "x"), ("r", "y"))
        return {
            side: pa.table({"k": rng.integers(0, self.rows, self.rows), value: np.arange(self.rows)})
            for side, value in sides
        }

    def changes(self, tables: Tables) -> Iterator[Change]:
        rng = np.random.default_rng(SEED + 1)
        loaded = {side: rows_of(table) for side, table in tables.items()}
        for number, gone in zip(count(self.rows), rng.permutation(self.rows).tolist(), strict=False):
            for side in "lr":
                yield Change(side, [(int(rng.integers(self.rows)), number)], +1)
                yield Change(side, [loaded[side][gone]], -1)

    def answer(self, tm: Any, **tables: Any) -> Any:  # noqa: ARG002
        return tables["l"].join(tables["r"], on="k")

    def pathway(self, pw: Any, tables: Any) -> Any:  # noqa: ARG002
        left, right = tables["l"], tables["r"]
        return left.join(right, left.k == right.k).select(left.k, left.x, right.y)


def exchanged_edges(edges: pa.Table, nodes: int) -> Iterator[Change]:
    """Yield the deletion of a loaded edge and the insertion of a random one, in turn."""
    rng = np.random.default_rng(SEED + 1)
    a, b = (column.to_numpy() for column in edges.columns)
    for gone in rng.permutation(len(edges)).tolist():
        yield Change("edges", [(int(a[gone]), int(b[gone]))], -1)
        yield Change("edges", [tuple(rng.integers(0, nodes, 2).tolist())], +1)


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
    inputs: ClassVar = {"edges": _EDGES, "start": {"v": "int64"}}

    def tables(self) -> Tables:
        self.nodes = int(50_000 * self.scale)
        a, b = np.random.default_rng(SEED).integers(0, self.nodes, (2, 3 * self.nodes))
        return {"edges": pa.table({"a": a, "b": b}), "start": pa.table({"v": pa.array([0], pa.int64())})}

    def changes(self, tables: Tables) -> Iterator[Change]:
        return exchanged_edges(tables["edges"], self.nodes)

    def answer(self, tm: Any, **tables: Any) -> Any:  # noqa: ARG002
        edges, start = tables["edges"], tables["start"]
        return start.iterate(lambda here: here.join(edges, on={"v": "a"}).select(v="b").concat(start).distinct())

    def pathway(self, pw: Any, tables: Any) -> Any:
        def step(here: Any, edges: Any, start: Any) -> Any:
            onward = here.join(edges, here.v == edges.a).select(v=edges.b)
            both = pw.Table.concat_reindex(start, onward)
            return {"here": both.groupby(pw.this.v).reduce(pw.this.v)}

        start = tables["start"]
        first = pw.iterate_universe(start.groupby(pw.this.v).reduce(pw.this.v))
        return pw.iterate(step, here=first, edges=tables["edges"], start=start).here


class Closure(Workload):
    """The same changes; the answer is large against its input.

    In DuckDB, ``USING KEY``, removing duplicates before the union, and doubling the paths were tried and are slower.
    """

    name = "W5"
    title = "transitive closure: 1,000 nodes, 1,500 edges"
    query = """
        WITH RECURSIVE paths(a, b) AS (
            SELECT a, b FROM edges UNION SELECT paths.a, edges.b FROM paths JOIN edges ON edges.a = paths.b
        ) SELECT a, b FROM paths
    """
    inputs: ClassVar = {"edges": _EDGES}
    nodes = 1_000

    def tables(self) -> Tables:
        a, b = np.random.default_rng(SEED).integers(0, self.nodes, (2, self.nodes * 3 // 2))
        return {"edges": pa.table({"a": a, "b": b})}

    def changes(self, tables: Tables) -> Iterator[Change]:
        return exchanged_edges(tables["edges"], self.nodes)

    def answer(self, tm: Any, **tables: Any) -> Any:  # noqa: ARG002
        edges = tables["edges"]
        onward = edges.rename(a="b", b="c")
        return edges.iterate(lambda paths: paths.join(onward, on="b").select("a", b="c").concat(edges).distinct())

    def pathway(self, pw: Any, tables: Any) -> Any:
        def step(paths: Any, edges: Any) -> Any:
            longer = paths.join(edges, paths.b == edges.a).select(a=paths.a, b=edges.b)
            both = pw.Table.concat_reindex(edges, longer)
            return {"paths": both.groupby(pw.this.a, pw.this.b).reduce(pw.this.a, pw.this.b)}

        edges = tables["edges"].select(pw.this.a, pw.this.b)
        first = pw.iterate_universe(edges.groupby(pw.this.a, pw.this.b).reduce(pw.this.a, pw.this.b))
        return pw.iterate(step, paths=first, edges=edges).paths


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
    inputs: ClassVar = {"depends": {"package": "string", "depends_on": "string"}, "start": {"package": "string"}}

    def tables(self) -> Tables:
        depends = pq.read_table(os.environ.get(DEBIAN, _OWN_COPY))
        return {"depends": depends, "start": pa.table({"package": ["gnome"]})}

    def changes(self, tables: Tables) -> Iterator[Change]:
        rng = np.random.default_rng(SEED + 1)
        rows = rows_of(tables["depends"])
        onward: dict[str, list[str]] = {}
        for package, other in rows:
            onward.setdefault(package, []).append(other)
        needed, waiting = {"gnome"}, ["gnome"]
        while waiting:
            new = set(onward.get(waiting.pop(), ())) - needed
            needed |= new
            waiting += new
        near = [row for row in rows if row[0] in needed]
        for gone in rng.permutation(len(near)).tolist():
            yield Change("depends", [near[gone]], -1)
            yield Change("depends", [near[gone]], +1)

    def answer(self, tm: Any, **tables: Any) -> Any:  # noqa: ARG002
        depends, start = tables["depends"], tables["start"]

        def step(needed: Any) -> Any:
            return needed.join(depends, on="package").select(package="depends_on").concat(start).distinct()

        return start.iterate(step)

    def pathway(self, pw: Any, tables: Any) -> Any:
        def step(needed: Any, depends: Any, start: Any) -> Any:
            onward = needed.join(depends, needed.package == depends.package).select(package=depends.depends_on)
            both = pw.Table.concat_reindex(start, onward)
            return {"needed": both.groupby(pw.this.package).reduce(pw.this.package)}

        start = tables["start"]
        first = pw.iterate_universe(start.groupby(pw.this.package).reduce(pw.this.package))
        return pw.iterate(step, needed=first, depends=tables["depends"], start=start).needed


class Least(Workload):
    """Delete the least row, epoch after epoch: what an index by value is for. By group, as it would be with more."""

    name = "W11"
    title = "min of 1,000,000 rows in one group, the least deleted"
    query = "SELECT g, min(v) FROM events GROUP BY g"
    inputs: ClassVar = {"events": {"g": "int64", "v": "int64"}}
    rows = 1_000_000

    def tables(self) -> Tables:
        values = np.random.default_rng(SEED).permutation(self.rows)
        return {"events": pa.table({"g": np.zeros(self.rows, np.int64), "v": values})}

    def changes(self, tables: Tables) -> Iterator[Change]:  # noqa: ARG002 - the values are 0, 1, 2, ...
        return (Change("events", [(0, least)], -1) for least in range(self.rows))

    def answer(self, tm: Any, **tables: Any) -> Any:
        return tables["events"].group_by("g").agg(least=tm.min("v"))

    def pathway(self, pw: Any, tables: Any) -> Any:
        return tables["events"].groupby(pw.this.g).reduce(pw.this.g, least=pw.reducers.min(pw.this.v))


class LeastTen(Least):
    """The same with the ten least rows. In DuckDB, ``QUALIFY row_number() <= 10`` is slower."""

    name = "W11k"
    title = "top_k(10) of 1,000,000 rows in one group, the least deleted"
    query = "SELECT g, unnest(min(v, 10)) FROM events GROUP BY g"
    without_pathway = "Pathway has no top-k of a group, short of keeping the group sorted as one value"

    def answer(self, tm: Any, **tables: Any) -> Any:  # noqa: ARG002
        return tables["events"].group_by("g").top_k(10, order_by=["v"]).select("g", "v")

    def pathway(self, pw: Any, tables: Any) -> Any:
        return Workload.pathway(self, pw, tables)
