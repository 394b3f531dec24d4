"""Window calls on Spark: ``python -m benchmarks.onspark_windows --json benchmarks/results/onspark_windows.json``.

LAG and an average over ROWS 4 PRECEDING. Over many partitions, rendered from scratch, against the same calls as Spark's
own window functions; and over a single partition, in both renderings, on one core and on two: each in a process and
session of its own, the second of two runs, after which Java has compiled what it will.

Live and durable (``--live``): a load by the executors, steps of 1,000 changed rows, each taken out and put in with
another value, and what going on after a restart costs, over many partitions and over a single one, against Spark's own
query over all rows. ``python -m benchmarks.onspark_windows --live --json benchmarks/results/onspark_windows_live.json``

A partition that is too large for one task (``--large``), in ranges and, as smaller ones are, in one task; and large
steps (``--large-steps``), in which one row in twenty of a share of the partitions has another value, all on executors.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.onspark import SETTINGS
from tidemill.renderer.spark import large_windows

MANY, ONE, LARGE_ONE, FOR_STEPS = (5_000_000, 1000), (100_000, 1), (2_000_000, 1), (1_000_000, 1000)
"""Rows and partitions."""
CHANGED, STEPS = 1000, 10
"""Rows that a live step changes, and how many steps are taken."""


def calls(strategy: Any) -> tm.Dataflow:
    """Return the dataflow of the calls by a rendering."""
    flow = tm.Dataflow("windows")
    w = tm.Window.partition_by("p").order_by("t")
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    before = tm.lag("x").over(w, strategy=strategy)
    near = tm.avg("x").over(w.rows_between(-4, 0), strategy=strategy)
    flow.output("out", rows.with_columns(before=before, near=near))
    return flow


def render(spark: Any, data: Any, strategy: str) -> Any:
    """Return the calls' values."""
    return tm.render(calls(strategy), spark, {"rows": data})["out"]


def in_one_task(spark: Any, data: Any) -> Any:
    """Return the calls' values, each partition computed in one task, however large."""
    large_windows.LARGE = sys.maxsize  # type: ignore[misc]
    return render(spark, data, "recompute")


def query(data: Any) -> Any:
    """Return them as Spark has them."""
    over = "OVER (PARTITION BY p ORDER BY t"
    return data.selectExpr("*", f"lag(x) {over}) AS before", f"avg(x) {over} ROWS 4 PRECEDING) AS near")


def read(table: Any) -> tuple[int, int]:
    """Compute a table whole; return sums of two columns, which must be the same whoever computed it."""
    (row,) = table.selectExpr("sum(before)", "sum(CAST(near * 1000 AS bigint))").collect()
    return tuple(row)


def written(spark: Any, folder: str, rows: int, partitions: int) -> Any:
    """Return rows in files."""
    spark.sql(
        f"SELECT pmod(xxhash64(id), {partitions}) p, pmod(xxhash64(id, 1), 1099511627776) t, "
        f"pmod(xxhash64(id, 2), 1000) x FROM range(0, {rows}, 1, 8)"
    ).write.parquet(f"{folder}/rows")
    return spark.read.parquet(f"{folder}/rows")


