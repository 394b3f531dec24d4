"""Window calls as rows change: sums over an order, curves by size, width and share, and windows once closed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.engines.embedded import Embedded
from benchmarks.runner import Figures, median_ms, peak_memory, say, seconds, spread
from benchmarks.workloads.windows import MeanOnClose
from tidemill.algorithms import (
    BlockShape,
    block_sums,
    combine,
    interval_sum,
    offset_search,
    order_sums,
    prefix_sum,
    unique_index,
)
from tidemill.renderer.embedded.windows.frame import Partitions

SCHEMA: Final = {"p": "int64", "t": "int64", "x": "int64"}
BY_T: Final = tm.Window.partition_by("p").order_by("t")
RENDERINGS: Final = {"in order": "auto", "recompute": "recompute", "prefix_sum": "prefix_sum"}


# -- sums over an order -----------------------------------------------------------------------------------------------

BACK = 4
CALLS: dict[str, tuple[Any, tm.Window]] = {
    "LAG": (tm.lag("x"), BY_T),
    "sum ROWS 4 PRECEDING": (tm.sum("x"), BY_T.rows_between(-BACK, 0)),
    "sum ROWS 50 PRECEDING TO 50 FOLLOWING": (tm.sum("x"), BY_T.rows_between(-50, 50)),
    "max RANGE of a thousandth of all": (tm.max("x"), BY_T.range_between(-(2**30), 0)),
    "row_number": (tm.row_number(), BY_T),
}


def windows(*, rows: int, partitions: int, epochs: int, bits: int, levels: int) -> Figures:
    """LAG and a sum over ROWS 4 PRECEDING, composed of `tidemill.algorithms` and as calls in all renderings.

    A row moves to another place in each epoch. Then window calls in one partition of 1,000 to 100,000 rows, and how
    many blocks there are by level. Figures are of processor time; ``one_row_step_ms`` is the same for the least
    dataflow there is, a sum by key, taken before and after, to scale them by.
    """
    shape = BlockShape(bits, levels)
    steps = [_one_row_step()]
    builds: dict[str, Any] = {
        "LAG": lambda rows: _lag(rows, shape),
        "ROWS 4 PRECEDING, by a list of the last values": lambda rows: _frame_of_a_list(rows, shape),
        "ROWS 4 PRECEDING, by search and interval sum": lambda rows: _frame_of_blocks(rows, shape),
    }
    for name in ("LAG", "sum ROWS 4 PRECEDING"):
        builds |= {f"{name} OVER, by {how}": _called(*CALLS[name], how) for how in RENDERINGS}
    cases = {name: _moving(build, rows, epochs, partitions) for name, build in builds.items()}
    one_partition = [
        {"call": name, "rendering": how, "rows": n, **_moving(_called(*call, how), n, min(60, epochs), 1)}
        for name, call in CALLS.items()
        for how in RENDERINGS
        for n in ((1000, 10_000) if name == "row_number" else (1000, 10_000, 100_000))
        if n <= rows
    ]
    steps.append(_one_row_step())
    by_level = _by_level(rows // partitions, shape)
    return {"one_row_step_ms": steps, "cases": cases, "one_partition": one_partition, "blocks_by_level": by_level}


def _lag(rows: tm.Collection, shape: BlockShape) -> tm.Collection:
    unique = unique_index(rows, order_by="t", partition_by="p")
    before = prefix_sum(unique, **_order(shape), copies="copy", lag=combine.last("x"))
    return unique.distinct().join(before, on=["p", "index"]).select(*SCHEMA, "lag")


def _frame_of_a_list(rows: tm.Collection, shape: BlockShape) -> tm.Collection:
    """The last values before each row, as a list that its block and those before it give."""
    unique = unique_index(rows, order_by="t", partition_by="p")
    before = prefix_sum(unique, **_order(shape), copies="copy", recent=combine.list("x", last=BACK))
    total = tm.col("x")
    for i in range(BACK):
        total += tm.get(tm.col("recent"), i).fill_null(0)
    return unique.distinct().join(before, on=["p", "index"]).select(*SCHEMA, total=total)


def _frame_of_blocks(rows: tm.Collection, shape: BlockShape) -> tm.Collection:
    """The place where each frame begins is searched for, and the blocks from there to the row are added up."""
    unique = unique_index(rows, order_by="t", partition_by="p")
    order = order_sums(unique, **_order(shape), n=combine.rows(), total=combine.sum("x"))
    frames = offset_search(order, offset=-BACK, count="n", copies="copy", found="low")
    frames = frames.with_columns(high="index", after=tm.col("copy") + 1)
    sums = interval_sum(order, frames, low_copy="low_copy", high_copy="after")
    return unique.distinct().join(sums, on=["p", "index"]).select(*SCHEMA, "total")


def _order(shape: BlockShape) -> dict[str, Any]:
    return {"index": "index", "partition_by": "p", "unique": True, "shape": shape}


def _called(call: Any, window: tm.Window, rendering: str) -> Any:
    return lambda rows: rows.with_columns(y=call.over(window, strategy=RENDERINGS[rendering]))


def _moving(build: Any, rows: int, epochs: int, partitions: int) -> Figures:
    """Return the figures of a load and of epochs in each of which a row moves to another place."""
    flow = tm.Dataflow("windows")
    flow.output("out", build(flow.input("rows", SCHEMA)), changes=False)
    dice = np.random.default_rng(0)
    columns = [
        dice.integers(0, partitions, rows),
        dice.choice(2**40, rows, replace=False),
        dice.integers(-99, 99, rows),
    ]
    moved, places = dice.permutation(rows)[:epochs], dice.choice(2**40, epochs, replace=False)
    before = peak_memory()
    with flow.start() as run:
        run.insert("rows", pa.table(dict(zip(SCHEMA, columns, strict=True))))
        load, first, times = seconds(run.advance, process_time), run.metrics(), []
        for epoch, (k, place) in enumerate(zip(moved.tolist(), places.tolist(), strict=True), 1):
            p, t, x = (int(c[k]) for c in columns)

            def move(p: int = p, t: int = t, x: int = x, place: int = place, epoch: int = epoch) -> None:
                run.update("rows", [((p, t, x), epoch, -1), ((p, place, x), epoch, 1)])
                run.advance()

            times.append(1e3 * seconds(move, process_time))
        given = sum(b.records_in - a.records_in for a, b in zip(first, run.metrics(), strict=True)) / epochs
    return {
        "load_s": load,
        "epoch_ms": spread(times),
        "records_per_epoch": round(given),
        "state_rows": first.state_rows,
        "state_bytes_a_row": round(sum(m.bytes for m in first) / rows),
        "more_memory_mb": peak_memory() - before,
        "operators": len(first),
    }


def _one_row_step(epochs: int = 1000) -> float:
    """Return the milliseconds of a step with one row through a sum by key."""
    flow = tm.Dataflow("least")
    rows = flow.input("rows", {"k": "int64", "v": "int64"})
    flow.output("sums", rows.group_by("k").agg(total=tm.sum("v")), changes=False)
    with flow.start() as run:
        run.insert("rows", pa.table({"k": np.arange(200_000) % 1000, "v": np.arange(200_000)}))
        run.advance()

        def step() -> None:
            run.insert("rows", [(1, 1)])
            run.advance()

        return median_ms({"step": step}, epochs, process_time)["step"]


def _by_level(rows: int, shape: BlockShape) -> dict[str, dict[int, int]]:
    """Return how many blocks there are on each level, of indexes of several kinds in one partition."""
    dice = np.random.default_rng(0)
    even = dice.choice(2**40, rows, replace=False)
    kinds = {
        "scattered over 40 bits": even,
        "scattered over 60 bits": dice.choice(2**60, rows, replace=False),
        "20 leading zero bits, 20 trailing": (even & (2**20 - 1)) << 20,
        "in 100 clusters": dice.integers(0, 100, rows) * 2**50 + dice.integers(0, 2**20, rows),
    }
    found = {}
    for name, index in kinds.items():
        flow = tm.Dataflow("levels")
        values = flow.input("rows", {"i": "int64"})
        flow.output("levels", block_sums(values, index="i", shape=shape).group_by("level").agg(n=tm.count()))
        with flow.start() as run:
            run.insert("rows", pa.table({"i": index}))
            run.advance()
            found[name] = dict(sorted(run.snapshot("levels")))
    return found


# -- curves -----------------------------------------------------------------------------------------------------------

STEP: Final = 1_000
"""From one row to the next, by the order."""
PEERS: Final = 10
"""Rows with the same order value, under GROUPS."""
PREFIX_SUM_UP_TO: Final = 100_000
"""Rows in a partition; loading more by prefix_sum takes minutes."""
SECONDS, LEAST = 4, 6
"""No more steps of a point after so many seconds, but at least so many: each kind of change twice."""
NEAR: Final = BY_T.rows_between(-50, 50)
FRAMES: Final = {
    "ROWS": NEAR,
    "RANGE": BY_T.range_between(-50 * STEP, 50 * STEP),
    "GROUPS": BY_T.groups_between(-5, 5),
}
FRAMED: Final[dict[str, Any]] = {"sum": tm.sum("x"), "min": tm.min("x"), "last_value": tm.last_value("x")}
UNFRAMED: Final[dict[str, Any]] = {"lag": tm.lag("x"), "row_number": tm.row_number()}


def window_curves(*, curves: str, epochs: int, sizes: Sequence[int], widths: Sequence[int]) -> Figures:
    """What a change costs: (a) by the rows of its partition, (b) by those of its frame, (c) by the share touched.

    (a) One partition of several sizes, in which one row is inserted, deleted or moved; (b) one of 100,000 rows; (c)
    1,000 of 1,000, of which a thousandth to all are touched, against computing all anew, by tidemill and by DuckDB.
    Times are of processor time, medians; records touched are those that operators are given, and the rows that the
    window kernels go through.
    """
    found: Figures = {}
    if "a" in curves:
        found["by_size"] = list(_by_size(sizes, epochs))
    if "b" in curves:
        found["by_width"] = list(_by_width(100_000, widths, epochs))
    if "c" in curves:
        shares = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1]
        found["by_share"] = _by_share(1_000, 1_000, shares, max(5, epochs // 3))
        found["crossover"] = _crossover(found["by_share"])
    return found


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
def _laid_out() -> Iterator[list[int]]:
    """Count the rows that window kernels go through: a list of one number."""
    seen, begin = [0], Partitions.__init__

    def counted(self: Partitions, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        seen[0] += len(self)

    with patch.object(Partitions, "__init__", counted):
        yield seen


def _epochs(call: Any, rows: Rows, changes: Iterable[Any], *, at_most: float = math.inf) -> Figures:
    """Return what epochs of some changes take, and the records they touch; of the first, if these take long."""
    flow = tm.Dataflow("curve")
    flow.output("out", flow.input("rows", SCHEMA).with_columns(y=call), changes=False)
    times: list[float] = []
    touched: list[int] = []
    with flow.start() as run, _laid_out() as seen:
        run.insert("rows", rows.table())
        run.advance()
        for epoch, change in enumerate(changes, 1):
            if sum(times) > 1e3 * at_most and epoch > LEAST:
                break
            before = sum(m.records_in for m in run.metrics()) + seen[0]
            start = process_time()
            run.update("rows", [(row, epoch, diff) for row, diff in change])
            run.advance()
            times.append(1e3 * (process_time() - start))
            touched.append(sum(m.records_in for m in run.metrics()) + seen[0] - before)
    found = spread(times)
    return {"ms": found["median"], "p90_ms": found["p90"], "records": int(median(touched)), "epochs": len(times)}


def _points(calls: dict[str, tuple[Any, tm.Window]], rows: Rows, size: int, count: int) -> Iterator[Figures]:
    for name, (call, window) in calls.items():
        for rendering, strategy in RENDERINGS.items():
            if strategy != "prefix_sum" or size <= PREFIX_SUM_UP_TO:
                changes = list(rows.changes(count))  # all of them, so that the next ones do not depend on times
                found = _epochs(call.over(window, strategy=strategy), rows, changes, at_most=SECONDS)
                yield {"call": name, "rendering": rendering, **found}


def _by_size(sizes: Sequence[int], count: int) -> Iterator[Figures]:
    for size in sizes:
        for frame, window in FRAMES.items():
            say(f"(a) {size:,} rows, {frame}")
            rows = Rows(1, size, peers=PEERS if frame == "GROUPS" else 1)
            calls = {name: (call, window) for name, call in FRAMED.items()}
            calls |= {name: (call, BY_T) for name, call in UNFRAMED.items() if frame == "ROWS"}
            yield from ({"frame": frame, "rows": size, **point} for point in _points(calls, rows, size, count))


def _by_width(size: int, widths: Sequence[int], count: int) -> Iterator[Figures]:
    rows = Rows(1, size)
    for width in widths:
        say(f"(b) {width:,} rows in a frame")
        window = BY_T.rows_between(-(width // 2), width // 2)
        calls = {name: (FRAMED[name], window) for name in ("sum", "min")}
        yield from ({"width": width, **point} for point in _points(calls, rows, size, count))


def _by_share(partitions: int, size: int, shares: list[float], count: int) -> list[Figures]:
    """Return what it costs that a row of each touched partition gets another value, and what all costs anew."""
    found: list[Figures] = []
    for share in shares:
        rows, touched = Rows(partitions, size), max(1, round(share * partitions))
        say(f"(c) {touched:,} of {partitions:,} partitions")

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
            call = tm.sum("x").over(NEAR, strategy=RENDERINGS[rendering])
            found.append(
                {"share": share, "partitions": touched, "rendering": rendering, **_epochs(call, rows, change())}
            )
    return [*found, *_anew(partitions, size, count)]


def _anew(partitions: int, size: int, count: int) -> list[Figures]:
    """Return what computing all anew takes: the load without its input, and DuckDB's query, on one thread."""
    given = Rows(partitions, size).table()
    db = duckdb.connect(config={"threads": 1})
    db.register("given", given)
    db.execute("CREATE TABLE rows AS FROM given")
    over = "OVER (PARTITION BY p ORDER BY t ROWS BETWEEN 50 PRECEDING AND 50 FOLLOWING)"
    flow = tm.Dataflow("anew")
    flow.output("out", flow.input("rows", SCHEMA).with_columns(y=tm.sum("x").over(NEAR)))

    def load() -> None:
        with flow.start() as run:
            run.insert("rows", given)
            run.advance()

    works: dict[str, Callable[[], object]] = {
        "all anew, tidemill": load,
        "all anew, DuckDB": lambda: db.execute(f"SELECT *, sum(x) {over} AS y FROM rows").to_arrow_table(),
    }
    taken = median_ms(works, max(3, count // 10), process_time)
    return [{"share": 1, "partitions": partitions, "rendering": name, "ms": ms} for name, ms in taken.items()]


def _crossover(found: list[Figures]) -> dict[str, float | None]:
    """Return from which share of partitions on computing all anew is as fast, by rendering and by who computes."""
    anew = {p["rendering"]: p["ms"] for p in found if "anew" in p["rendering"]}
    result: dict[str, float | None] = {}
    for rendering in ("in order", "recompute"):
        curve = [(p["share"], p["ms"]) for p in found if p["rendering"] == rendering]
        for name, ms in anew.items():
            result[f"{rendering} against {name}"] = next((share for share, cost in curve if cost >= ms), None)
    return result


# -- once closed ------------------------------------------------------------------------------------------------------


def on_close(*, epochs: int, scale: float) -> Figures:
    """W13, ten rows an epoch after a million have gone past: what an epoch takes, and what operators hold meanwhile.

    But for the output itself, which keeps the answer for whoever asks.
    """
    workload = MeanOnClose(scale)
    engine, tables = Embedded(workload), workload.tables()
    steps, start = workload.steps(tables), perf_counter()
    engine.load(tables)
    load, times, held = perf_counter() - start, list[float](), []
    for part in range(5):
        for step in islice(steps, epochs // 4 if part else 0):
            times.append(1e3 * seconds(lambda step=step: engine.step(step)))  # type: ignore[misc]
        engine.read()
        inside = [o for o in engine.run.metrics() if o.kind != "Output"]
        kept = {name: sum(getattr(o, name) for o in inside) for name in ("state_rows", "waiting", "bytes")}
        held.append({"epoch": part * (epochs // 4), **kept})
    engine.close()
    return {"on_close": [{"rows": workload.count, "load_s": load, "epoch_ms": spread(times)}], "held": held}
