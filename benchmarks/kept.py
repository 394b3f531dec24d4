"""One query in SQL, kept up to date by tidemill and computed anew by DuckDB after each step; answers are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.answers import unmatched
from benchmarks.runner import Figures, memory, peak_memory
from benchmarks.workload import rows_of

Places = Mapping[str, Any]
"""Places of rows, by table."""
Step: TypeAlias = tuple[str, Places, Places]
"""A step's kind, and which rows go and come."""


@dataclass
class Tables:
    """Rows of tables, by their places, and which of them are there: others come, or are what rows become."""

    rows: dict[str, pa.Table]
    there: dict[str, Any]

    def step(self, gone: Places, come: Places) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """Let rows go and come, and return them."""
        for there, places in ((False, gone), (True, come)):
            for name, at in places.items():
                self.there[name][at] = there
        return tuple({n: self.rows[n].take(pa.array(at)).combine_chunks() for n, at in p.items()} for p in (gone, come))  # type: ignore[return-value]

    def updated(self, name: str, places: Any, column: str) -> Any:
        """Return the places of new rows: some that there are, with a column's values passed on from one to the next."""
        rows = self.rows[name]
        new = rows.take(pa.array(places))
        index = rows.schema.get_field_index(column)
        turned = new.column(index).take(pa.array(np.roll(np.arange(len(places)), 1)))
        self.rows[name] = pa.concat_tables([rows, new.set_column(index, rows.schema.field(index), turned)])
        self.there[name] = np.concatenate([self.there[name], np.zeros(len(places), bool)])
        return np.arange(rows.num_rows, rows.num_rows + len(places))


def named_in(text: str, tables: Iterable[str]) -> list[str]:
    """Return the tables that a query names."""
    return [name for name in tables if re.search(rf"\b{name}\b", text, re.IGNORECASE)]


def kept(text: str, tables: Tables, steps: Iterator[Step], threads: int) -> Figures:
    """Return what it takes to keep a query up to date through steps, each of a kind, and DuckDB to compute it anew.

    A step ends with the changes of the answer as Arrow, DuckDB's query with the answer as Arrow. Memory is what
    tidemill held at most while it loaded, and held then, beyond the tables given.
    """
    flow = tm.Dataflow("kept")
    for name, rows in tables.rows.items():
        flow.input(name, rows.schema)
    flow.sql("SELECT 1")  # what is imported at first is no part of planning
    used = process_time()
    flow.output("answer", flow.sql(text, dialect="duckdb"))
    found: Figures = {"plan_cpu_ms": 1e3 * (process_time() - used)}
    theirs: list[pa.Table] = []
    first = {n: np.flatnonzero(there) for n, there in tables.there.items()}
    _, loaded = tables.step({}, first)
    before = memory("VmRSS") or 0
    with flow.start(progress=False) as run, duckdb.connect(config={"threads": threads}) as judge:
        found["load_s"], found["load_cpu_s"] = _taken(lambda: _step(run, {}, loaded))
        found["load_memory_mb"], found["held_mb"] = peak_memory() - before, (memory("VmRSS") or 0) - before
        found["duckdb_load_s"], found["duckdb_load_cpu_s"] = _taken(
            lambda: theirs.append(filled(judge, text, loaded, first))
        )
        loaded.clear()
        taken: dict[str, list[float]] = {}
        answers = [_compared(run, theirs.pop())]
        kinds = set()
        for kind, gone, come in steps:
            kinds.add(kind)
            left, new = tables.step(gone, come)
            spent = _taken(lambda l=left, n=new: _step(run, l, n))
            follow(judge, gone, come, new)
            asked = _taken(lambda: theirs.append(judge.sql(text).to_arrow_table()))
            for of, seconds in zip(("", "duckdb_"), (spent, asked), strict=True):
                taken.setdefault(f"{kind}_{of}ms", []).append(1e3 * seconds[0])
                taken.setdefault(f"{kind}_{of}cpu_ms", []).append(1e3 * seconds[1])
            answers.append(_compared(run, theirs.pop()))
        found |= {name: median(values) for name, values in taken.items()}
        found |= {f"{kind}_ratio": found[f"{kind}_duckdb_cpu_ms"] / found[f"{kind}_cpu_ms"] for kind in kinds}
        found["state_rows"] = run.metrics().state_rows
    found["answer_rows"] = max(rows for rows, _ in answers)
    found["wrong"] = sum(wrong for _, wrong in answers)
    return found


def _taken(work: Any) -> tuple[float, float]:
    """Return the seconds that work takes, and the seconds of processor time."""
    start, used = perf_counter(), process_time()
    work()
    return perf_counter() - start, process_time() - used


def _step(run: tm.Run, gone: Mapping[str, pa.Table], come: Mapping[str, pa.Table]) -> None:
    for put, tables in ((run.delete, gone), (run.insert, come)):
        for name, rows in tables.items():
            if rows.num_rows:
                put(name, rows)
    run.advance()
    run.changes("answer").to_arrow()


def filled(judge: Any, text: str, loaded: Mapping[str, pa.Table], places: Places) -> pa.Table:
    """Fill DuckDB's tables, whose rows are found by their places later on, and let it answer."""
    for name, rows in loaded.items():
        numbered = rows.append_column(_number_of(name), pa.array(places[name]))  # noqa: F841 - DuckDB finds it by name
        judge.execute(f"CREATE TABLE {name} AS SELECT * FROM numbered")
    return judge.sql(text).to_arrow_table()


def follow(judge: Any, gone: Places, come: Places, new: Mapping[str, pa.Table]) -> None:
    """Let DuckDB's tables have the same rows."""
    for name, at in gone.items():
        places = pa.table({"place": pa.array(at)})  # noqa: F841 - DuckDB finds it by its name
        judge.execute(f"DELETE FROM {name} WHERE {_number_of(name)} IN (SELECT place FROM places)")
    for name, rows in new.items():
        numbered = rows.append_column(_number_of(name), pa.array(come[name]))  # noqa: F841
        judge.execute(f"INSERT INTO {name} SELECT * FROM numbered")


def _number_of(table: str) -> str:
    return f"place_in_{table}"


def _compared(run: tm.Run, theirs: pa.Table) -> tuple[int, bool]:
    return compared(list(run.snapshot("answer")), theirs)


def compared(ours: Sequence[Any], theirs: pa.Table) -> tuple[int, bool]:
    """Return how many rows the answer has, and whether DuckDB's is another."""
    extra, missing = unmatched(ours, rows_of(theirs))
    return len(ours), bool(extra or missing)
