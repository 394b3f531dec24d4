"""Window calls on Spark, LAG and an average over ROWS 4 PRECEDING: from scratch and live, beside Spark's own.

Each case has a process and session of its own.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.runner import Figures, apart, say, seconds
from benchmarks.spark import session
from tidemill.renderer.spark import large_windows

CHANGED, STEPS = 1000, 10
"""Rows that a live step changes, and how many steps are taken."""
Size = tuple[int, int]
"""Rows and partitions."""


def spark_windows(*, many: Size, one: Size) -> Figures:
    """Rendered from scratch, many partitions beside Spark's own window functions, one on one core and on two."""
    of_many = _compared({name: ("rendered", name, 2, *many) for name in ("Spark's own", "recompute")})
    ways = {f"{name}, {n} cores": ("rendered", name, n, *one) for name in ("recompute", "prefix_sum") for n in (1, 2)}
    ratio = of_many["recompute"]["seconds"] / of_many["Spark's own"]["seconds"]
    return {
        f"{many[0]} rows in {many[1]} partitions": of_many,
        "recompute_over_sparks_own": ratio,
        f"{one[0]} rows in one partition": _compared(ways),
    }


def spark_windows_large(*, one: Size) -> Figures:
    """A partition that is too large for one task, in ranges and, as smaller ones are, in one task."""
    names = ("Spark's own", "recompute in one task", "recompute")
    return {f"{one[0]} rows in one partition": _compared({name: ("rendered", name, 2, *one) for name in names})}


def spark_windows_live(*, many: Size, one: Size) -> Figures:
    """Durable runs: a load by executors, steps of 1,000 changed rows, going on after a restart; Spark's own query."""
    return {"live": {f"{rows} rows in {n}": apart("spark_windows:live", rows, n) for rows, n in (many, one)}}


def _compared(cases: dict[str, tuple[Any, ...]]) -> dict[str, Figures]:
    """Return figures by case, whose answers must be equal."""
    found = {name: apart(f"spark_windows:{place}", *given) for name, (place, *given) in cases.items()}
    assert len({str(case.pop("answer")) for case in found.values()}) == 1, found
    say(found)
    return found


# -- in the processes -------------------------------------------------------------------------------------------------


def calls(strategy: Any) -> tm.Dataflow:
    """Return the dataflow of the calls by a rendering."""
    flow = tm.Dataflow("windows")
    w = tm.Window.partition_by("p").order_by("t")
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    before = tm.lag("x").over(w, strategy=strategy)
    near = tm.avg("x").over(w.rows_between(-4, 0), strategy=strategy)
    flow.output("out", rows.with_columns(before=before, near=near))
    return flow


def _query(data: Any) -> Any:
    """Return them as Spark has them."""
    over = "OVER (PARTITION BY p ORDER BY t"
    return data.selectExpr("*", f"lag(x) {over}) AS before", f"avg(x) {over} ROWS 4 PRECEDING) AS near")


def _read(table: Any) -> tuple[int, int]:
    """Compute a table whole; return sums of two columns, which must be the same whoever computed it."""
    (row,) = table.selectExpr("sum(before)", "sum(CAST(near * 1000 AS bigint))").collect()
    return tuple(row)


def _written(spark: Any, folder: str, rows: int, partitions: int) -> Any:
    """Return rows in files."""
    spark.sql(
        f"SELECT pmod(xxhash64(id), {partitions}) p, pmod(xxhash64(id, 1), 1099511627776) t, "
        f"pmod(xxhash64(id, 2), 1000) x FROM range(0, {rows}, 1, 8)"
    ).write.parquet(f"{folder}/rows")
    return spark.read.parquet(f"{folder}/rows")


def rendered(name: str, cores: int, rows: int, partitions: int) -> Figures:
    """Return the seconds of the second of two runs, those of all processors, and the answer."""
    spark = session(cores)
    if name == "recompute in one task":
        large_windows.LARGE = sys.maxsize  # type: ignore[misc]
    flow = calls(name.split(maxsplit=1)[0]) if name != "Spark's own" else None
    with tempfile.TemporaryDirectory() as folder:
        data = _written(spark, folder, rows, partitions)
        taken = []
        for _ in range(2):
            start, before = perf_counter(), processor_seconds()
            answer = _read(_query(data) if flow is None else tm.render(flow, spark, {"rows": data})["out"])
            taken.append(perf_counter() - start)
            used = processor_seconds() - before
    spark.stop()
    return {"seconds": taken[-1], "first": taken[0], "processor_seconds": used, "answer": answer}


def live(rows: int, partitions: int) -> Figures:
    """Return the seconds that a durable run's load, steps and restart take; a changed row has another value."""
    spark, flow, found = session(), calls("auto"), Figures()
    with tempfile.TemporaryDirectory() as folder:
        data = _written(spark, folder, rows, partitions)
        table = pq.read_table(f"{folder}/rows")
        dice = np.random.default_rng(1)
        picked = iter(dice.choice(rows, (2 * STEPS + 2, CHANGED), replace=False))
        runs: list[tm.Run] = []

        def start() -> None:
            runs.append(flow.start(tm.Spark(spark, state=f"{folder}/state", in_driver=min(1_000_000, rows // 4))))

        def step() -> float:
            gone = table.take(pa.array(next(picked)))
            come = gone.set_column(2, "x", pa.array(dice.integers(0, 1000, CHANGED)))
            return seconds(partial(_stepped, runs[-1], gone, come))

        start()
        with runs[-1] as run:
            found["load"] = seconds(partial(_stepped, run, None, data))
            run.changes("out")
            found["first_step"] = step()
            found["step"] = statistics.median(step() for _ in range(STEPS))
            memory = run.metrics().memory
            found["held_bytes"], found["on_the_disk_bytes"] = memory.held_bytes, memory.spilled_bytes
        found["restart"] = seconds(start)
        with runs[-1]:
            found["first_step_after_restart"] = step()
            found["step_after_restart"] = statistics.median(step() for _ in range(STEPS))
        _read(_query(data))
        found["Spark's own query"] = seconds(lambda: _read(_query(data)))
    spark.stop()
    return {**found, "times_faster": found["Spark's own query"] / found["step"]}


def _stepped(run: Any, gone: Any, come: Any) -> None:
    """Take a step in which some rows go, if any, and others come."""
    if gone is not None:
        run.delete("rows", gone)
    run.insert("rows", come)
    run.advance()
    if isinstance(come, pa.Table):
        assert len(run.changes("out"))


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
