"""Killed at every moment at which a migration touches the disk: the folder is that of the old version, or of the new.

``PYTHONPATH=tests/lib python -m support.killed_migrations 1 20`` kills at every moment, with 20 updates held in memory, and prints at
how many the folder was which, and how many went on.
Each moment is a file opened for writing, flushed, moved or removed; SIGKILL comes right before it. Children of one
process do the work, which only forks: so it takes seconds.
"""

import functools
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

import tidemill as tm
import tidemill.renderer.durable.start
from tidemill.errors import StateError

HELD = {"in_memory": 10**9}


def build(*, new: bool) -> tm.Dataflow:
    flow = tm.Dataflow("killed")
    x = flow.input("x", {"k": "int64", "v": "int64"})
    names = flow.input("names", {"k": "int64", "name": "string"}, key="k")
    flow.output("n", x.group_by("k").agg(n=tm.max("v") if new else tm.sum("v")))
    if new:
        flow.output("named", x.join(names, on="k").select("name", "v"))
    else:
        flow.output("pairs", x.join(x, on="k").select("v", w="v_right").distinct())
    return flow


def start(folder: Path, *, new: bool, migrate: str) -> tm.Run:
    return build(new=new).start(tm.Embedded(folder / "state", in_memory=HELD["in_memory"]), migrate=migrate)  # type: ignore[arg-type]


def begin(folder: Path) -> None:
    with start(folder, new=False, migrate="auto") as run:
        run.to_changelog(folder / "log")
        for i in range(6):
            run.insert("x", [(j % 5, i + j) for j in range(8)])
            run.upsert("names", [(i % 5, f"name {i}")])
            run.advance()
        run.checkpoint()


def forked(do: Callable[[], int]) -> int:
    """Return what a child returns, or -9 where it was killed."""
    child = os.fork()
    if not child:
        code = 99
        try:
            code = do()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def migrate(folder: Path, moment: int) -> int:
    """Start the new version, to be killed at a moment; return how many there were, if there are fewer."""
    seen = 0

    def pass_one() -> None:
        nonlocal seen
        seen += 1
        if seen == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, given: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or event in {"os.rename", "os.remove", "os.mkdir"}:
            pass_one()

    flush = os.fsync

    def flushed(file: int) -> None:
        pass_one()
        flush(file)

    os.fsync = flushed  # type: ignore[assignment]
    sys.addaudithook(hook)
    with start(folder, new=True, migrate="auto"):
        return seen


def version(folder: Path) -> int:
    """Return whose state the folder is, 1 of the old version or 2 of the new one, once it is seen to be whole."""
    for new in (False, True):
        try:
            with start(folder, new=new, migrate="refuse") as run:
                found = {name: run.snapshot(name).counts() for name in run.graph.outputs}
        except StateError as error:
            if "another dataflow" not in str(error):
                raise
            continue
        if found != expected(new=new) or changes(folder) != expected(new=new)["n"]:
            return 3
        return 1 + new
    return 4


def expected(*, new: bool) -> dict[str, dict[tuple[object, ...], int]]:
    with build(new=new).start() as run:
        for i in range(6):
            run.insert("x", [(j % 5, i + j) for j in range(8)])
            run.upsert("names", [(i % 5, f"name {i}")])
            run.advance()
        return {name: run.snapshot(name).counts() for name in run.graph.outputs}


def changes(folder: Path) -> dict[tuple[object, ...], int]:
    """Return what the files of changes of the output that both versions have come to."""
    found: Counter[tuple[object, ...]] = Counter()
    for path in (folder / "log" / "n").glob("step-*.parquet"):
        for row in pq.read_table(path).to_pylist():
            found[row["k"], row["n"]] += row["diff"]
    return {row: count for row, count in found.items() if count}


def finish(folder: Path) -> int:
    """Return whether the new version goes on, whatever became of the first attempt, and leaves nothing behind."""
    with start(folder, new=True, migrate="auto") as run:
        done = {name: run.snapshot(name).counts() for name in run.graph.outputs} == expected(new=True)
    left = [path.name for path in (folder / "state").iterdir() if path.name.startswith(".")]
    return int(done and not left and changes(folder) == expected(new=True)["n"])


def killed(every: int, in_memory: int) -> dict[str, int]:
    """Return what became of a folder where one in so many moments was that of a kill."""
    HELD["in_memory"] = in_memory
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        whole, kept = Path(place) / "whole", Path(place) / "kept"
        forked(lambda: begin(whole) or 0)
        for moment in itertools.count(1, every):
            shutil.copytree(whole, kept)  # what is worked on has the place of the first: a changelog goes by its path
            code = forked(functools.partial(migrate, whole, moment))
            found["killed" if code == -signal.SIGKILL else "not killed"] += 1
            seen = forked(lambda: 2 * version(whole) + finish(whole))
            found[{1: "old", 2: "new"}.get(seen // 2, f"broken at {moment}")] += 1
            found["goes on" if seen % 2 else f"does not go on at {moment}"] += 1
            shutil.rmtree(whole)
            kept.rename(whole)
            if code != -signal.SIGKILL:
                return dict(found)
    raise AssertionError


if __name__ == "__main__":
    print(json.dumps(killed(int(sys.argv[1]), int(sys.argv[2]))))  # noqa: T201 - it is a program
