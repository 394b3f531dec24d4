"""Nexmark in SQL: a stream of bids, a thousand events an epoch, and what each query holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter, process_time
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

import tidemill as tm
from benchmarks.answers import unmatched
from benchmarks.kept import named_in
from benchmarks.runner import Figures, say
from benchmarks.workload import rows_of
from benchmarks.workloads import nexmark as stream
from benchmarks.workloads.nexmark import IN_DUCKDB, QUERIES


def nexmark(*, events: int, rate: int, epochs: int, queries: Sequence[str]) -> Figures:
    """Each query by itself, with so many events at so many a second in so many epochs of equal length.

    An epoch ends with the changes of the answer as Arrow. *thousands* are events in a second of processor time, in
    thousands, those that the query does not read among them. The answer after the last epoch, and in the middle, is
    compared with DuckDB's, which says windows of time in its own way.
    """
    found = []
    for name in queries or QUERIES:
        found.append({"query": name, **query(name, events, rate, epochs)})
        say(found[-1])
    sizes = {"events": events, "rate": rate, "epochs": epochs}
    return {"nexmark": found, "nexmark_sizes": sizes, "wrong": [f["query"] for f in found if f["wrong"]]}


def query(name: str, number: int, rate: int, epochs: int) -> Figures:
    """Return what is measured of one query."""
    text, tables = QUERIES[name], stream.events(number, rate)
    flow = tm.Dataflow("nexmark")
    for table in named_in(text, tables):
        flow.input(table, tables[table].schema)
    flow.output("answer", flow.sql(text))
    parts = {table: _parts(tables[table], epochs, number / rate / epochs) for table in flow.graph.inputs}
    wall = used = 0.0
    wrong = 0
    with flow.start(progress=False) as run, duckdb.connect(config={"threads": 1}) as judge:
        for table, some in parts.items():
            judge.register("given", some[0].slice(0, 0))
            judge.execute(f"CREATE TABLE {table} AS SELECT * FROM given")
        for epoch in range(epochs):
            start, begun = perf_counter(), process_time()
            for table, some in parts.items():
                run.insert(table, some[epoch])
            run.advance()
            run.changes("answer").to_arrow()
            wall, used = wall + perf_counter() - start, used + process_time() - begun
            for table, some in parts.items():
                judge.register("given", some[epoch])
                judge.execute(f"INSERT INTO {table} SELECT * FROM given")
            if epoch in (epochs // 2, epochs - 1):
                rows = list(run.snapshot("answer"))
                extra, missing = unmatched(rows, rows_of(judge.sql(_in_duckdb(text)).to_arrow_table()))
                wrong += bool(extra or missing)
        state = run.metrics().state_rows
    found = {"thousands": number / 1000 / used, "wall_s": wall, "cpu_s": used}
    return {**found, "state_rows": state, "answer_rows": len(rows), "wrong": wrong}


def _parts(table: pa.Table, epochs: int, seconds: float) -> list[pa.Table]:
    """Return the rows of each epoch, by their times; of a table without times all of them in the first."""
    if "ts" not in table.column_names:
        return [table, *[table.slice(0, 0)] * (epochs - 1)]
    at: Any = pc.cast(table["ts"], pa.int64())
    begin = at[0].as_py() // 60_000_000 * 60_000_000
    ends = [begin + round((i + 1) * seconds * 1e6) for i in range(epochs)]
    places = [0, *at.to_numpy().searchsorted(ends[:-1]).tolist(), table.num_rows]
    return [table.slice(a, b - a) for a, b in pairwise(places)]


def _in_duckdb(text: str) -> str:
    for ours, theirs in IN_DUCKDB.items():
        text = text.replace(ours, theirs)
    return text
