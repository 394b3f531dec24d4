"""Queries kept up to date by a dataflow, beside a database that computes them anew after each batch of changes."""

from __future__ import annotations

import decimal
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import duckdb

import tidemill as tm

Tables = Mapping[str, Mapping[str, str]]
"""Columns and their types, in words that both know, by table."""
Changes = Mapping[str, tuple[Sequence[tuple[Any, ...]], Sequence[tuple[Any, ...]]]]
"""Rows inserted and deleted, by table."""


def comparable(value: Any, digits: int = 9) -> Any:
    """Return a value as two systems agree on it: numbers rounded to so many digits, whatever their type."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float, decimal.Decimal)):
        number = float(value)
        if math.isnan(number) or math.isinf(number):
            return str(number)
        return float(f"{number:.{digits}g}") + 0.0
    if isinstance(value, (list, tuple)):
        return tuple(comparable(v, digits) for v in value)
    return value


def bag(rows: Iterable[Sequence[Any]], digits: int = 9) -> Counter[tuple[Any, ...]]:
    """Return rows with how often each is there."""
    return Counter(tuple(comparable(v, digits) for v in row) for row in rows)


class Judge:
    """A DuckDB database with the same tables, in which deleting takes one row of those that are equal."""

    TYPES: ClassVar = {
        "int64": "BIGINT", "int32": "INTEGER", "float64": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN",
    }  # fmt: skip

    def __init__(self, tables: Tables) -> None:
        self.connection = self.connect()
        self.tables = tables
        self.rows: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in tables}
        for name, columns in tables.items():
            typed = ", ".join(f"{c} {self.TYPES.get(t.split()[0], t)}" for c, t in columns.items())
            self.connection.execute(f"CREATE TABLE {name} ({typed})")

    def connect(self) -> Any:
        return duckdb.connect(config={"threads": 1})

    def change(self, changes: Changes) -> None:
        """Insert rows and delete rows."""
        for name, (inserted, deleted) in changes.items():
            self.rows[name].update(inserted)
            self.rows[name].subtract(deleted)
            self.connection.execute(f"DELETE FROM {name}")
            rows = list(self.rows[name].elements())
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self.connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.connection.execute(text).fetchall()  # type: ignore[no-any-return]


class SqliteJudge(Judge):
    """An SQLite database with the same tables."""

    def connect(self) -> Any:
        return sqlite3.connect(":memory:")


def flow_of(tables: Tables, queries: Mapping[str, str], dialect: str = "duckdb") -> tm.Dataflow:
    """Return a dataflow with the tables as inputs and an output for each query."""
    flow = tm.Dataflow("judged")
    for name, columns in tables.items():
        flow.input(name, dict(columns))
    for name, text in queries.items():
        flow.output(name, flow.sql(text, dialect))
    return flow


def differences(
    tables: Tables,
    queries: Mapping[str, str],
    history: Sequence[Changes],
    *,
    engine: Any = None,
    judged: Mapping[str, str] | None = None,
    dialect: str = "duckdb",
    by: type[Judge] = Judge,
) -> list[str]:
    """Return where the dataflow's answers are not the judge's, after each batch; ``judged`` are its own texts."""
    judge = by(tables)
    found = []
    with flow_of(tables, queries, dialect).start(engine) as run:
        for epoch, changes in enumerate(history):
            judge.change(changes)
            for name, (inserted, deleted) in changes.items():
                run.insert(name, list(inserted))
                run.delete(name, list(deleted))
            run.advance()
            for name, text in queries.items():
                expected = bag(judge.query((judged or {}).get(name, text)))
                got: Counter[tuple[Any, ...]] = Counter()
                for row, number in run.snapshot(name).counts().items():
                    got[tuple(comparable(v) for v in row)] += number
                if got != expected:
                    found.append(
                        f"{name} after batch {epoch}: {text}\n  extra {got - expected}\n  missing {expected - got}"
                    )
    return found
