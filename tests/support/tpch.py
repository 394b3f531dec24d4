"""The tables of TPC-H, made by the generator on PyPI, and DuckDB over what is left of them after each change."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

GENERATOR = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"


def tables(folder: Path, scale: float, *names: str) -> dict[str, pa.Table]:
    """Return tables at a scale: at 1 there are 1,500,000 orders and four times as many line items."""
    names_given = ["--tables", ",".join(names), "--output-dir", str(folder)]
    subprocess.run([GENERATOR, "parquet", "--scale-factor", str(scale), *names_given], check=True, capture_output=True)
    return {name: _plain(pq.read_table(folder / f"{name}.parquet")) for name in names}


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose strings are of the type that every reader knows, without what Parquet says of columns."""
    types = [pa.string() if f.type == pa.string_view() else f.type for f in table.schema]
    return table.cast(pa.schema([pa.field(f.name, t, f.nullable) for f, t in zip(table.schema, types, strict=True)]))


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
