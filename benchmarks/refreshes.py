"""What a refresh of views over Delta tables costs, beside DuckDB computing the same views anew and overwriting them.

The views' own tables are Delta's, too, or those of a database of DuckDB.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import tidemill as tm
from benchmarks.runner import Figures, peak_memory, say

QUERIES = {
    "by_region": "SELECT region, sum(amount) AS total FROM orders JOIN customers USING (customer) GROUP BY region",
    "latest": """SELECT customer, id, amount FROM orders
        QUALIFY row_number() OVER (PARTITION BY customer ORDER BY id DESC) = 1""",
    "lagged": "SELECT *, lag(amount) OVER (PARTITION BY customer ORDER BY id) AS before FROM orders",
    "named": """SELECT o.*, c.region, p.product_name, s.shop_name, t.taker_name FROM orders o
        LEFT JOIN customers c USING (customer) LEFT JOIN products p USING (product)
        LEFT JOIN shops s USING (shop) LEFT JOIN takers t USING (taker)""",
    "reached": """WITH RECURSIVE reached AS (
        SELECT customer FROM customers WHERE customer < 10
        UNION SELECT follows.followed AS customer FROM follows JOIN reached ON follows.follower = reached.customer)
        SELECT customer FROM reached""",
}
"""The views, as both are told them: two of a row an order, the others small."""
KEYS = {"by_region": "region", "latest": "customer", "lagged": "id", "named": "id", "reached": "customer"}
TABLES = {
    "orders": "id",
    "customers": "customer",
    "products": "product",
    "shops": "shop",
    "takers": "taker",
    "follows": "id",
}
"""The tables of the lake, with their keys."""
DIMENSIONS = {"product": 1000, "shop": 100, "taker": 500}
"""What orders have names for beside customers, and how many."""


def refreshes(*, rows: int, shares: Sequence[float], write: str, to: str, steps: int, in_memory: int) -> Figures:
    """Return for each share of orders that changed what a refresh takes, and what DuckDB does, by view and in all.

    Each share twice: ``opened_s`` includes reading the state, as in a job that is started for it, ``refresh_s`` not.
    *cpu* is processor time of all threads, which others on the machine disturb least; DuckDB's is in the same process.
    Before them are so many steps of the first share: the first one behind a load may be slower than those to come.
    ``to`` says whose tables the views are: delta or duckdb; ``write`` how the two are written that have a row an order;
    ``in_memory`` what `Embedded` takes, 0 for what it has if nothing is said. *peak_mb* is what the process held at
    most before DuckDB's turn.
    """
    engine = tm.Embedded(in_memory=in_memory) if in_memory else None
    dice = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as name:
        lake = Path(name)
        many = max(rows // 50, 20)
        for table, made in _tables(dice, rows, many).items():
            _put(lake / table, made, feed=True)
        with _views(lake, write, to, engine) as views:
            began = perf_counter()
            views.refresh()
            found: Figures = {"load_s": perf_counter() - began, "peak_mb": peak_memory()}
            found["anew_load_s"] = sum(_anew(lake, to).values())
            first = [_step(lake, views, dice, rows, shares[0])[:2] for _ in range(steps)]
            found["steps_s"], found["steps_cpu_s"] = [t for t, _ in first], [cpu for _, cpu in first]
        with _views(lake, write, to, engine) as views:
            began = perf_counter()
            views.refresh()
            found["nothing_new_s"] = perf_counter() - began  # opening included
        for share in shares:
            with _views(lake, write, to, engine) as views:
                opened, opened_cpu, _ = _step(lake, views, dice, rows, share)
                taken, cpu, done = _step(lake, views, dice, rows, share)
                used = process_time()
                anew = _anew(lake, to)
                used = process_time() - used
                ways = {n: f"{v.way} {v.seconds:.2f} s, anew {anew[n]:.2f} s" for n, v in done.views.items()}
                wrong = [n for n in QUERIES if not _same(lake, n, write, to)]
                total = {
                    "opened_s": opened,
                    "opened_cpu_s": opened_cpu,
                    "refresh_s": taken,
                    "refresh_cpu_s": cpu,
                    "anew_s": sum(anew.values()),
                    "reading_s": anew["reading"],
                    "anew_cpu_s": used,
                    "ratio": sum(anew.values()) / taken,
                    "ratio_cpu": used / cpu,
                }
                found[f"{share:.2%}"] = {**total, "views": ways, "wrong": wrong}
                say(f"{share:.2%}: {found[f'{share:.2%}']}")
    return {"refreshes": {"rows": rows, "write": write, "to": to, "in_memory": in_memory, **found}}


def _step(lake: Path, views: tm.Views, dice: np.random.Generator, rows: int, share: float) -> tuple[float, float, Any]:
    """Change a share of the orders, and of who follows whom; return what a refresh takes, by both clocks, and does."""
    many = max(rows // 50, 20)
    for table, size, made in (("orders", rows, _orders), ("follows", 2 * many, _follows)):
        changed = dice.choice(size, max(int(size * share), 1), replace=False)
        _merge(lake / table, made(dice, changed, many))
    began, used = perf_counter(), process_time()
    done = views.refresh()
    return perf_counter() - began, process_time() - used, done


def _views(lake: Path, write: str, to: str, engine: tm.Embedded | None) -> tm.Views:
    views = tm.Views(lake / "state", engine)
    for table, key in TABLES.items():
        views.source(table, tm.delta(lake / table), key=key)
    for name, query in QUERIES.items():
        is_large = KEYS[name] == "id"
        way: Any = write if is_large else "auto"
        sink: Any = tm.duckdb(lake / "views.duckdb", name)
        if to != "duckdb":
            sink = tm.delta(lake / name)
        views.view(name, views.flow.sql(query), to=sink, key=KEYS[name], write=way)
    return views


def _tables(dice: np.random.Generator, rows: int, many: int) -> dict[str, pa.Table]:
    ids = np.arange(many)
    named = {
        f"{one}s": pa.table({one: np.arange(size), f"{one}_name": [f"{one} {i}" for i in range(size)]})
        for one, size in DIMENSIONS.items()
    }
    customers = pa.table({"customer": ids, "region": dice.integers(0, 50, many)})
    return {
        "orders": _orders(dice, np.arange(rows), many),
        "customers": customers,
        **named,
        "follows": _follows(dice, np.arange(2 * many), many),
    }


def _follows(dice: np.random.Generator, ids: Any, many: int) -> pa.Table:
    return pa.table(
        {"id": ids, "follower": dice.integers(0, many, len(ids)), "followed": dice.integers(0, many, len(ids))}
    )


def _orders(dice: np.random.Generator, ids: Any, many: int) -> pa.Table:
    amounts = dice.integers(1, 10_000, len(ids))
    notes = pa.array([f"note {i % 1000}" for i in ids.tolist()])
    drawn = {name: dice.integers(0, size, len(ids)) for name, size in (("customer", many), *DIMENSIONS.items())}
    return pa.table({"id": ids, **drawn, "amount": amounts, "note": notes})


def _put(path: Path, table: pa.Table, *, feed: bool = False) -> None:
    write_deltalake(
        path, table, mode="overwrite", configuration={"delta.enableChangeDataFeed": "true"} if feed else None
    )


def _merge(path: Path, table: pa.Table) -> None:
    merging = DeltaTable(path).merge(table, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def _anew(lake: Path, to: str) -> dict[str, float]:
    """Return how long DuckDB takes: reading the tables, once for all views, and for each computing and writing it."""
    began = perf_counter()
    tables = {table: DeltaTable(lake / table).to_pyarrow_table() for table in TABLES}
    taken = {"reading": perf_counter() - began}
    for name, query in QUERIES.items():
        began = perf_counter()
        with duckdb.connect(lake / "anew.duckdb") as connection:
            for table, read in tables.items():
                connection.register(table, read)
            if to != "duckdb":
                _put(lake / "anew" / name, connection.sql(query).to_arrow_table())
            else:
                connection.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")
        taken[name] = perf_counter() - began
    return taken


def _same(lake: Path, name: str, write: str, to: str) -> bool:
    """Return whether a view holds what DuckDB's does."""
    with duckdb.connect(config={"memory_limit": "3GB", "temp_directory": str(lake / "spare")}) as connection:
        if to != "duckdb":
            for table, folder in (("found", lake / name), ("anew", lake / "anew" / name)):
                connection.register(table, pa.table(DeltaTable(folder).scan()))
        else:
            for table, file in (("found", "views"), ("anew", "anew")):
                connection.execute(f"ATTACH '{lake / file}.duckdb' AS {file} (READ_ONLY)")
                connection.execute(f"CREATE VIEW {table} AS FROM {file}.{name}")
        found = "SELECT * FROM found"
        if write == "changelog" and KEYS[name] == "id":
            columns = ", ".join(connection.sql("FROM anew").columns)
            sign = "sum(CASE WHEN _change = 'insert' THEN 1 ELSE -1 END)"
            found = f"SELECT {columns} FROM found GROUP BY {columns} HAVING {sign} = 1"
        query = f"SELECT count(*) FROM (({found} EXCEPT ALL SELECT * FROM anew) UNION ALL (SELECT * FROM anew EXCEPT ALL {found}))"  # noqa: E501
        (row,) = connection.execute(query).fetchall()
        return bool(row[0] == 0)
