"""What threads are worth: ``python -m benchmarks.threads``, on a machine on which nothing else runs.

The kernels that work side by side, with one thread and with two, in turns: the best of some times, wall clock and
processor, in milliseconds. ``--rows`` takes other sizes; shares are made whatever the size, so that it shows from where
on they are worth it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels import threads
from tidemill.renderer.embedded.kernels.codec import Interner, encode
from tidemill.renderer.embedded.kernels.sorting import ascending, gather, sort_by

TURNS = 7
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
    for _ in range(TURNS):
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
    rows = parser.parse_args().rows
    threads.SHARE = 1  # type: ignore[misc]
    print(f"load average {os.getloadavg()[0]:.2f}, {threads.processors()} processors")
    print(f"{'':30}{'rows':>10}  {'1 thread, ms':>16}  {'2 threads, ms':>16}  {'times':>6}")
    for n in rows:
        for name, work in kernels(n).items():
            found = best(work)
            (one, one_used), (two, two_used) = found[1], found[2]
            both = f"{one * 1e3:7.1f} ({one_used * 1e3:6.1f})", f"{two * 1e3:7.1f} ({two_used * 1e3:6.1f})"
            print(f"{name:30}{n:>10,}  {both[0]:>16}  {both[1]:>16}  {one / two:6.2f}")


if __name__ == "__main__":
    main()
