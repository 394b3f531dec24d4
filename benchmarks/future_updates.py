"""What updates cost that are pending for later times: ``python -m benchmarks.future_updates [--json FILE]``.

Rows with the time at which they end, ten for each epoch to come, in a temporal filter that takes each away then. Epochs
that release ten of them; epochs that bring ten more besides, at times all over the future; and epochs that take back
ten rows that came before, so that two future updates cancel out.
"""

import argparse
import gc
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.table import text_table

SIZES = (100_000, 1_000_000, 10_000_000)
EACH = 10
EPOCHS = 500


def measured(rows: int) -> dict[str, Any]:
    """Return the seconds of a load, the milliseconds of epochs after it and the memory of what is pending."""
    flow = tm.Dataflow("future")
    events = flow.input("events", {"id": "int64", "end": "int64"})
    flow.output("n", events.temporal_filter(None, "end").agg(n=tm.count()))
    rng = np.random.default_rng(0)
    ends = rng.permutation(rows) // EACH + 1
    result: dict[str, Any] = {"pending": rows}
    with flow.start() as run:
        start = perf_counter()
        run.insert("events", pa.table({"id": np.arange(rows), "end": ends}))
        run.advance()
        run.advance()  # the one in which what is pending is laid out
        result["load_s"] = perf_counter() - start
        gc.collect()
        result["release"] = _epochs(run, lambda _: None)
        horizon = rows // EACH
        came: list[list[tuple[int, int]]] = []

        def bring(epoch: int) -> None:
            came.append([(rows + epoch, EPOCHS * 4 + int(end)) for end in rng.integers(0, horizon, EACH)])
            run.insert("events", came[-1])

        result["release_and_bring"] = _epochs(run, bring)
        result["release_and_take_back"] = _epochs(run, lambda epoch: run.delete("events", came[epoch]))
        counts = [n for (n,), _, diff in run.changes("n") if diff > 0]
        assert counts[-1] == rows - (3 * EPOCHS + 1) * EACH, counts[-1]
        result["bytes_per_pending_update"] = sum(o.bytes for o in run.metrics()) / (rows - 3 * EPOCHS * EACH)
    return result


def _epochs(run: Any, change: Any) -> dict[str, float]:
    times = []
    for epoch in range(EPOCHS):
        change(epoch)
        start = perf_counter()
        run.advance()
        times.append((perf_counter() - start) * 1000)
    found = np.array(times)
    return {
        "median_ms": float(np.median(found)), "mean_ms": float(found.mean()),
        "p99_ms": float(np.percentile(found, 99)), "max_ms": float(found.max()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    arguments = parser.parse_args()
    found = [measured(size) for size in arguments.sizes]
    kinds = ("release", "release_and_bring", "release_and_take_back")
    lines = [
        [f"{f['pending']:,}", f"{f['load_s']:.2f}", *(f"{f[k]['median_ms']:.2f} / {f[k]['max_ms']:.1f}" for k in kinds)]
        for f in found
    ]
    print(text_table(["pending", "load, s", "10 due: median / max, ms", "10 come, too", "10 are taken back"], lines))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "future_updates": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