def live(strategy: str, cores: int, rows: int, partitions: int) -> dict[str, Any]:
    """Return the seconds that a durable run's load, steps and restart take; a changed row has another value."""
    spark = tm.local_spark(f"local[{cores}]", **SETTINGS)
    flow, found = calls(strategy), {}
    with tempfile.TemporaryDirectory() as folder:
        data = written(spark, folder, rows, partitions)
        table = pq.read_table(f"{folder}/rows")
        dice = np.random.default_rng(1)
        picked = dice.choice(rows, (2 * STEPS + 2, CHANGED), replace=False)

        def start() -> Any:
            return flow.start(tm.Spark(spark, state=f"{folder}/state", in_driver=min(1_000_000, rows // 4)))

        def load(run: Any) -> None:
            run.insert("rows", data)
            run.advance()

        def step(run: Any, number: int) -> float:
            gone = table.take(pa.array(picked[number]))
            come = gone.set_column(2, "x", pa.array(dice.integers(0, 1000, CHANGED)))
            begin = perf_counter()
            run.delete("rows", gone)
            run.insert("rows", come)
            run.advance()
            assert len(run.changes("out"))
            return perf_counter() - begin

        def timed(work: Callable[..., Any], *given: Any) -> Any:
            begin = perf_counter()
            value = work(*given)
            return value, round(perf_counter() - begin, 3)

        with start() as run:
            _, found["load"] = timed(load, run)
            run.changes("out")
            found["first_step"] = round(step(run, 0), 3)
            found["step"] = round(statistics.median(step(run, 1 + i) for i in range(STEPS)), 4)
            memory = run.metrics().memory
            found["held_bytes"], found["on_the_disk_bytes"] = memory.held_bytes, memory.spilled_bytes
        run, found["restart"] = timed(start)
        with run:
            found["first_step_after_restart"] = round(step(run, STEPS + 1), 3)
            found["step_after_restart"] = round(statistics.median(step(run, STEPS + 2 + i) for i in range(STEPS)), 4)
        read(query(data))
        _, found["Spark's own query"] = timed(lambda: read(query(data)))
    spark.stop()
    found["times_faster"] = round(found["Spark's own query"] / found["step"], 1)
    return found


def large_steps(cores: int, rows: int, partitions: int) -> dict[str, Any]:
    """Return the processor seconds of a load and of steps on executors, each the second of two; Spark's own query's."""
    spark = tm.local_spark(f"local[{cores}]", **SETTINGS)
    found: dict[str, Any] = {}

    def timed(name: str, work: Callable[[], Any]) -> None:
        begin, before = perf_counter(), processor_seconds()
        work()
        seconds = round(perf_counter() - begin, 2)
        found[name] = {"processor_seconds": round(processor_seconds() - before, 2), "seconds": seconds}

    with tempfile.TemporaryDirectory() as folder:
        data = written(spark, folder, rows, partitions)
        with calls("auto").start(tm.Spark(spark, state=f"{folder}/state", in_driver=CHANGED // 4)) as run:
            timed("load", lambda: step(run, None, data))
            for share in (0.01, 0.1, 1.0):
                touched = data.filter(f"p < {share * partitions} AND pmod(xxhash64(t, x), 20) = 0")
                before = touched.localCheckpoint()
                after = before.selectExpr("p", "t", "x + 1 AS x")
                step(run, before, after)
                timed(f"{share:.0%} of the partitions", functools.partial(step, run, after, before))
        read(query(data))
        timed("Spark's own query", lambda: read(query(data)))
    spark.stop()
    return found


def step(run: Any, gone: Any, come: Any) -> None:
    """Take a step in which some rows go, if any, and others come."""
    if gone is not None:
        run.delete("rows", gone)
    run.insert("rows", come)
    run.advance()


def processor_seconds() -> float:
    """Return the processor time that all processes below this one have taken: Java, and Python's in executors."""
    below: dict[int, list[tuple[int, int]]] = {}
    for about in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = about.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        below.setdefault(int(fields[1]), []).append((int(about.parent.name), sum(map(int, fields[11:15]))))
    ticks, left = 0, [os.getpid()]
    while left:
        for process, own in below.get(left.pop(), []):
            ticks += own
            left.append(process)
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(name: str, cores: int, rows: int, partitions: int) -> dict[str, Any]:
    """Return the seconds of a case, those of all processors in its second run, and its answer."""
    if name.startswith("live "):
        return live(name.removeprefix("live "), cores, rows, partitions)
    if name == "large steps":
        return large_steps(cores, rows, partitions)
    spark = tm.local_spark(f"local[{cores}]", **SETTINGS)
    works: dict[str, Callable[[Any], Any]] = {
        "Spark's own": query,
        "recompute": lambda data: render(spark, data, "recompute"),
        "prefix_sum": lambda data: render(spark, data, "prefix_sum"),
        "recompute in one task": lambda data: in_one_task(spark, data),
    }
    with tempfile.TemporaryDirectory() as folder:
        data = written(spark, folder, rows, partitions)
        seconds = []
        for _ in range(2):
            start, before = perf_counter(), processor_seconds()
            answer = read(works[name](data))
            seconds.append(round(perf_counter() - start, 2))
            of_processors = round(processor_seconds() - before, 2)
    spark.stop()
    return {"seconds": seconds[-1], "first": seconds[0], "processor_seconds": of_processors, "answer": answer}


def apart(name: str, cores: int, rows: int, partitions: int) -> dict[str, Any]:
    """Return a case's figures, from a process of its own."""
    here = [sys.executable, "-m", "benchmarks.onspark_windows", "--case", name, *map(str, (cores, rows, partitions))]
    done = subprocess.run(here, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}, {cores} cores, {rows} rows in {partitions}: {found.get('seconds', found)} s", flush=True)
    return found


def compared(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return seconds by case, whose answers must be equal."""
    assert len({str(case.pop("answer")) for case in found.values()}) == 1, found
    return found


def main() -> None:
    """Measure all cases, or the one that a process is for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--live", action="store_true", help="measure live runs instead")
    parser.add_argument("--large", action="store_true", help="measure a partition that is more than one task instead")
    parser.add_argument("--large-steps", action="store_true", help="measure steps on executors instead")
    parser.add_argument("--case", nargs=4)
    options = parser.parse_args()
    if options.case:
        name, *numbers = options.case
        print(json.dumps(measure(name, *map(int, numbers))))
        return
    if options.live:
        live_runs = {f"{rows} rows in {n}": apart("live auto", 2, rows, n) for rows, n in (MANY, LARGE_ONE)}
        reported({"machine": machine(), "changed rows": CHANGED, **live_runs}, options.json)
        return
    if options.large:
        large = compared({n: apart(n, 2, *LARGE_ONE) for n in ("Spark's own", "recompute in one task", "recompute")})
        reported({"machine": machine(), f"{LARGE_ONE[0]} rows in one partition": large}, options.json)
        return
    if options.large_steps:
        steps = apart("large steps", 2, *FOR_STEPS)
        reported({"machine": machine(), f"{FOR_STEPS[0]} rows in {FOR_STEPS[1]} partitions": steps}, options.json)
        return
    many = compared({name: apart(name, 2, *MANY) for name in ("Spark's own", "recompute")})
    one = compared(
        {
            f"{name}, {cores} core{'s' * (cores > 1)}": apart(name, cores, *ONE)
            for name in ("recompute", "prefix_sum")
            for cores in (1, 2)
        }
    )
    report = {
        "machine": machine(),
        f"{MANY[0]} rows in {MANY[1]} partitions": many,
        "recompute_over_sparks_own": round(many["recompute"]["seconds"] / many["Spark's own"]["seconds"], 2),
        f"{ONE[0]} rows in one partition": one,
    }
    reported(report, options.json)


def reported(report: dict[str, Any], path: Path | None) -> None:
    """Write a report to a file, if to one, and print it."""
    if path:
        path.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
