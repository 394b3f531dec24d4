"""Rows above a value that moves: ``python -m benchmarks.dynamic_filter [--json FILE]``.

A threshold in the middle of a million rows, of ten million: a step is the change of the threshold, and the rows that
come or go, ten or a thousand, as Arrow. Rows are two integers; or orders as people have them, with strings, decimals
and timestamps.

DuckDB, what one would do otherwise, filters anew, its table in memory and in order of the rows' ids; once giving all
rows above, which is what a run keeps up to date, as Arrow, and once only counting them; with one thread, as a step
takes one, and with two. Of its times the least is taken, of steps the median.

Then TPC-H Q11 and Q22, as a row of each table leaves and comes back, in turn, and DuckDB's answer anew.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
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
from benchmarks.machine import machine
from benchmarks.table import figure, text_table
from benchmarks.timing import seconds
from benchmarks.workloads.thresholds import QUERIES
from benchmarks.workloads.tpch import generated

PASSED = (10, 1_000)
STEPS = 100
QUERIED = 7
THREADS = (1, 2)
CUSTOMERS = 50_000
STATUSES = ["paid", "sent", "received", "returned"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000], help="of two integers")
    parser.add_argument("--orders", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--scale", type=float, default=0.1, help="of TPC-H; 0 for none")
    parser.add_argument("--json", type=Path)
    said = parser.parse_args()
    found: list[dict[str, Any]] = []
    for what, make, sizes in ("rows", two_integers, said.rows), ("orders", orders, said.orders):
        for size in sizes:
            found += thresholds(what, make(size))
    found += [tpch(name, said.scale) for name in QUERIES if said.scale]
    counts = [f"duckdb_counting_ms_{n}_threads" for n in THREADS]
    columns = ["load_s", "step_ms", *(f"duckdb_ms_{n}_threads" for n in THREADS), *counts]
    columns += [f"times_faster_than_{n}_threads" for n in THREADS]
    cells = [[f["what"], *(figure(f.get(name)) for name in columns)] for f in found]
    print(text_table(["", *columns], cells, left=1))
    if said.json is not None:
        said.json.write_text(json.dumps({"machine": machine(), "measured": found}, indent=1) + "\n")


def two_integers(rows: int) -> pa.Table:
    """Return rows of an id and an amount, each of the numbers below their count once."""
    return pa.table({"id": np.arange(rows), "amount": np.random.default_rng(7).permutation(rows)})


def orders(rows: int) -> pa.Table:
    """Return orders with their customers, states, times and notes, all of them different; amounts are in cents."""
    rng = np.random.default_rng(7)
    cents = pa.array(rng.permutation(rows)).cast(pa.decimal128(19, 0))
    customers = pa.array([f"Customer#{n:09}" for n in range(CUSTOMERS)])
    seconds_since = 1_600_000_000 + np.arange(rows) * 17
    numbers = pa.array(rng.permutation(rows)).cast(pa.string())
    return pa.table({
        "id": np.arange(rows),
        "customer": customers.take(pa.array(rng.integers(0, CUSTOMERS, rows))),
        "amount": pc.multiply(cents, pa.scalar(Decimal("0.01"))).cast(pa.decimal128(15, 2)),
        "status": pa.array(STATUSES).take(pa.array(rng.integers(0, len(STATUSES), rows))),
        "placed": pa.array(seconds_since * 1_000_000).cast(pa.timestamp("us")),
        "note": pc.binary_join_element_wise("leave at door", numbers, " "),
    })  # fmt: skip


def thresholds(what: str, given: pa.Table) -> Iterator[dict[str, Any]]:
    """Give the figures of thresholds that pass so many of these rows."""
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
        otherwise = filtered_anew(given, amount(now))
        for passed in PASSED:
            times = []
            for step in range(STEPS):
                new = now + (passed if step % 2 == 0 else -passed)
                times.append(seconds(partial(_moved, run, (amount(now),), (amount(new),), passed)))
                now = new
            yield {
                "what": f"{passed:,} of {rows:,} {what} passed",
                "load_s": round(load, 3),
                **_compared(times, otherwise),
            }


def filtered_anew(given: pa.Table, least: int | Decimal) -> dict[str, float]:
    """Return the seconds that DuckDB takes for the rows above, and for their count."""
    found: dict[str, float] = {}
    with duckdb.connect() as db:
        db.execute("CREATE TABLE amounts AS SELECT * FROM given")
        assert given.num_rows  # DuckDB finds it by its name
        above = f"FROM amounts WHERE amount > {least}"
        for threads in THREADS:
            db.execute(f"SET threads = {threads}")
            whole = min(seconds(lambda: db.sql(f"SELECT * {above}").to_arrow_table()) for _ in range(QUERIED))
            count = min(seconds(lambda: db.sql(f"SELECT count(*) {above}").fetchall()) for _ in range(QUERIED))
            found |= {f"duckdb_ms_{threads}_threads": whole, f"duckdb_counting_ms_{threads}_threads": count}
    return found


def _moved(run: tm.Run, old: tuple[Any], new: tuple[Any], passed: int) -> None:
    run.delete("right", [old])
    run.insert("right", [new])
    run.advance()
    assert run.changes("above").to_arrow().num_rows == passed


def tpch(name: str, scale: float) -> dict[str, Any]:
    """Return the figures of a query, of single rows that leave each table and come back."""
    columns, query, answer = QUERIES[name]
    with tempfile.TemporaryDirectory() as folder:
        read = generated(Path(folder), scale, *columns)
    tables = {table: read[table].select(list(columns[table])) for table in columns}
    flow = tm.Dataflow(name)
    flow.output("answer", answer(tm, **{table: flow.input(table, c) for table, c in columns.items()}))
    with flow.start(progress=False) as run, duckdb.connect() as db:
        start = perf_counter()
        for table, rows in tables.items():
            run.insert(table, rows)
        run.advance()
        load = perf_counter() - start
        for table, given in tables.items():
            assert given.num_rows  # DuckDB finds it by its name
            db.execute(f"CREATE TABLE {table} AS SELECT * FROM given")
        otherwise = {}
        for threads in THREADS:
            db.execute(f"SET threads = {threads}")
            whole = min(seconds(lambda: db.sql(query).to_arrow_table()) for _ in range(QUERIED))
            otherwise[f"duckdb_ms_{threads}_threads"] = whole
        run.changes("answer")
        times = []
        for step in range(STEPS):
            for table, rows in tables.items():
                if table != "nation":  # a nation is a large change
                    row = rows.slice(step * rows.num_rows // STEPS, 1)
                    times += [seconds(partial(_stepped, run, change, table, row)) for change in _BOTH]
        assert sorted(run.snapshot("answer").to_arrow().to_pylist(), key=str) == sorted(
            db.sql(query).to_arrow_table().to_pylist(), key=str
        )
    return {"what": f"TPC-H {name} at scale {scale:g}", "load_s": round(load, 3), **_compared(times, otherwise)}


_BOTH = (tm.Run.delete, tm.Run.insert)


def _stepped(run: tm.Run, change: Callable[..., None], table: str, row: pa.Table) -> None:
    change(run, table, row)
    run.advance()
    run.changes("answer").to_arrow()


def _compared(times: list[float], otherwise: dict[str, float]) -> dict[str, float]:
    step = median(times)
    return {
        "step_ms": round(1e3 * step, 4),
        **{name: round(1e3 * found, 4) for name, found in otherwise.items()},
        **{
            f"times_faster_than_{n}_threads": round(otherwise[f"duckdb_ms_{n}_threads"] / step, 1) for n in THREADS
        },
    }  # fmt: skip


if __name__ == "__main__":
    main()
