"""From where on keeping partitions in order pays: ``python -m benchmarks.window_thresholds [--json FILE]``.

Windows at top level, each step worked out in order and by whole partitions, in CPU time, medians: a row that comes in
partitions of several sizes, and parts of a partition that come at once. `LARGE`, `SMALL` and `MANY` of the operator are
set by what comes out. Then what these come to for many partitions at once: loads, and half of all rows that goes and
comes back, as the operator does it and by whole partitions, in turn, the least of several times. With ``--limits``
what sets the ceiling of `limit_ranks` instead: a row that comes and goes among the first k of its partition, and one
anywhere, where only the first k are asked for, with that limit and without.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.table import text_table
from tidemill.dataflow.passes import ranks
from tidemill.renderer.embedded.reduce import ordered_windows

SIZES = (128, 256, 512, 1024, 2048, 4096, 16384)
TOTAL = 32_768
"""Rows in all partitions together."""
PARTS = (4, 8, 16, 32, 64, 128, 512)
"""One in so many rows changes, of one partition of `TOTAL` rows."""
W = tm.Window.partition_by("p").order_by("t")
CALLS = {
    "lag": tm.lag("x").over(W),
    "avg ROWS 4 PRECEDING": tm.avg("x").over(W.rows_between(-4, 0)),
    "sum RANGE": tm.sum("x").over(W.range_between(-100, 100)),
    "rank": tm.rank().over(W),
}
"""A row that comes changes the last for half of its partition, on average."""
HALVED = (50, 130, 260, 520, 1000)
"""Rows in each of many partitions."""
HALVED_TOTAL = 100_000
LARGE_STEPS = ("load", "half goes", "half comes")
LIMITED = (1_000, 10_000, 30_000, 100_000)
MOST = (10, 100, 1_000, 3_000, 10_000, 30_000)
RENDERINGS = {"in order": (1, 1, 1), "whole": (2**62, 2**62, 1)}
"""What `LARGE`, `SMALL` and `MANY` are then."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--limits", action="store_true", help="of `limit_ranks` alone")
    given = parser.parse_args()
    if given.limits:
        limits = [_limit(size, most) for size in LIMITED for most in MOST]
        print(text_table(list(limits[0]), [[str(f) for f in found.values()] for found in limits]))
        if given.json:
            given.json.write_text(json.dumps({"machine": machine(), "limits": limits}, indent=1) + "\n")
        return
    sizes = [_compared(call, size, 1, given.epochs) for call in CALLS for size in SIZES]
    parts = [_compared(call, TOTAL, TOTAL // part, max(given.epochs // 10, 3)) for call in CALLS for part in PARTS]
    lines = [[str(f) for f in found.values()] for found in (*sizes, *parts)]
    print(text_table(["call", "rows in a partition", "rows that come", *(f"{name}, ms" for name in RENDERINGS)], lines))
    large = [_of_many(call, size, max(given.epochs // 12, 2)) for call in CALLS for size in HALVED]
    head = ["call", "rows in a partition", *(f"{what}, of whole partitions' time" for what in LARGE_STEPS)]
    print(text_table(head, [[found["call"], str(found["rows"]), *_shares(found)] for found in large]))
    if given.json:
        report = {"machine": machine(), "steps": [*sizes, *parts], "large_steps": large}
        given.json.write_text(json.dumps(report, indent=1) + "\n")


def _limit(size: int, most: int) -> dict[str, Any]:
    """Return how long a change takes with a limit to the first rows, and without, in partitions of a size."""
    found: dict[str, Any] = {"rows": size, "k": most}
    for name, ceiling in (("limited", 2**62), ("in order", 0)):
        with patch.object(ranks, "CEILING", ceiling):
            ms = _with_limit(size, most)
        found |= {
            f"{name}, {where}": round(taken, 2) for where, taken in zip(("among them", "anywhere"), ms, strict=True)
        }
    return found


def _with_limit(size: int, most: int) -> list[float]:
    dice, n = np.random.default_rng(0), 100_000 // size * size
    flow = tm.Dataflow("limits")
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    flow.output("answer", rows.with_columns(y=tm.row_number().over(W)).filter(f"y <= {most}"), changes=False)
    times: tuple[list[float], list[float]] = [], []
    with flow.start() as run:
        run.insert(
            "rows", pa.table({"p": np.arange(n) % (n // size), "t": dice.permutation(n) * 10, "x": np.arange(n)})
        )
        run.advance()
        for _ in range(12):
            for end, taken in zip((min(most, size) * 10 * n // size, n * 10), times, strict=True):
                row = (0, int(dice.integers(end)) + 1, 5)
                for put in (run.insert, run.delete):
                    put("rows", [row])
                    start = process_time()
                    run.advance()
                    taken.append(1000 * (process_time() - start))
    return [median(taken[4:]) for taken in times]


def _of_many(call: str, size: int, times: int) -> dict[str, Any]:
    """Return how long large steps take in many partitions, as is, and by whole partitions."""
    as_is = (ordered_windows.LARGE, ordered_windows.SMALL, ordered_windows.MANY)
    renderings = {"as is": as_is, "whole": RENDERINGS["whole"]}
    taken: dict[str, list[list[float]]] = {name: [] for name in renderings}
    for _ in range(times):
        for name, (large, small, many) in renderings.items():
            with patch.multiple(ordered_windows, LARGE=large, SMALL=small, MANY=many):
                taken[name].append(_large_steps(call, size))
    least = {name: [round(min(of_step), 2) for of_step in zip(*runs, strict=True)] for name, runs in taken.items()}
    return {"call": call, "rows": size, **{name: dict(zip(LARGE_STEPS, ms, strict=True)) for name, ms in least.items()}}


def _large_steps(call: str, size: int) -> list[float]:
    """Return the milliseconds of each of the large steps."""
    dice, partitions = np.random.default_rng(0), HALVED_TOTAL // size
    flow = tm.Dataflow("large steps")
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    flow.output("answer", rows.with_columns(y=CALLS[call]), changes=False)
    n = partitions * size
    t, x = dice.integers(0, size * 10, n), dice.integers(-99, 99, n)
    table = pa.table({"p": np.arange(n) % partitions, "t": t, "x": x})
    half = table.take(pa.array((np.arange(n) // partitions % 2 == 0).nonzero()[0]))
    found = []
    with flow.start() as run:
        for put, some in ((run.insert, table), (run.delete, half), (run.insert, half)):
            put("rows", some)
            start = process_time()
            run.advance()
            found.append(1000 * (process_time() - start))
    return found


def _shares(found: dict[str, Any]) -> list[str]:
    return [f"{found['as is'][step] / found['whole'][step]:.2f}" for step in LARGE_STEPS]


def _compared(call: str, size: int, changed: int, epochs: int) -> dict[str, Any]:
    """Return how long a step takes in either rendering."""
    found: dict[str, Any] = {"call": call, "rows": size, "changed": changed}
    for name, (large, small, many) in RENDERINGS.items():
        with patch.multiple(ordered_windows, LARGE=large, SMALL=small, MANY=many):
            found[name] = round(_milliseconds(call, size, changed, epochs), 3)
    return found


def _milliseconds(call: str, size: int, changed: int, epochs: int) -> float:
    dice, partitions = np.random.default_rng(0), TOTAL // size
    flow = tm.Dataflow("thresholds")
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    flow.output("answer", rows.with_columns(y=CALLS[call]))

    def some(count: int, *, of: int | None = None) -> pa.Table:
        p = np.full(count, of) if of is not None else np.arange(count) % partitions
        return pa.table({"p": p, "t": dice.integers(0, size * 10, count), "x": dice.integers(-99, 99, count)})

    times = []
    with flow.start() as run:
        run.insert("rows", some(TOTAL))
        run.advance()
        for epoch in range(epochs + 3):
            come = some(changed, of=epoch % min(partitions, 4))
            for put in (run.insert, run.delete):
                put("rows", come)
                start = process_time()
                run.advance()
                times.append(1000 * (process_time() - start))
    return median(times[6:])


if __name__ == "__main__":
    main()
