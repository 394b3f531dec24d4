"""The command: ``python -m benchmarks [W1 W3 ...] [--json FILE] [--pathway-python PATH]``."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.report import report
from benchmarks.suite import Suite
from benchmarks.workloads import ALL, TABLES, WORKLOADS
from benchmarks.workloads.debian import DEBIAN


def main() -> None:
    options = _options()
    if options.debian:
        os.environ[DEBIAN] = str(Path(options.debian).resolve())
    interpreters = dict.fromkeys(("tidemill", "duckdb", "duckdb1"), sys.executable)
    if options.duckdb_python:
        interpreters["duckdb1_other"] = str(Path(options.duckdb_python).absolute())
    if options.pathway_python:
        interpreters["pathway"] = str(Path(options.pathway_python).absolute())
    suite = Suite(interpreters, options.repeats)
    asked = options.workloads or list(ALL)
    names = [name for name in asked if name in WORKLOADS]
    results: dict[str, Any] = {"machine": machine()}
    results["epochs"] = suite.epochs(names, grow=not options.quick)
    results["growth"] = suite.growth(results["epochs"])
    results["batches"] = suite.batches([name for name in asked if name in TABLES], options.scale)
    if "W1" in names and not options.quick:
        results["endurance"] = suite.endurance("W1")
        results["bulk"] = suite.bulk("W1")
    print(report(results))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(_rounded(results), indent=1) + "\n")
    if any(r.get("wrong") for part in ("epochs", "bulk", "batches") for r in results.get(part, [])):
        sys.exit("answers differ")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What tidemill costs, next to others.")
    names = "; ".join(f"{name}: {w.title}" for name, w in ALL.items())
    parser.add_argument("workloads", nargs="*", metavar="W", help=f"all, or of these: {names}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure, whose median is shown (3)")
    parser.add_argument("--scale", type=float, default=1, help="of the tables of R workloads (1); 0.1 for a quick look")
    parser.add_argument("--quick", action="store_true", help="no tenfold data, no endurance, no bulk changes")
    parser.add_argument("--pathway-python", metavar="PATH", help="an interpreter that has pathway, pyarrow and numpy")
    other = "an interpreter that has another DuckDB, pyarrow and numpy, measured where one thread is, as duckdb1_other"
    parser.add_argument("--duckdb-python", metavar="PATH", help=other)
    parser.add_argument("--debian", metavar="FILE", help="another table of Debian's dependencies for W6")
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(ALL):
        parser.error(f"no workload {', '.join(sorted(unknown))}: there are {', '.join(ALL)}")
    return options


def _rounded(value: Any) -> Any:
    """Return results with floats of four significant digits."""
    if isinstance(value, dict):
        return {key: _rounded(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
