"""TPC-DS in SQL: the 99 queries as written, kept up to date as rows of all tables come, go and change."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.kept import Places, Tables, kept, named_in
from benchmarks.runner import Figures, apart, say
from benchmarks.workload import SEED

FACTS = ("store_sales", "store_returns", "catalog_sales", "catalog_returns", "web_sales", "web_returns", "inventory")
_MISSING = """
TPC-DS's tables and queries come from PyPI's duckdb-extension-tpcds, beside DuckDB 1.5.5 in an environment of its own:
  python -m venv with-tpcds && with-tpcds/bin/pip install duckdb==1.5.5 duckdb-extension-tpcds==1.5.5
  python -m benchmarks tpcds generator=with-tpcds/bin/python
"""


def tpcds(*, generator: str, scale: float, batches: int, queries: Sequence[int], threads: int) -> Figures:
    """Each query as DuckDB has it, ``flow.sql(text, dialect="duckdb")``, with a dataflow and a database of its own.

    At first 95 % of the rows are there. A batch takes 0.1 % of the rows of each fact table and puts in as many others;
    of each other table 0.1 %, at least one, and as many rows become others: values of one of their columns are passed
    around. A table of less than ten rows loses one in each fourth batch, for two batches. Only tables that the query
    names are loaded. The answers are compared after the load and after each batch: decimals at the coarser of both
    scales, floats within 1e-9. *plan* is the time from text to dataflow.
    """
    if not generator:
        raise SystemExit(_MISSING)
    with tempfile.TemporaryDirectory() as folder:
        apart("tpcds_data:generate", folder, scale, python=generator)
        texts = json.loads((Path(folder) / "queries.json").read_text())
        numbers = list(queries or map(int, texts))
        found = []
        for start in range(0, len(numbers), _TOGETHER):
            found += apart("tpcds:several", folder, numbers[start:][:_TOGETHER], batches, threads)
            say(found[-1])
    wrong = [f["query"] for f in found if f.get("wrong") or "failed" in f]
    return {"tpcds": found, "tpcds_sizes": {"scale": scale, "batches": batches, "threads": threads}, "wrong": wrong}


def several(folder: str, numbers: Sequence[int], batches: int, threads: int) -> list[Figures]:
    """Return what is measured of some queries, one after another."""
    texts = json.loads((Path(folder) / "queries.json").read_text())
    every = {
        path.stem: pq.read_table(path).replace_schema_metadata() for path in sorted(Path(folder).glob("*.parquet"))
    }
    found = []
    for number in numbers:
        text = texts[str(number)]
        random = np.random.default_rng(SEED + number)
        rows = {name: every[name] for name in named_in(text, every)}
        there = {n: random.random(r.num_rows) < (0.95 if r.num_rows >= _FEW else 1) for n, r in rows.items()}
        tables = Tables(rows, there)
        try:
            figures = kept(text, tables, _batches(tables, batches, random), threads)
        except tm.errors.TidemillError as error:
            figures = {"failed": str(error)}
        found.append({"query": number, **{n: f for n, f in figures.items() if n not in _OF_PROCESSES}})
    return found


_TOGETHER = 11
"""Queries that one process takes."""
_OF_PROCESSES = ("load_memory_mb", "held_mb")
_FEW = 10


def _batches(tables: Tables, number: int, random: np.random.Generator) -> Iterator[tuple[str, Places, Places]]:
    lost: dict[str, np.ndarray] = {}
    for batch in range(number):
        gone, come = {}, {}
        for name in tables.rows:
            there = np.flatnonzero(tables.there[name])
            if len(there) + len(lost.get(name, ())) < _FEW:
                if batch % 4 == 1:
                    gone[name] = lost[name] = random.choice(there, 1)
                elif batch % 4 == 3 and name in lost:
                    come[name] = lost.pop(name)
                continue
            some = max(1, len(there) // 1000)
            leaving = random.choice(there, some, replace=False)
            absent = np.flatnonzero(~tables.there[name])
            coming = random.choice(absent, min(some, len(absent)), replace=False)
            if name not in FACTS:
                column = str(random.choice(tables.rows[name].column_names[1:]))
                coming = np.concatenate([coming, tables.updated(name, leaving, column)])
            gone[name], come[name] = leaving, coming
        yield "batch", gone, come
