"""Joins by a key and an inequality: ``python -m benchmarks.range_joins [--json FILE]``.

A thousand keys with a thousand rows each, and a step of new rows on the other side, of which each passes so many of its
key's; looked up by range, and by key alone with the filter behind it, as without the pass `join_by_range`. Then keys
with few rows, where there is nothing to gain. Medians of the steps.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.table import figure, text_table
from tidemill.dataflow.passes.pipeline import PASSES

CASES = ((1_000, 1_000, 0.01), (1_000, 1_000, 0.5), (300_000, 3, 0.5))
"""How many keys, rows of each, and which part of these passes."""
NEW = (1, 100, 10_000)
STEPS = 30
FORMS = {"range": None, "filter": [p.__name__ for p in PASSES if p.__name__ != "join_by_range"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    said = parser.parse_args()
    found = [measured(*case) for case in CASES]
    columns = [name for name in found[0] if name != "what"]
    print(text_table(["", *columns], [[f["what"], *(figure(f[name]) for name in columns)] for f in found], left=1))
    if said.json is not None:
        said.json.write_text(json.dumps({"machine": machine(), "measured": found}, indent=1) + "\n")


def measured(keys: int, each: int, passing: float) -> dict[str, Any]:
    """Return the seconds of the load, and the milliseconds of steps of so many new rows, of both forms."""
    found: dict[str, Any] = {"what": f"{keys:,} keys of {each:,} rows, {passing:.0%} passing"}
    sums = set()
    for form, passes in FORMS.items():
        rng = np.random.default_rng(7)
        rows = keys * each
        flow = tm.Dataflow("pairs")
        a, b = flow.input("a", {"k": "int64", "x": "int64"}), flow.input("b", {"k": "int64", "y": "int64"})
        flow.output("pairs", a.join(b, on="k", where="x < y").agg(n=tm.count()))
        with flow.start(progress=False, passes=True if passes is None else passes) as run:
            run.insert("b", pa.table({"k": np.arange(rows) % keys, "y": rng.permutation(rows)}))
            found[f"{form}_load_s"] = round(_seconds(run), 3)
            for new in NEW:
                times = []
                for _ in range(STEPS):
                    x = rng.integers(int(rows * (1 - passing)), rows, new)
                    run.insert("a", pa.table({"k": rng.integers(0, keys, new), "x": x}))
                    times.append(_seconds(run))
                found[f"{form}_ms_{new}_new"] = round(1e3 * median(times), 3)
            sums.add(tuple(run.snapshot("pairs")))
    assert len(sums) == 1, sums
    return found


def _seconds(run: tm.Run) -> float:
    start = perf_counter()
    run.advance()
    return perf_counter() - start


if __name__ == "__main__":
    main()
