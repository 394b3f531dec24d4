"""What Spark is used for, S1 to S4: joins, recursion and histories, live beside from scratch; and values that move.

All in one process and session, ``local[2]``; medians; jobs are Spark's, counted by its own tracker.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.runner import Figures, median_ms, say, seconds
from benchmarks.values import moved

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "6g",
    "spark.log.level": "OFF",
}
ITEMS, CATEGORIES, CHANGED = 100_000, 1000, 1000


def session(cores: int = 2) -> Any:
    return tm.local_spark(f"local[{cores}]", **SETTINGS)


class Bench:
    """A session, a folder, and what both are used for."""

    def __init__(self, folder: Path, scale: float) -> None:
        self.spark = session()
        self.folder = folder
        self.scale = scale
        self.tracker = self.spark.sparkContext.statusTracker()

    def size(self, rows: int) -> int:
        return max(10, int(rows * self.scale))

    def timed(self, work: Callable[[], Any]) -> Figures:
        """Return seconds and Spark jobs."""
        before = len(self.tracker.getJobIdsForGroup(None))
        taken = seconds(work)
        return {"seconds": taken, "jobs": len(self.tracker.getJobIdsForGroup(None)) - before}

    def median(self, work: Callable[[], Any], times: int) -> Figures:
        found = [self.timed(work) for _ in range(times)]
        taken = [f["seconds"] for f in found]
        jobs = statistics.median(f["jobs"] for f in found)
        return {"seconds": statistics.median(taken), "most": max(taken), "jobs": jobs}

    def state(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(dir=self.folder)


def spark(*, which: Sequence[str], scale: float) -> Figures:
    """S1: sales joined to items; S2: reachability; S3: a history of 100 epochs in one rendering; S4: durable steps."""
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), scale)
        for name in which:
            found[name] = {"S1": s1, "S2": s2, "S3": s3, "S4": s4}[name](bench)
            say(f"{name}: {found[name]}")
        bench.spark.stop()
    return found


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
    if not Path(sales).exists():
        bench.spark.sql(
            f"SELECT id, CAST(pmod(xxhash64(id), {ITEMS}) AS bigint) item, "
            "CAST(pmod(xxhash64(id, 1), 1000) AS bigint) amount, CAST(pmod(xxhash64(id, 2), 365) AS int) day "
            f"FROM range(0, {rows}, 1, 8)"
        ).write.parquet(sales)
    if not Path(items).exists():
        bench.spark.sql(
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
        new = pa.table({
            "id": np.arange(self._next, self._next + half),
            "item": rng.integers(0, ITEMS, half),
            "amount": rng.integers(0, 1000, half),
            "day": rng.integers(0, 365, half).astype(np.int32),
        })  # fmt: skip
        self._next += half
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


def loaded(bench: Bench, rows: int, state: str, **options: Any) -> Any:
    sales, items = sales_files(bench, rows)
    run = sales_flow().start(tm.Spark(bench.spark, state, **options))
    run.insert("sales", bench.spark.read.parquet(sales))
    run.insert("items", bench.spark.read.parquet(items))
    run.advance()
    return run


def s1(bench: Bench) -> Figures:
    found = {}
    with bench.state() as state:  # what the JVM has to compile it compiles here
        loaded(bench, bench.size(300_000), state, in_driver=bench.size(200_000)).close()
    for rows in map(bench.size, (5_000_000, 20_000_000)):
        files = sales_files(bench, rows)
        answer = {tuple(r.values()) for r in plain(bench, *files).to_pylist()}
        query = bench.median(partial(plain, bench, *files), 7)
        for where, in_driver in (("executors", bench.size(1_000_000)), ("driver", 10**9)):
            with bench.state() as state:
                found[f"{rows} rows, loaded by the {where}"] = _s1_run(bench, rows, state, in_driver, query, answer)
    return found


def _s1_run(  # noqa: PLR0917 - all that there is to know
    bench: Bench, rows: int, state: str, in_driver: int, query: Figures, answer: set[Any]
) -> Figures:
    runs: list[Any] = []
    load = bench.timed(lambda: runs.append(loaded(bench, rows, state, in_driver=in_driver)))
    (run,) = runs
    here = {(c, n, t) for c, n, t in run.snapshot("sums")}
    assert answer in (here, {(c, t, n) for c, n, t in here}), "the answers differ"
    change = Sales(rows)
    for _ in range(3):
        change.step(run)
    step = bench.median(lambda: change.step(run), 15)
    first, second = (bench.timed(partial(_add_item, run, item)) for item in (5, 6))
    run.close()
    return {
        "plain_query": query,
        "load": load,
        "load_over_query": load["seconds"] / query["seconds"],
        "step": step,
        "query_over_step": query["seconds"] / step["seconds"],
        "first_item_added": first,
        "second_item_added": second,
    }


def _add_item(run: Any, item: int) -> None:
    """Have an item be of one category more: all of its sales are looked up."""
    run.insert("items", [(item, 1)])
    run.advance()
    assert len(run.changes("sums")) == 2


def s4(bench: Bench) -> Figures:
    def steps(rows: int, count: int) -> tuple[list[float], int]:
        with bench.state() as state:
            run, change = loaded(bench, bench.size(rows), state), Sales(bench.size(rows))
            times = [seconds(lambda: change.step(run)) for _ in range(count)]
            held = run.metrics().state_rows
            run.close()
        return times, held

    one, four = (statistics.median(steps(rows, 35)[0][5:]) for rows in (1_250_000, 5_000_000))
    times, held = steps(1_250_000, bench.size(1010))
    early, late = statistics.median(times[5:25]), statistics.median(times[-20:])
    return {
        "step": {"1,250,000 rows": one, "5,000,000 rows": four},
        "four_times_the_state": four / one,
        "steps": len(times),
        "around_step_10": early,
        "last_20_steps": late,
        "last_over_first": late / early,
        "state_rows_at_the_end": held,
    }


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


def reached(bench: Bench, edges: Any) -> int:
    """Return how many nodes a rendering reaches, by the edges of a DataFrame."""
    start = bench.spark.createDataFrame(pa.table({"node": np.zeros(1, np.int64)}))
    return int(tm.render(reach_flow(), bench.spark, {"edges": edges, "start": start})["reach"].count())


class Edges:
    """Edges, of which five go and five others come in each epoch."""

    def __init__(self, bench: Bench) -> None:
        self.pairs, self._rng, self._nodes = edges_of(bench), np.random.default_rng(3), bench.size(200_000)

    def table(self, at: Any = slice(None)) -> pa.Table:
        return pa.table({"a": self.pairs[0, at], "b": self.pairs[1, at]})

    def exchanged(self) -> tuple[pa.Table, pa.Table]:
        at = self._rng.integers(0, self.pairs.shape[1], 5)
        gone = self.table(at)
        self.pairs[:, at] = self._rng.integers(0, self._nodes, (2, 5))
        return gone, self.table(at)


def s2(bench: Bench) -> Figures:
    edges, answers = Edges(bench), list[int]()

    def render() -> None:
        answers.append(reached(bench, bench.spark.createDataFrame(edges.table())))

    first = bench.timed(render)
    with bench.state() as state:
        run = reach_flow().start(tm.Spark(bench.spark, state))

        def load() -> None:
            run.insert("edges", edges.table())
            run.insert("start", [(0,)])
            run.advance()

        def step() -> None:
            gone, come = edges.exchanged()
            run.delete("edges", gone)
            run.insert("edges", come)
            run.advance()
            run.changes("reach").to_arrow()

        loading = bench.timed(load)
        assert len(run.snapshot("reach")) == answers[0], "the answers differ"
        run.changes("reach")
        step()
        steps = bench.median(step, 20)
        anew = bench.timed(render)
        assert len(run.snapshot("reach")) == answers[1], "the answers differ"
        run.close()
    return {
        "render": {**anew, "reached": answers[1]},
        "first_render": first,  # Spark may have to warm up in it
        "load": loading,
        "step": steps,
        "render_over_step": anew["seconds"] / steps["seconds"],
        "recursive_sql": _recursive_sql(bench),
    }


def _recursive_sql(bench: Bench) -> str:
    """Return what Spark says to the same question as a recursive query."""
    bench.spark.createDataFrame(pa.table({"a": [0, 1], "b": [1, 0]})).createOrReplaceTempView("edges")
    query = (
        "WITH RECURSIVE reach(node) AS (SELECT 0L UNION SELECT b FROM edges JOIN reach ON a = node) SELECT * FROM reach"
    )
    try:
        return f"{bench.spark.sql(query).count()} rows"
    except Exception as error:  # noqa: BLE001 - what it says is the result
        return str(error).splitlines()[0]


def s3(bench: Bench) -> Figures:
    edges = Edges(bench)

    def at(time: int, rows: pa.Table, diff: int) -> pa.Table:
        more = {"time": np.full(len(rows), time), "diff": np.full(len(rows), diff)}
        return pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **more})

    history = [at(0, edges.table(), 1)]
    for epoch in range(1, 100):
        gone, come = edges.exchanged()
        history += [at(epoch, gone, -1), at(epoch, come, 1)]
    found: Figures = {}
    for name, epochs in (("one_epoch", history[:1]), ("hundred_epochs", history)):
        path = str(bench.folder / name)
        bench.spark.createDataFrame(pa.concat_tables(epochs)).write.mode("overwrite").parquet(path)
        found[name] = bench.timed(partial(reached, bench, bench.spark.read.parquet(path)))
    found["hundred_over_one"] = found["hundred_epochs"]["seconds"] / found["one_epoch"]["seconds"]
    return found


# -- values that move -------------------------------------------------------------------------------------------------


def spark_thresholds(*, rows: int, steps: int) -> Figures:
    """A threshold that passes ten rows, of a million that came as a DataFrame.

    A live run takes the move in the driver, by its index: of rows in memory, and of those that executors wrote to the
    disk, of which it reads the pages between. Or executors do all of it, reading a range of what is kept. Otherwise one
    would filter anew: a DataFrame in memory, once counted and once brought to the driver.
    """
    spark = session()
    _live_threshold(spark, 10_000, 0, 1)  # Java warms up
    found: list[Figures] = [
        {"what": f"live, {name}", **_live_threshold(spark, rows, in_driver, steps)}
        for name, in_driver in (
            ("in the driver, rows in memory", 10 * rows), ("in the driver, rows on the disk", rows // 10),
            ("on executors", 0),
        )
    ]  # fmt: skip
    data = _amounts(spark, rows).cache()
    data.count()
    above = data.filter(f"amount > {rows - rows // 100}")
    ways: dict[str, Callable[[], Any]] = {"counting": above.count, "bringing 1 % to the driver": above.toArrow}
    for work in ways.values():
        work()
    found += [{"what": f"Spark filters anew, {name}", "step_ms": ms} for name, ms in median_ms(ways, steps).items()]
    spark.stop()
    return {"spark_thresholds": found}


def _amounts(spark: Any, rows: int) -> Any:
    return spark.range(rows).selectExpr("id", f"(id * 7919) % {rows} AS amount")


def _live_threshold(spark: Any, rows: int, in_driver: int, steps: int) -> Figures:
    """Return how long the load takes, the first move (which sorts what executors wrote), and each after it."""
    flow = tm.Dataflow("threshold")
    left, right = flow.input("left", {"id": "int64", "amount": "int64"}), flow.input("right", {"least": "int64"})
    flow.output("above", left.dynamic_filter("amount", ">", right))
    with tempfile.TemporaryDirectory() as folder, flow.start(tm.Spark(spark, folder, in_driver=in_driver)) as run:
        now = rows - rows // 100
        start = perf_counter()
        run.insert("left", _amounts(spark, rows))
        run.insert("right", [(now,)])
        run.advance()
        load, times = perf_counter() - start, []
        run.changes("above")
        for step in range(steps + 1):
            new = now + (10 if step % 2 == 0 else -10)
            times.append(seconds(partial(moved, run, (now,), (new,), 10)))
            now = new
    return {"load_s": load, "first_s": times[0], "step_ms": 1e3 * statistics.median(times[1:])}
