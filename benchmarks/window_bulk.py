"""A thousand changed rows in one epoch, beside one: ``python -m benchmarks.window_bulk [W4 W7] [--json FILE]``.

The tables of the workloads W4 to W12, and the first rows that these change: rows go, and come back at other times, one
by one in some epochs and all at once in others, in turn, in the same run. Processor time of putting them in and
advancing, medians; reading is not timed. With ``--half`` what it takes beside computing all partitions whole where half
of all rows go, and come back: both in turn, the least of several times.
"""

import argparse
import json
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.engines.embedded import Embedded
from benchmarks.machine import machine
from benchmarks.table import text_table
from benchmarks.window_thresholds import RENDERINGS
from benchmarks.workload import Change, Row, Tables, Workload
from benchmarks.workloads import ALL
from benchmarks.workloads.windows import Ranks, Windowed
from tidemill.renderer.embedded.reduce import ordered_windows


class LeastOfHundred(Windowed):
    name = "W7m"
    title = "min ROWS 50 PRECEDING..50 FOLLOWING of 1,000,000 rows in one partition"
    rows = 1_000_000
    over = "min(x) OVER (ORDER BY t ROWS BETWEEN 50 PRECEDING AND 50 FOLLOWING)"


KNOWN: dict[str, type[Workload]] = {**ALL, "W7m": LeastOfHundred}
NAMES = ("W4", "W4s", "W7", "W7m", "W8", "W9", "W10", "W12")
Move: TypeAlias = tuple[Row, Row]
ONE_BY_ONE = 10
"""Rows that change one by one between two epochs of many."""
WARM = 1
"""Times that are not counted."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rows", type=int, default=1000, help="how many change in one epoch")
    parser.add_argument("--times", type=int, default=6, help="how often they change, and change back")
    parser.add_argument("--half", action="store_true", help="of half of all rows alone")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for name in given.names:
        workload = KNOWN[name](given.scale)
        assert isinstance(workload, Windowed)
        found[name] = of_half(workload, given.times) if given.half else of_many(workload, given.rows, given.times)
        print(name, found[name], flush=True)
    head = list(next(iter(found.values())))
    print(text_table(["", *head], [[name, *map(str, figures.values())] for name, figures in found.items()]))
    if given.json:
        given.json.write_text(json.dumps({"machine": machine(), "rows": given.rows, "ms": found}, indent=1) + "\n")


def of_many(workload: Windowed, count: int, times: int) -> dict[str, Any]:
    """Return how long epochs take in which one row changes, and in which many do."""
    tables = workload.tables()
    moves = _moves(workload, tables, count)
    engine = Embedded(workload)
    engine.load(tables)
    engine.read()
    one: list[float] = []
    many: list[float] = []
    dice = np.random.default_rng(1)
    for time in range(times + WARM):
        some = [moves[at] for at in dice.integers(len(moves), size=ONE_BY_ONE).tolist()]
        taken = [_epoch(engine, changes) for move in some for changes in _to_and_fro(workload, [move])]
        at_once = [_epoch(engine, changes) for changes in _to_and_fro(workload, moves, tables["events"].schema)]
        if time >= WARM:
            one += taken
            many += at_once
    engine.close()
    return {
        "one": round(median(one), 3),
        "many": round(median(many), 2),
        "times as long": round(median(many) / median(one)),
        "many, least": round(min(many), 2),
    }


def of_half(workload: Windowed, times: int) -> dict[str, Any]:
    """Return how long it takes that half of all rows go, and come back, beside the same computed whole."""
    events = workload.tables()["events"]
    half = events.take(pa.array((np.arange(events.num_rows) % 2).nonzero()[0]))
    taken: dict[str, list[float]] = {"as is": [], "whole": []}
    runs = {}
    for name in taken:
        with _rendered(name):
            runs[name] = Embedded(workload)
            runs[name].load({"events": events})
            runs[name].read()
    for _ in range(times):
        for sign in (-1, 1):
            for name, engine in runs.items():
                with _rendered(name):
                    taken[name].append(_epoch(engine, [Change("events", half, sign)]))
    for engine in runs.values():
        engine.close()
    goes = {name: min(ms[::2]) for name, ms in taken.items()}
    comes = {name: min(ms[1::2]) for name, ms in taken.items()}
    return {
        f"{what}, {name}": round(least[name], 1)
        for what, least in (("half goes", goes), ("half comes", comes))
        for name in taken
    } | {"share": round(max(least["as is"] / least["whole"] for least in (goes, comes)), 2)}


def _rendered(name: str) -> Any:
    """Return the context in which partitions are computed as they are, or all whole."""
    as_is = (ordered_windows.LARGE, ordered_windows.SMALL, ordered_windows.MANY)
    large, small, many = RENDERINGS["whole"] if name == "whole" else as_is
    return patch.multiple(ordered_windows, LARGE=large, SMALL=small, MANY=many)


def _moves(workload: Windowed, tables: Tables, count: int) -> list[Move]:
    """Return the first rows that a workload takes out, each with what it puts in for it."""
    changes = workload.changes(tables)
    found = []
    for gone, come in islice(zip(changes, changes, strict=False), count):
        found.append((gone.rows[0], come.rows[0]))
    return found


def _to_and_fro(workload: Windowed, moves: list[Move], schema: pa.Schema | None = None) -> list[list[Change]]:
    """Return epochs in which rows move, and move back: tuples, or tables of a schema."""
    gone, come = ([move[side] for move in moves] for side in (0, 1))
    if schema is not None:
        gone, come = (
            pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
            for rows in (gone, come)
        )
    epochs = [Change("events", rows, sign) for rows, sign in ((gone, -1), (come, 1), (come, -1), (gone, 1))]
    if isinstance(workload, Ranks):  # there a row moves in one epoch
        return [epochs[:2], epochs[2:]]
    return [[change] for change in epochs]


def _epoch(engine: Embedded, changes: list[Change]) -> float:
    """Return the milliseconds of an epoch, whose changes are read then."""
    start = process_time()
    engine.step(changes)
    taken = 1000 * (process_time() - start)
    engine.read()
    return taken


if __name__ == "__main__":
    main()
