"""What a change costs under window calls, by curve: ``python -m benchmarks.window_curves [--curves abc] [--json F]``.

(a) one partition of 1,000 to 1,000,000 rows, in which one row is inserted, deleted or moved; frames of ROWS, RANGE and
GROUPS, and calls; (b) one partition of 100,000 rows, frames of 1 to 4,001 rows; (c) 1,000 partitions of 1,000 rows, of
which a thousandth to all are touched, against computing all anew, by tidemill and by DuckDB. In every rendering:
``in order`` (what "auto" takes in large partitions), ``recompute`` and ``prefix_sum``.

Times are of processor time, medians over epochs, of which fewer are made where they take long; all of it takes some six
minutes of a core. Changes are drawn from the same seed each time. Records touched are those that operators are given,
and the rows that the window kernels go through.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any, Final
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.table import figure, text_table
from tidemill.renderer.embedded.windows.frame import Partitions

SCHEMA: Final = {"p": "int64", "t": "int64", "x": "int64"}
STEP: Final = 1_000
"""From one row to the next, by the order."""
PEERS: Final = 10
"""Rows with the same order value, under GROUPS."""
BY_T: Final = tm.Window.partition_by("p").order_by("t")
RENDERINGS: Final = {"in order": "auto", "recompute": "recompute", "prefix_sum": "prefix_sum"}
PREFIX_SUM_UP_TO: Final = 100_000
"""Rows in a partition; loading more by prefix_sum takes minutes."""

SECONDS: Final = 4
"""Of steps of (a) and (b), after which no more are made."""
LEAST: Final = 6
"""But so many are: each kind of change twice."""

FRAMES: Final = {
    "ROWS": BY_T.rows_between(-50, 50),
    "RANGE": BY_T.range_between(-50 * STEP, 50 * STEP),
    "GROUPS": BY_T.groups_between(-5, 5),
}
CALLS: Final[dict[str, Callable[[], Any]]] = {
    "sum": lambda: tm.sum("x"),
    "min": lambda: tm.min("x"),
    "last_value": lambda: tm.last_value("x"),
}
UNFRAMED: Final[dict[str, Callable[[], Any]]] = {"lag": lambda: tm.lag("x"), "row_number": tm.row_number}

Point = dict[str, Any]


# -- what is measured -------------------------------------------------------------------------------------------------


class Rows:
    """The rows there are, and single changes of them."""

    def __init__(self, partitions: int, size: int, *, peers: int = 1) -> None:
        self.dice = np.random.default_rng(0)
        self._room = partitions, size * STEP // peers, peers
        n = partitions * size
        self.p = np.arange(n) % partitions
        self.t = (np.arange(n) // partitions // peers) * STEP
        self.x = self.dice.integers(-(10**6), 10**6, n)

    def table(self) -> pa.Table:
        return pa.table({"p": self.p, "t": self.t, "x": self.x})

    def row(self, at: int) -> tuple[int, ...]:
        return int(self.p[at]), int(self.t[at]), int(self.x[at])

    def new(self) -> tuple[int, ...]:
        partitions, end, peers = self._room
        t = int(self.dice.integers(end))
        return int(self.dice.integers(partitions)), t - t % STEP if peers > 1 else t, int(self.dice.integers(10**6))

    def changes(self, count: int) -> Iterator[list[tuple[tuple[int, ...], int]]]:
        """Give inserts, deletes and moves of one row, in turn."""
        victims = self.dice.permutation(len(self.p))[: 2 * count].tolist()
        for number in range(count):
            kind = number % 3
            gone = [(self.row(victims.pop()), -1)] if kind else []
            yield gone + ([(self.new(), 1)] if kind != 1 else [])


@contextmanager
def laid_out() -> Iterator[list[int]]:
    """Count the rows that window kernels go through: a list of one number."""
    seen, begin = [0], Partitions.__init__

    def counted(self: Partitions, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        seen[0] += len(self)

    with patch.object(Partitions, "__init__", counted):
        yield seen


def epochs(call: Any, rows: Rows, changes: Iterable[Any], *, at_most: float = math.inf) -> Point:
    """Return what epochs of some changes take, and the records they touch; of the first, if these take long."""
    flow = tm.Dataflow("curve")
    flow.output("out", flow.input("rows", SCHEMA).with_columns(y=call), changes=False)
    seconds: list[float] = []
    touched: list[int] = []
    with flow.start() as run, laid_out() as seen:
        run.insert("rows", rows.table())
        run.advance()
        for epoch, change in enumerate(changes, 1):
            if sum(seconds) > at_most and epoch > LEAST:
                break
            before = sum(m.records_in for m in run.metrics()) + seen[0]
            start = process_time()
            run.update("rows", [(row, epoch, diff) for row, diff in change])
            run.advance()
            seconds.append(process_time() - start)
            touched.append(sum(m.records_in for m in run.metrics()) + seen[0] - before)
    ms = np.array(seconds) * 1e3
    return {
        "ms": round(float(np.median(ms)), 3),
        "p90_ms": round(float(np.percentile(ms, 90)), 3),
        "records": int(np.median(touched)),
        "epochs": len(seconds),
    }


def points(calls: dict[str, tuple[Any, tm.Window]], rows: Rows, size: int, count: int) -> Iterator[Point]:
    for name, (call, window) in calls.items():
        for rendering, strategy in RENDERINGS.items():
            if strategy == "prefix_sum" and size > PREFIX_SUM_UP_TO:
                continue
            changes = list(rows.changes(count))  # all of them, so that the next ones do not depend on times
            found = epochs(call.over(window, strategy=strategy), rows, changes, at_most=SECONDS)
            yield {"call": name, "rendering": rendering, **found}


# -- the curves -------------------------------------------------------------------------------------------------------


def by_size(sizes: list[int], count: int) -> list[Point]:
    """Curve (a)."""
    found: list[Point] = []
    for size in sizes:
        for frame, window in FRAMES.items():
            rows = Rows(1, size, peers=PEERS if frame == "GROUPS" else 1)
            calls = {name: (call(), window) for name, call in CALLS.items()}
            if frame == "ROWS":
                calls |= {name: (call(), BY_T) for name, call in UNFRAMED.items()}
            found += [{"frame": frame, "rows": size, **point} for point in points(calls, rows, size, count)]
            print(f"(a) {size:,} rows, {frame}", flush=True)
    return found


def by_width(size: int, widths: list[int], count: int) -> list[Point]:
    """Curve (b)."""
    found: list[Point] = []
    rows = Rows(1, size)
    for width in widths:
        window = BY_T.rows_between(-(width // 2), width // 2)
        calls = {name: (CALLS[name](), window) for name in ("sum", "min")}
        found += [{"width": width, **point} for point in points(calls, rows, size, count)]
        print(f"(b) {width:,} rows in a frame", flush=True)
    return found


def by_share(partitions: int, size: int, shares: list[float], count: int) -> list[Point]:
    """Curve (c): a row of each touched partition gets another value."""
    found: list[Point] = []
    window = BY_T.rows_between(-50, 50)
    for share in shares:
        rows = Rows(partitions, size)
        touched = max(1, round(share * partitions))

        def change(rows: Rows = rows, touched: int = touched) -> Iterator[Any]:
            for epoch in range(count):
                changed: list[Any] = []
                for p in rows.dice.permutation(partitions)[:touched].tolist():
                    at = p + partitions * ((epoch * 37 + p) % size)
                    changed.append((rows.row(at), -1))
                    rows.x[at] += 1
                    changed.append((rows.row(at), 1))
                yield changed

        for rendering in ("in order", "recompute"):
            call = tm.sum("x").over(window, strategy=RENDERINGS[rendering])
            point = epochs(call, rows, change())
            found.append({"share": share, "partitions": touched, "rendering": rendering, **point})
        print(f"(c) {touched:,} of {partitions:,} partitions", flush=True)
    return [*found, *anew(partitions, size, count)]


def anew(partitions: int, size: int, count: int) -> list[Point]:
    """Return what computing all anew takes: the load without its input, and DuckDB's query, on one thread."""
    rows = Rows(partitions, size)
    given = rows.table()
    con = duckdb.connect(config={"threads": 1})
    con.register("given", given)
    con.execute("CREATE TABLE rows AS FROM given")
    query = (
        "SELECT *, sum(x) OVER (PARTITION BY p ORDER BY t ROWS BETWEEN 50 PRECEDING AND 50 FOLLOWING) AS y FROM rows"
    )
    flow = tm.Dataflow("anew")
    flow.output("out", flow.input("rows", SCHEMA).with_columns(y=tm.sum("x").over(BY_T.rows_between(-50, 50))))
    own, theirs = [], []
    for _ in range(max(3, count // 10)):
        start = process_time()
        con.execute(query).to_arrow_table()
        theirs.append(process_time() - start)
        with flow.start() as run:
            start = process_time()
            run.insert("rows", given)
            run.advance()
            own.append(process_time() - start)
    return [
        {"share": 1, "partitions": partitions, "rendering": name, "ms": round(float(np.median(taken)) * 1e3, 1)}
        for name, taken in (("all anew, tidemill", own), ("all anew, DuckDB", theirs))
    ]


def crossover(found: list[Point]) -> dict[str, float | None]:
    """Return from which share of partitions on computing all anew is as fast, by rendering and by who computes."""
    anew_ms = {p["rendering"]: p["ms"] for p in found if "anew" in p["rendering"]}
    result: dict[str, float | None] = {}
    for rendering in ("in order", "recompute"):
        curve = [(p["share"], p["ms"]) for p in found if p["rendering"] == rendering]
        for name, ms in anew_ms.items():
            result[f"{rendering} against {name}"] = next((share for share, cost in curve if cost >= ms), None)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.window_curves", description="Curves of window calls.")
    parser.add_argument("--curves", default="abc", help="which of them")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--largest", type=int, default=1_000_000, help="rows of the largest partition in (a)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine()}
    if "a" in options.curves:
        sizes = [n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= options.largest]
        report["by_size"] = by_size(sizes, options.epochs)
    if "b" in options.curves:
        report["by_width"] = by_width(100_000, [1, 5, 21, 101, 401, 1001, 4001], options.epochs)
    if "c" in options.curves:
        shares = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1]
        report["by_share"] = by_share(1_000, 1_000, shares, max(5, options.epochs // 3))
        report["crossover"] = crossover(report["by_share"])
    for name in ("by_size", "by_width", "by_share"):
        if name in report:
            head = list(report[name][0])
            rows = [[p[k] if isinstance(p.get(k), str) else figure(p.get(k)) for k in head] for p in report[name]]
            print(text_table(head, rows, left=3))
    if "crossover" in report:
        print(report["crossover"])
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
