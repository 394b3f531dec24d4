"""What Spark is used for, measured: ``python -m benchmarks.onspark S1 S2 S3 S4 --json benchmarks/results/spark.json``.

S1: 5 and 20 million sales joined to 100,000 items, sums and counts by category, from Parquet; 1,000 rows changed.
S2: reachability in 200,000 nodes and 1,000,000 edges; 10 edges changed; against rendering it anew.
S3: a history of 100 epochs of such changes in one rendering, against the first epoch alone.
S4: a step at four times the state, and the thousandth step, of a durable run.

All in one process and session, ``local[2]``; medians; jobs are Spark's, counted by its own tracker.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "6g",
    "spark.log.level": "OFF",
}
ITEMS, CATEGORIES, CHANGED = 100_000, 1000, 1000


class Bench:
    """A session, a folder, and what both are used for."""

    def __init__(self, folder: Path, scale: float, *, loud: bool) -> None:
        self.spark = tm.local_spark("local[2]", **SETTINGS)
        self.folder = folder
        self.scale = scale
        self.loud = loud
        self._tracker = self.spark.sparkContext.statusTracker()

    def say(self, text: str) -> None:
        if self.loud:
            print(text, flush=True)

    def size(self, rows: int) -> int:
        return max(10, int(rows * self.scale))

    def timed(self, work: Callable[[], Any]) -> tuple[float, int]:
        """Return seconds and Spark jobs."""
        before = len(self._tracker.getJobIdsForGroup(None))
        start = perf_counter()
        work()
        return perf_counter() - start, len(self._tracker.getJobIdsForGroup(None)) - before

    def median(self, work: Callable[[], Any], times: int) -> dict[str, Any]:
        found = [self.timed(work) for _ in range(times)]
        seconds = sorted(s for s, _ in found)
        jobs = statistics.median(j for _, j in found)
        return {"seconds": round(statistics.median(seconds), 4), "most": round(seconds[-1], 4), "jobs": jobs}


# -- S1, S4: sales ----------------------------------------------------------------------------------------------------


def sales_flow() -> tm.Dataflow:
    flow = tm.Dataflow("sales")
    sales = flow.input("sales", {"id": "int64", "item": "int64", "amount": "int64", "day": "int32"})
    items = flow.input("items", {"item": "int64", "category": "int64"})
    sums = sales.join(items, on="item").group_by("category").agg(n=tm.count(), total=tm.sum("amount"))
    flow.output("sums", sums)
    return flow


def sales_files(bench: Bench, rows: int) -> tuple[str, str]:
    """Write both tables as Parquet, unless they are there."""
    sales, items = str(bench.folder / f"sales-{rows}"), str(bench.folder / "items")
    spark = bench.spark
    if not Path(sales).exists():
        spark.sql(
            f"SELECT id, CAST(pmod(xxhash64(id), {ITEMS}) AS bigint) item, "
            "CAST(pmod(xxhash64(id, 1), 1000) AS bigint) amount, CAST(pmod(xxhash64(id, 2), 365) AS int) day "
            f"FROM range(0, {rows}, 1, 8)"
        ).write.parquet(sales)
    if not Path(items).exists():
        spark.sql(
            f"SELECT id item, CAST(pmod(xxhash64(id, 7), {CATEGORIES}) AS bigint) category FROM range(0, {ITEMS}, 1, 2)"
        ).write.parquet(items)
    return sales, items


class Sales:
    """Changes of 1,000 sales: half new ones, half of those before taken back."""

    def __init__(self, rows: int) -> None:
        self._rng = np.random.default_rng(1)
        self._next = rows
        self._before: pa.Table | None = None

    def step(self, run: Any) -> pa.Table:
        half, rng = CHANGED // 2, self._rng
        columns = {
            "id": np.arange(self._next, self._next + half),
            "item": rng.integers(0, ITEMS, half),
            "amount": rng.integers(0, 1000, half),
            "day": rng.integers(0, 365, half).astype(np.int32),
        }
        self._next += half
        new = pa.table(columns)
        run.insert("sales", new)
        if self._before is not None:
            run.delete("sales", self._before)
        self._before = new
        run.advance()
        return run.changes("sums").to_arrow()


def plain(bench: Bench, sales: str, items: str) -> pa.Table:
    """What one would do otherwise: the query, from the files."""
    both = bench.spark.read.parquet(sales).join(bench.spark.read.parquet(items), "item")
    return both.groupBy("category").agg({"*": "count", "amount": "sum"}).toArrow()


def loaded(bench: Bench, rows: int, state: Path, **options: Any) -> Any:
    sales, items = sales_files(bench, rows)
    run = sales_flow().start(tm.Spark(bench.spark, state, **options))
    run.insert("sales", bench.spark.read.parquet(sales))
    run.insert("items", bench.spark.read.parquet(items))
    run.advance()
    return run


def s1(bench: Bench) -> dict[str, Any]:
    found = {}
    with tempfile.TemporaryDirectory(dir=bench.folder) as state:  # what the JVM has to compile it compiles here
        loaded(bench, bench.size(300_000), Path(state), in_driver=bench.size(200_000)).close()
    for rows in map(bench.size, (5_000_000, 20_000_000)):
        sales, items = sales_files(bench, rows)
        answer = {tuple(r.values()) for r in plain(bench, sales, items).to_pylist()}
        query = bench.median(functools.partial(plain, bench, sales, items), 7)
        for where, options in (("executors", {"in_driver": bench.size(1_000_000)}), ("driver", {"in_driver": 10**9})):
            runs = []
            with tempfile.TemporaryDirectory(dir=bench.folder) as state:
                loading = bench.timed(lambda: runs.append(loaded(bench, rows, Path(state), **options)))  # noqa: B023
                run = runs[0]
                here = {(c, n, t) for c, n, t in run.snapshot("sums")}
                assert here == answer or here == {(c, n, t) for c, t, n in answer}, "the answers differ"
                change = Sales(rows)
                for _ in range(3):
                    change.step(run)
                step = bench.median(lambda: change.step(run), 15)  # noqa: B023
                touched = bench.timed(lambda: _add_item(run, 5))  # noqa: B023
                again = bench.timed(lambda: _add_item(run, 6))  # noqa: B023
                run.close()
            found[f"{rows} rows, loaded by the {where}"] = {
                "plain_query": query,
                "load": {"seconds": round(loading[0], 3), "jobs": loading[1]},
                "load_over_query": round(loading[0] / query["seconds"], 2),
                "step": step,
                "query_over_step": round(query["seconds"] / step["seconds"], 1),
                "first_item_added": {"seconds": round(touched[0], 3), "jobs": touched[1]},
                "second_item_added": {"seconds": round(again[0], 3), "jobs": again[1]},
            }
            bench.say(f"S1 {rows} {where}: {found[f'{rows} rows, loaded by the {where}']}")
    return found


def _add_item(run: Any, item: int) -> None:
    """Have an item be of one category more: all of its sales are looked up."""
    run.insert("items", [(item, 1)])
    run.advance()
    assert len(run.changes("sums")) == 2


def s4(bench: Bench) -> dict[str, Any]:
    steps: dict[str, float] = {}
    for name, rows in (("1,250,000 rows", 1_250_000), ("5,000,000 rows", 5_000_000)):
        with tempfile.TemporaryDirectory(dir=bench.folder) as state:
            run, change = loaded(bench, bench.size(rows), Path(state)), Sales(bench.size(rows))
            for _ in range(5):
                change.step(run)
            steps[name] = statistics.median(bench.timed(lambda: change.step(run))[0] for _ in range(30))  # noqa: B023
            run.close()
    with tempfile.TemporaryDirectory(dir=bench.folder) as state:
        run, change = loaded(bench, bench.size(1_250_000), Path(state)), Sales(bench.size(1_250_000))
        times = [bench.timed(lambda: change.step(run))[0] for _ in range(bench.size(1010))]
        metrics = run.metrics().state_rows
        run.close()
    early, late = statistics.median(times[5:25]), statistics.median(times[-20:])
    found = {
        "step": {name: round(seconds, 5) for name, seconds in steps.items()},
        "four_times_the_state": round(steps["5,000,000 rows"] / steps["1,250,000 rows"], 2),
        "steps": len(times),
        "around_step_10": round(early, 5),
        "last_20_steps": round(late, 5),
        "last_over_first": round(late / early, 2),
        "state_rows_at_the_end": metrics,
    }
    bench.say(f"S4: {found}")
    return found


# -- S2, S3: reachability ---------------------------------------------------------------------------------------------


def reach_flow() -> tm.Dataflow:
    flow = tm.Dataflow("reach")
    edges, start = flow.input("edges", {"a": "int64", "b": "int64"}), flow.input("start", {"node": "int64"})
    reach = start.iterate(lambda here: here.join(edges, on={"node": "a"}).select(node="b").concat(start).distinct())
    flow.output("reach", reach)
    return flow


def edges_of(bench: Bench) -> Any:
    nodes, edges = bench.size(200_000), bench.size(1_000_000)
    rng = np.random.default_rng(2)
    return np.stack([rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)])


def _render(bench: Bench, edges: pa.Table) -> int:
    frames = {
        "edges": bench.spark.createDataFrame(edges),
        "start": bench.spark.createDataFrame(pa.table({"node": [0]})),
    }
    return tm.render(reach_flow(), bench.spark, frames)["reach"].count()


def s2(bench: Bench) -> dict[str, Any]:
    pairs = edges_of(bench)
    whole = pa.table({"a": pairs[0], "b": pairs[1]})
    answer = []
    first = bench.timed(lambda: answer.append(_render(bench, whole)))
    with tempfile.TemporaryDirectory(dir=bench.folder) as state:
        run = reach_flow().start(tm.Spark(bench.spark, state))

        def load() -> None:
            run.insert("edges", whole)
            run.insert("start", [(0,)])
            run.advance()

        loading = bench.timed(load)
        assert len(run.snapshot("reach")) == answer[0], "the answers differ"
        run.changes("reach")
        rng, nodes = np.random.default_rng(3), bench.size(200_000)

        def step() -> None:
            gone = rng.integers(0, pairs.shape[1], 5)
            run.delete("edges", pa.table({"a": pairs[0, gone], "b": pairs[1, gone]}))
            pairs[:, gone] = rng.integers(0, nodes, (2, 5))
            run.insert("edges", pa.table({"a": pairs[0, gone], "b": pairs[1, gone]}))
            run.advance()
            run.changes("reach").to_arrow()

        step()
        steps = bench.median(step, 20)
        whole = pa.table({"a": pairs[0], "b": pairs[1]})
        anew = bench.timed(lambda: answer.append(_render(bench, whole)))
        assert len(run.snapshot("reach")) == answer[1], "the answers differ"
        run.close()
    found = {
        "render": {"seconds": round(anew[0], 2), "jobs": anew[1], "reached": answer[1]},
        "first_render": {"seconds": round(first[0], 2), "jobs": first[1]},  # Spark may have to warm up in it
        "load": {"seconds": round(loading[0], 2), "jobs": loading[1]},
        "step": steps,
        "render_over_step": round(anew[0] / steps["seconds"], 1),
        "recursive_sql": recursive_sql(bench),
    }
    bench.say(f"S2: {found}")
    return found


def recursive_sql(bench: Bench) -> str:
    """Return what Spark says to the same question as a recursive query."""
    bench.spark.createDataFrame(pa.table({"a": [0, 1], "b": [1, 0]})).createOrReplaceTempView("edges")
    query = (
        "WITH RECURSIVE reach(node) AS (SELECT 0L UNION SELECT b FROM edges JOIN reach ON a = node) SELECT * FROM reach"
    )
    try:
        return f"{bench.spark.sql(query).count()} rows"
    except Exception as error:  # noqa: BLE001 - what it says is the result
        return str(error).splitlines()[0]


def s3(bench: Bench) -> dict[str, Any]:
    pairs = edges_of(bench)
    rng, nodes = np.random.default_rng(3), bench.size(200_000)
    rows = [pa.table({"a": pairs[0], "b": pairs[1], "time": np.zeros(pairs.shape[1], np.int64),
                      "diff": np.ones(pairs.shape[1], np.int64)})]  # fmt: skip
    for epoch in range(1, 100):
        gone = rng.integers(0, pairs.shape[1], 5)
        old = pairs[:, gone].copy()
        pairs[:, gone] = rng.integers(0, nodes, (2, 5))
        both = np.concatenate((old, pairs[:, gone]), axis=1)
        rows.append(pa.table({"a": both[0], "b": both[1], "time": np.full(10, epoch), "diff": np.repeat([-1, 1], 5)}))
    found: dict[str, Any] = {}
    for name, epochs in (("one_epoch", rows[:1]), ("hundred_epochs", rows)):
        bench.spark.createDataFrame(pa.concat_tables(epochs)).write.mode("overwrite").parquet(str(bench.folder / name))
        seconds, jobs = bench.timed(functools.partial(_history, bench, str(bench.folder / name)))
        found[name] = {"seconds": round(seconds, 2), "jobs": jobs}
        bench.say(f"S3 {name}: {found[name]}")
    found["hundred_over_one"] = round(found["hundred_epochs"]["seconds"] / found["one_epoch"]["seconds"], 2)
    return found


def _history(bench: Bench, path: str) -> int:
    start = bench.spark.createDataFrame(pa.table({"node": [0]}))
    frames = {"edges": bench.spark.read.parquet(path), "start": start}
    return tm.render(reach_flow(), bench.spark, frames)["reach"].count()


ALL = {"S1": s1, "S2": s2, "S3": s3, "S4": s4}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onspark", description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*ALL, []], default=[])
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of rows")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.scale, loud=True)
        found = {"machine": machine(), "scale": options.scale}
        found |= {name: ALL[name](bench) for name in options.which or ALL}
        bench.spark.stop()
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
