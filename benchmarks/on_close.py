"""W13, what it takes and what it holds: ``python -m benchmarks.on_close [--epochs 1000] [--json FILE]``.

Ten rows an epoch after a million have gone past: the time of an epoch, and what operators hold at several moments, but
for the output itself, which keeps the answer for whoever asks.
"""

import argparse
import json
import statistics
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.engines.embedded import Embedded
from benchmarks.machine import machine
from benchmarks.table import figure, text_table
from benchmarks.workloads.on_close import MeanOnClose


def measured(epochs: int, scale: float) -> dict[str, Any]:
    workload = MeanOnClose(scale)
    engine = Embedded(workload)
    tables = workload.tables()
    steps = workload.steps(tables)
    start = perf_counter()
    engine.load(tables)
    load = perf_counter() - start
    engine.read()
    seconds: list[float] = []
    held = [_held(engine, 0)]
    for part in range(4):
        for step in islice(steps, epochs // 4):
            start = perf_counter()
            engine.step(step)
            seconds.append(perf_counter() - start)
        engine.read()
        held.append(_held(engine, (part + 1) * (epochs // 4)))
    engine.close()
    milliseconds = sorted(s * 1e3 for s in seconds)
    return {
        "workload": workload.name,
        "rows": workload.count,
        "load_s": load,
        "epoch_ms": {"median": statistics.median(milliseconds), "tenth": milliseconds[len(milliseconds) // 10]},
        "held": held,
        "machine": machine(),
    }


def _held(engine: Embedded, epoch: int) -> dict[str, Any]:
    """Return what is held at a moment: updates in arrangements, and what waits."""
    inside = [o for o in engine.run.metrics() if o.kind != "Output"]
    return {
        "epoch": epoch,
        "state_rows": sum(o.state_rows for o in inside),
        "waiting": sum(o.waiting for o in inside),
        "bytes": sum(o.bytes for o in inside),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measured(options.epochs, options.scale)
    print(f"load of {found['rows']:,} rows: {found['load_s']:.2f} s; an epoch of ten: ", end="")
    print(", ".join(f"{name} {ms:.3f} ms" for name, ms in found["epoch_ms"].items()), end="\n\n")
    rows = [[figure(h[k]) for k in ("epoch", "state_rows", "waiting", "bytes")] for h in found["held"]]
    print(text_table(["after epochs", "rows held", "rows waiting", "bytes"], rows))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
