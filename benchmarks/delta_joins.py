"""Delta joins beside chains of joins of two: ``python -m benchmarks.delta_joins [--json FILE]``.

Triangles of random graphs, one with edges spread evenly and one with some nodes of very many; and TPC-H's fifth query,
of six tables. Each loaded at once, then changed epoch by epoch: what is kept, and how long it takes.
"""

import argparse
import gc
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.table import text_table
from benchmarks.workloads.tpch import REVENUE, Local

EPOCHS = 200
EDGES = {"a": "int64", "b": "int64"}
EQUAL = [
    ("c_custkey", "o_custkey"), ("o_orderkey", "l_orderkey"), ("l_suppkey", "s_suppkey"),
    ("c_nationkey", "s_nationkey", "n_nationkey"), ("n_regionkey", "r_regionkey"),
]  # fmt: skip


class LocalByDeltas(Local):
    """TPC-H Q5 as a delta join."""

    name = "R5q5 by deltas"

    def answer(self, tm: Any, **tables: Any) -> Any:
        return _revenue(tm.join_all(list(_chosen(tables).values()), on=EQUAL))


class LocalByTwo(Local):
    """TPC-H Q5 as a chain of joins of two in the order of its FROM."""

    name = "R5q5 by two"

    def answer(self, tm: Any, **tables: Any) -> Any:  # noqa: ARG002
        found = _chosen(tables)
        rows = found["customer"].join(found["orders"], on={"c_custkey": "o_custkey"})
        rows = rows.join(found["lineitem"], on={"o_orderkey": "l_orderkey"})
        rows = rows.join(found["supplier"], on={"l_suppkey": "s_suppkey", "c_nationkey": "s_nationkey"})
        rows = rows.join(found["nation"], on={"c_nationkey": "n_nationkey"})
        return _revenue(rows.join(found["region"], on={"n_regionkey": "r_regionkey"}))


def _chosen(tables: dict[str, Any]) -> dict[str, Any]:
    orders = tables["orders"].filter("o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'")
    return {**tables, "orders": orders, "region": tables["region"].filter("r_name = 'ASIA'")}


def _revenue(rows: Any) -> Any:
    return rows.group_by("n_name").agg(revenue=tm.sum(REVENUE))


def _by_deltas(edges: tm.Collection) -> tm.Collection:
    return tm.join_all([edges, edges.rename(a="b", b="c"), edges.rename(b="c")], on=["a", "b", "c"])


def _by_two(edges: tm.Collection) -> tm.Collection:
    return edges.join(edges.rename(a="b", b="c"), on="b").join(edges.rename(b="c"), on=["a", "c"])


def triangles(build: Callable[[tm.Collection], tm.Collection], edges: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return what a run costs that counts the triangles of a graph, as edges go and come back."""
    flow = tm.Dataflow("triangles")
    flow.output("n", build(flow.input("edges", EDGES)).agg(n=tm.count()))
    pick = np.random.default_rng(1).permutation(len(edges))

    def changes() -> Iterator[Callable[[tm.Run], None]]:
        for i in pick.tolist():
            row = [tuple(edges[i].tolist())]
            yield partial(_change, -1, "edges", row)
            yield partial(_change, +1, "edges", row)

    tables = {"edges": pa.table({"a": edges[:, 0], "b": edges[:, 1]})}
    return _measured(flow, tables, changes(), "n")


def tpch(workload: Local) -> dict[str, Any]:
    """Return what a run costs that keeps the query up to date, as orders go and others come, with their line items."""
    tables = workload.tables()

    def changes() -> Iterator[Callable[[tm.Run], None]]:
        for change in workload.changes(tables):
            yield partial(_change, change.sign, change.table, change.rows)

    return _measured(workload.tidemill(tm), tables, changes(), "answer")


def _change(sign: int, table: str, rows: Any, run: tm.Run) -> None:
    (run.insert if sign > 0 else run.delete)(table, rows)


def _measured(
    flow: tm.Dataflow, tables: Mapping[str, pa.Table], changes: Iterator[Callable[[tm.Run], None]], output: str
) -> dict[str, Any]:
    with flow.start() as run:
        gc.collect()
        start = perf_counter()
        for name, table in tables.items():
            run.insert(name, table)
        run.advance()
        load = perf_counter() - start
        metrics = run.metrics()
        result: dict[str, Any] = {
            "load_s": load, "state_rows": sum(o.state_rows for o in metrics), "bytes": sum(o.bytes for o in metrics),
        }  # fmt: skip
        times = []
        for change in islice(changes, EPOCHS):
            change(run)
            start = perf_counter()
            run.advance()
            times.append((perf_counter() - start) * 1000)
        found = np.array(times)
        result |= {"median_ms": float(np.median(found)), "mean_ms": float(found.mean()), "max_ms": float(found.max())}
        result["answer"] = sorted(map(repr, run.snapshot(output)))
    return result


def graph(nodes: int, edges: int, *, skewed: bool) -> np.ndarray[Any, Any]:
    """Return random edges, each once; where they are skewed, the likelier the smaller the number of a node."""
    rng = np.random.default_rng(0)
    ends = rng.random((2 * edges, 2)) ** (3 if skewed else 1) * nodes
    found: np.ndarray[Any, Any] = np.unique(ends.astype(np.int64), axis=0)
    return found[rng.permutation(len(found))[:edges]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--scale", type=float, default=0.1)
    arguments = parser.parse_args()
    n = arguments.edges
    even, skewed = graph(n // 10, n, skewed=False), graph(n // 10, n, skewed=True)
    work: dict[str, list[Callable[[], dict[str, Any]]]] = {
        f"triangles, {n:,} edges, even": [lambda: triangles(_by_deltas, even), lambda: triangles(_by_two, even)],
        f"triangles, {n:,} edges, skewed": [lambda: triangles(_by_deltas, skewed), lambda: triangles(_by_two, skewed)],
        f"TPC-H Q5, scale {arguments.scale:g}": [
            lambda: tpch(LocalByDeltas(arguments.scale)), lambda: tpch(LocalByTwo(arguments.scale)),
        ],
    }  # fmt: skip
    found = []
    for name, ways in work.items():
        for way, measure in zip(("by deltas", "by two"), ways, strict=True):
            found.append({"work": name, "way": way, **measure()})
        assert found[-1]["answer"] == found[-2]["answer"], name
    lines = [
        [f["work"], f["way"], f"{f['load_s']:.2f}", f"{f['state_rows']:,}", f"{f['bytes'] / 2**20:.0f}",
         f"{f['median_ms']:.2f}", f"{f['mean_ms']:.2f}"]
        for f in found
    ]  # fmt: skip
    print(text_table(["work", "way", "load, s", "rows kept", "MiB", "epoch, median ms", "mean ms"], lines))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "delta_joins": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
