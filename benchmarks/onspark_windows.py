"""Window calls on Spark: ``python -m benchmarks.onspark_windows --json benchmarks/results/onspark_windows.json``.

LAG and an average over ROWS 4 PRECEDING. Over many partitions, rendered from scratch, against the same calls as Spark's
own window functions; and over a single partition, in both renderings, on one core and on two: each in a process and
session of its own, the second of two runs, after which Java has compiled what it will.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.onspark import SETTINGS

MANY, ONE = (5_000_000, 1000), (100_000, 1)
"""Rows and partitions."""


def render(spark: Any, data: Any, strategy: str) -> Any:
    """Return the calls' values by a rendering."""
    flow = tm.Dataflow("windows")
    w = tm.Window.partition_by("p").order_by("t")
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    before = tm.lag("x").over(w, strategy=strategy)
    near = tm.avg("x").over(w.rows_between(-4, 0), strategy=strategy)
    flow.output("out", rows.with_columns(before=before, near=near))
    return tm.render(flow, spark, {"rows": data})["out"]


def query(data: Any) -> Any:
    """Return them as Spark has them."""
    over = "OVER (PARTITION BY p ORDER BY t"
    return data.selectExpr("*", f"lag(x) {over}) AS before", f"avg(x) {over} ROWS 4 PRECEDING) AS near")


def read(table: Any) -> tuple[int, int]:
    """Compute a table whole; return sums of two columns, which must be the same whoever computed it."""
    (row,) = table.selectExpr("sum(before)", "sum(CAST(near * 1000 AS bigint))").collect()
    return tuple(row)


def measure(name: str, cores: int, rows: int, partitions: int) -> dict[str, Any]:
    """Return the seconds of a case, and its answer."""
    spark = tm.local_spark(f"local[{cores}]", **SETTINGS)
    works: dict[str, Callable[[Any], Any]] = {
        "Spark's own": query,
        "recompute": lambda data: render(spark, data, "recompute"),
        "prefix_sum": lambda data: render(spark, data, "prefix_sum"),
    }
    with tempfile.TemporaryDirectory() as folder:
        spark.sql(
            f"SELECT pmod(xxhash64(id), {partitions}) p, pmod(xxhash64(id, 1), 1099511627776) t, "
            f"pmod(xxhash64(id, 2), 1000) x FROM range(0, {rows}, 1, 8)"
        ).write.parquet(f"{folder}/rows")
        data = spark.read.parquet(f"{folder}/rows")
        seconds = []
        for _ in range(2):
            start = perf_counter()
            answer = read(works[name](data))
            seconds.append(round(perf_counter() - start, 2))
    spark.stop()
    return {"seconds": seconds[-1], "first": seconds[0], "answer": answer}


def apart(name: str, cores: int, rows: int, partitions: int) -> dict[str, Any]:
    """Return a case's figures, from a process of its own."""
    here = [sys.executable, "-m", "benchmarks.onspark_windows", "--case", name, *map(str, (cores, rows, partitions))]
    done = subprocess.run(here, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}, {cores} cores, {rows} rows in {partitions}: {found['seconds']} s", flush=True)
    return found


def compared(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return seconds by case, whose answers must be equal."""
    assert len({str(case.pop("answer")) for case in found.values()}) == 1, found
    return found


def main() -> None:
    """Measure all cases, or the one that a process is for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", nargs=4)
    options = parser.parse_args()
    if options.case:
        name, *numbers = options.case
        print(json.dumps(measure(name, *map(int, numbers))))
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
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
