"""Which measurements are made, each in a process of its own, and what they come to together."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.machine import busy
from benchmarks.workloads import ALL

ROOT = Path(__file__).parents[1]
GROWING = ("W1", "W3")

Result = dict[str, Any]


class Suite:
    """The measurements of a run. ``interpreters`` are those that the engines run in."""

    def __init__(self, interpreters: dict[str, str], repeats: int) -> None:
        self.interpreters = interpreters
        self.repeats = repeats

    def epochs(self, names: Sequence[str], *, grow: bool) -> list[Result]:
        """Measure one-row epochs of every engine; with ``grow``, also with ten times the rows where that is asked."""
        results = []
        for name in names:
            for scale in (1, 10) if grow and name in GROWING else (1,):
                engines = [e for e in self._engines(name) if scale == 1 or e != "pathway"]
                results += self._compared("epochs", name, engines, scale)
        return results

    def growth(self, epochs: list[Result]) -> list[Result]:
        """Return how the epochs' medians grow with ten times the rows, from what was measured."""
        medians = {(m["workload"], m["engine"], m["scale"]): m["epoch_ms"]["median"] for m in epochs if "epoch_ms" in m}
        pairs = [(key, one, medians[*key[:2], 10]) for key, one in medians.items() if (*key[:2], 10) in medians]
        return [
            {"workload": workload, "engine": engine, "one_ms": one, "ten_ms": ten, "ratio": ten / one}
            for (workload, engine, scale), one, ten in pairs
            if scale == 1
        ]

    def endurance(self, name: str) -> list[Result]:
        """Measure whether the state and the epochs stay as they are."""
        return [{"workload": name, **self._measured("endurance", name, "tidemill", 1)}]

    def bulk(self, name: str) -> list[Result]:
        """Measure epochs of many rows."""
        return self._compared("bulk", name, [e for e in self._engines(name) if e != "pathway"], 1)

    def batches(self, names: Sequence[str], scale: float) -> list[Result]:
        """Measure loads of large tables, and epochs of a thousand rows."""
        results = []
        for name in names:
            found = self._compared("batches", name, [e for e in self._engines(name) if e != "pathway"], scale)
            of = {r["engine"]: r for r in found}
            if {"tidemill", "duckdb"} <= set(of):
                of["tidemill"]["load_ratio"] = of["tidemill"]["load_cpu_s"] / of["duckdb"]["second_read_cpu_s"]
            results += found
        return results

    def _engines(self, name: str) -> list[str]:
        """Return the engines that a workload is measured with."""
        return [e for e in self.interpreters if not e.startswith("duckdb1") or ALL[name].on_one_thread_too]

    def _compared(self, measurement: str, name: str, engines: Sequence[str], scale: float) -> list[Result]:
        """Measure the engines in turn, ``repeats`` times over, so that what disturbs one disturbs the others."""
        runs: dict[str, list[Result]] = {engine: [] for engine in engines}
        for _ in range(self.repeats):
            for engine in engines:
                if not any("skipped" in run for run in runs[engine]):
                    runs[engine].append(self._measured(measurement, name, engine, scale))
        results = []
        for engine in engines:
            about = {"workload": name, "title": ALL[name].title, "engine": engine, "scale": scale}
            skipped = [run for run in runs[engine] if "skipped" in run]
            results.append({**about, **(skipped[0] if skipped else {**_middle(runs[engine]), "runs": runs[engine]})})
        _relate(results)
        return results

    def _measured(self, measurement: str, name: str, engine: str, scale: float) -> Result:
        command = [self.interpreters[engine], "-m", "benchmarks.worker", measurement, name, engine, str(scale)]
        load, start = busy(), perf_counter()
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        took = perf_counter() - start
        print(f"{measurement} {name} x{scale} {engine} took {took:.1f} s", file=sys.stderr, flush=True)
        return {**json.loads(done.stdout.splitlines()[-1]), "load_average": load, "process_s": took}


def _middle(runs: list[Any]) -> Any:
    """Return the median of each figure over the runs of a measurement; of what is no number, the first."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: _middle([run[key] for run in runs]) for key in first}
    if isinstance(first, float):
        return statistics.median(runs)
    return first


def _relate(results: list[Result]) -> None:
    """Add how many times tidemill's epoch each engine's is, and which answers are not those of the others."""
    measured = {r["engine"]: r for r in results if "epoch_ms" in r}
    answers = [run["answer"] for r in measured.values() for run in r["runs"]]
    for result in measured.values():
        if any(answer != answers[0] for answer in answers):
            result["wrong"] = True
        if "tidemill" in measured:
            result["ratio"] = result["epoch_ms"]["median"] / measured["tidemill"]["epoch_ms"]["median"]
