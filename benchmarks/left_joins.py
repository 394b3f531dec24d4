"""Stacks of left joins, with unions consolidated and without: ``python -m benchmarks.left_joins [--json FILE]``.

Each stack joins one table to others, of which a share of the keys match. A process of its own loads all tables in one
epoch and then changes a row in each of many: its peak of memory is that of the loading. Without the pass what is not
consolidated is multiplied from join to join, so it is given up where a process needs more memory than ``--most`` has.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.measure import peak_memory
from benchmarks.table import figure, text_table
from tidemill.dataflow.passes.pipeline import PASSES

DEPTHS = (1, 2, 3, 5, 10, 20, 30)
MATCHES = (0, 50, 100)
STEPS = 50
WITHOUT = [p.__name__ for p in PASSES if p.__name__ != "consolidate_unions"]
COLUMNS = ("load_s", "step_ms", "state_rows", "most_records", "peak_mb")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--depths", type=int, nargs="+", default=DEPTHS)
    parser.add_argument("--most", type=int, default=6_000, help="megabytes of memory that a process may need")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=int, nargs=3, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.one:
        resource.setrlimit(resource.RLIMIT_AS, (said.most << 20, said.most << 20))
        depth, match, consolidated = said.one
        print(json.dumps(measured(depth, said.rows, match, bool(consolidated))))
        return
    found = [
        {"depth": depth, "match": match, "consolidated": c, **_in_a_process(said, depth, match, c)}
        for depth in said.depths
        for match in MATCHES
        for c in (True, False)
    ]
    cells = [
        [str(f["depth"]), f"{f['match']} %", "with" if f["consolidated"] else "without", *map(_cell(f), COLUMNS)]
        for f in found
    ]
    print(text_table(["joins", "match", "pass", *COLUMNS], cells, left=3))
    if said.json is not None:
        said.json.write_text(json.dumps({"machine": machine(), "rows": said.rows, "stacks": found}, indent=1) + "\n")


def measured(depth: int, rows: int, match: int, consolidated: bool) -> dict[str, Any]:
    """Return the figures of one stack, in processor time."""
    keys = np.arange(rows)
    some = keys[: rows * match // 100]
    with _stack(depth).start(passes=True if consolidated else WITHOUT, progress=False) as run:
        base = peak_memory()
        run.insert("t", pa.table({"x": keys, "y": keys}))
        for i in range(depth):
            run.insert(f"d{i}", pa.table({"x": some, f"z{i}": some}))
        start = process_time()
        run.advance()
        load, steps = process_time() - start, []
        peak, figures = peak_memory() - base, run.metrics()
        for i in range(STEPS):
            run.insert("t", [(i, rows + i)])
            start = process_time()
            run.advance()
            steps.append(process_time() - start)
        return {
            "load_s": round(load, 3),
            "step_ms": round(1e3 * median(steps), 3),
            "state_rows": figures.state_rows,
            "most_records": max(o.records_out for o in figures),
            "peak_mb": round(peak),
        }


def _stack(depth: int) -> tm.Dataflow:
    flow = tm.Dataflow("left joins")
    joined = flow.input("t", {"x": "int64", "y": "int64"})
    for i in range(depth):
        joined = joined.join(flow.input(f"d{i}", {"x": "int64", f"z{i}": "int64"}), on="x", how="left")
    flow.output("out", joined, changes=False)
    return flow


def _in_a_process(said: argparse.Namespace, depth: int, match: int, consolidated: bool) -> dict[str, Any]:
    one = [str(depth), str(match), str(int(consolidated))]
    more = ["--rows", str(said.rows), "--most", str(said.most), "--one", *one]
    command = [sys.executable, "-m", "benchmarks.left_joins", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "MemoryError" not in done.stderr:
        raise RuntimeError(done.stderr)
    return {"gave_up": f"more than {said.most} MB"} if done.returncode else json.loads(done.stdout)


def _cell(found: dict[str, Any]) -> Any:
    return lambda name: figure(found[name]) if name in found else f"> {found['gave_up'][10:]}" * (name == "peak_mb")


if __name__ == "__main__":
    main()
