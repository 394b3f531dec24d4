"""How fast the recompute kernel of window calls is: ``python -m benchmarks.window_kernel [--rows 1000000]``.

Partitions of 1,000 rows, codes in and codes out, in CPU time: rows that come in any order, and rows that come sorted.
"""

import argparse
from collections.abc import Callable
from time import process_time

import numpy as np

import tidemill as tm
from benchmarks.table import text_table
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.binding import bind_windows
from tidemill.expressions.windows.calls import WindowCall
from tidemill.expressions.windows.functions import first_value, lag, rank
from tidemill.expressions.windows.specification import Window
from tidemill.renderer.embedded.kernels.codec import Interner, float_codes
from tidemill.renderer.embedded.windows.evaluate import recompute
from tidemill.renderer.embedded.windows.ordering import GivenRows

ROWS = 1_000
"""In each partition."""
W = Window.partition_by("k").order_by("t")
FEW = W.rows_between(-4, 0)
CALLS = {
    "lag": [lag("i").over(W)],
    "sum of ints, ROWS 4 PRECEDING": [tm.sum("i").over(FEW)],
    "both": [lag("i").over(W), tm.sum("i").over(FEW)],
    "sum of ints, default frame": [tm.sum("i").over(W)],
    "sum of ints, RANGE 700 PRECEDING": [tm.sum("i").over(W.range_between(-700, 0))],
    "sum of ints, EXCLUDE TIES": [tm.sum("i").over(FEW.exclude("ties"))],
    "sum of floats, ROWS 4 PRECEDING": [tm.sum("x").over(FEW)],
    "avg of floats, ROWS 4 PRECEDING": [tm.avg("x").over(FEW)],
    "variance of ints, ROWS 4 PRECEDING": [tm.variance("i").over(FEW)],
    "min, ROWS 20 PRECEDING": [tm.min("i").over(W.rows_between(-20, 0))],
    "first_value, ROWS 4 PRECEDING": [first_value("i").over(FEW)],
    "rank": [rank().over(W)],
    "count distinct, ROWS 20 to 20": [tm.count_distinct("i").over(W.rows_between(-20, 20))],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    lines = [[name, *(f"{rows / s / 1e6:.1f}" for s in _seconds(calls, rows))] for name, calls in CALLS.items()]
    print(text_table(["calls", "million rows a second", "when sorted"], lines))


def _seconds(calls: list[WindowCall], count: int) -> tuple[float, float]:
    schema = Schema.of({"k": "int64", "t": "int64", "i": "int64", "x": "float64"})
    (bound,) = bind_windows([(f"c{i}", call) for i, call in enumerate(calls)], schema)
    rng = np.random.default_rng(0)
    columns = {
        "key 0": np.arange(count) % max(count // ROWS, 1),
        "row t": rng.permutation(count) * 7,
        "row i": rng.integers(-1000, 1000, count),
        "row x": float_codes(rng.normal(0, 1000, count)),
        "hash": rng.integers(-(2**62), 2**62, count),
    }
    codes = np.stack([columns[name] for name, _ in bound.columns])
    types = [b.dtype for _, b in bound.columns]
    given = GivenRows(columns["key 0"], codes, np.ones(count, np.int64))
    order = np.lexsort((columns["row t"], given.partition))
    ordered = GivenRows(given.partition.take(order), codes.take(order, axis=1), given.counts)
    return (
        _best(lambda: recompute(bound.windows, types, given, Interner())),
        _best(lambda: recompute(bound.windows, types, ordered, Interner())),
    )


def _best(run: Callable[[], object], times: int = 7) -> float:
    found = []
    for _ in range(times):
        start = process_time()
        run()
        found.append(process_time() - start)
    return min(found)


if __name__ == "__main__":
    main()
