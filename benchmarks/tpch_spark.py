"""TPC-H in SQL on Spark: each query from scratch and live, beside DuckDB's answers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.kept import compared, filled, follow
from benchmarks.runner import Figures, say
from benchmarks.spark import session
from benchmarks.tpch_sql import NAMES, prepared
from benchmarks.workloads.tpch import generated
from benchmarks.workloads.tpch_queries import QUERIES


def tpch_spark(*, scale: float, epochs: int, orders: int, queries: Sequence[int]) -> Figures:
    """Render each query from DataFrames, and keep it up to date live: answers after each step beside DuckDB's.

    Steps are those of `tpch`. Seconds are by the clock, in one session.
    """
    spark, found = session(), []
    with tempfile.TemporaryDirectory() as folder:
        for name, table in generated(Path(folder), scale, *NAMES).items():
            pq.write_table(table, Path(folder) / f"{name}.parquet")
        for number in queries or QUERIES:
            found.append({"query": number, **_of_query(spark, folder, number, epochs, orders)})
            say(found[-1])
    spark.stop()
    sizes = {"scale": scale, "epochs": epochs, "orders": orders}
    return {"tpch_spark": found, "tpch_spark_sizes": sizes, "wrong": [f["query"] for f in found if f["wrong"]]}


def _of_query(spark: Any, folder: str, number: int, epochs: int, orders: int) -> Figures:
    text, (tables, steps) = QUERIES[number], prepared(folder, number, epochs, orders)
    flow = tm.Dataflow(f"q{number}")
    for name, rows in tables.rows.items():
        flow.input(name, rows.schema)
    flow.output("answer", flow.sql(text, dialect="duckdb"))
    first = {name: np.flatnonzero(there) for name, there in tables.there.items()}
    _, loaded = tables.step({}, first)
    frames = {name: spark.createDataFrame(rows) for name, rows in loaded.items()}
    with duckdb.connect() as judge, flow.start(tm.Spark(spark), progress=False) as run:
        theirs = filled(judge, text, loaded, first)
        start = perf_counter()
        rendered = tm.render(flow, spark, frames)["answer"].select(*theirs.column_names, "diff").collect()
        from_scratch = perf_counter() - start
        each = [tuple(row[:-1]) for row in rendered for _ in range(row["diff"])]
        answers, taken = [compared(each, theirs)], []
        for gone, come in chain([({}, frames)], _tables_of(steps, tables, judge)):
            start = perf_counter()
            for put, some in ((run.delete, gone), (run.insert, come)):
                for name, rows in some.items():
                    put(name, rows)
            run.advance()
            taken.append(perf_counter() - start)
            answers.append(compared(list(run.snapshot("answer")), judge.sql(text).to_arrow_table()))
    load, *epoch_seconds = taken
    return {
        "rendered_s": from_scratch, "live_load_s": load, "step_s": float(np.median(epoch_seconds)),
        "steps": len(epoch_seconds), "answer_rows": max(rows for rows, _ in answers),
        "wrong": sum(wrong for _, wrong in answers),
    }  # fmt: skip


def _tables_of(steps: Any, tables: Any, judge: Any) -> Any:
    """Yield the rows that go and come in each step, which DuckDB's tables follow."""
    for _, gone, come in steps:
        left, new = tables.step(gone, come)
        follow(judge, gone, come, new)
        yield ({n: t for n, t in left.items() if t.num_rows}, {n: t for n, t in new.items() if t.num_rows})
