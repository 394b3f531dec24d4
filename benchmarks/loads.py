"""How loads grow with the rows: ``python -m benchmarks.loads [W1 W3 ...] [--json FILE]``.

Each workload is loaded with its rows, ten and thirty times as many, each time in a process of its own, some times over,
of which the median is shown. What the operating system does is told apart from what tidemill does: pages that a process
has for the first time are cleared for it, and a virtual machine that gave its free memory back has to fetch it first.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.engines import engine_for
from benchmarks.machine import machine
from benchmarks.measure import held_memory, peak_memory
from benchmarks.table import figure, text_table
from benchmarks.workloads import ALL

ROOT = Path(__file__).parent.parent
SCALES = (1, 10, 30)
REPEATS = 3


def measured(name: str, scale: int) -> dict[str, float]:
    """Load a workload in this process, and return what it took; its tables are made before."""
    workload = ALL[name](scale)
    engine, tables = engine_for("tidemill", workload), workload.tables()
    base, before, start = held_memory() or 0.0, _used(), perf_counter()
    engine.load(tables)
    wall, after = perf_counter() - start, _used()
    return {
        "rows": float(sum(len(t) for t in tables.values())),
        "wall_s": wall,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
        "memory_mb": peak_memory() - base,
    }


def _used() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_SELF)


def main() -> None:
    options = _options()
    if options.one:
        name, scale = options.one
        print(json.dumps(measured(name, int(scale))), flush=True)
        return
    results = [_grown(name) for name in options.workloads or ["W1", "W3"]]
    rows = [
        [r["workload"], *map(figure, (*loaded.values(), *times.values()))]
        for r in results
        for loaded, times in zip(r["loads"], r["times"], strict=True)
    ]
    heads = ["", "scale", "rows", "wall s", "user s", "system s", "memory MB", "wall, times", "user, times"]
    print(text_table(heads, rows, left=1))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "loads": results}, indent=1) + "\n")


def _grown(name: str) -> dict[str, Any]:
    """Return a workload's loads at all scales, and what they take in units of the smallest."""
    loads: list[dict[str, Any]] = []
    for scale in SCALES:
        runs = [_in_a_process(name, scale) for _ in range(REPEATS)]
        loads.append({"scale": scale, **{key: round(statistics.median(r[key] for r in runs), 4) for key in runs[0]}})
    least = loads[0]
    times = [{"wall": f["wall_s"] / least["wall_s"], "user": f["user_s"] / least["user_s"]} for f in loads]
    return {"workload": name, "title": ALL[name].title, "loads": loads, "times": times}


def _in_a_process(name: str, scale: int) -> dict[str, float]:
    print(f"{name} x{scale} ...", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.loads", "--one", name, str(scale)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loads", description="How loads grow with the rows.")
    parser.add_argument("workloads", nargs="*", metavar="W", help="of these workloads (W1 W3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--one", nargs=2, metavar=("W", "SCALE"), help="measure one load in this process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
