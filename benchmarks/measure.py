"""What is measured in one process: epochs of one row, endurance, epochs of many rows."""

from __future__ import annotations

import hashlib
import resource
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.engines import Engine, engine_for
from benchmarks.workload import Change, Row, Tables, Workload

WARM_UP = 10
EPOCHS = 100
READING_SECONDS = 20.0
"""After this long, answers are no longer read where reading costs much; changes go on to the end."""

ENDURANCE = 100_000
BULK_ROWS = 100_000
BULK_EPOCHS = 5
BATCH_ROWS = 1_000
BATCH_EPOCHS = 30


def epochs(workload: Workload, name: str) -> dict[str, Any]:
    """Load, change one row an epoch, and say what it took."""
    engine, base = engine_for(name, workload), peak_memory()
    tables = workload.tables()
    loading, reading = load(engine, tables)
    times = timed(engine, workload.steps(tables), EPOCHS)
    memory = peak_memory() - base
    result = {
        "version": engine.version,
        "load_s": loading,
        "first_read_s": reading,
        **times.spreads(),
        "memory_mb": memory,
        "state_rows": engine.state_rows(),
        "answer_rows": engine.answer_rows(),
        "answer": digest(engine.contents()),
    }
    engine.close()
    return result


def bulk(workload: Any, name: str) -> dict[str, Any]:
    """Load, and change many rows in each of a few epochs."""
    engine, base = engine_for(name, workload), peak_memory()
    tables = workload.tables()
    load(engine, tables)
    times = timed(engine, workload.bulk_changes(tables, BULK_ROWS), BULK_EPOCHS, warm_up=1)
    result = {
        "rows": BULK_ROWS,
        **times.spreads(),
        "memory_mb": peak_memory() - base,
        "answer": digest(engine.contents()),
    }
    engine.close()
    return result


def batches(workload: Any, name: str) -> dict[str, Any]:
    """Load a large table, and change a thousand rows in each of some epochs; the memory is that beyond the table."""
    engine = engine_for(name, workload)
    tables = workload.tables()
    base, used = held_memory() or 0.0, process_time()
    loading, reading = load(engine, tables)
    used, loaded_memory = process_time() - used, peak_memory() - base
    read = process_time()
    engine.read()
    read = process_time() - read
    times = timed(engine, workload.bulk_changes(tables, BATCH_ROWS), BATCH_EPOCHS)
    return {
        "version": engine.version,
        "rows": BATCH_ROWS,
        "load_s": loading,
        "load_cpu_s": used,
        "load_memory_mb": loaded_memory,
        "first_read_s": reading,
        "second_read_cpu_s": read,
        **times.spreads(),
        "memory_mb": peak_memory() - base,
        "state_rows": engine.state_rows(),
        "answer_rows": engine.answer_rows(),
        "answer": digest(engine.contents()),
    }


def endurance(workload: Workload, name: str) -> dict[str, Any]:
    """Insert and delete the same row, epoch after epoch, and compare the last thousand epochs with the first."""
    engine = engine_for(name, workload)
    tables = workload.tables()
    load(engine, tables)
    change = next(workload.changes(tables))
    both = [change], [Change(change.table, change.rows, -change.sign)]
    first = timed(engine, cycle(both), 1_000)
    rows, memory = engine.state_rows(), held_memory()
    timed(engine, cycle(both), ENDURANCE - 2_000, warm_up=0)
    last = timed(engine, cycle(both), 1_000, warm_up=0)
    after = held_memory()
    result = {
        "epochs": ENDURANCE,
        "first_step_ms": spread(first.steps),
        "last_step_ms": spread(last.steps),
        "first_state_rows": rows,
        "last_state_rows": engine.state_rows(),
        "memory_growth_mb": None if memory is None or after is None else after - memory,
    }
    engine.close()
    return result


@dataclass
class Times:
    """Seconds of steps, of readings as far as they were made, and of processor time for both together."""

    steps: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def spreads(self) -> dict[str, dict[str, float]]:
        """Return what there is to say of the epochs that were read: an epoch is a step and a reading."""
        steps = self.steps[: len(self.reads)]
        return {
            "step_ms": spread(steps),
            "read_ms": spread(self.reads),
            "epoch_ms": spread([s + r for s, r in zip(steps, self.reads, strict=True)]),
            "processor_ms": spread(self.processor),
        }


def timed(engine: Engine, changes: Iterator[list[Change]], number: int, *, warm_up: int = WARM_UP) -> Times:
    """Return how long each of a number of epochs took."""
    for change in islice(changes, warm_up):
        engine.prepare(change)
        engine.step(change)
        engine.read()
    times = Times()
    for change in islice(changes, number):
        engine.prepare(change)
        used = process_time()
        start = perf_counter()
        engine.step(change)
        stepped = perf_counter()
        times.steps.append(stepped - start)
        if sum(times.reads) < READING_SECONDS:
            engine.read()
            times.reads.append(perf_counter() - stepped)
            times.processor.append(process_time() - used)
    return times


def load(engine: Engine, tables: Tables) -> tuple[float, float]:
    """Return the seconds that loading and the first reading take."""
    start = perf_counter()
    engine.load(tables)
    loaded = perf_counter()
    engine.read()
    return loaded - start, perf_counter() - loaded


def spread(seconds: list[float]) -> dict[str, float]:
    """Return the least, median, 90th percentile and greatest, in milliseconds."""
    ordered = sorted(s * 1_000 for s in seconds)
    p90 = ordered[max(0, -(-len(ordered) * 9 // 10) - 1)]
    return {
        "min": ordered[0],
        "median": statistics.median(ordered),
        "p90": p90,
        "max": ordered[-1],
        "epochs": len(ordered),
    }


def digest(rows: list[Row]) -> dict[str, Any]:
    """Return what tells one answer from another, whatever the order of its rows: floats to the hundredth."""
    if any(isinstance(v, float) for row in rows for v in row):
        rows = [tuple([round(v, 2) + 0.0 if isinstance(v, float) else v for v in row]) for row in rows]
    return {"rows": len(rows), "sha256": hashlib.sha256("".join(sorted(map(repr, rows))).encode()).hexdigest()}


def peak_memory() -> float:
    """Return the most memory this process has held, in MB."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 2**10
    except (OSError, IndexError):
        pass  # elsewhere; what follows begins, on Linux, with the peak of the process that started this one
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def held_memory() -> float | None:
    """Return the memory this process holds now, in MB, where the system says so."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * resource.getpagesize() / 2**20
