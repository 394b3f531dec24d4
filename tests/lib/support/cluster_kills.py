"""A durable run on a standalone cluster, whose driver, workers and executors are killed at random moments.

``PYTHONPATH=tests/lib python -m support.cluster_kills --json FILE``: a master and two workers of Spark's, each a process, and a
driver that takes steps, every other one on the executors; they share the folder of state. So many times (200) a process
is sent SIGKILL: the driver once in six times, else an executor or a worker, which is then started anew. In the end the
changelog has to be that of a run which nobody disturbed, file by file, and so have the contents.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

from support.kills import build_large, outcome, put_large, told
from support.standalone import Cluster, cluster

import tidemill as tm

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.deploy.maxExecutorRetries": "-1",
}


def work(folder: Path, url: str, steps: int) -> None:
    """Take the steps that are still to be taken, saying so; end where one fails."""
    session = tm.local_spark(url, **SETTINGS)
    print("opening", flush=True)
    engine = tm.Spark(session, folder / "state", checkpoint_every=7, in_memory=20, in_driver=7)
    with build_large().start(engine) as run:
        run.to_changelog(folder / "log")
        for step in range(cast("int", next(iter(run.frontier("edges")))), steps):
            put_large(run, step, lambda schema, rows: session.createDataFrame(rows, schema))
            run.advance()
            print(step, flush=True)


class Driver:
    """The process that takes steps, and what it said last."""

    def __init__(self, folder: Path, url: str, steps: int) -> None:
        command = [sys.executable, __file__, "--worker", str(folder), "--url", url, "--steps", str(steps)]
        with (folder / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.step: int | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.step = int(line)


def disturbed(folder: Path, on: Cluster, steps: int, kills: int, seconds: float, seed: int) -> dict[str, Any]:  # noqa: PLR0917
    """Have steps taken until there were so many kills, or so many seconds have passed; return what was killed when."""
    rng, killed, until = random.Random(seed), Counter[str](), time.monotonic() + seconds
    failed, last = 0, 0
    driver = Driver(folder, on.url, steps)
    steps_at: list[list[Any]] = []
    while killed.total() < kills and time.monotonic() < until and last < steps - 1:
        before, began, waits = driver.step, time.monotonic(), rng.random() < 0.9
        # A step is taken between most kills, or nothing would be; others come while it recovers.
        while waits and driver.process.poll() is None and driver.step == before:
            time.sleep(0.2)
        time.sleep(rng.random() * min(5, time.monotonic() - began))
        last = max(last, driver.step or 0)
        what = rng.choices(("driver", "worker", "executor"), (1, 2, 3))[0]
        if driver.process.poll() is not None:
            failed += driver.process.returncode != 0
            driver = Driver(folder, on.url, steps)
            continue  # nothing was killed
        if what == "driver":
            driver.process.kill()
            driver.process.wait()
            driver = Driver(folder, on.url, steps)
        elif what == "worker":
            gone = on.workers.pop(rng.randrange(len(on.workers)))
            gone.kill()
            gone.wait()
            on.start_worker()
        elif executors := on.executors():
            os.kill(rng.choice(executors), signal.SIGKILL)
        else:
            continue
        if driver.process.poll() is None:
            killed[what] += 1
            steps_at.append([what, last])
            print(f"{killed.total()}: {what} after step {last}", file=sys.stderr, flush=True)
    while driver.process.poll() is None and (driver.step or 0) <= last:  # a step more, whatever the last kill was
        time.sleep(0.5)
    driver.process.kill()
    driver.process.wait()
    return {"killed": dict(killed), "kills": killed.total(), "drivers_that_gave_up": failed, "after_step": steps_at}


def compare(steps: int, kills: int, seconds: float, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        start = time.monotonic()
        with cluster(Path(one)) as on:
            told = disturbed(Path(one), on, steps, kills, seconds, seed)
        took = time.monotonic() - start
        with build_large().start(tm.Embedded(Path(one) / "state")) as run:
            taken = cast("int", next(iter(run.frontier("edges"))))
        with build_large().start(tm.Embedded(Path(other) / "state")) as run:
            run.to_changelog(Path(other) / "log")
            for step in range(taken):
                put_large(run, step, lambda _, rows: rows)
                run.advance()
        found, expected = outcome(Path(one), spark=True), outcome(Path(other), spark=True)
        left = sum(1 for path in (Path(one) / "state").rglob("*") if path.is_file())
    updates = [update for file in expected["files"].values() for update in file]
    return {
        "cluster": "a standalone master, two workers, a driver: processes of one machine that share a folder",
        "steps": taken,
        "seconds": round(took),
        "seed": seed,
        **told,
        "updates": len(updates),
        "files_of_state_left": left,
        "same_files": found["files"] == expected["files"],
        "same_contents": found["contents"] == expected["contents"],
        "same_frontier": found["frontier"] == expected["frontier"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="at most")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10_000, help="for the kills, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.url, options.steps)
        return
    found = compare(options.steps, options.kills, options.seconds, options.seed)
    sys.exit(told(found, options.json))


if __name__ == "__main__":
    main()
