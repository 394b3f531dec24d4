"""What is measured of a workload in one process: epochs of one row, endurance, epochs of many rows, loads."""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from time import perf_counter, process_time
from typing import Any

from benchmarks.engines import Engine, engine_for
from benchmarks.runner import Figures, memory, peak_memory, spread
from benchmarks.workload import Change, NotSupportedError, Row, Tables
from benchmarks.workloads import ALL

WARM_UP = 10
EPOCHS = 100
READING_SECONDS = 20.0
"""After this long, answers are no longer read where reading costs much; changes go on to the end."""

ENDURANCE = 100_000
BULK_ROWS, BULK_EPOCHS = 100_000, 5
BATCH_ROWS, BATCH_EPOCHS = 1_000, 30


def measured(measurement: str, workload: str, name: str, scale: float) -> Figures:
    """Return a measurement of a workload with an engine, or why there is none."""
    made: Any = ALL[workload](scale)
    measure = {"epochs": epochs, "bulk": bulk, "batches": batches, "endurance": endurance, "loads": loads}[measurement]
    try:
        engine = engine_for(name, made)
        found = measure(made, engine)
    except NotSupportedError as reason:
        return {"skipped": str(reason) or "not supported"}
    if measurement in ("epochs", "bulk", "batches"):
        found |= {"version": engine.version, "answer": digest(engine.contents())}
        found |= {"state_rows": engine.state_rows(), "answer_rows": engine.answer_rows()}
    engine.close()
    return found


def epochs(workload: Any, engine: Engine) -> Figures:
    """Load, change one row an epoch, and say what it took."""
    base, tables = peak_memory(), workload.tables()
    loading, reading = load(engine, tables)
    times = timed(engine, workload.steps(tables), EPOCHS)
    return {"load_s": loading, "first_read_s": reading, **times.spreads(), "memory_mb": peak_memory() - base}


def bulk(workload: Any, engine: Engine) -> Figures:
    """Load, and change many rows in each of a few epochs."""
    base, tables = peak_memory(), workload.tables()
    load(engine, tables)
    times = timed(engine, workload.bulk_changes(tables, BULK_ROWS), BULK_EPOCHS, warm_up=1)
    return {"rows": BULK_ROWS, **times.spreads(), "memory_mb": peak_memory() - base}


def batches(workload: Any, engine: Engine) -> Figures:
    """Load a large table, and change a thousand rows in each of some epochs; the memory is that beyond the table."""
    tables = workload.tables()
    base, used = memory("VmRSS") or 0.0, process_time()
    loading, reading = load(engine, tables)
    used, loaded_memory = process_time() - used, peak_memory() - base
    read = process_time()
    engine.read()
    read = process_time() - read
    times = timed(engine, workload.bulk_changes(tables, BATCH_ROWS), BATCH_EPOCHS)
    return {
        "rows": BATCH_ROWS, "load_s": loading, "load_cpu_s": used, "load_memory_mb": loaded_memory,
        "first_read_s": reading, "second_read_cpu_s": read, **times.spreads(), "memory_mb": peak_memory() - base,
    }  # fmt: skip


def endurance(workload: Any, engine: Engine) -> Figures:
    """Insert and delete the same row, epoch after epoch, and compare the last thousand epochs with the first."""
    tables = workload.tables()
    load(engine, tables)
    change = next(workload.changes(tables))
    both = [change], [Change(change.table, change.rows, -change.sign)]
    first = timed(engine, cycle(both), 1_000)
    rows, before = engine.state_rows(), memory("VmRSS")
    timed(engine, cycle(both), ENDURANCE - 2_000, warm_up=0)
    last = timed(engine, cycle(both), 1_000, warm_up=0)
    after = memory("VmRSS")
    return {
        "epochs": ENDURANCE,
        "first_step_ms": spread(first.steps),
        "last_step_ms": spread(last.steps),
        "first_state_rows": rows,
        "last_state_rows": engine.state_rows(),
        "memory_growth_mb": None if before is None or after is None else after - before,
    }


def loads(workload: Any, engine: Engine) -> Figures:
    """Load tables that were made before; what the operating system does is told apart from what tidemill does.

    Pages that a process has for the first time are cleared for it, and a virtual machine that gave its free memory back
    has to fetch it first.
    """
    tables = workload.tables()
    base, before, start = memory("VmRSS") or 0.0, resource.getrusage(resource.RUSAGE_SELF), perf_counter()
    engine.load(tables)
    wall, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": sum(len(t) for t in tables.values()),
        "wall_s": wall,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
        "memory_mb": peak_memory() - base,
    }


@dataclass
class Times:
    """Milliseconds of steps, of readings as far as they were made, and of processor time for both together."""

    steps: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def spreads(self) -> dict[str, Figures]:
        """Return what there is to say of the epochs that were read: an epoch is a step and a reading."""
        steps = self.steps[: len(self.reads)]
        together = [s + r for s, r in zip(steps, self.reads, strict=True)]
        named = {"step_ms": steps, "read_ms": self.reads, "epoch_ms": together, "processor_ms": self.processor}
        return {name: spread(found) for name, found in named.items()}


def timed(engine: Engine, changes: Iterator[list[Change]], number: int, *, warm_up: int = WARM_UP) -> Times:
    """Return how long each of a number of epochs took."""
    for change in islice(changes, warm_up):
        engine.prepare(change)
        engine.step(change)
        engine.read()
    times = Times()
    for change in islice(changes, number):
        engine.prepare(change)
        used, start = process_time(), perf_counter()
        engine.step(change)
        stepped = perf_counter()
        times.steps.append(1e3 * (stepped - start))
        if sum(times.reads) < 1e3 * READING_SECONDS:
            engine.read()
            times.reads.append(1e3 * (perf_counter() - stepped))
            times.processor.append(1e3 * (process_time() - used))
    return times


def load(engine: Engine, tables: Tables) -> tuple[float, float]:
    """Return the seconds that loading and the first reading take."""
    start = perf_counter()
    engine.load(tables)
    loaded = perf_counter()
    engine.read()
    return loaded - start, perf_counter() - loaded


def digest(rows: list[Row]) -> Figures:
    """Return what tells one answer from another, whatever the order of its rows: floats to the hundredth."""
    if any(isinstance(v, float) for row in rows for v in row):
        rows = [tuple([round(v, 2) + 0.0 if isinstance(v, float) else v for v in row]) for row in rows]
    return {"rows": len(rows), "sha256": hashlib.sha256("".join(sorted(map(repr, rows))).encode()).hexdigest()}
