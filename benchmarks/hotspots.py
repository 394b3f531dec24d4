"""Where an epoch spends its time: ``python -m benchmarks.hotspots [W1 W3 ...] [--epochs 500]``.

By operator, from the run's own metrics, without a profiler; then by function, from cProfile, which makes calls dearer.
Of R workloads it is the load: by function, in processor time of all threads.
"""

import argparse
import cProfile
import io
import pstats
from itertools import islice
from time import perf_counter, process_time
from typing import Any

from benchmarks.engines.embedded import Embedded
from benchmarks.runner import figure, text_table
from benchmarks.workload import Workload
from benchmarks.workloads import ALL, TABLES


def hotspots(workload: Workload, epochs: int) -> str:
    """Return a text of two tables about the one-row epochs of a workload."""
    engine, tables = Embedded(workload), workload.tables()
    changes = workload.steps(tables)
    engine.load(tables)
    engine.read()
    for change in islice(changes, 10):
        engine.step(change)
    before, start = engine.run.metrics(), perf_counter()
    for change in islice(changes, epochs):
        engine.step(change)
    seconds = perf_counter() - start
    rows, inside = [], 0.0
    for old, new in zip(before, engine.run.metrics(), strict=True):
        inside += new.seconds - old.seconds
        counts = (new.seconds - old.seconds) * 1e6, new.records_in - old.records_in, new.records_out - old.records_out
        rows.append([f"#{new.id} {new.kind}", new.name, *(figure(c / epochs) for c in counts)])
    for what, taken in (("outside operators", seconds - inside), ("an epoch", seconds)):
        rows.append([what, "", figure(taken / epochs * 1e6), "", ""])
    engine.read()
    profile = cProfile.Profile()
    for change in islice(changes, epochs):
        profile.runcall(engine.step, change)
    by_operator = text_table(["operator", "", "us an epoch", "records in", "out"], rows)
    head = f"{workload.name} {workload.title}: {epochs} epochs of one row, insert or delete and advance"
    return f"{head}\n\n{by_operator}\n\n{_by_function(profile, 25, 1e6 / epochs, epochs)}"


def load_hotspots(workload: Workload, scale: float) -> str:
    """Return a table about the load of a workload's tables, at ``scale`` times their size."""
    engine, tables = Embedded(workload), workload.tables()
    profile = cProfile.Profile(process_time)
    profile.runcall(engine.load, tables)
    head = f"{workload.name} {workload.title} x{scale:g}: load, in ms of processor time"
    return f"{head}\n\n{_by_function(profile, 10, 1e3, 1)}"


def _by_function(profile: cProfile.Profile, shown: int, unit: float, of: int) -> str:
    timings: dict[tuple[str, int, str], Any] = pstats.Stats(profile, stream=io.StringIO()).stats  # type: ignore[attr-defined]
    rows = [
        [_place(*where), figure(own * unit), figure(total * unit), figure(calls / of)]
        for where, (_, calls, own, total, _) in sorted(timings.items(), key=lambda item: -item[1][2])[:shown]
    ]
    return text_table(["function", "own us" if unit > 1e3 else "own ms", "with callees", "calls"], rows, left=1)


def _place(file: str, line: int, name: str) -> str:
    if not line:
        return name
    folder, _, after = file.replace("\\", "/").rpartition("/tidemill/")
    return f"{after if folder else file.rsplit('/', 1)[-1]}:{line} {name}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hotspots", description="Where epochs spend their time.")
    parser.add_argument("workloads", nargs="*", default=["W1", "W3"], metavar="W", help="W1 and W3, or any others")
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--scale", type=float, default=1, help="of the tables of R workloads (1)")
    options = parser.parse_args()
    for name in options.workloads:
        workload = ALL[name](options.scale if name in TABLES else 1)
        of_load = name in TABLES
        print(load_hotspots(workload, options.scale) if of_load else hotspots(workload, options.epochs), end="\n\n")


if __name__ == "__main__":
    main()
