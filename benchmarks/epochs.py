"""The workloads beside other engines, each measurement in a process of its own; and how their loads grow."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.runner import Figures, apart, busy, say
from benchmarks.workloads import ALL, TABLES, WORKLOADS
from benchmarks.workloads.one_row import DEBIAN

GROWING = ("W1", "W3")
"""Also measured with ten times the rows."""


def workloads(*, names: Sequence[str], repeats: int, scale: float, quick: bool, **others: str) -> Figures:
    """Measure epochs of one row, or of a thousand in large tables, and compare the answers of all engines."""
    if unknown := set(names) - set(ALL):
        sys.exit(f"no benchmark or workload {', '.join(sorted(unknown))}: there are {', '.join(ALL)}; see --list")
    if others["debian"]:
        os.environ[DEBIAN] = str(Path(others["debian"]).resolve())
    pythons = dict.fromkeys(("tidemill", "duckdb", "duckdb1"), sys.executable)
    given = {engine: others[engine] for engine in ("duckdb1_other", "pathway")}
    pythons |= {engine: str(Path(path).absolute()) for engine, path in given.items() if path}

    def compared(measurement: str, name: str, scale: float, *, pathway: bool = False) -> list[Figures]:
        engines = {e: python for e, python in pythons.items() if pathway or e != "pathway"}
        if not ALL[name].on_one_thread_too:
            engines = {e: python for e, python in engines.items() if not e.startswith("duckdb1")}
        return _compared(measurement, name, engines, scale, repeats)

    rows = [name for name in names or ALL if name in WORKLOADS]
    results: Figures = {"epochs": []}
    for name in rows:
        results["epochs"] += compared("epochs", name, 1, pathway=True)
        if name in GROWING and not quick:
            results["epochs"] += compared("epochs", name, 10)
    results["growth"] = _growth(results["epochs"])
    results["batches"] = [
        r for name in names or ALL if name in TABLES for r in _loads_related(compared("batches", name, scale))
    ]
    if "W1" in rows and not quick:
        results["endurance"] = [{"workload": "W1", **_measured("endurance", "W1", "tidemill", sys.executable, 1)}]
        results["bulk"] = compared("bulk", "W1", 1)
    found = [r for part in ("epochs", "batches", "bulk") for r in results.get(part, [])]
    results["wrong"] = sorted({f"{r['workload']} x{r['scale']:g}" for r in found if r.pop("wrong", False)})
    busiest = max((run["load_average"] or 0 for r in found for run in r.get("runs", [])), default=0)
    if busiest > (os.cpu_count() or 1):
        results["caution"] = f"others used the machine: a load average of {busiest}; such ratios are not to be quoted"
    return {part: result for part, result in results.items() if result}


def loads(*, names: Sequence[str], scales: Sequence[float], repeats: int) -> Figures:
    """Measure how loads grow with the rows: medians, and what they take in units of the smallest."""
    found: list[Figures] = []
    for name in names:
        of = [
            _middle([apart("measure:measured", "loads", name, "tidemill", s) for _ in range(repeats)]) for s in scales
        ]
        for scale, one in zip(scales, of, strict=True):
            times = {f"{kind}_times": one[f"{kind}_s"] / of[0][f"{kind}_s"] for kind in ("wall", "user")}
            found.append({"workload": name, "scale": scale, **one, **times})
    return {"loads": found}


def _compared(measurement: str, name: str, pythons: Mapping[str, str], scale: float, repeats: int) -> list[Figures]:
    """Measure the engines in turn, ``repeats`` times over, so that what disturbs one disturbs the others."""
    runs: dict[str, list[Figures]] = {engine: [] for engine in pythons}
    for _ in range(repeats):
        for engine, python in pythons.items():
            if not any("skipped" in run for run in runs[engine]):
                runs[engine].append(_measured(measurement, name, engine, python, scale))
    results = []
    for engine, made in runs.items():
        skipped = [run for run in made if "skipped" in run]
        about = {"workload": name, "title": ALL[name].title, "engine": engine, "scale": scale}
        results.append({**about, **(skipped[0] if skipped else {**_middle(made), "runs": made})})
    measured = {r["engine"]: r for r in results if "epoch_ms" in r}
    answers = [run["answer"] for r in measured.values() for run in r["runs"]]
    for result in measured.values():
        result["wrong"] = any(answer != answers[0] for answer in answers)
        if "tidemill" in measured:
            result["ratio"] = result["epoch_ms"]["median"] / measured["tidemill"]["epoch_ms"]["median"]
    return results


def _measured(measurement: str, name: str, engine: str, python: str, scale: float) -> Figures:
    say(f"{measurement} {name} x{scale:g} {engine}")
    load = busy()
    return {**apart("measure:measured", measurement, name, engine, scale, python=python), "load_average": load}


def _middle(runs: list[Any]) -> Any:
    """Return the median of each figure over the runs of a measurement; of what is no number, the first."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: _middle([run[key] for run in runs]) for key in first}
    return statistics.median(runs) if isinstance(first, float) else first


def _growth(epochs: list[Figures]) -> list[Figures]:
    """Return how the epochs' medians grow with ten times the rows, from what was measured."""
    medians = {(m["workload"], m["engine"], m["scale"]): m["epoch_ms"]["median"] for m in epochs if "epoch_ms" in m}
    pairs = [
        (*key[:2], one, medians[*key[:2], 10])
        for key, one in medians.items()
        if key[2] == 1 and (*key[:2], 10) in medians
    ]
    return [{"workload": w, "engine": e, "one_ms": one, "ten_ms": ten, "ratio": ten / one} for w, e, one, ten in pairs]


def _loads_related(found: list[Figures]) -> list[Figures]:
    """Add tidemill's load in units of DuckDB's whole query, both in processor time, on one thread."""
    of = {r["engine"]: r for r in found if "epoch_ms" in r}
    if {"tidemill", "duckdb"} <= set(of):
        of["tidemill"]["load_ratio"] = of["tidemill"]["load_cpu_s"] / of["duckdb"]["second_read_cpu_s"]
    return found
