"""Renderings beside queries written by hand, from the same Parquet files, in one process and session, ``local[2]``."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

import tidemill as tm
from benchmarks.runner import Figures, say
from benchmarks.spark import Bench, Edges, reached

Rows = list[tuple[Any, ...]]


def doubled(row: Any) -> tuple[int, float]:
    return row.id, row.x * 2


def doubled_by_batch(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield pd.DataFrame([(row.id, row.x * 2) for row in batch.itertuples()], columns=["id", "x"])


def whole(table: Any) -> Rows:
    return [tuple(row) for row in table.collect()]


def totals(table: Any) -> Rows:
    """Read all of a table that is too large to be fetched."""
    return [tuple(table.agg(F.sum("id"), F.sum("x"), F.count("*")).first())]


def lengths(table: Any) -> Rows:
    """Read lists, each as its length and its ends."""
    return whole(table.select("k", F.size("xs"), F.element_at("xs", 1), F.element_at("xs", -1)))


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Rows]]] = {
    "float sum by 1,000 groups": (
        lambda rows: rows.group_by("k").agg(s=tm.sum("x")),
        lambda rows: rows.groupBy("k").agg(F.sum("x")),
        whole,
    ),
    "count, float sum and avg by 1,000 groups": (
        lambda rows: rows.group_by("k").agg(c=tm.count(), s=tm.sum("x"), m=tm.avg("x")),
        lambda rows: rows.groupBy("k").agg(F.count("*"), F.sum("x"), F.avg("x")),
        whole,
    ),
    "avg and stddev by 1,000 groups": (
        lambda rows: rows.group_by("k").agg(m=tm.avg("x"), s=tm.stddev("x")),
        lambda rows: rows.groupBy("k").agg(F.avg("x"), F.stddev("x")),
        whole,
    ),
    "float sum of all": (
        lambda rows: rows.agg(s=tm.sum("x")),
        lambda rows: rows.agg(F.sum("x")),
        whole,
    ),
    "sorted lists by 1,000 groups": (
        lambda rows: rows.group_by("k").agg(xs=tm.list("x")),
        lambda rows: rows.groupBy("k").agg(F.sort_array(F.collect_list("x")).alias("xs")),
        lengths,
    ),
    "map_rows, mapInPandas": (
        lambda rows: rows.map_rows(doubled, {"id": "int64", "x": "float64"}),
        lambda rows: rows.mapInPandas(doubled_by_batch, "id bigint, x double"),
        totals,
    ),
    "select and filter": (
        lambda rows: rows.filter("n < 500").select("id", x="x * 2"),
        lambda rows: rows.filter("n < 500").selectExpr("id", "x * 2 AS x"),
        totals,
    ),
    "select of columns": (
        lambda rows: rows.select("id", "x"),
        lambda rows: rows.select("id", "x"),
        totals,
    ),
    "top 10 of 1,000 groups": (
        lambda rows: rows.group_by("k").top_k(10, order_by=tm.desc("x")),
        lambda rows: (
            rows.selectExpr("*", "row_number() OVER (PARTITION BY k ORDER BY x DESC) AS r")
            .filter("r <= 10")
            .select("id", "k", "n", "x")
        ),
        whole,
    ),
}
"""A dataflow's output, a query, and what is read of both."""

DIMENSIONS = 10
"""Tables of 500 of the 1,000 keys, each with a value of its own."""


def counted(table: Any) -> Rows:
    """Read all of a join that is too large to be fetched: sums of all columns, and how many rows there are."""
    return [tuple(table.agg(*(F.sum(c) for c in sorted(table.columns)), F.count("*")).first())]


def stacked(rows: Any, tables: Sequence[Any], how: str) -> Any:
    for table in tables:
        rows = rows.join(table, on="k", how=how)
    return rows


OURS = tm.Window.partition_by("k").order_by("id")


def theirs() -> Any:
    return Window.partitionBy("k").orderBy("id")


