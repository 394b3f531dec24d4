"""Commits of a step log per second, and the bytes they take: frames in a file of our own, and rows of SQLite's.

``python -m benchmarks.step_log [folder]``; SQLite writes ahead, and waits for the disk at each commit, as we do. Its
rows hold the same frames, since it has no checksums of what lies in its pages.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tidemill.renderer.durable import frames
from tidemill.renderer.durable.segment import Segment

STEPS = {1: 1000, 1000: 300, 100_000: 20}
"""How many steps are committed, by the rows that each has."""
ROUNDS = 5


def frames_of(rows: int, steps: int) -> list[bytes]:
    """Return the frames of so many steps, each with rows of four numbers."""
    text = {"step": 1, "record": {"frontiers": {"x": [[1]]}, "events": [["x", 0]]}}
    arrays = {"x": np.arange(rows * 4, dtype=np.int64).reshape(4, rows)}
    return [frames.encode(number, frames.NOTHING, text, arrays)[0] for number in range(steps)]


def ours(folder: Path, written: list[bytes]) -> None:
    """Append frames to a file, each of them on the disk before the next."""
    segment = Segment(folder / "log")
    for frame in written:
        segment.append(frame)
    segment.close()


def sqlite(folder: Path, written: list[bytes]) -> None:
    """Insert frames as rows, a transaction each."""
    log = sqlite3.connect(folder / "log", isolation_level=None)
    for setting in ("locking_mode=exclusive", "journal_mode=wal", "synchronous=full"):
        log.execute(f"pragma {setting}")
    log.execute("create table log (number integer primary key, frame blob)")
    for number, frame in enumerate(written):
        log.execute("insert into log values (?, ?)", (number, frame))
    log.close()


def measured(
    write: Callable[[Path, list[bytes]], None], written: list[bytes], within: str | None
) -> tuple[float, float]:
    """Return commits per second, and the bytes that each had the process write."""
    with tempfile.TemporaryDirectory(dir=within) as folder:
        before, start = _bytes(), time.perf_counter()
        write(Path(folder), written)
        return len(written) / (time.perf_counter() - start), (_bytes() - before) / len(written)


def _bytes() -> int:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"])


def main() -> None:
    """Print the medians."""
    within = sys.argv[1] if len(sys.argv) > 1 else None
    for rows, steps in STEPS.items():
        written = frames_of(rows, steps)
        both = (ours, sqlite)
        found = [[measured(write, written, within) for write in both] for _ in range(ROUNDS)]
        for i, write in enumerate(both):
            commits, size = (statistics.median(one[i][j] for one in found) for j in (0, 1))
            print(f"{rows:7,} rows, {write.__name__:6}: {commits:7,.0f} commits/s, {size:12,.0f} bytes a commit")


if __name__ == "__main__":
    main()
