"""What a refresh of views over Delta tables costs, beside DuckDB computing the same views anew and overwriting them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import tidemill as tm
from benchmarks.runner import Figures

QUERIES = {
    "by_region": "SELECT region, sum(amount) AS total FROM orders JOIN customers USING (customer) GROUP BY region",
    "largest": "SELECT customer, max(amount) AS largest FROM orders GROUP BY customer",
    "lagged": "SELECT *, lag(amount) OVER (PARTITION BY customer ORDER BY id) AS before FROM orders",
    "named": "SELECT o.*, c.region FROM orders o LEFT JOIN customers c USING (customer)",
}  # fmt: skip
"""The views, as both are told them; the first two small, the others a row an order."""
KEYS = {"by_region": "region", "largest": "customer", "lagged": "id", "named": "id"}


def refreshes(*, rows: int, shares: Sequence[float], write: str) -> Figures:
    """Return for each share of orders that changed what a refresh takes, and what DuckDB does, by view and in all."""
    dice = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as name:
        lake = Path(name)
        many = max(rows // 50, 1)
        _put(lake / "orders", _orders(dice, np.arange(rows), many), feed=True)
        customers = {"customer": np.arange(many), "region": dice.integers(0, 50, many)}
        _put(lake / "customers", pa.table(customers), feed=True)
        with _views(lake, write) as views:
            began = perf_counter()
            views.refresh()
            found: Figures = {"load_s": perf_counter() - began, "anew_load_s": sum(_anew(lake).values())}
            began = perf_counter()
            views.refresh()
            found["nothing_new_s"] = perf_counter() - began
            for share in shares:
                changed = dice.choice(rows, max(int(rows * share), 1), replace=False)
                _merge(lake / "orders", _orders(dice, changed, many))
                began = perf_counter()
                done = views.refresh()
                taken, anew = perf_counter() - began, _anew(lake)
                ways = {n: f"{v.way} {v.seconds:.2f} s, anew {anew[n]:.2f} s" for n, v in done.views.items()}
                wrong = [n for n in QUERIES if not _same(lake, n, write)]
                total = {"refresh_s": taken, "anew_s": sum(anew.values()), "ratio": sum(anew.values()) / taken}
                found[f"{share:.2%}"] = {**total, "views": ways, "wrong": wrong}
    return {"refreshes": {"rows": rows, "write": write, **found}}


def _views(lake: Path, write: str) -> tm.Views:
    views = tm.Views(lake / "state")
    views.source("orders", tm.delta(lake / "orders"), key="id")
    views.source("customers", tm.delta(lake / "customers"), key="customer")
    for name, query in QUERIES.items():
        is_large = KEYS[name] == "id"
        way: Any = write if is_large else "auto"
        views.view(name, views.flow.sql(query), to=tm.delta(lake / name), key=KEYS[name], write=way)
    return views


def _orders(dice: np.random.Generator, ids: Any, many: int) -> pa.Table:
    amounts = dice.integers(1, 10_000, len(ids))
    notes = pa.array([f"note {i % 1000}" for i in ids.tolist()])
    return pa.table({"id": ids, "customer": dice.integers(0, many, len(ids)), "amount": amounts, "note": notes})


def _put(path: Path, table: pa.Table, *, feed: bool = False) -> None:
    write_deltalake(
        path, table, mode="overwrite", configuration={"delta.enableChangeDataFeed": "true"} if feed else None
    )


def _merge(path: Path, table: pa.Table) -> None:
    merging = DeltaTable(path).merge(table, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def _anew(lake: Path) -> dict[str, float]:
    """Return how long DuckDB takes for each view: reading the tables, computing it, writing it whole."""
    taken = {}
    for name, query in QUERIES.items():
        began = perf_counter()
        orders, customers = (DeltaTable(lake / n).to_pyarrow_table() for n in ("orders", "customers"))
        with duckdb.connect() as connection:
            connection.register("orders", orders)
            connection.register("customers", customers)
            _put(lake / "anew" / name, connection.sql(query).to_arrow_table())
        taken[name] = perf_counter() - began
    return taken


def _same(lake: Path, name: str, write: str) -> bool:
    """Return whether a view holds what DuckDB's does."""
    with duckdb.connect() as connection:
        connection.register("found", DeltaTable(lake / name).to_pyarrow_table())
        connection.register("anew", DeltaTable(lake / "anew" / name).to_pyarrow_table())
        found = "SELECT * FROM found"
        if write == "changelog" and KEYS[name] == "id":
            columns = ", ".join(c for c in DeltaTable(lake / "anew" / name).schema().to_arrow().names)
            sign = "sum(CASE WHEN _change = 'insert' THEN 1 ELSE -1 END)"
            found = f"SELECT {columns} FROM found GROUP BY {columns} HAVING {sign} = 1"
        query = f"SELECT count(*) FROM (({found} EXCEPT ALL SELECT * FROM anew) UNION ALL (SELECT * FROM anew EXCEPT ALL {found}))"  # noqa: E501
        (row,) = connection.execute(query).fetchall()
        return bool(row[0] == 0)
