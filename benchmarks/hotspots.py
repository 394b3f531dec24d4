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

import tidemill as tm
from benchmarks.engines.embedded import Embedded
from benchmarks.table import figure, text_table
from benchmarks.workload import Workload
from benchmarks.workloads import ALL, TABLES


def hotspots(workload: Workload, epochs: int) -> str:
    """Return a text of two tables about the one-row epochs of a workload."""
    engine = Embedded(workload)
    tables = workload.tables()
    changes = workload.steps(tables)
    engine.load(tables)
    engine.read()
    for change in islice(changes, 10):
        engine.step(change)
    before = engine.run.metrics()
    start = perf_counter()
    for change in islice(changes, epochs):
        engine.step(change)
    seconds = perf_counter() - start
    by_operator = _by_operator(before, engine.run.metrics(), seconds, epochs)
    engine.read()
    profile = cProfile.Profile()
    for change in islice(changes, epochs):
        profile.runcall(engine.step, change)
    head = f"{workload.name} {workload.title}: {epochs} epochs of one row, insert or delete and advance"
    return f"{head}\n\n{by_operator}\n\n{_by_function(profile, epochs)}"


def load_hotspots(workload: Workload, scale: float) -> str:
    """Return a table about the load of a workload's tables, at ``scale`` times their size."""
    engine, tables = Embedded(workload), workload.tables()
    profile = cProfile.Profile(process_time)
    profile.runcall(engine.load, tables)
    seconds = sum(own for _, _, own, _, _ in _timings(profile).values())
    rows = [
        [_place(where), f"{own / seconds:.1%}", figure(calls)]
        for where, (_, calls, own, _, _) in _by_own_time(profile)[:10]
    ]
    head = f"{workload.name} {workload.title} x{scale:g}: load, {figure(seconds)} s of processor time"
    return f"{head}\n\n{text_table(['function', 'own', 'calls'], rows, left=1)}"


def _by_operator(before: Any, after: Any, seconds: float, epochs: int) -> str:
    rows = [
        [f"#{new.id} {new.kind}", new.name, figure((new.seconds - old.seconds) / epochs * 1e6)]
        + [figure((n - o) / epochs) for n, o in ((new.records_in, old.records_in), (new.records_out, old.records_out))]
        for old, new in zip(before, after, strict=True)
    ]
    inside = sum(new.seconds - old.seconds for old, new in zip(before, after, strict=True))
    rows.append(["outside operators", "", figure((seconds - inside) / epochs * 1e6), "", ""])
    rows.append(["an epoch", "", figure(seconds / epochs * 1e6), "", ""])
    return text_table(["operator", "", "us an epoch", "records in", "out"], rows)


def _by_function(profile: cProfile.Profile, epochs: int, shown: int = 25) -> str:
    rows = [
        [_place(where), figure(own / epochs * 1e6), figure(total / epochs * 1e6), figure(calls / epochs)]
        for where, (_, calls, own, total, _) in _by_own_time(profile)[:shown]
    ]
    return text_table(["function", "own us an epoch", "with callees", "calls"], rows, left=1)


def _timings(profile: cProfile.Profile) -> Any:
    return pstats.Stats(profile, stream=io.StringIO()).stats  # type: ignore[attr-defined]


def _by_own_time(profile: cProfile.Profile) -> list[Any]:
    return sorted(_timings(profile).items(), key=lambda item: -item[1][2])


def _place(where: tuple[str, int, str]) -> str:
    file, line, name = where
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
    print(f"tidemill {tm.__version__}\n")
    for name in options.workloads:
        loaded = name in TABLES
        workload = ALL[name](options.scale) if loaded else ALL[name]()
        print(load_hotspots(workload, options.scale) if loaded else hotspots(workload, options.epochs), end="\n\n")


if __name__ == "__main__":
    main()