JOINS: dict[str, tuple[int, Callable[[Any, list[Any]], Any], Callable[[Any, list[Any]], Any]]] = {
    "inner join": (1, lambda r, d: stacked(r, d, "inner"), lambda r, d: stacked(r, d, "inner")),
    "left join": (1, lambda r, d: stacked(r, d, "left"), lambda r, d: stacked(r, d, "left")),
    "semi join": (1, lambda r, d: stacked(r, d, "semi"), lambda r, d: stacked(r, d, "left_semi")),
    "anti join": (1, lambda r, d: stacked(r, d, "anti"), lambda r, d: stacked(r, d, "left_anti")),
    "stack of 5 left joins": (5, lambda r, d: stacked(r, d, "left"), lambda r, d: stacked(r, d, "left")),
    "sums after a join": (
        1,
        lambda r, d: stacked(r, d, "inner").group_by("d0").agg(c=tm.count(), s=tm.sum("n")),
        lambda r, d: stacked(r, d, "inner").groupBy("d0").agg(F.count("*").alias("c"), F.sum("n").alias("s")),
    ),
    "lag by 1,000 groups": (
        0,
        lambda r, _: r.select("id", "n", l=tm.lag("n").over(OURS)),
        lambda r, _: r.select("id", "n", F.lag("n").over(theirs()).alias("l")),
    ),
    "row_number and a running sum": (
        0,
        lambda r, _: r.select(
            "id",
            i=tm.row_number().over(OURS),
            s=tm.sum("n").over(OURS.rows_between(tm.UNBOUNDED, 0)),
        ),
        lambda r, _: r.select(
            "id",
            F.row_number().over(theirs()).alias("i"),
            F.sum("n").over(theirs().rowsBetween(Window.unboundedPreceding, 0)).alias("s"),
        ),
    ),
    "stack of 10 left joins": (10, lambda r, d: stacked(r, d, "left"), lambda r, d: stacked(r, d, "left")),
}
"""How many tables there are, a dataflow's output, and a query: of integers, and in orders without ties."""


def spark_handwritten(*, words: Sequence[str], scale: float, warm: int, rounds: int) -> Figures:
    """Cases with one of some words in their names, or all: first some times, for Java to warm up, then in turn.

    Medians of seconds, and of the processor time of Spark's tasks, without planning and without Python's workers.
    Answers are compared, floats but for roundings.
    """
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), scale)
        for name, works in _works(bench).items():
            if not words or any(word in name for word in words):
                found[name] = _compared(bench, *works, warm, rounds)
                say(f"{name}: {found[name]}")
        bench.spark.stop()
    return {"spark_handwritten": found}


def _works(bench: Bench) -> dict[str, tuple[Callable[[], Rows], Callable[[], Rows]]]:
    """Return each case as a rendering and a query of files, which are written."""
    path, edges = str(bench.folder / "rows"), str(bench.folder / "edges")
    bench.spark.sql(
        "SELECT id, pmod(xxhash64(id), 1000) k, pmod(xxhash64(id, 1), 1000) n, "
        f"pmod(xxhash64(id, 2), 1000000007) / 1000 x FROM range(0, {bench.size(5_000_000)}, 1, 8)"
    ).selectExpr("id", "k", "n", "CAST(x AS double) x").write.parquet(path)
    bench.spark.createDataFrame(Edges(bench).table()).write.parquet(edges)
    data = bench.spark.read.parquet(path)

    def rendered(output: Callable[[Any], Any], read: Callable[[Any], Rows]) -> Rows:
        flow = tm.Dataflow("case")
        flow.output("out", output(flow.input("rows", {"id": "int64", "k": "int64", "n": "int64", "x": "float64"})))
        return read(tm.render(flow, bench.spark, {"rows": data})["out"].drop("time", "diff"))

    works: dict[str, tuple[Callable[[], Rows], Callable[[], Rows]]] = {
        name: (partial(rendered, output, read), lambda query=query, read=read: read(query(data)))  # type: ignore[misc]
        for name, (output, query, read) in CASES.items()
    }
    tables = [
        bench.spark.range(500).selectExpr(f"pmod(id * 7 + {i}, 1000) AS k", f"id AS d{i}") for i in range(DIMENSIONS)
    ]
    for name, (many, output, query) in JOINS.items():
        works[name] = (
            partial(_joined, bench, data, tables[:many], output),
            partial(_by_hand, data, tables[:many], query),
        )
    by_render = partial(lambda: [(reached(bench, bench.spark.read.parquet(edges)),)])
    return {**works, "reachability": (by_render, partial(_reached_by_hand, bench, edges))}


