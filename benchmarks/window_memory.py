"""What windows in order hold: ``python -m benchmarks.window_memory [W7 W8] [--scale 1] [--json FILE]``.

Each workload in a process of its own: its table is loaded and read, and rows change one at a time. Bytes a row of the
table. The last four are resident memory of the whole process as the system counts it, less what was resident with
everything imported, a small dataflow like this one run, and the Arrow table in hand, which is the input's own:

- *operator*: what the operator of the window says that it holds, after the load and after the changes;
- *answer*: what the output says of its contents, which every dataflow keeps for whoever reads them;
- *input*: held once the table was put in, before the step: its rows as codes, which stay until the step is done, since
  a load that fails gives them back;
- *peak*: held at most while the table was put in and the step made: *input*, what the operator and the output hold from
  then on, changes that nobody has read yet, and whatever is worked out on the way and given up;
- *held*: held once the answer was read and let go of, and after the changes.

The benchmark's own are the table and nothing else: changes are drawn, not listed.
"""

import argparse
import gc
import json
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.engines.embedded import Embedded
from benchmarks.machine import machine
from benchmarks.table import text_table
from benchmarks.workload import SEED
from benchmarks.workloads import ALL

NAMES = ("W4", "W7", "W8", "W9")
CHANGES = 1_000
"""Rows that leave and come back: as many as the largest partition has chunks."""
COLUMNS = ("rows", "operator", "operator_changed", "answer", "input", "peak", "held", "held_changed", "load_cpu_s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", action="store_true", help="measure one workload here, and print JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(given.names[0], given.scale)))
        return
    command = [sys.executable, "-m", "benchmarks.window_memory", "--measure", "--scale", str(given.scale)]
    found = {n: json.loads(subprocess.check_output([*command, n]).splitlines()[-1]) for n in given.names}
    print(text_table(["", *COLUMNS], [[n, *(str(row[c]) for c in COLUMNS)] for n, row in found.items()]))
    if given.json:
        result = {"machine": machine(), "scale": given.scale, "bytes_a_row": found}
        given.json.write_text(json.dumps(result, indent=1) + "\n")


def measured(name: str, scale: float) -> dict[str, Any]:
    """Return what a workload holds, in bytes a row; Linux only, which says what a process holds and held at most."""
    _warm_up(name)
    workload = ALL[name](scale)
    engine, tables = Embedded(workload), workload.tables()
    events = tables["events"]
    base, rows = _memory("VmRSS"), events.num_rows

    def a_row(amount: float) -> float:
        return round(amount / rows, 1)

    _forget_peak()
    used = process_time()
    engine.put("events", events)
    put = _memory("VmRSS") - base
    engine.run.advance()
    used, peak = process_time() - used, _memory("VmHWM") - base
    engine.read()
    held, loaded = _memory("VmRSS") - base, _of_operators(engine)
    dice = np.random.default_rng(SEED + 1)
    for _ in range(CHANGES):
        (row,) = events.slice(int(dice.integers(rows)), 1).to_pylist()
        engine.run.delete("events", [tuple(row.values())])
        engine.run.advance()
        engine.read()
        engine.run.insert("events", [tuple(row.values())])
        engine.run.advance()
        engine.read()
    changed = _of_operators(engine)
    return {
        "rows": rows,
        "operator": a_row(loaded["windows"]),
        "operator_changed": a_row(changed["windows"]),
        "answer": a_row(loaded["answer"]),
        "input": a_row(put),
        "peak": a_row(peak),
        "held": a_row(held),
        "held_changed": a_row(_memory("VmRSS") - base),
        "load_cpu_s": round(used, 2),
    }


def _warm_up(name: str) -> None:
    """Import and compile what comes with the first step, which is not to be counted."""
    workload = ALL[name](0.001)
    engine = Embedded(workload)
    engine.load(workload.tables())
    engine.read()
    engine.close()


def _of_operators(engine: Embedded) -> dict[str, int]:
    measures = list(engine.run.metrics())
    answer = sum(m.bytes for m in measures if m.kind == "Output")
    return {"answer": answer, "windows": sum(m.bytes for m in measures) - answer}


def _memory(which: str) -> int:
    """Return the bytes that this process holds (VmRSS), or held at most (VmHWM)."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which + ":"))


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
