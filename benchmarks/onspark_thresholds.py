"""Rows on Spark above a value that moves: ``python -m benchmarks.onspark_thresholds [--json FILE]``.

A threshold that passes ten rows, of a million that came as a DataFrame. A live run takes the move in the driver, by its
index: of rows in memory, and of those that executors wrote to the disk, of which it reads the pages between. Or
executors do all of it (``in_driver=0``), reading a range of what is kept. Otherwise one would filter anew: a DataFrame
in memory, once counted and once brought to the driver. A run with other rows goes before, so that Java is warm.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.table import figure, text_table
from benchmarks.timing import seconds

PASSED = 10
STEPS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    said = parser.parse_args()
    spark = tm.local_spark("local[2]")
    ways = {
        "in the driver, rows in memory": 10 * said.rows, "in the driver, rows on the disk": said.rows // 10,
        "on executors": 0,
    }  # fmt: skip
    live(spark, 10_000, 0)
    found: list[dict[str, Any]] = [
        {"what": f"live, {name}", **live(spark, said.rows, most)} for name, most in ways.items()
    ]
    found += anew(spark, said.rows)
    columns = ("load_s", "first_s", "step_ms")
    print(text_table(["", *columns], [[f["what"], *(figure(f.get(c)) for c in columns)] for f in found], left=1))
    if said.json is not None:
        said.json.write_text(json.dumps({"machine": machine(), "rows": said.rows, "measured": found}, indent=1) + "\n")


def rows_of(spark: Any, rows: int) -> Any:
    return spark.range(rows).selectExpr("id", f"(id * 7919) % {rows} AS amount")


def live(spark: Any, rows: int, in_driver: int) -> dict[str, float]:
    """Return how long the load takes, the first move (which sorts what executors wrote), and each after it."""
    flow = tm.Dataflow("threshold")
    left, right = flow.input("left", {"id": "int64", "amount": "int64"}), flow.input("right", {"least": "int64"})
    flow.output("above", left.dynamic_filter("amount", ">", right))
    with tempfile.TemporaryDirectory() as folder, flow.start(tm.Spark(spark, folder, in_driver=in_driver)) as run:
        now = rows - rows // 100
        start = perf_counter()
        run.insert("left", rows_of(spark, rows))
        run.insert("right", [(now,)])
        run.advance()
        load = perf_counter() - start
        run.changes("above")
        times = []
        for step in range(STEPS + 1):
            new = now + (PASSED if step % 2 == 0 else -PASSED)
            times.append(seconds(partial(_moved, run, now, new)))
            now = new
    return {"load_s": round(load, 2), "first_s": round(times[0], 3), "step_ms": round(1e3 * median(times[1:]), 2)}


def _moved(run: tm.Run, old: int, new: int) -> None:
    run.delete("right", [(old,)])
    run.insert("right", [(new,)])
    run.advance()
    assert run.changes("above").to_arrow().num_rows == PASSED


def anew(spark: Any, rows: int) -> list[dict[str, Any]]:
    """Return how long Spark takes to filter all rows, in memory, and to say what is above."""
    data = rows_of(spark, rows).cache()
    data.count()
    above = data.filter(f"amount > {rows - rows // 100}")
    ways: dict[str, Callable[[], Any]] = {"counting": above.count, "bringing 1 % to the driver": above.toArrow}
    for work in ways.values():
        work()
    found = [
        {"what": f"Spark filters anew, {name}", "step_ms": round(1e3 * median(seconds(work) for _ in range(STEPS)), 2)}
        for name, work in ways.items()
    ]
    data.unpersist()
    return found


if __name__ == "__main__":
    main()
