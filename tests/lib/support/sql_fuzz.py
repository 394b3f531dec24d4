"""Random queries beside DuckDB and SQLite, in turn, as many as are asked for: ``PYTHONPATH=tests/lib python -m support.sql_fuzz``.

Every difference is printed with the number that draws its query again; the last line says how many were compared.
Where SQLite differs and DuckDB does not, or DuckDB does and does not without its optimizer, it is the judge that is
another: that is said, and does not count.
"""

# ruff: noqa: T201 - a program

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.sql_judge import Judge, SqliteJudge, differences  # noqa: E402
from support.sql_queries import TABLES, Queries, history  # noqa: E402


class Unoptimised(Judge):
    """A DuckDB database that does what queries say: its optimizer has been found wrong, of EXISTS in CASE say."""

    def connect(self) -> Any:
        connection = super().connect()
        connection.execute("PRAGMA disable_optimizer")
        return connection


def compared(number: int) -> list[str] | None:
    """Return where the answers to a query of a number differ; None where the judge cannot say."""
    judge = SqliteJudge if number % 2 else Judge
    rng = random.Random(number)
    text = Queries(rng, sqlite=judge is SqliteJudge).query()
    try:
        judge(TABLES).query(text)
    except (
        duckdb.NotImplementedException,
        duckdb.InternalException,
        sqlite3.OperationalError,
    ):  # as IN of several columns
        return None
    changes = history(rng, batches=3)
    try:
        found = differences(TABLES, {"q": text}, changes, by=judge)
        other = Judge if judge is SqliteJudge else Unoptimised
        if found and not differences(TABLES, {"q": text}, changes, by=other):
            print(f"query {number}: {judge.__name__} differs from {other.__name__}, too", flush=True)
            return []
        return found  # noqa: TRY300 - what follows is about errors
    except duckdb.Error as error:
        print(f"query {number}: DuckDB fails: {error}", flush=True)
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is to be seen
        return [f"{type(error).__name__}: {error}\n  {text}"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Random queries of SQL, judged by DuckDB and SQLite.")
    parser.add_argument("--first", type=int, default=0, help="the number of the first query (0)")
    parser.add_argument("--queries", type=int, default=50_000, help="how many (50000)")
    options = parser.parse_args()
    judged = wrong = 0
    for number in range(options.first, options.first + options.queries):
        found = compared(number)
        judged += found is not None
        for difference in found or ():
            wrong += 1
            print(f"query {number}: {difference}", flush=True)
        if number % 100 == 99:  # noqa: PLR2004 - a sign of life
            print(f"up to {number}: {judged} compared, {wrong} differences", flush=True)
    print(f"{judged} queries compared, {wrong} differences")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
