"""Tables in databases: a sink whose rows and whose note of the refresh are put in one transaction."""

from __future__ import annotations

import abc
import contextlib
import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.views.stores import Sink

_STEPS: Final = "tidemill_refreshes"
"""The table that says which refresh wrote to which table last."""
CAME: Final = "tidemill_came"
"""The temporary table of rows to be merged."""


class DatabaseTable(Sink):
    """A table in a database, by its name, which may begin with that of a schema."""

    ways = frozenset({"merge", "overwrite", "changelog"})
    listing = "information_schema.columns", "table_schema", "ordinal_position"
    """What lists the columns of all tables, and what it calls their schema and their place."""
    keeps_logs = False  # a note is gone where somebody else wrote, and theirs is another log
    connection: Any = None
    """The connection of the transaction that it is in with others."""

    def __init__(self, table: str) -> None:
        *schema, self._name = table.split(".")
        self._schema = schema[0] if schema else ""
        self._table, self._steps = (".".join(map(quoted, [*schema, name])) for name in (self._name, _STEPS))

    # -- what each database does in its own way -----------------------------------------------------------------------

    @abc.abstractmethod
    def _begun(self) -> AbstractContextManager[Any]:
        """Return a connection in a new transaction, which is committed at the end, or rolled back at an error."""

    @abc.abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Make the library's errors `ViewError`, which says of which table they are."""

    @abc.abstractmethod
    def _fetch(self, connection: Any, query: str) -> pa.Table:
        """Return what a query gives."""

    @abc.abstractmethod
    def _create(self, connection: Any, table: str, schema: pa.Schema, *, temporary: bool = False) -> None:
        """Make a table with the columns of a schema."""

    @abc.abstractmethod
    def _load(self, connection: Any, table: str, rows: pa.Table) -> None:
        """Add rows to a table by their columns' names."""

    def _take_out(self, connection: Any, _key: Sequence[str], same: str) -> list[tuple[str]]:
        """Delete the rows whose keys are among those that came; return what is to be done to each."""
        query = f"DELETE FROM {self._table} AS t USING {CAME} AS s WHERE {same} RETURNING s._change"  # noqa: S608 - quoted
        found: list[tuple[str]] = connection.execute(query).fetchall()
        return found

    def _prepare_merge(self, connection: Any, key: Sequence[str]) -> None:
        """Have rows be found by a key."""

    # -- what all do --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def together(self, sinks: Sequence[Sink]) -> Iterator[Sequence[Sink]]:
        tables: list[Any] = [copy.copy(sink) for sink in sinks]
        with self._errors(), self._begun() as connection:
            for table in tables:
                table.connection = connection
            yield tables

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Give the connection of the transaction that it is in, or of one of its own."""
        with self._errors():
            if self.connection is not None:
                yield self.connection
                return
            with self._begun() as connection:
                yield connection

    def __call__(self) -> pa.Table:
        """Return what is in it now: so it can be given to `snapshot`."""
        with self._transaction() as connection:
            self._require_there(connection)
            return self._fetch(connection, f"SELECT * FROM {self._table}")  # noqa: S608 - quoted

    def rows(self) -> pa.Table:
        return self()

    def refresh(self, owner: str) -> int | None:
        with self._transaction() as connection:
            if len(set(self._listed(connection, "table_name", self._name, _STEPS))) < 2:  # noqa: PLR2004 - one is missing
                return None
            where = f"name = {_text(self._name)} AND owner = {_text(owner)}"
            found = connection.execute(f"SELECT refresh FROM {self._steps} WHERE {where}").fetchall()  # noqa: S608
            return int(found[0][0]) if found else None

    def overwrite(self, rows: pa.Table, owner: str, number: int) -> None:
        with self._transaction() as connection:
            before = self._columns(connection)
            if before == rows.column_names and self._same_types(connection, rows.schema):
                connection.execute(f"TRUNCATE TABLE {self._table}")  # who may read it, and its indexes, stay
            else:
                if before:
                    connection.execute(f"DROP TABLE {self._table}")
                self._create(connection, self._table, rows.schema)
            self._load(connection, self._table, rows)
            self._note(connection, owner, number)

    def append(self, changes: pa.Table, owner: str, number: int) -> None:
        with self._transaction() as connection:
            self._load(connection, self._table, changes)
            self._note(connection, owner, number)

    def merge(self, changes: pa.Table, key: Sequence[str], owner: str, number: int) -> None:
        names = ", ".join(map(quoted, changes.column_names[:-1]))
        same = " AND ".join(f"t.{quoted(k)} = s.{quoted(k)}" for k in key)
        with self._transaction() as connection:
            self._prepare_merge(connection, key)
            self._create(connection, CAME, changes.schema, temporary=True)
            self._load(connection, CAME, changes)
            found = self._take_out(connection, key, same)
            self._require_as_left(Counter(kind for (kind,) in found), Counter(changes["_change"].to_pylist()))
            came = f"SELECT {names} FROM {CAME} WHERE _change <> 'delete'"  # noqa: S608
            connection.execute(f"INSERT INTO {self._table} ({names}) {came}")
            connection.execute(f"DROP TABLE {CAME}")
            self._note(connection, owner, number)

    def seconds(self, way: str, rows: int, changed: int) -> float:
        """Return what `Sink.seconds` does, but for merging, which costs what changed: nothing else is written."""
        return 0.05 + (1e-5 * changed if way == "merge" else super().seconds(way, rows, changed))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _note(self, connection: Any, owner: str, number: int) -> None:
        if not self._columns(connection, _STEPS):
            columns = "name varchar, owner varchar, refresh bigint, PRIMARY KEY (name, owner)"
            connection.execute(f"CREATE TABLE {self._steps} ({columns})")
        others = f"name = {_text(self._name)} AND owner <> {_text(owner)}"
        connection.execute(f"DELETE FROM {self._steps} WHERE {others}")  # noqa: S608 - it is not what they wrote
        values = f"{_text(self._name)}, {_text(owner)}, {number}"
        taken = "ON CONFLICT (name, owner) DO UPDATE SET refresh = excluded.refresh"
        connection.execute(f"INSERT INTO {self._steps} VALUES ({values}) {taken}")  # noqa: S608

    def _require_as_left(self, found: Counter[str], kinds: Counter[str]) -> None:
        """`ViewError` where other keys are there than those that change and those that go."""
        del kinds["insert"]
        if found != kinds:
            msg = (
                f"{self}: somebody else wrote to it: of the keys that change {kinds.total()} were left in it, and "
                f"{found.total()} are in it now, or others: write it anew with views.refresh(full=[...]), naming the "
                "view, or give the view a table of its own"
            )
            raise ViewError(msg)

    def _columns(self, connection: Any, name: str = "") -> list[str]:
        """Return the columns of a table, by default this one; none where it is not there."""
        return self._listed(connection, "column_name", name or self._name)

    def _listed(self, connection: Any, what: str, *names: str) -> list[str]:
        """Return what is listed of the columns of tables."""
        listing, schema, place = self.listing
        where = f"{schema} = {_text(self._schema) if self._schema else 'current_schema()'}"
        named = f"table_name IN ({', '.join(map(_text, names))}) ORDER BY {place}"
        query = f"SELECT {what} FROM {listing} WHERE {where} AND {named}"  # noqa: S608
        return [found for (found,) in connection.execute(query).fetchall()]

    def _same_types(self, connection: Any, schema: pa.Schema) -> bool:
        """Return whether a table made for a schema has the types that this one has."""
        self._create(connection, CAME, schema, temporary=True)
        nothing = "SELECT * FROM {} LIMIT 0"
        same: bool = (
            self._fetch(connection, nothing.format(CAME)).schema
            == self._fetch(connection, nothing.format(self._table)).schema
        )
        connection.execute(f"DROP TABLE {CAME}")
        return same

    def _require_there(self, connection: Any) -> None:
        if not self._columns(connection):
            msg = f"{self}: there is no such table"
            raise ViewError(msg)


def quoted(name: str) -> str:
    """Return a name as SQL says it."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
