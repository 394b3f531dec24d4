"""Renderings beside queries written by hand: ``python -m benchmarks.onspark_handwritten [--scale 0.1] [--json FILE]``.

Each case is a dataflow of one output, rendered and read whole, and what somebody would write for Spark instead: from
the same Parquet files (5 million rows; reachability: 200,000 nodes and 1,000,000 edges), in one process and session,
``local[2]``. First each some times, for Java to warm up, then in turn; medians: of seconds, and of the processor time
of Spark's tasks, without planning and without Python's workers. Answers are compared, floats but for roundings.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pandas as pd
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.onspark import Bench, edges_of, reach_flow

ROWS = {"id": "int64", "k": "int64", "n": "int64", "x": "float64"}
MAPPED = {"id": "int64", "x": "float64"}

Rows = list[tuple[Any, ...]]


@attrs.frozen
class Case:
    """What is compared: a dataflow's output and a query, by what is read of them."""

    output: Callable[[Any], Any]
    query: Callable[[Any], Any]
    read: Callable[[Any], Rows] = lambda table: [tuple(row) for row in table.collect()]


@attrs.frozen
class Rounds:
    """How often a case runs to warm up, and how often it is measured."""

    before: int
    measured: int


# -- cases over rows --------------------------------------------------------------------------------------------------


def doubled(row: Any) -> tuple[int, float]:
    return row.id, row.x * 2


def doubled_by_batch(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield pd.DataFrame([(row.id, row.x * 2) for row in batch.itertuples()], columns=["id", "x"])


def totals(table: Any) -> Rows:
    """Read all of a table that is too large to be fetched."""
    return [tuple(table.agg(F.sum("id"), F.sum("x"), F.count("*")).first())]


def sizes(table: Any) -> Rows:
    """Read lists, each as its length and its ends."""
    found = table.select("k", F.size("xs"), F.element_at("xs", 1), F.element_at("xs", -1))
    return [tuple(row) for row in found.collect()]


def best_by_hand(rows: Any) -> Any:
    ranked = rows.selectExpr("*", "row_number() OVER (PARTITION BY k ORDER BY x DESC) AS r")
    return ranked.filter("r <= 10").select("id", "k", "n", "x")


CASES = {
    "float sum by 1,000 groups": Case(
        lambda rows: rows.group_by("k").agg(s=tm.sum("x")),
        lambda rows: rows.groupBy("k").agg(F.sum("x")),
    ),
    "count, float sum and avg by 1,000 groups": Case(
        lambda rows: rows.group_by("k").agg(c=tm.count(), s=tm.sum("x"), m=tm.avg("x")),
        lambda rows: rows.groupBy("k").agg(F.count("*"), F.sum("x"), F.avg("x")),
    ),
    "avg and stddev by 1,000 groups": Case(
        lambda rows: rows.group_by("k").agg(m=tm.avg("x"), s=tm.stddev("x")),
        lambda rows: rows.groupBy("k").agg(F.avg("x"), F.stddev("x")),
    ),
    "float sum of all": Case(
        lambda rows: rows.agg(s=tm.sum("x")),
        lambda rows: rows.agg(F.sum("x")),
    ),
    "sorted lists by 1,000 groups": Case(
        lambda rows: rows.group_by("k").agg(xs=tm.list("x")),
        lambda rows: rows.groupBy("k").agg(F.sort_array(F.collect_list("x")).alias("xs")),
        sizes,
    ),
    "map_rows, mapInPandas": Case(
        lambda rows: rows.map_rows(doubled, MAPPED),
        lambda rows: rows.mapInPandas(doubled_by_batch, "id bigint, x double"),
        totals,
    ),
    "select and filter": Case(
        lambda rows: rows.filter("n < 500").select("id", x="x * 2"),
        lambda rows: rows.filter("n < 500").selectExpr("id", "x * 2 AS x"),
        totals,
    ),
    "select of columns": Case(
        lambda rows: rows.select("id", "x"),
        lambda rows: rows.select("id", "x"),
        totals,
    ),
    "top 10 of 1,000 groups": Case(
        lambda rows: rows.group_by("k").top_k(10, order_by=tm.desc("x")),
        best_by_hand,
    ),
}  # fmt: skip


def rows_file(bench: Bench) -> str:
    path = str(bench.folder / "rows")
    number = bench.size(5_000_000)
    bench.spark.sql(
        "SELECT id, pmod(xxhash64(id), 1000) k, pmod(xxhash64(id, 1), 1000) n, "
        f"pmod(xxhash64(id, 2), 1000000007) / 1000 x FROM range(0, {number}, 1, 8)"
    ).selectExpr("id", "k", "n", "CAST(x AS double) x").write.parquet(path)
    return path


def of_rows(bench: Bench, case: Case, path: str, rounds: Rounds) -> dict[str, Any]:
    data = bench.spark.read.parquet(path)

    def rendered() -> Rows:
        flow = tm.Dataflow("case")
        flow.output("out", case.output(flow.input("rows", ROWS)))
        found = tm.render(flow, bench.spark, {"rows": data})["out"]
        return case.read(found.drop("time", "diff"))

    return compared(bench, rendered, lambda: case.read(case.query(data)), rounds)


# -- reachability -----------------------------------------------------------------------------------------------------


def edges_file(bench: Bench) -> str:
    path = str(bench.folder / "edges")
    pairs = edges_of(bench)
    bench.spark.createDataFrame(pa.table({"a": pairs[0], "b": pairs[1]})).write.parquet(path)
    return path


def reached_by_hand(bench: Bench, path: str) -> Rows:
    """Search breadth first: the nodes of each round are those next to the round's before that were not there."""
    edges = bench.spark.read.parquet(path).localCheckpoint()
    seen = new = bench.spark.createDataFrame(pa.table({"node": np.zeros(1, np.int64)}))
    while True:
        found = new.join(edges, new.node == edges.a).select(F.col("b").alias("node")).distinct()
        new = found.join(seen, "node", "left_anti").localCheckpoint()
        if new.isEmpty():
            return [(seen.count(),)]
        seen = seen.union(new).localCheckpoint()


def of_reach(bench: Bench, path: str, rounds: Rounds) -> dict[str, Any]:
    def rendered() -> Rows:
        start = bench.spark.createDataFrame(pa.table({"node": np.zeros(1, np.int64)}))
        frames = {"edges": bench.spark.read.parquet(path), "start": start}
        return [(tm.render(reach_flow(), bench.spark, frames)["reach"].count(),)]

    return compared(bench, rendered, lambda: reached_by_hand(bench, path), rounds)


# -- measuring --------------------------------------------------------------------------------------------------------


def compared(bench: Bench, rendered: Callable[[], Rows], by_hand: Callable[[], Rows], rounds: Rounds) -> dict[str, Any]:
    """Return seconds, processor time and jobs of both, run in turn, and how many times as much the rendering took."""
    assert alike(rendered(), by_hand()), "the answers differ"
    for _ in range(1, rounds.before):
        rendered()
        by_hand()
    found: list[list[tuple[float, float, int]]] = [[], []]
    for _ in range(rounds.measured):
        for work, costs in zip((rendered, by_hand), found, strict=True):
            costs.append(cost(bench, work))
    ours, theirs = map(_median, found)
    ratios = {name: round(ours[name] / theirs[name], 2) for name in ("seconds", "processor")}
    return {"tidemill": ours, "by_hand": theirs, "ratio": ratios}


def cost(bench: Bench, work: Callable[[], Any]) -> tuple[float, float, int]:
    """Return seconds, the processor time of tasks, and jobs."""
    context = bench.spark.sparkContext
    tracker, java = context.statusTracker(), context._jsc.sc()  # noqa: SLF001 - nothing public tells it
    before = set(tracker.getJobIdsForGroup(None))
    seconds, jobs = bench.timed(work)
    java.listenerBus().waitUntilEmpty()
    made = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup(None)) - before]
    stages = {stage for job in made if job is not None for stage in job.stageIds}
    return seconds, sum(_processor_time(java, stage) for stage in stages), jobs


