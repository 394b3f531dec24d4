"""TPC-DI's views computed anew by Spark: the same SQL, in its own spelling, from the same staged files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

import tidemill as tm
from benchmarks.spark import SETTINGS
from benchmarks.tpcdi import LAYERS, VIEW, script


def session(folder: Path, threads: int) -> Any:
    """Return a session that keeps its tables in a folder."""
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.warehouse.dir": str(folder / "spark")}
    spark = tm.local_spark(f"local[{threads}]", **SETTINGS, **settings)
    for layer in LAYERS:
        spark.sql(f"CREATE DATABASE {layer}")
    return spark


def cpu_seconds(spark: Any) -> float:
    """Return the processor time that the JVM has used."""
    process = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # noqa: SLF001 - there is no other way to it
    used = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def anew(spark: Any, folder: Path) -> None:
    """Have Spark compute all views from the staged files, those of silver and gold as tables of Parquet files."""
    for statement in filter(None, spelled().split(";\n")):
        if table := re.match(r"CREATE TABLE ([\w.]+)", statement):
            place = folder / table[1]
            spark.sql(f"DROP TABLE IF EXISTS {table[1]}")
            spark.sql(f"{statement} USING parquet" + (f" LOCATION '{place}'" if place.exists() else ""))
        elif view := re.match(VIEW, statement, re.DOTALL):
            if view[1].startswith("bronze."):
                spark.sql(f"CREATE OR REPLACE VIEW {view[1]} AS {view[2]}")
            else:
                spark.sql(f"DROP TABLE IF EXISTS {view[1]}")
                spark.sql(f"CREATE TABLE {view[1]} USING parquet AS {view[2]}")


def spelled() -> str:
    """Return the script as Spark spells it.

    Quotients of decimals are floats in DuckDB, of their operands as floats. Spark's windows that have a name take no
    frame where they are used: they are written out.
    """
    return ";\n".join(
        _spelled(parsed).sql("spark", comments=False) for parsed in sqlglot.parse(script(), read="duckdb") if parsed
    )


def _spelled(statement: exp.Expr) -> exp.Expr:
    named = {w.this.name: w for w in statement.find_all(exp.Window) if w.arg_key == "windows"}
    for window in list(statement.find_all(exp.Window)):
        if window.args.get("alias") and window.args.get("spec"):
            meant = named[window.args["alias"].name]
            for part in ("partition_by", "order"):
                window.set(part, meant.copy().args.get(part))
            window.set("alias", None)
    for select in list(statement.find_all(exp.Select)):
        if select.args.get("qualify"):
            select.replace(_chosen(select))
    for division in statement.find_all(exp.Div):
        for side in (division.this, division.expression):
            side.replace(exp.cast(side.copy(), "double"))
    return statement


def _chosen(select: exp.Select) -> exp.Expr:
    """Return a SELECT without its QUALIFY, which has one window call: as a column beneath a WHERE."""
    below = select.copy()
    condition = below.args["qualify"].this
    below.set("qualify", None)
    (call,) = condition.find_all(exp.Window)
    below.select(exp.alias_(call.copy(), "_place"), copy=False)
    call.replace(exp.column("_place"))
    told = f"SELECT * EXCEPT (_place) FROM ({below.sql('spark')}) AS ranked WHERE {condition.sql('spark')}"
    return sqlglot.parse_one(told, read="spark")


def differing(folder: Path) -> list[str]:
    """Return the tables of gold whose rows are not DuckDB's."""
    found = []
    with duckdb.connect() as judge:
        judge.execute(f"ATTACH '{folder / 'anew.duckdb'}' AS anew (READ_ONLY)")
        tables = judge.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'anew'").fetchall()
        for (name,) in tables:
            columns = judge.execute(f"DESCRIBE anew.{name}").fetchall()
            typed = ", ".join(f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind, *_ in columns)
            files = f"{folder}/spark/gold.db/{name}/part-*.parquet"
            judge.execute(f"CREATE OR REPLACE VIEW sparks AS SELECT {typed} FROM read_parquet('{files}')")
            apart = " UNION ALL ".join(
                f"(SELECT * FROM {a} EXCEPT ALL SELECT * FROM {b})"
                for a, b in (("sparks", f"anew.{name}"), (f"anew.{name}", "sparks"))
            )
            ((number,),) = judge.execute(f"SELECT count(*) FROM ({apart})").fetchall()
            if number:
                found.append(f"{name}: {number} rows")
    return found
