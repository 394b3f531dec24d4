"""A program: tidemill on a cluster of this machine, whose executors are processes of their own; one of them is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from elsewhere import LEAST_WORK, compared, say, two_hops
from running import KV, many_examples, traces

import tidemill as tm
from tidemill.renderer.spark.live.executor_step import ExecutorStep
from tidemill.renderer.spark.step import Step


def signalling(folder):
    """Return a function that says when it works, once, and goes on when told to."""

    def watched(row):
        if row.v == 3:
            try:
                with (folder / "running").open("x") as file:
                    file.write(f"{os.getpid()}\n")
            except FileExistsError:
                return (row.k, row.v)
            until = time.monotonic() + 600
            while not (folder / "killed").exists() and time.monotonic() < until:
                time.sleep(0.05)
        return (row.k, row.v)

    return watched


def kill_what_works(folder, said):
    """Wait for the function to work in an executor, and kill that."""
    running = folder / "running"
    while not (running.exists() and running.read_text().endswith("\n")):
        time.sleep(0.05)
    executor = parent(parent(int(running.read_text())))
    said["was"] = Path(f"/proc/{executor}/cmdline").read_text()
    os.kill(executor, signal.SIGKILL)
    (folder / "killed").touch()


def parent(process):
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def killed(folder, engine, kind):
    """Lose an executor in the third round of a loop; return what came of it, and how many steps of the kind were made."""
    folder.mkdir()
    said: dict[str, Any] = {}
    steps: list[Any] = []
    make = kind.__init__
    threading.Thread(target=kill_what_works, args=(folder, said), daemon=True).start()
    kind.__init__ = lambda step, *args: steps.append(step) or make(step, *args)
    given = {"a": [((i, (i + 1) % 6), 0, 1) for i in range(6)]}
    function = signalling(folder)
    build = lambda a: a.iterate(lambda here: two_hops(here, a).map_rows(function, KV).concat(a).distinct())  # noqa: E731
    said["found"] = repr(traces(engine, build, given))
    said["expected"] = repr(traces("reference", build, given))
    said["steps"] = len(steps)
    return said


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    spark = tm.local_spark("local-cluster[2,1,1024]", **LEAST_WORK)
    live = tm.Spark(spark, folder / "state", in_driver=0)  # of which executors take every step
    said = {
        "master": spark.sparkContext.master,
        "updates": compared(["reference", "spark"], coordinates=2),
        "live": killed(folder / "live", live, ExecutorStep),
    }
    if many_examples():  # in the profile for quick runs, losing one is enough
        said["render"] = killed(folder / "render", "spark", Step)
    spark.stop()
    say(said)
