"""DuckDB, recomputing: a step changes an in-memory table, reading runs the whole query and fetches Arrow.

Two threads, or one where the workload says so; as ``duckdb1`` one, as a step of tidemill's uses, and as
``duckdb1_other`` one of another version. Rows to delete are found beforehand, not measured;
a step deletes them by their row id, the quickest way.
"""

from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.workload import Change, Row, Tables, Workload, rows_of


class Recomputed:
    version = duckdb.__version__

    def __init__(self, workload: Workload, threads: int | None = None) -> None:
        self.workload = workload
        self.connection = duckdb.connect(config={"threads": threads or workload.threads})
        self.columns: dict[str, list[str]] = {}

    def load(self, tables: Tables) -> None:
        for name, table in tables.items():
            self.columns[name] = table.column_names
            self.connection.register("loaded", table)
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM loaded")
            self.connection.unregister("loaded")

    def prepare(self, changes: list[Change]) -> None:
        self.actions = []
        for c in changes:
            if c.sign < 0 or self.workload.key is not None:
                self.actions.append(self._deletion(c))
            if c.sign > 0:
                self.actions.append(self._insertion(c))

    def _insertion(self, change: Change) -> tuple[str, Any]:
        if isinstance(change.rows, pa.Table):
            return f"INSERT INTO {change.table} SELECT * FROM rows", change.rows
        row = f"({', '.join('?' for _ in self.columns[change.table])})"
        rows = ", ".join(row for _ in change.rows)
        return f"INSERT INTO {change.table} VALUES {rows}", [value for row in change.rows for value in row]

    def _deletion(self, change: Change) -> tuple[str, Any]:
        names = self.columns[change.table]
        if not isinstance(change.rows, pa.Table) and len(change.rows) > 1:
            change = replace(change, rows=self._as_table(change))
        if isinstance(change.rows, pa.Table) and change.table in self.workload.unique:
            only = self.workload.unique[change.table]
            return f"DELETE FROM {change.table} WHERE {only} IN (SELECT {only} FROM rows)", change.rows
        if isinstance(change.rows, pa.Table):
            # Equal rows are numbered, so that as many of them go as are to go.
            keys = ", ".join(names)
            numbered = f"{keys}, row_number() OVER (PARTITION BY {keys}) AS copy"
            self.connection.register("gone", change.rows)
            ids = self.connection.sql(
                f"SELECT id FROM (SELECT rowid AS id, {numbered} FROM {change.table} SEMI JOIN gone USING ({keys})) "
                f"JOIN (SELECT {numbered} FROM gone) USING ({keys}, copy)"
            ).to_arrow_table()
            self.connection.unregister("gone")
            return f"DELETE FROM {change.table} WHERE rowid IN (SELECT id FROM rows)", ids
        where = " AND ".join(f"{name} = ?" for name in names)
        found = self.connection.execute(f"SELECT min(rowid) FROM {change.table} WHERE {where}", change.rows[0])
        return f"DELETE FROM {change.table} WHERE rowid = ?", found.fetchall()[0]

    def _as_table(self, change: Change) -> pa.Table:
        """Return a change's rows as a table with the types of the one that is changed."""
        schema = self.connection.sql(f"SELECT * FROM {change.table} LIMIT 0").to_arrow_table().schema
        columns = zip(*change.rows, strict=True)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)

    def step(self, changes: list[Change]) -> None:  # noqa: ARG002 - they are prepared
        for statement, parameters in self.actions:
            if isinstance(parameters, pa.Table):
                self.connection.register("rows", parameters)
                self.connection.execute(statement)
                self.connection.unregister("rows")
            else:
                self.connection.execute(statement, parameters)

    def read(self) -> list[pa.Table]:
        return [self.connection.sql(query).to_arrow_table() for query in self.workload.asked.values()]

    def contents(self) -> list[Row]:
        return [row for table in self.read() for row in rows_of(table)]

    def state_rows(self) -> int:
        return sum(self.connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in self.columns)

    def answer_rows(self) -> int:
        return 0  # it is computed for whoever reads it

    def close(self) -> None:
        self.connection.close()


engine = Recomputed
