"""Values that move: rows above a threshold, as dynamic filters keep them, and rows that end at times to come."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidemill as tm
from benchmarks.runner import Figures, in_turn, seconds, spread
from benchmarks.workloads.thresholds import QUERIES
from benchmarks.workloads.tpch import generated

THREADS = (1, 2)
QUERIED = 7
BOTH = (tm.Run.delete, tm.Run.insert)


def dynamic_filter(
    *, rows: Sequence[int], orders: Sequence[int], passed: Sequence[int], scale: float, steps: int
) -> Figures:
    """A threshold in the middle of so many rows of two integers, or of orders as people have them, passes some of them.

    A step is the change of the threshold, and the rows that come or go, as Arrow. DuckDB filters anew, its table in
    order of the rows' ids: giving all rows above, which is what a run keeps up to date, and only counting them; with
    one thread, as a step takes one, and with two. Of its times the least is taken, of steps the median. Then TPC-H Q11
    and Q22 at a scale, as a row of each table leaves and comes back, in turn, and DuckDB's answer anew.
    """
    found: list[Figures] = []
    for what, make, sizes in ("rows", _two_integers, rows), ("orders", _orders, orders):
        for size in sizes:
            found += _thresholds(what, make(size), passed, steps)
    found += [_tpch(name, scale, steps) for name in QUERIES if scale]
    return {"dynamic_filter": found}


def _two_integers(rows: int) -> pa.Table:
    """Return rows of an id and an amount, each of the numbers below their count once."""
    return pa.table({"id": np.arange(rows), "amount": np.random.default_rng(7).permutation(rows)})


def _orders(rows: int) -> pa.Table:
    """Return orders with their customers, states, times and notes, all of them different; amounts are in cents."""
    rng = np.random.default_rng(7)
    cents = pa.array(rng.permutation(rows)).cast(pa.decimal128(19, 0))
    customers = pa.array([f"Customer#{n:09}" for n in range(50_000)])
    numbers = pa.array(rng.permutation(rows)).cast(pa.string())
    return pa.table({
        "id": np.arange(rows),
        "customer": customers.take(pa.array(rng.integers(0, len(customers), rows))),
        "amount": pc.multiply(cents, pa.scalar(Decimal("0.01"))).cast(pa.decimal128(15, 2)),
        "status": pa.array(["paid", "sent", "received", "returned"]).take(pa.array(rng.integers(0, 4, rows))),
        "placed": pa.array((1_600_000_000 + np.arange(rows) * 17) * 1_000_000).cast(pa.timestamp("us")),
        "note": pc.binary_join_element_wise("leave at door", numbers, " "),
    })  # fmt: skip


def _thresholds(what: str, given: pa.Table, passed: Sequence[int], steps: int) -> Iterator[Figures]:
    dtype, rows = given.schema.field("amount").type, given.num_rows
    flow = tm.Dataflow("threshold")
    left, right = flow.input("left", given.schema), flow.input("right", pa.schema({"least": dtype}))
    flow.output("above", left.dynamic_filter("amount", ">", right))

    def amount(number: int) -> int | Decimal:
        return Decimal(number).scaleb(-2) if pa.types.is_decimal(dtype) else number

    with flow.start(progress=False) as run:
        start = perf_counter()
        run.insert("left", given)
        run.insert("right", [(amount(rows // 2),)])
        run.advance()
        load, now = perf_counter() - start, rows // 2
        run.changes("above")
        above = f"FROM given WHERE amount > {amount(now)}"
        anew = _anew({"given": given}, {"duckdb": f"SELECT * {above}", "duckdb_counting": f"SELECT count(*) {above}"})
        for count in passed:
            times = []
            for step in range(steps):
                new = now + (count if step % 2 == 0 else -count)
                times.append(1e3 * seconds(partial(moved, run, (amount(now),), (amount(new),), count)))
                now = new
            yield {"what": f"{count:,} of {rows:,} {what} passed", "load_s": load, **_compared(times, anew)}


def moved(run: tm.Run, old: tuple[Any], new: tuple[Any], passed: int) -> None:
    """Have the threshold of a run be another, which passes so many rows."""
    run.delete("right", [old])
    run.insert("right", [new])
    run.advance()
    assert run.changes("above").to_arrow().num_rows == passed


def _anew(tables: dict[str, pa.Table], queries: dict[str, str]) -> dict[str, float]:
    """Return the milliseconds that DuckDB takes for each of the queries, by the threads that it has."""
    found: dict[str, float] = {}
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register("loaded", table)
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM loaded")
        for threads in THREADS:
            db.execute(f"SET threads = {threads}")
            works = {f"{name}_ms_{threads}_threads": partial(_fetched, db, query) for name, query in queries.items()}
            found |= {name: min(taken) for name, taken in in_turn(works, QUERIED).items()}
    return found


def _fetched(db: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    return db.sql(query).to_arrow_table()


def _tpch(name: str, scale: float, steps: int) -> Figures:
    """Return the figures of a query, of single rows that leave each table and come back."""
    columns, query, answer = QUERIES[name]
    with tempfile.TemporaryDirectory() as folder:
        read = generated(Path(folder), scale, *columns)
    tables = {table: read[table].select(list(columns[table])) for table in columns}
    flow = tm.Dataflow(name)
    flow.output("answer", answer(tm, **{table: flow.input(table, c) for table, c in columns.items()}))

    def stepped(change: Callable[..., None], table: str, row: pa.Table) -> None:
        change(run, table, row)
        run.advance()
        run.changes("answer").to_arrow()

    with flow.start(progress=False) as run:
        start = perf_counter()
        for table, rows in tables.items():
            run.insert(table, rows)
        run.advance()
        load, times = perf_counter() - start, list[float]()
        anew = _anew(tables, {"duckdb": query})
        run.changes("answer")
        for step in range(steps):
            for table, rows in tables.items():
                if table != "nation":  # a nation is a large change
                    row = rows.slice(step * rows.num_rows // steps, 1)
                    times += [1e3 * seconds(partial(stepped, change, table, row)) for change in BOTH]
        with duckdb.connect() as db:
            for table, rows in tables.items():
                db.register(table, rows)
            there = sorted(_fetched(db, query).to_pylist(), key=str)
        assert sorted(run.snapshot("answer").to_arrow().to_pylist(), key=str) == there
    return {"what": f"TPC-H {name} at scale {scale:g}", "load_s": load, **_compared(times, anew)}


def _compared(times: list[float], anew: dict[str, float]) -> Figures:
    step = median(times)
    faster = {f"times_faster_than_{n}_threads": anew[f"duckdb_ms_{n}_threads"] / step for n in THREADS}
    return {"step_ms": step, **anew, **faster}


# -- rows that end at times to come -----------------------------------------------------------------------------------


def future_updates(*, sizes: Sequence[int], each: int, epochs: int) -> Figures:
    """Rows in a temporal filter that end at times to come, some for each epoch.

    Epochs that release those that are due; epochs that bring as many besides, at times all over the future; and epochs
    that take back rows that came before, so that two future updates cancel out.
    """
    return {"future_updates": [_pending(size, each, epochs) for size in sizes]}


def _pending(rows: int, each: int, epochs: int) -> Figures:
    flow = tm.Dataflow("future")
    events = flow.input("events", {"id": "int64", "end": "int64"})
    flow.output("n", events.temporal_filter(None, "end").agg(n=tm.count()))
    rng = np.random.default_rng(0)
    ends = rng.permutation(rows) // each + 1
    with flow.start() as run:
        start = perf_counter()
        run.insert("events", pa.table({"id": np.arange(rows), "end": ends}))
        run.advance()
        run.advance()  # the one in which what is pending is laid out
        result: Figures = {"pending": rows, "load_s": perf_counter() - start}
        gc.collect()
        came: list[list[tuple[int, int]]] = []

        def bring(epoch: int) -> None:
            came.append([(rows + epoch, epochs * 4 + int(end)) for end in rng.integers(0, rows // each, each)])
            run.insert("events", came[-1])

        kinds: dict[str, Callable[[int], object]] = {
            "release": lambda _: None,
            "release_and_bring": bring,
            "release_and_take_back": lambda epoch: run.delete("events", came[epoch]),
        }
        for kind, change in kinds.items():
            times = []
            for epoch in range(epochs):
                change(epoch)
                times.append(1e3 * seconds(run.advance))
            result[kind] = spread(times)
        counts = [n for (n,), _, diff in run.changes("n") if diff > 0]
        assert counts[-1] == rows - (3 * epochs + 1) * each, counts[-1]
        result["bytes_per_pending_update"] = sum(o.bytes for o in run.metrics()) / (rows - 3 * epochs * each)
    return result
