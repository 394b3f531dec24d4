"""What a driver holds and does after a large load: memory, processor time, the first step that asks for a key."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.runner import Figures, seconds
from benchmarks.spark import Bench, loaded, plain, sales_files


def spark_memory(*, rows: int, in_memory: int) -> Figures:
    """S1's load of so many sales, then steps in which an item is of one category more, so that its sales are looked up.

    Of the driver's Python: the memory of its own (RssAnon) at most beyond what it held before, and processor time;
    ``processor`` is that of all processes, executors' too. One size in each process: what it held is not given back.
    """
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), 1.0)
        with bench.state() as state:  # what the JVM has to compile it compiles here
            run = loaded(bench, 300_000, state, in_driver=200_000)
            _add_item(run, 5)
            run.close()
        files = sales_files(bench, rows)
        for _ in range(3):
            plain(bench, *files)
        query = _watched(partial(plain, bench, *files))
        runs: list[Any] = []
        with bench.state() as state:
            load = _watched(lambda: runs.append(loaded(bench, rows, state, in_memory=in_memory)))
            (run,) = runs
            first = _watched(partial(_add_item, run, 5))
            others = [_watched(partial(_add_item, run, item)) for item in range(6, 16)]
            found = {
                "query": query,
                "load": load,
                "load_over_query": {name: load[name] / query[name] for name in ("seconds", "processor")},
                "first_step": first,
                "step": {name: sorted(o[name] for o in others)[len(others) // 2] for name in first},
            }
            run.close()
        bench.spark.stop()
    return {"spark_memory": {f"{rows} rows": found}}


def _add_item(run: Any, item: int) -> None:
    """Have an item be of one category more: all of its sales are looked up."""
    run.insert("items", [(item, 1)])
    run.advance()


def _watched(work: Callable[[], Any]) -> Figures:
    """Return seconds, this process' processor time, and the megabytes it held at most beyond those before."""
    before, most, over = _held(), [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            most[0] = max(most[0], _held())

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    used, all_used = time.process_time(), _of_all_processes()
    taken = seconds(work)
    used, all_used = time.process_time() - used, _of_all_processes() - all_used
    over.set()
    watching.join()
    megabytes = max(most[0], _held()) - before
    return {"seconds": taken, "processor": all_used, "driver_processor": used, "driver_mb": megabytes}


def _of_all_processes() -> float:
    """Return the processor time of this process and all below it, those that have ended included."""
    times, parents = dict[int, float](), dict[int, int]()
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                parents[int(place.name)] = int(fields[1])
                times[int(place.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {p for p, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(times[p] for p in ours)


def _held() -> float:
    lines = Path("/proc", str(os.getpid()), "status").read_text().split("RssAnon:")[1]
    return int(lines.split()[0]) / 2**10
