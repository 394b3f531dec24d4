"""Measuring, in one place: clocks, rounds in turn, processes of their own, the machine, and text tables of figures.

From the standard library alone: it also runs in interpreters that have another engine and not tidemill.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).parents[1]

Clock = Callable[[], float]
Figures = dict[str, Any]


# -- clocks -----------------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object], clock: Clock = perf_counter) -> float:
    """Return the seconds that a call takes: by the clock on the wall, or of processor time."""
    start = clock()
    work()
    return clock() - start


def in_turn(
    works: Mapping[str, Callable[[], object]], rounds: int, clock: Clock = perf_counter
) -> dict[str, list[float]]:
    """Return the milliseconds of calls made in turn, so many times over: what disturbs one disturbs the others."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].append(1e3 * seconds(work, clock))
    return taken


def median_ms(works: Mapping[str, Callable[[], object]], rounds: int, clock: Clock = perf_counter) -> dict[str, float]:
    """Return the median milliseconds of calls made in turn."""
    return {name: statistics.median(taken) for name, taken in in_turn(works, rounds, clock).items()}


def spread(milliseconds: Sequence[float]) -> Figures:
    """Return the least, median, mean, 90th and 99th percentile and greatest of times, and how many there are."""
    ordered = sorted(milliseconds)
    percentiles = {f"p{p}": ordered[max(0, -(-len(ordered) * p // 100) - 1)] for p in (90, 99)}
    means = {"median": statistics.median(ordered), "mean": statistics.fmean(ordered)}
    return {"min": ordered[0], **means, **percentiles, "max": ordered[-1], "epochs": len(ordered)}


# -- processes --------------------------------------------------------------------------------------------------------


class GaveUpError(Exception):
    """A process needed more memory than it may have."""


def apart(place: str, *given: Any, python: str = sys.executable, megabytes: int = 0, **named: Any) -> Any:
    """Return what a function, given as ``module:name`` of this package, returns in a process of its own.

    With ``megabytes`` no more memory than that; where it needs more, `GaveUpError`.
    """
    command = [python, "-m", "benchmarks.apart", place, json.dumps([given, named, megabytes])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GaveUpError if megabytes and "MemoryError" in done.stderr else RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def say(text: object) -> None:
    """Tell those who wait."""
    print(text, file=sys.stderr, flush=True)


# -- the machine ------------------------------------------------------------------------------------------------------


def machine() -> Figures:
    """Return what figures were measured on, and with: nothing that names the machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 2**30, 1),
        "load_average": busy(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("numpy", "pyarrow", "duckdb")},
    }


def busy() -> float | None:
    """Return how many processes wanted a core over the last minute: figures are only good where this is below one."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def memory(which: str) -> float | None:
    """Return the megabytes that this process holds (VmRSS), or held at most (VmHWM), where the system says so."""
    try:
        return int(Path("/proc/self/status").read_text().split(f"{which}:")[1].split()[0]) / 2**10
    except (OSError, IndexError):
        return None


def peak_memory() -> float:
    """Return the most memory this process has held, in MB."""
    peak = memory("VmHWM")
    if peak is not None:
        return peak
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # on Linux it would begin with the parent's peak
    return most / (2**20 if sys.platform == "darwin" else 2**10)


# -- what came out ----------------------------------------------------------------------------------------------------


def rounded(value: Any) -> Any:
    """Return results with floats of four significant digits."""
    if isinstance(value, Mapping):
        return {str(key): rounded(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


_LEFT_OUT = (".min", ".mean", ".p90", ".p99", ".epochs")
"""Of a spread, unless they are asked for."""


def page(results: Mapping[str, Any], columns: Sequence[str] = ()) -> str:
    """Return results as text: rows of figures as tables, with all of their columns or those that are named."""
    parts = []
    for name, found in results.items():
        rows = _rows(found)
        there = dict.fromkeys(head for row in rows for head in row)
        shown = [c for c in columns if c in there] or [c for c in there if not c.endswith(_LEFT_OUT)]
        texts = [c for c in shown if any(isinstance(row.get(c), str) for row in rows)]
        heads = [*texts, *(c for c in shown if c not in texts)]
        lines = [[figure(row.get(c)) for c in heads] for row in rows]
        parts.append(f"{name}\n\n{text_table(heads, lines, left=len(texts))}" if rows else f"{name}: {found}")
    return "\n\n".join(parts)


def _rows(found: Any) -> list[Figures]:
    """Return rows of plain figures: of a list of them, or of a mapping from names to them; none of anything else."""
    if isinstance(found, Mapping):
        found = [{"what": name, **one} for name, one in found.items() if isinstance(one, Mapping)]
    return [_flat(one) for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _flat(row: Mapping[Any, Any], before: str = "") -> Figures:
    found: Figures = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        elif not isinstance(value, (list, tuple)):
            found[f"{before}{name}"] = value
    return found


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 2) -> str:
    """Return rows under their headings; the first ``left`` columns to the left, the rest to the right."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in lines)


def figure(value: Any) -> str:
    """Return a number with three significant digits, thousands set apart; a text as it is."""
    if value is None:
        return "-"
    if isinstance(value, (str, bool)):
        return str(value)
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
