"""What threads are worth: ``python -m benchmarks.threads [--json FILE]``, on a machine on which nothing else runs.

The kernels that work side by side, with one thread and with two, in turns: the best of some times, wall clock and
processor, in milliseconds. ``--rows`` takes other sizes; shares are made whatever the size, so that it shows from where
on they are worth it. It takes a minute or two: what is slow is done less often, but at least twice.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.machine import machine
from benchmarks.table import figure, text_table
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels import threads
from tidemill.renderer.embedded.kernels.codec import Interner, encode
from tidemill.renderer.embedded.kernels.sorting import ascending, gather, sort_by

TURNS = 7
LEAST_TURNS = 2
SECONDS = 3.0
"""After so long, a kernel has no more turns than the least."""
COUNTS = (1, 2)


def kernels(n: int) -> dict[str, Callable[[], object]]:
    """Return what is measured, of so many rows."""
    rng = np.random.default_rng(1)
    groups, values, order = rng.integers(0, 100, n), rng.integers(0, 2**40, n), rng.permutation(n)
    found = np.empty(n, np.int64)
    names = pa.array([f"user {i:06}" for i in range(min(n, 200_000))])
    table = pa.table(
        {
            "user": names.take(pa.array(rng.integers(0, len(names), n))),
            "other": names.take(pa.array(rng.integers(0, 100, n))),
            "amount": rng.normal(size=n),
        }
    )
    schema = Schema.of({"user": "string", "other": "string", "amount": "float64"})
    return {
        "order by one column": lambda: ascending(values),
        "order by two columns": lambda: sort_by([groups, values]),
        "look up": lambda: gather(values, order, found),
        "encode two strings, a float": lambda: encode(schema, table, Interner()),
    }


def best(work: Callable[[], object]) -> dict[int, tuple[float, float]]:
    """Return the least wall clock and processor time with each number of threads, taken in turns."""
    times: dict[int, list[tuple[float, float]]] = {count: [] for count in COUNTS}
    began = perf_counter()
    for turn in range(TURNS):
        if turn >= LEAST_TURNS and perf_counter() - began > SECONDS:
            break
        for count, taken in times.items():
            threads.SETTING.threads = count
            used, start = process_time(), perf_counter()
            work()
            taken.append((perf_counter() - start, process_time() - used))
    threads.SETTING.threads = 1
    return {count: (min(w for w, _ in taken), min(p for _, p in taken)) for count, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 500_000, 1_000_000, 5_000_000])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    said = parser.parse_args()
    threads.SHARE = 1  # type: ignore[misc]
    print(f"load average {os.getloadavg()[0]:.2f}, {threads.processors()} processors")
    found = [measured(name, n, work) for n in said.rows for name, work in kernels(n).items()]
    heads = ["", "rows", "1 thread, ms", "processor", "2 threads, ms", "processor", "times"]
    print(text_table(heads, [[f["what"], *map(figure, [*f.values()][1:])] for f in found], left=1))
    if said.json is not None:
        said.json.write_text(json.dumps({"machine": machine(), "measured": found}, indent=1) + "\n")


def measured(name: str, n: int, work: Callable[[], object]) -> dict[str, Any]:
    """Return the figures of a kernel, and how many times as fast it is with two threads."""
    found = best(work)
    (one, one_used), (two, two_used) = found[1], found[2]
    figures = {"one_ms": one, "one_processor_ms": one_used, "two_ms": two, "two_processor_ms": two_used}
    rounded = {key: round(1e3 * seconds, 3) for key, seconds in figures.items()}
    return {"what": name, "rows": float(n), **rounded, "times": round(one / two, 3)}


if __name__ == "__main__":
    main()
