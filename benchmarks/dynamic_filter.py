"""Rows above a value that moves: ``python -m benchmarks.dynamic_filter [--json FILE]``.

A threshold that passes ten rows, of a million and of ten: a step is the change of the threshold and the rows that come
or go, as Arrow. DuckDB, what one would do otherwise, filters anew, its table in memory and in order of the rows' ids;
once giving the rows, as Arrow, and once only counting them. Then TPC-H Q11 and Q22, as a row of each table leaves and
comes back, in turn, and DuckDB's answer anew.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.table import figure, text_table
from benchmarks.timing import seconds
from benchmarks.workloads.thresholds import QUERIES
from benchmarks.workloads.tpch import generated

PASSED = (10, 1_000)
STEPS = 100
QUERIED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--scale", type=float, default=0.1, help="of TPC-H")
    parser.add_argument("--json", type=Path)
    said = parser.parse_args()
    found = [found for rows in said.rows for found in thresholds(rows)]
    found += [tpch(name, said.scale) for name in QUERIES]
    columns = ("load_s", "step_ms", "duckdb_ms", "duckdb_counting_ms", "times_faster")
    cells = [[f["what"], *(figure(f.get(name)) for name in columns)] for f in found]
    print(text_table(["", *columns], cells, left=1))
    if said.json is not None:
        said.json.write_text(json.dumps({"machine": machine(), "measured": found}, indent=1) + "\n")


def thresholds(rows: int) -> list[dict[str, Any]]:
    """Return the figures of thresholds that pass so many of these rows."""
    given = pa.table({"id": np.arange(rows), "amount": np.random.default_rng(7).permutation(rows)})
    flow = tm.Dataflow("threshold")
    left, right = flow.input("left", {"id": "int64", "amount": "int64"}), flow.input("right", {"least": "int64"})
    flow.output("above", left.dynamic_filter("amount", ">", right))
    found = []
    with flow.start(progress=False) as run, duckdb.connect() as db:
        db.execute("SET threads = 2")
        db.execute("CREATE TABLE amounts AS SELECT * FROM given")
        start = perf_counter()
        run.insert("left", given)
        run.insert("right", [(rows // 2,)])
        run.advance()
        load, now = perf_counter() - start, rows // 2
        run.changes("above")
        above = f"FROM amounts WHERE amount > {now}"
        whole = median(seconds(lambda: db.sql(f"SELECT * {above}").to_arrow_table()) for _ in range(QUERIED))
        counting = median(seconds(lambda: db.sql(f"SELECT count(*) {above}").fetchall()) for _ in range(QUERIED))
        for passed in PASSED:
            times = []
            for step in range(STEPS):
                new = now + (passed if step % 2 == 0 else -passed)
                times.append(seconds(partial(_moved, run, now, new)))
                now = new
            found.append({
                "what": f"{passed:,} of {rows:,} rows passed", "load_s": round(load, 3), **_compared(times, whole),
                "duckdb_counting_ms": round(1e3 * counting, 4),
            })  # fmt: skip
    return found


def _moved(run: tm.Run, old: int, new: int) -> None:
    run.delete("right", [(old,)])
    run.insert("right", [(new,)])
    run.advance()
    assert run.changes("above").to_arrow().num_rows == abs(new - old)


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
        whole = median(seconds(lambda: db.sql(query).to_arrow_table()) for _ in range(QUERIED))
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
    return {"what": f"TPC-H {name} at scale {scale:g}", "load_s": round(load, 3), **_compared(times, whole)}


_BOTH = (tm.Run.delete, tm.Run.insert)


def _stepped(run: tm.Run, change: Callable[..., None], table: str, row: pa.Table) -> None:
    change(run, table, row)
    run.advance()
    run.changes("answer").to_arrow()


def _compared(times: list[float], otherwise: float) -> dict[str, float]:
    step = median(times)
    return {
        "step_ms": round(1e3 * step, 4), "duckdb_ms": round(1e3 * otherwise, 4),
        "times_faster": round(otherwise / step, 1),
    }  # fmt: skip


if __name__ == "__main__":
    main()
