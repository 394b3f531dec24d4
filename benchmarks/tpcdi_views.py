"""TPC-DI as a job: views over staged files that are refreshed batch by batch, tables of a database coming out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow.parquet as pq

import tidemill as tm
from benchmarks import tpcdi_spark
from benchmarks.runner import Figures, peak_memory, say
from benchmarks.tpcdi import LAYERS, VIEW, batches, script, taken
from benchmarks.workloads.tpcdi.files import Files, Source

KEYS = {
    "dim_customer": ["sk_customer"],
    "dim_account": ["sk_account"],
    "dim_trade": ["trade_id"],
    "fact_cash_balances": ["sk_account", "sk_date"],
    "fact_holdings": ["trade_id"],
    "fact_watches": ["sk_customer", "sk_security"],
    "fact_market_history": ["sk_security", "sk_date"],
    "prospect": ["agency_id"],
    "sector_days": ["sector", "sk_date"],
    "financial": ["sk_company", "quarter_start"],
}
"""What tells rows of the larger tables apart; the others are small, and written whole."""


def tpcdi_views(*, scale: float, shares: Sequence[float], threads: int, spark: bool) -> Figures:
    """Stage the first batch, then for each share two more, and bring the tables of gold up to each of them.

    Tidemill has ``tm.Views`` over the folders of staged files, a job that is started for each batch: *opened_s* is all
    that it does, from reading the SQL, *s* the refresh alone, where the job stays, as it does for each second batch of
    a share. DuckDB computes all 48 views anew from the same files, those of gold in a database on the disk. With
    ``spark`` so does Spark, in one session that stays, into tables of Parquet files; its processor time is the JVM's.
    Then all tables are compared.
    """
    found = list[Figures]()
    with TemporaryDirectory() as name:
        folder = Path(name)
        views: tm.Views | None = None
        session = tpcdi_spark.session(folder, threads) if spark else None
        for batch, (come, prospects) in enumerate(staged(scale, shares), 1):
            for table, rows in {**come, "bronze.prospect": prospects}.items():
                path = folder / table / (f"{batch}.parquet" if table != "bronze.prospect" else "all.parquet")
                path.parent.mkdir(exist_ok=True)
                if rows.num_rows or batch == 1:
                    pq.write_table(rows, path)
            declared = (0.0, 0.0, views) if views and batch % 2 else taken(lambda: declare(folder))
            views = declared[2]
            assert views is not None
            ours = taken(views.refresh)
            peak = peak_memory()
            if batch % 2:
                views.close()
            theirs = taken(lambda: anew(folder, threads))
            found.append({
                "scale": scale, "batch": batch, "share": 1 if batch == 1 else shares[batch // 2 - 1],
                "read": sum(ours[2].read.values()), "changed": sum(v.changed for v in ours[2].views.values()),
                "declared_s": declared[0], "s": ours[0], "cpu_s": ours[1],
                "write_s": sum(v.seconds for v in ours[2].views.values()),
                "duckdb_s": theirs[0], "duckdb_cpu_s": theirs[1],
                "ratio": theirs[0] / (declared[0] + ours[0]), "ratio_cpu": theirs[1] / (declared[1] + ours[1]),
                "peak_mb": peak, "wrong": differing(folder),
            })  # fmt: skip
            if session is not None:
                used = tpcdi_spark.cpu_seconds(session)
                sparks = taken(lambda: tpcdi_spark.anew(session, folder))[0]
                used = tpcdi_spark.cpu_seconds(session) - used
                found[-1] |= {
                    "spark_s": sparks, "spark_cpu_s": used,
                    "spark_ratio": sparks / (declared[0] + ours[0]), "spark_ratio_cpu": used / (declared[1] + ours[1]),
                }  # fmt: skip
                found[-1]["wrong"] += [f"Spark's {told}" for told in tpcdi_spark.differing(folder)]
            say(found[-1])
            say({n: (v.way, v.rows, v.changed, round(v.seconds, 3)) for n, v in ours[2].views.items() if v.way})
        if session is not None:
            session.stop()
    return {"tpcdi_views": found, "wrong": [f["batch"] for f in found if f["wrong"]]}


def staged(scale: float, shares: Sequence[float]) -> Iterator[tuple[Files, Any]]:
    """Iterate over batches: the rows that come, by table, and all prospects, which are sent whole."""
    source, flow = Source(scale), tm.Dataflow("tpcdi")
    flow.sql(script(), dialect="duckdb")
    for _, come in batches(source, shares, flow):
        schema = come["bronze.prospect"].schema
        yield (
            {name: rows for name, rows in come.items() if name != "bronze.prospect"},
            source.prospects.select(schema.names).cast(schema),
        )


def declare(folder: Path) -> tm.Views:
    """Return the views over the files of a folder."""
    tables = tm.Dataflow("tables")
    tables.sql(";".join(re.findall(r"CREATE TABLE [^;]*", script())), dialect="duckdb")
    views = tm.Views(folder / "state")
    for name, node in tables.graph.inputs.items():
        is_whole = name == "bronze.prospect"
        store = tm.snapshot(folder / name / "all.parquet") if is_whole else tm.files(folder / name)
        views.source(name, store, key=["agency_id", "batch"] if is_whole else None, schema=node.schema)
    text = re.sub(r"CREATE TABLE [^;]*;", "", script())
    gold = re.findall(r"CREATE MATERIALIZED VIEW (gold\.(\w+))", text)
    views.sql(
        text,
        to={name: tm.duckdb(folder / "ours.duckdb", table) for name, table in gold},
        key={name: KEYS[table] for name, table in gold if table in KEYS},
        dialect="duckdb",
    )
    return views


def anew(folder: Path, threads: int) -> None:
    """Have DuckDB compute all views, each from those before it, and write the tables of gold."""
    with duckdb.connect(config={"threads": threads}) as judge:
        for layer in LAYERS[:-1]:
            judge.execute(f"CREATE SCHEMA {layer}")
        judge.execute(f"ATTACH '{folder / 'anew.duckdb'}' AS gold")
        for statement in re.findall(r"CREATE TABLE [^;]*", script()):
            name = statement.split()[2]
            judge.execute(statement)
            if (folder / name).exists():
                judge.execute(f"INSERT INTO {name} FROM read_parquet('{folder / name}/*.parquet')")
        for statement in script().split(";"):
            if view := re.search(VIEW, statement, re.DOTALL):
                judge.execute(f"CREATE OR REPLACE TABLE {view[1]} AS {view[2]}")


def differing(folder: Path) -> list[str]:
    """Return the tables whose rows are not DuckDB's."""
    found = []
    with duckdb.connect() as judge:
        for which in ("ours", "anew"):
            judge.execute(f"ATTACH '{folder / which}.duckdb' AS {which} (READ_ONLY)")
        for (name,) in judge.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'anew'").fetchall():
            apart = " UNION ALL ".join(
                f"(SELECT * FROM {a}.{name} EXCEPT ALL SELECT * FROM {b}.{name})"
                for a, b in (("ours", "anew"), ("anew", "ours"))
            )
            ((number,),) = judge.execute(f"SELECT count(*) FROM ({apart})").fetchall()
            if number:
                found.append(f"{name}: {number} rows")
    return found
