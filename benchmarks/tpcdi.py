"""TPC-DI in SQL: three layers of views over a broker's files, kept up to date by one dataflow as batches arrive."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import duckdb

import tidemill as tm
from benchmarks.runner import Figures, peak_memory, say
from benchmarks.workloads import tpcdi as workload
from benchmarks.workloads.tpcdi.files import Files, Source, in_order

LAYERS = ("bronze", "silver", "gold")
VIEW = r"CREATE (?:MATERIALIZED )?VIEW ([\w.]+) AS\s+(.*)"


def script() -> str:
    """Return the tables and the views of all layers."""
    folder = Path(workload.__file__).parent
    return "\n".join((folder / f"{layer}.sql").read_text() for layer in LAYERS)


def tpcdi(*, scale: float, shares: Sequence[float], threads: int, duckdb_memory: str) -> Figures:
    """Load the first batch, then for each share two more, in which so much of the history changes or comes.

    Tidemill has all views in one dataflow, of which those of gold are outputs; DuckDB has tables in the place of
    views, which it computes anew, each from those before it, after each batch. Then all outputs are compared.
    *peak_mb* is what this process held at most before DuckDB's turn. With ``duckdb_memory``, as "1GB", DuckDB keeps to
    that, and is slower where it needs more.
    """
    source = Source(scale)
    flow = tm.Dataflow("tpcdi")
    used = process_time()
    flow.sql(script(), dialect="duckdb")
    names, found = list(flow.graph.outputs), list[Figures]()
    planned = process_time() - used
    limit = {"memory_limit": duckdb_memory} if duckdb_memory else {}
    with (
        TemporaryDirectory() as spare,
        flow.start(progress=False) as run,
        duckdb.connect(config={"threads": threads, "temp_directory": spare, **limit}) as judge,
    ):
        for batch, (gone, come) in enumerate(batches(source, shares, flow), 1):
            rows = sum(t.num_rows for files in (gone, come) for t in files.values())
            ours = taken(lambda g=gone, c=come: step(run, g, c, names))
            peak = peak_memory()
            theirs = taken(lambda g=gone, c=come, b=batch: anew(judge, g, c, b))
            found.append({
                "scale": scale, "batch": batch, "share": 1 if batch == 1 else shares[batch // 2 - 1], "rows": rows,
                "changed": ours[2],
                "s": ours[0], "cpu_s": ours[1], "duckdb_s": theirs[0], "duckdb_cpu_s": theirs[1],
                "ratio": theirs[1] / ours[1], "peak_mb": peak, "state_rows": run.metrics().state_rows,
                "wrong": differing(run, judge, names),
            })  # fmt: skip
            say(found[-1])
        sizes = {"scale": scale, "views": len(re.findall(VIEW, script())), "plan_cpu_s": planned, "threads": threads}
    return {"tpcdi": found, "tpcdi_sizes": sizes, "wrong": [f["batch"] for f in found if f["wrong"]]}


def batches(source: Source, shares: Sequence[float], flow: tm.Dataflow) -> Iterator[tuple[Files, Files]]:
    """Iterate over batches as rows that go and rows that come, by table."""
    schemas = {
        name.removeprefix("bronze."): {f.name: f.type for f in node.schema.to_arrow()}
        for name, node in flow.graph.inputs.items()
    }

    def whole(files: Files) -> Files:
        return {f"bronze.{name}": in_order(rows, schemas[name]) for name, rows in files.items()}

    yield {}, whole(source.first())
    for share in shares:
        for _ in range(2):
            gone, come = source.next(share)
            yield whole(gone), whole(come)


def step(run: tm.Run, gone: Files, come: Files, names: Sequence[str]) -> int:
    """Give a batch to the dataflow, which is one epoch, and return how many rows change in all outputs."""
    for put, files in ((run.delete, gone), (run.insert, come)):
        for name, rows in files.items():
            if rows.num_rows:
                put(name, rows)
    run.advance()
    return sum(run.changes(name).to_arrow().num_rows for name in names)


def anew(judge: Any, gone: Files, come: Files, batch: int) -> None:
    """Give a batch to DuckDB, and let it compute all views anew, in their order."""
    if batch == 1:
        for layer in LAYERS:
            judge.execute(f"CREATE SCHEMA {layer}")
        for statement in re.findall(r"CREATE TABLE [^;]*", script()):
            judge.execute(statement)
    for name, rows in gone.items():
        judge.register("given", rows)
        judge.execute(f"DELETE FROM {name} WHERE agency_id IN (SELECT agency_id FROM given)")
    for name, rows in come.items():
        judge.register("given", rows)
        judge.execute(f"INSERT INTO {name} SELECT * FROM given")
    for statement in script().split(";"):
        if view := re.search(VIEW, statement, re.DOTALL):
            judge.execute(f"CREATE OR REPLACE TABLE {view[1]} AS {view[2]}")


def differing(run: tm.Run, judge: Any, names: Sequence[str]) -> list[str]:
    """Return the views whose rows are not DuckDB's."""
    found = []
    for name in names:
        judge.register("ours", run.snapshot(name).to_arrow())
        apart = " UNION ALL ".join(
            f"(SELECT * FROM {a} EXCEPT ALL SELECT * FROM {b})" for a, b in (("ours", name), (name, "ours"))
        )
        ((number,),) = judge.execute(f"SELECT count(*) FROM ({apart})").fetchall()
        if number:
            found.append(f"{name}: {number} rows")
    return found


def taken(work: Any) -> tuple[float, float, Any]:
    """Return the seconds that work takes, the seconds of processor time, and what it returns."""
    start, used = perf_counter(), process_time()
    found = work()
    return perf_counter() - start, process_time() - used, found
