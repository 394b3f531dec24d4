"""The 22 queries of TPC-H as SQL, kept up to date as orders come and go, beside DuckDB computing them anew.

``python -m benchmarks.sql_tpch --scale 0.1 --epochs 5`` prints a line a query: load, the median epoch, DuckDB's median.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidemill as tm
from benchmarks.tpch_queries import QUERIES
from benchmarks.workload import SEED
from benchmarks.workloads.tpch import generated

NAMES = ("lineitem", "orders", "customer", "supplier", "nation", "region", "part", "partsupp")
ORDER = {"orders": "o_orderkey", "lineitem": "l_orderkey"}


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measured(number: int, tables: dict[str, pa.Table], epochs: int, orders: int) -> tuple[float, float, float]:
    """Return the load, the median epoch of so many orders that leave and come, and DuckDB's median query."""
    flow = tm.Dataflow(f"Q{number}")
    for name in NAMES:
        flow.input(name, tables[name].schema)
    flow.output("answer", flow.sql(QUERIES[number], "duckdb"))
    keys = np.random.default_rng(SEED).permutation(np.asarray(tables["orders"]["o_orderkey"]))
    away, ours, theirs = keys[:orders], [], []

    def among(name: str, chosen: np.ndarray) -> pa.Array:
        return pa.array(np.isin(np.asarray(tables[name][ORDER[name]]), chosen))

    def loaded() -> None:
        for name in NAMES:
            table = tables[name]
            run.insert(name, table.filter(pc.invert(among(name, away))) if name in ORDER else table)
        run.advance()

    with flow.start(progress=False) as run, duckdb.connect() as database:
        load = seconds(loaded)
        for epoch in range(epochs):
            leaving = keys[orders * (epoch + 1) :][:orders]
            for name in ORDER:
                run.insert(name, tables[name].filter(among(name, away)))
                run.delete(name, tables[name].filter(among(name, leaving)))
            away = leaving
            ours.append(seconds(run.advance))
            for name in NAMES:
                table = tables[name]
                rows = table.filter(pc.invert(among(name, away))) if name in ORDER else table
                database.register("there", rows)
                database.execute(f"create or replace table {name} as select * from there")
            theirs.append(seconds(lambda: database.execute(QUERIES[number]).fetchall()))
    return load, statistics.median(ours), statistics.median(theirs)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--orders", type=int, default=100)
    parser.add_argument("queries", type=int, nargs="*", default=list(QUERIES))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables = generated(Path(folder), given.scale, *NAMES)
    print(f"{'query':>5} {'load s':>9} {'epoch ms':>9} {'DuckDB ms':>10}")
    for number in given.queries:
        load, ours, theirs = measured(number, tables, given.epochs, given.orders)
        print(f"{'Q' + str(number):>5} {load:9.2f} {ours * 1000:9.1f} {theirs * 1000:10.1f}")


if __name__ == "__main__":
    main()