def _joined(bench: Bench, data: Any, tables: list[Any], output: Callable[[Any, list[Any]], Any]) -> Rows:
    flow = tm.Dataflow("joined")
    rows = flow.input("rows", {"id": "int64", "k": "int64", "n": "int64"})
    dimensions = [flow.input(f"d{i}", {"k": "int64", f"d{i}": "int64"}) for i in range(len(tables))]
    flow.output("out", output(rows, dimensions))
    given = {"rows": data.select("id", "k", "n"), **{f"d{i}": table for i, table in enumerate(tables)}}
    return counted(tm.render(flow, bench.spark, given)["out"].drop("time", "diff"))


def _by_hand(data: Any, tables: list[Any], query: Callable[[Any, list[Any]], Any]) -> Rows:
    return counted(query(data.select("id", "k", "n"), tables))


def _reached_by_hand(bench: Bench, path: str) -> Rows:
    """Search breadth first: the nodes of each round are those next to the round's before that were not there."""
    edges = bench.spark.read.parquet(path).localCheckpoint()
    seen = new = bench.spark.createDataFrame(pa.table({"node": np.zeros(1, np.int64)}))
    while True:
        found = new.join(edges, new.node == edges.a).select(F.col("b").alias("node")).distinct()
        new = found.join(seen, "node", "left_anti").localCheckpoint()
        if new.isEmpty():
            return [(seen.count(),)]
        seen = seen.union(new).localCheckpoint()


def _compared(
    bench: Bench, rendered: Callable[[], Rows], by_hand: Callable[[], Rows], warm: int, rounds: int
) -> Figures:
    """Return seconds, processor time and jobs of both, run in turn, and how many times as much the rendering took."""
    assert _alike(rendered(), by_hand()), "the answers differ"
    works = {"tidemill": rendered, "by_hand": by_hand}
    for _ in range(1, warm):
        for work in works.values():
            work()
    costs: dict[str, list[Figures]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            costs[name].append(_cost(bench, work))
    found = {
        name: {key: statistics.median(cost[key] for cost in of) for key in ("seconds", "processor", "jobs")}
        for name, of in costs.items()
    }
    ratio = {key: found["tidemill"][key] / found["by_hand"][key] for key in ("seconds", "processor")}
    return {**found, "ratio": ratio}


def _cost(bench: Bench, work: Callable[[], Any]) -> Figures:
    """Return seconds, the processor time of tasks, and jobs."""
    java = bench.spark.sparkContext._jsc.sc()  # noqa: SLF001 - nothing public tells it
    before = set(bench.tracker.getJobIdsForGroup(None))
    found = bench.timed(work)
    java.listenerBus().waitUntilEmpty()
    made = [bench.tracker.getJobInfo(job) for job in set(bench.tracker.getJobIdsForGroup(None)) - before]
    stages = {stage for job in made if job is not None for stage in job.stageIds}
    return {**found, "processor": sum(_processor_time(java, stage) for stage in stages)}


def _processor_time(java: Any, stage: int) -> float:
    """Return the processor seconds of a stage's tasks; none of one that was skipped, of which nothing is known."""
    try:
        return float(java.statusStore().lastStageAttempt(stage).executorCpuTime()) / 1e9
    except Py4JJavaError:
        return 0.0


def _alike(ours: Rows, theirs: Rows) -> bool:
    """Return whether rows are the same in some order, floats but for roundings."""
    return len(ours) == len(theirs) and all(
        all(a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-9)) for a, b in zip(x, y, strict=True))
        for x, y in zip(sorted(ours), sorted(theirs), strict=True)
    )
