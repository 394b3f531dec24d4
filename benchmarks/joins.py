"""Joins: by deltas beside chains of joins of two, by a key and an inequality, and stacks of left joins."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.runner import Figures, GaveUpError, apart, peak_memory, seconds, spread
from benchmarks.workloads.tpch import REVENUE, Local
from tidemill.dataflow.passes.pipeline import PASSES

# -- delta joins ------------------------------------------------------------------------------------------------------

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


def delta_joins(*, edges: int, scale: float, epochs: int) -> Figures:
    """Triangles of random graphs, edges spread evenly and not, and TPC-H Q5: loaded at once, then changed by epochs."""
    ways: dict[str, Callable[[tm.Collection], tm.Collection]] = {
        "by deltas": lambda rows: tm.join_all(
            [rows, rows.rename(a="b", b="c"), rows.rename(b="c")], on=["a", "b", "c"]
        ),
        "by two": lambda rows: rows.join(rows.rename(a="b", b="c"), on="b").join(rows.rename(b="c"), on=["a", "c"]),
    }
    found: list[Figures] = []
    for name, power in (("even", 1), ("skewed", 3)):
        drawn = _graph(edges // 10, edges, power)
        for way, build in ways.items():
            flow = tm.Dataflow("triangles")
            flow.output("answer", build(flow.input("edges", EDGES)).agg(n=tm.count()))
            tables = {"edges": pa.table({"a": drawn[:, 0], "b": drawn[:, 1]})}
            of_run = _kept_up_to_date(flow, tables, _exchanged(drawn), epochs)
            found.append({"work": f"triangles, {edges:,} edges, {name}", "way": way, **of_run})
    for workload in (LocalByDeltas(scale), LocalByTwo(scale)):
        tables = dict(workload.tables())
        changes = ((c.sign, c.table, c.rows) for c in workload.changes(tables))
        of_run = _kept_up_to_date(workload.tidemill(tm), tables, changes, epochs)
        found.append({"work": f"TPC-H Q5, scale {scale:g}", "way": workload.name.removeprefix("R5q5 "), **of_run})
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert one.pop("answer") == other.pop("answer"), one["work"]
    return {"delta_joins": found}


def _kept_up_to_date(
    flow: tm.Dataflow, tables: Mapping[str, pa.Table], changes: Iterator[tuple[int, str, Any]], epochs: int
) -> Figures:
    with flow.start(passes=[p.__name__ for p in PASSES if p.__name__ != "join_by_deltas"]) as run:
        gc.collect()
        start = perf_counter()
        for name, table in tables.items():
            run.insert(name, table)
        run.advance()
        load, metrics, times = perf_counter() - start, run.metrics(), []
        for sign, table, rows in islice(changes, epochs):
            (run.insert if sign > 0 else run.delete)(table, rows)
            times.append(1e3 * seconds(run.advance))
        kept = {"rows_kept": metrics.state_rows, "bytes": sum(o.bytes for o in metrics)}
        return {"load_s": load, **kept, "ms": spread(times), "answer": sorted(map(repr, run.snapshot("answer")))}


def _graph(nodes: int, edges: int, power: int) -> np.ndarray[Any, Any]:
    """Return random edges, each once; with a greater power, the likelier the smaller the number of a node."""
    rng = np.random.default_rng(0)
    ends = rng.random((2 * edges, 2)) ** power * nodes
    found: np.ndarray[Any, Any] = np.unique(ends.astype(np.int64), axis=0)
    return found[rng.permutation(len(found))[:edges]]


def _exchanged(edges: np.ndarray[Any, Any]) -> Iterator[tuple[int, str, Any]]:
    for i in np.random.default_rng(1).permutation(len(edges)).tolist():
        for sign in (-1, 1):
            yield sign, "edges", [tuple(edges[i].tolist())]


# -- by a key and an inequality ---------------------------------------------------------------------------------------


def range_joins(*, cases: Sequence[tuple[int, int, float]], new: Sequence[int], steps: int) -> Figures:
    """New rows that each pass a part of their key's rows: looked up by range, and by key with a filter behind.

    Cases are how many keys there are, rows of each, and which part of these passes.
    """
    found: list[Figures] = []
    for keys, each, passing in cases:
        about: Figures = {"what": f"{keys:,} keys of {each:,} rows, {passing:.0%} passing"}
        sums = set()
        for form, passes in (("range", True), ("filter", _without("join_by_range"))):
            rng, rows = np.random.default_rng(7), keys * each
            flow = tm.Dataflow("pairs")
            a, b = flow.input("a", {"k": "int64", "x": "int64"}), flow.input("b", {"k": "int64", "y": "int64"})
            flow.output("pairs", a.join(b, on="k", where="x < y").agg(n=tm.count()))
            with flow.start(progress=False, passes=passes) as run:
                run.insert("b", pa.table({"k": np.arange(rows) % keys, "y": rng.permutation(rows)}))
                about[f"{form}_load_s"] = seconds(run.advance)
                for count in new:
                    times = []
                    for _ in range(steps):
                        x = rng.integers(int(rows * (1 - passing)), rows, count)
                        run.insert("a", pa.table({"k": rng.integers(0, keys, count), "x": x}))
                        times.append(1e3 * seconds(run.advance))
                    about[f"{form}_ms_{count}_new"] = median(times)
                sums.add(tuple(run.snapshot("pairs")))
        assert len(sums) == 1, sums
        found.append(about)
    return {"range_joins": found}


def _without(name: str) -> Any:
    return [p.__name__ for p in PASSES if p.__name__ != name]


# -- stacks of left joins ---------------------------------------------------------------------------------------------


def left_joins(*, rows: int, depths: Sequence[int], matches: Sequence[int], megabytes: int) -> Figures:
    """One table joined to others, of which a share of the keys match, with unions consolidated and without.

    Each in a process of its own, whose peak of memory is that of the load. What is not consolidated is multiplied from
    join to join, so it is given up where a process needs more than so many megabytes.
    """
    found = []
    for depth, match, consolidated in ((d, m, c) for d in depths for m in matches for c in (True, False)):
        about = {"joins": depth, "match": match, "consolidated": str(consolidated)}
        try:
            figures = apart("joins:left_joined", depth, rows, match, consolidated, megabytes=megabytes)
        except GaveUpError:
            figures = {"gave_up": f"more than {megabytes} MB"}
        found.append({**about, **figures})
    return {"left_joins": found}


def left_joined(depth: int, rows: int, match: int, consolidated: bool) -> Figures:
    """Return the figures of one stack, in processor time."""
    flow = tm.Dataflow("left joins")
    joined = flow.input("t", {"x": "int64", "y": "int64"})
    for i in range(depth):
        joined = joined.join(flow.input(f"d{i}", {"x": "int64", f"z{i}": "int64"}), on="x", how="left")
    flow.output("out", joined, changes=False)
    keys = np.arange(rows)
    some = keys[: rows * match // 100]
    with flow.start(passes=True if consolidated else _without("consolidate_unions"), progress=False) as run:
        base = peak_memory()
        run.insert("t", pa.table({"x": keys, "y": keys}))
        for i in range(depth):
            run.insert(f"d{i}", pa.table({"x": some, f"z{i}": some}))
        load = seconds(run.advance, process_time)
        peak, figures, steps = peak_memory() - base, run.metrics(), []
        for i in range(50):
            run.insert("t", [(i, rows + i)])
            steps.append(1e3 * seconds(run.advance, process_time))
        most = max(o.records_out for o in figures)
        kept = {"state_rows": figures.state_rows, "most_records": most, "peak_mb": peak}
        return {"load_s": load, "step_ms": median(steps), **kept}
