"""The tables of TPC-H, made by the generator on PyPI, and DuckDB over what is left of them after each change."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads.tpch import generated as tables

__all__ = ["by_duckdb", "orders_in_parts", "rows_of", "tables"]


def orders_in_parts(tables: dict[str, pa.Table], parts: int) -> list[dict[str, pa.Table]]:
    """Return orders and their lines in some parts, all of an order in one of them."""
    keys = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
    found = []
    for part in range(parts):
        in_part = {}
        for name, key in keys.items():
            if name in tables:
                numbers = np.asarray(tables[name][key]) * 2654435761 >> 7  # neighbours are in different parts
                in_part[name] = tables[name].filter(pa.array(numbers % parts == part))
        found.append(in_part)
    return found


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return a table's rows in an order in which equal tables are equal."""
    ordered = table.take(pc.sort_indices(table, [(name, "ascending") for name in table.column_names]))
    return list(zip(*(c.to_pylist() for c in ordered.columns), strict=True))


def by_duckdb(query: str, **tables: pa.Table) -> pa.Table:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return pa.table(connection.sql(query))
