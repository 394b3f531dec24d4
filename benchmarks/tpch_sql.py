"""TPC-H in SQL: the 22 queries as written, kept up to date under both refresh functions and updates of all tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.kept import Places, Step, Tables, kept, named_in
from benchmarks.runner import Figures, GaveUpError, apart, say
from benchmarks.workload import SEED
from benchmarks.workloads.tpch import generated
from benchmarks.workloads.tpch_queries import QUERIES

NAMES = ("lineitem", "orders", "customer", "supplier", "nation", "region", "part", "partsupp")
_ORDERS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
_SPARE = 0.1
"""The part of the orders that is not there at first."""
_UPDATED = 10
"""Rows of each other table that an epoch updates, if it has so many."""


def tpch(*, scale: float, epochs: int, orders: int, queries: Sequence[int], threads: int, megabytes: int) -> Figures:
    """Each query in a process of its own, which may have so much memory; its inputs are whole tables without keys.

    An epoch has two steps: half of so many orders leave with their line items, and as many come (*orders*), and rows of
    every other table get others' values in one of their columns (*others*). After each, the answer is compared with
    DuckDB's: decimals at the coarser of both scales, floats within 1e-9. *ratio* is DuckDB's processor time of the
    whole query, its tables up to date, in units of a step's.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, table in generated(Path(folder), scale, *NAMES).items():
            pq.write_table(table, Path(folder) / f"{name}.parquet")
        found = []
        for number in queries or QUERIES:
            found.append({"query": number, **_measured(megabytes, folder, number, epochs, orders, threads)})
            say(found[-1])
    wrong = [f["query"] for f in found if f.get("wrong") or "failed" in f]
    return {"tpch": found, "tpch_sizes": {"scale": scale, "epochs": epochs, "orders": orders}, "wrong": wrong}


def _measured(megabytes: int, *given: Any) -> Figures:
    try:
        return apart("tpch_sql:query", *given, megabytes=megabytes)
    except GaveUpError:
        return {"failed": f"needs more than {megabytes} MB"}
    except RuntimeError as error:
        return {"failed": (str(error).split("\n") or [""])[-2:]}


def query(folder: str, number: int, epochs: int, orders: int, threads: int) -> Figures:
    """Return what is measured of one query."""
    return kept(QUERIES[number], *prepared(folder, number, epochs, orders), threads)


def prepared(folder: str, number: int, epochs: int, orders: int) -> tuple[Tables, Iterator[Step]]:
    """Return the tables of a query, as they are at first, and its steps."""
    names = named_in(QUERIES[number], NAMES)
    rows = {name: pq.read_table(Path(folder) / f"{name}.parquet") for name in names}
    random = np.random.default_rng(SEED)
    keys = pq.read_table(Path(folder) / "orders.parquet", columns=["o_orderkey"])["o_orderkey"].to_numpy()
    keys = random.permutation(keys)
    spare = keys[: int(len(keys) * _SPARE)]
    there = {name: np.ones(table.num_rows, bool) for name, table in rows.items()}
    lines = {name: np.asarray(rows[name][key]) for name, key in _ORDERS.items() if name in rows}
    for name, of in lines.items():
        there[name][_places(of, spare)] = False
    tables = Tables(rows, there)
    return tables, _steps(tables, lines, keys, len(spare), epochs, orders // 2, random)


def _places(keys: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return where some keys stand among others that are in order."""
    starts, ends = keys.searchsorted(np.sort(some)), keys.searchsorted(np.sort(some), "right")
    return np.concatenate([np.arange(start, end) for start, end in zip(starts, ends, strict=True)])


def _steps(  # noqa: PLR0917 - what there is, and how much of it changes
    tables: Tables, lines: Places, keys: np.ndarray, spare: int, epochs: int, orders: int, random: np.random.Generator
) -> Iterator[Step]:
    for epoch in range(epochs):
        if lines:
            coming, leaving = keys[:spare][epoch * orders :][:orders], keys[spare:][epoch * orders :][:orders]
            yield (
                "orders",
                {name: _places(of, leaving) for name, of in lines.items()},
                {name: _places(of, coming) for name, of in lines.items()},
            )
        gone, come = {}, {}
        for name in tables.rows.keys() - lines.keys():
            at = np.flatnonzero(tables.there[name])
            gone[name] = random.choice(at, min(_UPDATED, len(at)), replace=False)
            column = str(random.choice(tables.rows[name].column_names[1:]))
            come[name] = tables.updated(name, gone[name], column)
        if gone:
            yield "others", gone, come
