"""Parts of tidemill on their own: kernels on two threads, the step log beside SQLite."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

from benchmarks.runner import Figures, median_ms, seconds
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable import frames
from tidemill.renderer.durable.segment import Segment
from tidemill.renderer.embedded.kernels import threads as sharing
from tidemill.renderer.embedded.kernels.codec import Interner, encode
from tidemill.renderer.embedded.kernels.sorting import ascending, gather, sort_by

# -- threads ----------------------------------------------------------------------------------------------------------

TURNS, LEAST_TURNS, SECONDS = 7, 2, 3.0
"""After so many seconds, a kernel has no more turns than the least."""


def threads(*, rows: Sequence[int]) -> Figures:
    """The kernels that work side by side, with one thread and with two, in turns: the best of some times.

    On a machine on which nothing else runs. Shares are made whatever the size, so that it shows from where on they are
    worth it.
    """
    sharing.SHARE = 1  # type: ignore[misc]
    found = []
    for n in rows:
        for name, work in _kernels(n).items():
            (one, one_used), (two, two_used) = _best(work)
            figures = {"one_ms": one, "one_processor_ms": one_used, "two_ms": two, "two_processor_ms": two_used}
            found.append({"what": name, "rows": n, **figures, "times": one / two})
    return {"threads": found}


def _kernels(n: int) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(1)
    groups, values, order = rng.integers(0, 100, n), rng.integers(0, 2**40, n), rng.permutation(n)
    found = np.empty(n, np.int64)
    names = pa.array([f"user {i:06}" for i in range(min(n, 200_000))])
    users, others = (names.take(pa.array(rng.integers(0, count, n))) for count in (len(names), 100))
    table = pa.table({"user": users, "other": others, "amount": rng.normal(size=n)})
    schema = Schema.of({"user": "string", "other": "string", "amount": "float64"})
    return {
        "order by one column": lambda: ascending(values),
        "order by two columns": lambda: sort_by([groups, values]),
        "look up": lambda: gather(values, order, found),
        "encode two strings, a float": lambda: encode(schema, table, Interner()),
    }


def _best(work: Callable[[], object]) -> list[tuple[float, float]]:
    """Return the least milliseconds by the clock and of processor time, with one thread and with two."""
    times: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    began = perf_counter()
    for turn in range(TURNS):
        if turn >= LEAST_TURNS and perf_counter() - began > SECONDS:
            break
        for count, taken in times.items():
            sharing.SETTING.threads = count
            used = process_time()
            wall = seconds(work)
            taken.append((1e3 * wall, 1e3 * (process_time() - used)))
    sharing.SETTING.threads = 1
    return [(min(w for w, _ in taken), min(p for _, p in taken)) for taken in times.values()]


# -- the step log -----------------------------------------------------------------------------------------------------


def step_log(*, steps: Mapping[int, int], rounds: int, folder: str | None) -> Figures:
    """Commits of a step log, and the bytes they take: frames in a file of our own, and rows of SQLite's.

    So many steps by the rows that each has. SQLite writes ahead, and waits for the disk at each commit, as we do. Its
    rows hold the same frames, since it has no checksums of what lies in its pages.
    """
    found = []
    for rows, count in steps.items():
        text = {"step": 1, "record": {"frontiers": {"x": [[1]]}, "events": [["x", 0]]}}
        arrays = {"x": np.arange(rows * 4, dtype=np.int64).reshape(4, rows)}
        written = [frames.encode(number, frames.NOTHING, text, arrays)[0] for number in range(count)]
        bytes_of: dict[str, float] = {}

        def write(way: Callable[..., None], written: list[bytes] = written, sizes: dict[str, float] = bytes_of) -> None:
            with tempfile.TemporaryDirectory(dir=folder) as within:
                before = _bytes()
                way(Path(within) / "log", written)
                sizes[way.__name__] = (_bytes() - before) / len(written)

        taken = median_ms({way.__name__: partial(write, way) for way in (ours, sqlite)}, rounds)
        for name, ms in taken.items():
            found.append({"log": name, "rows": rows, "commits_a_s": 1e3 * count / ms, "bytes_a_commit": bytes_of[name]})
    return {"step_log": found}


def ours(path: Path, written: list[bytes]) -> None:
    """Append frames to a file, each of them on the disk before the next."""
    segment = Segment(path)
    for frame in written:
        segment.append(frame)
    segment.close()


def sqlite(path: Path, written: list[bytes]) -> None:
    """Insert frames as rows, a transaction each."""
    log = sqlite3.connect(path, isolation_level=None)
    for setting in ("locking_mode=exclusive", "journal_mode=wal", "synchronous=full"):
        log.execute(f"pragma {setting}")
    log.execute("create table log (number integer primary key, frame blob)")
    for number, frame in enumerate(written):
        log.execute("insert into log values (?, ?)", (number, frame))
    log.close()


def _bytes() -> int:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"])
