"""A program: tidemill on a cluster of this machine, whose executors are processes of their own; one of them is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from support.elsewhere import LEAST_WORK, compared, say, two_hops
from support.running import KV, many_examples, new_flow, traces

import tidemill as tm
from tidemill.renderer.spark.live.executor_step import ExecutorStep
from tidemill.renderer.spark.step import Step

OWN = Path("/proc/self/cwd")
"""A folder that is another one for each process which was started elsewhere, as on machines with disks of their own."""


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


def sharing(folder, how):
    """Return a task that has its executor share a folder of the driver, or not, or whoever comes first."""

    def task(batches):
        yield from batches
        time.sleep(0.5)  # the other executor takes a task meanwhile
        link = Path(folder.name)
        if how == "none":
            link.unlink(missing_ok=True)
        elif how == "all" and not link.is_symlink():
            shutil.rmtree(link, ignore_errors=True)  # what it wrote for itself
            link.symlink_to(folder)
        elif how == "one":
            with contextlib.suppress(FileExistsError):
                (folder / "shared").mkdir()
                link.symlink_to(folder)

    return task


def on_other_disks(folder, spark):
    """What loads say and leave where the folder of state is another one for some executors, then for all."""
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:
        time.sleep(0.05)
    share = lambda how: spark.range(0, 4, 1, 4).mapInArrow(sharing(folder, how), "id long").collect()  # noqa: E731
    folder.mkdir()
    flow = new_flow()
    flow.output("n", flow.input("a", KV).agg(n=tm.count()))
    rows = spark.range(0, 4000, 1, 2).selectExpr("id AS k", "id AS v")
    said = {}
    with flow.start(tm.Spark(spark, OWN / folder.name, in_driver=10)) as run:
        share("one")
        said["one shares"] = raised(run.insert, "a", rows)
        run.advance()
        said["after it"] = list(run.snapshot("n"))
        share("all")
        run.insert("a", rows)
        share("none")
        spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
        said["none shares"] = raised(run.advance)
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
        share("all")
        run.advance()
        said["all share"] = list(run.snapshot("n"))
    return said


def raised(function, *arguments):
    """The error that a call raises: its kind and its text."""
    try:
        function(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return [type(error).__name__, str(error)]
    return ["", "nothing was raised"]


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
    os.chdir(folder)
    spark = tm.local_spark("local-cluster[2,1,1024]", **LEAST_WORK)
    live = tm.Spark(spark, folder / "state", in_driver=0)  # of which executors take every step
    said = {
        "master": spark.sparkContext.master,
        "updates": compared(["reference", "spark"], coordinates=2),
        "disks": on_other_disks(folder / "disk", spark),
        "live": killed(folder / "live", live, ExecutorStep),
    }
    if many_examples():  # in the profile for quick runs, losing one is enough
        said["render"] = killed(folder / "render", "spark", Step)
    spark.stop()
    say(said)
