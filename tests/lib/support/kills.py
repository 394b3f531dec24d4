"""Killed again and again, does a durable run lose or double anything? ``PYTHONPATH=tests/lib python -m support.kills --json FILE``.

A run of so many steps (50) is taken by a process that is sent SIGKILL at random moments and started again, so many
times (20), and that holds next to nothing of its state in memory. In the end its changelog has to be that of an
undisturbed run, file by file, and its contents too. The dataflow has what state there is: a join, sums, a loop, a keyed
input, updates that wait for later steps.

With ``--spark`` it is a run on `tm.Spark`, in every other step with a DataFrame that is taken by the executors; the
undisturbed run has all of it in the driver.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

import tidemill as tm

NODES = 12


def build() -> tm.Dataflow:
    flow = tm.Dataflow("killed")
    edges = flow.input("edges", {"a": "int64", "b": "int64"})
    names = flow.input("names", {"node": "int64", "name": "string"}, key="node")
    reach = (
        edges.iterate(lambda r: r.join(edges, on={"b": "a"}).select("a", b="b_right").concat(edges).distinct())
        .group_by("a")
        .agg(n=tm.count())
    )
    flow.output("reach", reach)
    flow.output("named", reach.join(names, on={"a": "node"}))
    flow.output("sums", names.group_by("name").agg(s=tm.sum("node"), n=tm.count()))
    return flow


def put(run: Any, step: int) -> None:
    """Put in what belongs to a step: the same whoever does it."""
    rng = random.Random(step)
    there = [(i % NODES, (i * 5 + 1) % NODES) for i in range(step)]
    run.insert("edges", [(step % NODES, (step * 5 + 1) % NODES)])
    run.insert("edges", [(rng.randrange(NODES), NODES + step)], time=step + rng.randrange(4))
    if there and rng.random() < 0.5:
        run.delete("edges", [there[rng.randrange(len(there))]])
    run.upsert("names", [(rng.randrange(NODES), f"name {rng.randrange(5)}") for _ in range(3)])
    if rng.random() < 0.3:
        run.upsert("names", [(rng.randrange(NODES), "later")], time=step + 2)


def build_large() -> tm.Dataflow:
    flow = tm.Dataflow("killed on Spark")
    edges = flow.input("edges", {"a": "int64", "b": "int64"})
    names = flow.input("names", {"node": "int64", "name": "string"})
    named = edges.join(names, on={"b": "node"})
    flow.output("reach", edges.select("a").distinct().join(names, on={"a": "node"}))
    flow.output("named", named.group_by("name").agg(n=tm.count(), s=tm.sum("a"), least=tm.min("a")))
    flow.output("sums", named.select(k="a % 3", b="b").count("n"))
    return flow


def put_large(run: Any, step: int, frame: Callable[[str, list[Any]], Any]) -> None:
    """Put in what belongs to a step; in every other step what is large, which ``frame`` makes a table of."""
    rng = random.Random(step)
    edges = [(rng.randrange(40), rng.randrange(NODES)) for _ in range(30)]
    if step % 2:
        run.insert("edges", frame("a bigint, b bigint", edges))
        if step % 4 == 1:
            run.insert("names", frame("node bigint, name string", [(i, f"name {step % 5}") for i in range(NODES)]))
    else:
        run.insert("edges", edges[:2])
        run.delete("edges", edges[1:2])


def work(folder: Path, steps: int, checkpoint_every: int, in_memory: int, *, spark: bool, driver: bool = False) -> None:
    """Take the steps that are still to be taken, saying so."""
    session = tm.local_spark("local[2]", **{"spark.ui.enabled": "false"}) if spark and not driver else None
    print("opening", flush=True)
    engine: Any = tm.Embedded(folder / "state", checkpoint_every=checkpoint_every, in_memory=in_memory)
    if session is not None:
        state = folder / "state"
        engine = tm.Spark(session, state, checkpoint_every=checkpoint_every, in_memory=in_memory, in_driver=7)

    def frame(schema: str, rows: list[Any]) -> Any:
        return rows if session is None else session.createDataFrame(rows, schema)

    with (build_large() if spark else build()).start(engine) as run:
        run.to_changelog(folder / "log")
        for step in range(cast("int", next(iter(run.frontier("edges")))), steps):
            if spark:
                put_large(run, step, frame)
            else:
                put(run, step)
            run.advance()
            print(step, flush=True)


def outcome(folder: Path, *, spark: bool) -> dict[str, Any]:
    """Return all that is seen from outside: the files of changes, in order, and the contents."""
    files = {
        str(path.relative_to(folder)): pq.read_table(path).to_pylist()
        for path in sorted((folder / "log").rglob("*"))
        if path.is_file() and path.name != "_tidemill.json"
    }
    with (build_large() if spark else build()).start(tm.Embedded(folder / "state")) as run:
        contents = {name: [list(row) for row in run.snapshot(name)] for name in ("reach", "named", "sums")}
        return {"files": files, "contents": contents, "frontier": str(run.frontier("edges"))}


def disturbed(  # noqa: PLR0917
    folder: Path,
    steps: int,
    kills: int,
    checkpoint_every: int,
    in_memory: int,
    seed: int,
    *,
    spark: bool,
    script: str = __file__,
) -> list[dict[str, Any]]:
    """Have the work done by processes that are killed; return for each what it had said last, and what was seen."""
    rng = random.Random(seed)
    told: list[dict[str, Any]] = []
    at = -1
    while True:
        command = [sys.executable, script, "--worker", str(folder), "--steps", str(steps)]
        command += ["--checkpoint-every", str(checkpoint_every), "--in-memory", str(in_memory)]
        command += ["--spark"] * spark
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if len(told) == kills:
                assert process.wait() == 0
                return told
            # Some while it recovers, most between any two of the steps that are left for this one.
            lines = rng.randrange(0, max(2, 2 * (steps - at) // (kills - len(told) + 1)))
            for _ in range(lines + 1):
                since = time.perf_counter()
                at = _said(process.stdout.readline(), at)
            # Within the next step: a fast machine takes no more of them than a slow one.
            time.sleep(rng.random() * (3.0 if spark else min(0.05, time.perf_counter() - since)))
            process.kill()
            for line in process.stdout.read().splitlines(keepends=True):
                at = _said(line, at)
            told.append({"after_step": at, "finished": process.wait() == 0})


def _said(line: str, at: int) -> int:
    return int(line) if line.strip().isdigit() and line.endswith("\n") else at


def compare(  # noqa: PLR0917
    steps: int, kills: int, checkpoint_every: int, in_memory: int, seed: int, spark: bool = False
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        start = time.perf_counter()
        told = disturbed(Path(one), steps, kills, checkpoint_every, in_memory, seed, spark=spark)
        seconds = time.perf_counter() - start
        work(Path(other), steps, checkpoint_every, 10**9, spark=spark, driver=True)
        killed, undisturbed = outcome(Path(one), spark=spark), outcome(Path(other), spark=spark)
    updates = [update for file in undisturbed["files"].values() for update in file]
    return {
        "steps": steps,
        "kills": kills,
        "killed_while_running": sum(not t["finished"] for t in told),
        "killed_after_step": [t["after_step"] for t in told],
        "checkpoint_every": checkpoint_every,
        "in_memory": in_memory,
        "spark": spark,
        "seed": seed,
        "seconds": round(seconds, 1),
        "files": len(undisturbed["files"]),
        "updates": len(updates),
        "same_files": killed["files"] == undisturbed["files"],
        "same_contents": killed["contents"] == undisturbed["contents"],
        "same_frontier": killed["frontier"] == undisturbed["frontier"],
    }


def told(found, path):
    """Print what was found, and write it down where that is asked for; return whether something was lost or doubled."""
    text = json.dumps(found, indent=2)
    if path:
        path.write_text(text + "\n", encoding="utf-8")
    print(text)
    return not (found["same_files"] and found["same_contents"] and found["same_frontier"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--checkpoint-every", type=int, default=7)
    parser.add_argument("--in-memory", type=int, default=20, help="updates held, the rest is on the disk")
    parser.add_argument("--spark", action="store_true", help="with steps that executors take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.steps, options.checkpoint_every, options.in_memory, spark=options.spark)
        return
    given = (options.steps, options.kills, options.checkpoint_every, options.in_memory, options.seed)
    found = compare(*given, options.spark)
    sys.exit(told(found, options.json))


if __name__ == "__main__":
    main()
