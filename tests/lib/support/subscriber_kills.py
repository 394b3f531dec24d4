"""Killed again and again, do subscribers lose or double a change? ``PYTHONPATH=tests/lib python -m support.subscriber_kills``.

The run of `support.kills`, with subscribers whose sinks are files: each batch is a line, and so is what was acknowledged.
Some acknowledge every batch, one now and then or up to a time, one hardly ever, so that much has to be carried over
checkpoints. The process is sent SIGKILL at random moments. Read again, by time, each sink has to have what an
undisturbed run's changes are; what came twice is the same, and nothing came again that was acknowledged.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

sys.path.append(str(Path(__file__).parents[1]))  # run as a program, too

from support import kills  # noqa: E402

import tidemill as tm  # noqa: E402

READERS = {"always": "reach", "now and then": "named", "by time": "sums", "hardly": "reach"}


def work(folder: Path, steps: int, checkpoint_every: int, in_memory: int) -> None:
    """Take the steps that are still to be taken, and give the changes to the sinks."""
    print("opening", flush=True)
    engine = tm.Embedded(folder / "state", checkpoint_every=checkpoint_every, in_memory=in_memory)
    with kills.build().start(engine) as run:
        run.to_changelog(folder / "log", keep=4)
        readers = [run.subscribe(output, name=name, snapshot=False) for name, output in READERS.items()]
        first = cast("int", next(iter(run.frontier("edges"))))
        for step in range(first, steps + 1):
            if step < steps:
                kills.put(run, step)
                run.advance()
            rng = random.Random(os.urandom(8))
            for reader in readers:
                _read(reader, folder, rng, is_last=step == steps)
            if rng.random() < 0.1:
                run.checkpoint()
            print(step, flush=True)


def _read(reader: Any, folder: Path, rng: random.Random, *, is_last: bool) -> None:
    with (folder / f"{reader.name}.jsonl").open("a", encoding="utf-8") as sink:
        for batch in reader:
            _write(sink, {"updates": [[list(row), time, diff] for row, time, diff in batch]})
            if is_last or reader.name == "always" or rng.random() < {"hardly": 0.02}.get(reader.name, 0.3):
                if reader.name == "by time" and not is_last:
                    reader.ack(rng.choice([time for _, time, _ in batch]))
                else:
                    reader.ack()
                _write(sink, {"acknowledged": str(next(iter(reader.acknowledged)))})


def _write(sink: Any, line: Any) -> None:
    sink.write(json.dumps(line) + "\n")
    sink.flush()
    os.fsync(sink.fileno())


def read_sink(path: Path) -> tuple[dict[int, list[Any]], list[str]]:
    """Return the updates that came to a sink by their times, and what is wrong with how they came."""
    found: dict[int, list[Any]] = {}
    wrong, acknowledged = [], 0
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if "acknowledged" in line:
            acknowledged = int(line["acknowledged"])
            continue
        by_time: dict[int, list[Any]] = {}
        for row, time, diff in line["updates"]:
            by_time.setdefault(time, []).append([row, diff])
        for time, updates in by_time.items():
            if time < acknowledged:
                wrong.append(f"{path.name}: time {time} came again, acknowledged up to {acknowledged}")
            if found.setdefault(time, updates) != updates:
                wrong.append(f"{path.name}: time {time} came as {updates}, before as {found[time]}")
    return found, wrong


def changelog_of(folder: Path) -> list[str]:
    """Return what the files of changes come to: by output the contents."""
    found = []
    for output in sorted(READERS.values()):
        totals: dict[str, int] = {}
        for line in tm.read_changelog(folder / "log" / output).to_pylist():
            *row, _, diff = line.values()
            totals[str(row)] = totals.get(str(row), 0) + diff
        found.append(str(sorted((row, n) for row, n in totals.items() if n)))
    return found


def compare(steps: int, times: int, checkpoint_every: int, in_memory: int, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as one:
        given = (Path(one), steps, times, checkpoint_every, in_memory, seed)
        told = kills.disturbed(*given, spark=False, script=__file__)
        expected: dict[str, dict[int, list[Any]]] = {output: {} for output in READERS.values()}
        with kills.build().start() as run:
            for step in range(steps):
                kills.put(run, step)
                run.advance()
            for output, by_time in expected.items():
                for row, time, diff in run.changes(output):
                    by_time.setdefault(cast("int", time), []).append([list(row), diff])
            contents = [
                str(sorted((str(list(row)), n) for row, n in run.snapshot(output).counts().items()))
                for output in sorted(READERS.values())
            ]
        changelog = changelog_of(Path(one))
        with kills.build().start(tm.Embedded(Path(one) / "state", in_memory=in_memory)) as run:
            run.to_changelog(Path(one) / "log", keep=4)
            run.advance()  # merges what kills have left
        sinks = {name: read_sink(Path(one) / f"{name}.jsonl") for name in READERS}
        return {
            "kills": times,
            "killed_while_running": sum(not t["finished"] for t in told),
            "wrong": [line for _, wrong in sinks.values() for line in wrong],
            "same": {name: sinks[name][0] == expected[output] for name, output in READERS.items()},
            "same_changelog": changelog == contents,
            "updates": sum(len(updates) for by_time in expected.values() for updates in by_time.values()),
            "files": len(list((Path(one) / "log").rglob("*.parquet"))),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in ("steps", 50), ("kills", 20), ("checkpoint-every", 5), ("in-memory", 20), ("seed", 0):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.steps, options.checkpoint_every, options.in_memory)
        return
    given = (options.steps, options.kills, options.checkpoint_every, options.in_memory, options.seed)
    found = compare(*given)
    print(json.dumps(found, indent=2))
    sys.exit(bool(found["wrong"]) or not (all(found["same"].values()) and found["same_changelog"]))


if __name__ == "__main__":
    main()