def _processor_time(java: Any, stage: int) -> float:
    """Return the processor seconds of a stage's tasks; none of one that was skipped, of which nothing is known."""
    try:
        return float(java.statusStore().lastStageAttempt(stage).executorCpuTime()) / 1e9
    except Py4JJavaError:
        return 0.0


def _median(costs: list[tuple[float, float, int]]) -> dict[str, Any]:
    seconds, processor, jobs = zip(*costs, strict=True)
    return {
        "seconds": round(statistics.median(seconds), 3),
        "processor": round(statistics.median(processor), 3),
        "jobs": max(jobs),
    }


def alike(ours: Rows, theirs: Rows) -> bool:
    """Return whether rows are the same in some order, floats but for roundings."""
    return len(ours) == len(theirs) and all(
        all(a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-9)) for a, b in zip(x, y, strict=True))
        for x, y in zip(sorted(ours), sorted(theirs), strict=True)
    )


def main() -> None:
    """Measure all cases, or those whose names have a word in them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onspark_handwritten", description=__doc__)
    parser.add_argument("words", nargs="*", help="measure the cases with one of these words in their names only")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of rows")
    parser.add_argument("--warm", type=int, default=10, help="how often each runs before it is measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds = Rounds(options.warm, options.rounds)
    report: dict[str, Any] = {"machine": machine(), "scale": options.scale}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.scale, loud=True)
        rows, edges = rows_file(bench), edges_file(bench)
        for name in [*CASES, "reachability"]:
            if options.words and not any(word in name for word in options.words):
                continue
            if name == "reachability":
                report[name] = of_reach(bench, edges, rounds)
            else:
                report[name] = of_rows(bench, CASES[name], rows, rounds)
            bench.say(f"{name}: {report[name]}")
        bench.spark.stop()
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
