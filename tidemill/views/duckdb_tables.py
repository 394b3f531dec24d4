"""Tables of DuckDB, which takes and gives Arrow as it is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.views.databases import CAME, DatabaseTable, quoted
from tidemill.views.stores import library_of


class _DuckDB(DatabaseTable):
    """A table in a file of DuckDB: see `duckdb`."""

    listing = "duckdb_columns()", "schema_name", "column_index"  # in half the time of the standard's

    def __init__(self, path: str | os.PathLike[str], table: str) -> None:
        super().__init__(table)
        self._path, self._said = os.fspath(path), table
        if not self._path or self._path.startswith(":memory:"):
            msg = f"{self}: a database in memory is gone with each connection to it: expected the path of a file"
            raise ViewError(msg)

    def __repr__(self) -> str:
        return f"duckdb({self._path!r}, {self._said!r})"

    def shared(self) -> str:
        return f"duckdb({self._path!r})"

    @contextlib.contextmanager
    def at_hand(self) -> Iterator[Any]:
        """Keep the file open: opening takes 50 ms, another connection 0.6 ms, and what was put is merged once."""
        with self._errors():
            opened = library_of("duckdb", "duckdb").connect(self._path)
        with opened as connection:
            yield connection

    @contextlib.contextmanager
    def _begun(self) -> Iterator[Any]:
        with self.at_hand() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")  # an error closes it, which rolls back

    @contextlib.contextmanager
    def _errors(self, of: str = "") -> Iterator[None]:
        try:
            yield
        except library_of("duckdb", "duckdb").Error as error:  # such as that another process has the file open
            msg = f"{of or self}: {error}"
            raise ViewError(msg) from error

    def _fetch(self, connection: Any, query: str) -> pa.Table:
        return connection.sql(query).to_arrow_table()

    def _create(self, connection: Any, table: str, schema: pa.Schema, *, temporary: bool = False) -> None:
        connection.register("tidemill_rows", schema.empty_table())
        kind = "TEMPORARY TABLE" if temporary else "TABLE"
        connection.execute(f"CREATE {kind} {table} AS FROM tidemill_rows")
        connection.unregister("tidemill_rows")

    def _take_out(self, connection: Any, key: Sequence[str], same: str) -> list[tuple[str]]:
        columns = ", ".join(f"t.{quoted(k)}" for k in key)
        there = f"EXISTS (SELECT 1 FROM {CAME} AS s WHERE {same})"  # noqa: S608 - quoted; USING takes twice as long
        query = f"DELETE FROM {self._table} AS t WHERE {there} RETURNING {columns}"  # noqa: S608 - as above
        connection.register("tidemill_gone", self._fetch(connection, query))
        query = f"SELECT s._change FROM tidemill_gone AS t JOIN {CAME} AS s ON {same}"  # noqa: S608 - as above
        found: list[tuple[str]] = connection.execute(query).fetchall()
        connection.unregister("tidemill_gone")
        return found

    def _load(self, connection: Any, table: str, rows: pa.Table) -> None:
        connection.register("tidemill_rows", rows)
        names = ", ".join(map(quoted, rows.column_names))
        connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM tidemill_rows")  # noqa: S608 - quoted
        connection.unregister("tidemill_rows")


def duckdb(path: str | os.PathLike[str], table: str) -> DatabaseTable:
    """Return a table in a file of DuckDB for `Views`, as a sink, or as a source in ``tm.snapshot(tm.duckdb(...))``.

    As a sink its rows and the refresh's number, in the table ``tidemill_refreshes`` beside it, are put in one
    transaction, with those of all views in the file. Merging costs what changed. That somebody else wrote to it is
    noticed where keys that changed are not there as they should. ``table`` may be ``"schema.name"``. Needs:
    ``pip install 'tidemill[duckdb]'``.
    """
    return _DuckDB(path, table)
