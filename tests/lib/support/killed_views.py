"""Killed again and again, do views lose or double anything? ``PYTHONPATH=tests/lib python -m support.killed_views --kills 100``.

A process writes so many versions of a Delta table, with a refresh after each, and is sent SIGKILL at random moments and
started again. In the end all tables have to hold what is computed from all versions at once: of Delta, one merged and one
a changelog, in which a row written twice would show; two of one database of DuckDB, merged, which have to be of one
refresh whenever it was killed; a file, overwritten; files, a changelog; with
``--postgres "host=..."`` also one of PostgreSQL, merged.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm

PRELOADED = ["deltalake", "duckdb", "pyarrow.dataset", "tidemill.renderer.durable.start", "tidemill.views.views"]
SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("amount", pa.int64())])


def rows_of(version: int) -> list[dict[str, Any]]:
    """Return the rows that a version adds."""
    rng = random.Random(version)
    return [{"id": 10 * version + i, "region": rng.choice("nsw"), "amount": rng.randrange(9)} for i in range(10)]


def declared(folder: Path, postgres: str | None) -> tm.Views:
    views = tm.Views(folder / "state", tm.Embedded(checkpoint_every=5))
    rows = views.source("rows", tm.delta(folder / "rows"))
    sums = rows.group_by("region").agg(total=tm.sum("amount"))
    views.view("merged", sums, to=tm.delta(folder / "merged"), key="region", write="merge")
    views.view("whole", sums, to=tm.files(folder / "whole.parquet"))
    views.view("database", sums, to=tm.duckdb(folder / "views.duckdb", "sums"), key="region", write="merge")
    views.view("beside", rows, to=tm.duckdb(folder / "views.duckdb", "rows"), key="id", write="merge")
    if postgres is not None:
        views.view("server", sums, to=tm.postgres(postgres, "killed_sums"), key="region", write="merge")
    views.view("log", rows.filter("amount > 4"), to=tm.delta(folder / "log"), write="changelog")
    views.view("files", rows.filter("amount > 4"), to=tm.files(folder / "files"), write="changelog")
    return views


def go_on(folder: Path, versions: int, postgres: str | None) -> None:
    """Write the versions that are not there yet, and refresh after each."""
    from deltalake import DeltaTable, write_deltalake

    with declared(folder, postgres) as views:
        views.refresh()
        while (version := DeltaTable(folder / "rows").version()) < versions:
            write_deltalake(folder / "rows", pa.Table.from_pylist(rows_of(version + 1), SCHEMA), mode="append")
            views.refresh()


def steps(folder: Path) -> dict[str, int]:
    """Return by tables of the database which refresh each is of."""
    with duckdb.connect(folder / "views.duckdb") as connection:
        if not connection.sql("SELECT 1 FROM duckdb_tables() WHERE table_name = 'tidemill_refreshes'"):
            return {}
        return dict(connection.execute("SELECT name, refresh FROM tidemill_refreshes").fetchall())


def killed(folder: Path, *, versions: int, kills: int, seed: int, postgres: str | None = None) -> dict[str, Any]:
    """Return how often a process was killed until all versions were taken, and what the sinks hold wrongly."""
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(folder / "rows", pa.Table.from_pylist(rows_of(0), SCHEMA))
    rng, done, span = random.Random(seed), 0, 1.0
    processes = multiprocessing.get_context("forkserver")  # so that a start does not cost what importing all does
    processes.set_forkserver_preload([*PRELOADED, *(["psycopg"] if postgres else [])])
    while True:
        began, child = time.monotonic(), processes.Process(target=go_on, args=(folder, versions, postgres))
        child.start()
        child.join(rng.uniform(0.2, 1) * span if done < kills else None)
        if child.is_alive():
            child.kill()
            child.join()
            done += 1
            reached = steps(folder)
            if len(set(reached.values())) > 1:
                return {"kills": done, "wrong": f"the tables of one database are of the refreshes {reached}"}
            span *= 1.0 if DeltaTable(folder / "rows").version() else 1.5  # until it is longer than a refresh takes
            continue
        if child.exitcode:
            return {"kills": done, "wrong": f"it ended with {child.exitcode} after {time.monotonic() - began:.1f} s"}
        break
    rows = [row for version in range(versions + 1) for row in rows_of(version)]
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["region"]] += row["amount"]
    logs = {"log": DeltaTable(folder / "log").to_pyarrow_table(), "files": tm.read_changelog(folder / "files")}
    expected = {
        **dict.fromkeys(("merged", "whole", "database"), sorted(sums.items())),
        "beside": sorted((r["id"], r["region"], r["amount"]) for r in rows),
        **dict.fromkeys(logs, sorted((r["id"], r["region"], r["amount"], "insert") for r in rows if r["amount"] > 4)),
    }
    found = {
        "merged": sorted(tuple(r.values()) for r in DeltaTable(folder / "merged").to_pyarrow_table().to_pylist()),
        "database": sorted(tuple(r.values()) for r in tm.duckdb(folder / "views.duckdb", "sums")().to_pylist()),
        "beside": sorted(tuple(r.values()) for r in tm.duckdb(folder / "views.duckdb", "rows")().to_pylist()),
        "whole": sorted(tuple(r.values()) for r in pq.read_table(folder / "whole.parquet").to_pylist()),
        **{n: sorted(tuple(r.values()) for r in t.drop_columns(["_refresh"]).to_pylist()) for n, t in logs.items()},
    }
    if postgres is not None:
        expected["server"] = expected["merged"]
        found["server"] = sorted(tuple(r.values()) for r in tm.postgres(postgres, "killed_sums")().to_pylist())
    return {"kills": done, "wrong": [name for name in expected if found[name] != expected[name]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", help="such as 'host=/tmp dbname=postgres'")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked = {name: getattr(options, name) for name in ("versions", "kills", "seed", "postgres")}
        found = killed(Path(folder), **asked)
        sys.stdout.write(f"{found}\n")


if __name__ == "__main__":
    main()
