"""What it costs to go on with a state from the start of a process: imports, the dataflow, opening, the first step."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import tidemill as tm
from benchmarks.runner import ROOT, Figures
from tidemill.demo.data import load
from tidemill.demo.flow import build

_OPENED = """
import json, os, sys, time
marks = [("Python", time.process_time())]

def mark(name):
    marks.append((name, time.process_time()))

import numpy, pyarrow, pyarrow.compute
mark("NumPy and pyarrow")
import tidemill as tm
mark("tidemill")
from tidemill.demo.flow import build
flow = build()
mark("building")
import tidemill.renderer.durable.start, tidemill.renderer.embedded.compile
mark("imports for opening")
run = flow.start(tm.Embedded(sys.argv[1], threads=1))
mark("opening")
with pyarrow.memory_map(sys.argv[2]) as file:
    run.insert("flights", pyarrow.ipc.open_file(file).read_all())
run.advance()
mark("step")
spent = {name: now - before for (name, now), (_, before) in zip(marks, [("", 0.0), *marks])}
modules = {name: name in sys.modules for name in ("pandas", "sqlglot")}
print(json.dumps({**spent, "all": marks[-1][1], **modules}), flush=True)
os._exit(0)  # what closing takes is not asked
"""


def opening(*, flights: int, step: int, rounds: int, sizes: Sequence[int], steps: Sequence[int]) -> Figures:
    """Measure the demo's dataflow on a folder that has taken in so many flights: processor seconds, medians of rounds.

    ``state_rows`` is how many updates the state holds. Each round is a process of its own, on a copy of the folder.
    ``by_size`` is the same for other numbers of flights, ``by_steps`` for other numbers of steps, each of ten flights
    that go or come back, after which the run is closed; ``files`` is how many there are in the folder.
    """
    one = _measured(flights, 1, step, rounds)
    by_size = [{"flights": size, **_measured(size, 1, step, rounds)} for size in sizes]
    by_steps = [{"steps": number, **_measured(flights, number, step, rounds)} for number in steps]
    return {"opening": one, "by_size": by_size, "by_steps": by_steps}


def _measured(flights: int, steps: int, step: int, rounds: int) -> Figures:
    """Measure a folder that took in flights in one step, and in others some of them anew."""
    found: list[Figures] = []
    with tempfile.TemporaryDirectory() as place:
        state, copy, rows = Path(place) / "state", Path(place) / "copy", Path(place) / "rows.arrow"
        data = load()
        with build().start(tm.Embedded(state)) as run:
            for name, table in {**data.dimensions, "flights": data.flights.slice(0, flights)}.items():
                run.insert(name, table)
            run.advance()
            for number in range(steps - 1):
                again = data.flights.slice((number // 2 * 10) % flights, 10)
                (run.delete if number % 2 == 0 else run.insert)("flights", again)
                run.advance()
            if steps == 1:
                run.checkpoint()
            held, operators = run.metrics().state_rows, len(run.metrics())
        files = sum(1 for path in state.rglob("*") if path.is_file())
        with pa.ipc.new_file(str(rows), data.flights.schema) as writer:
            writer.write_table(data.flights.slice(flights, step))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        for _ in range(rounds + 1):  # the first compiles modules
            shutil.copytree(state, copy)
            command = [sys.executable, "-c", _OPENED, str(copy), str(rows)]
            done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
            found.append(json.loads(done.stdout))
            shutil.rmtree(copy)
    medians = {name: statistics.median(one[name] for one in found[1:]) for name in found[0]}
    return {"operators": operators, "state_rows": held, "files": files, **medians}
