"""Tables in databases: a sink whose rows and whose note of the refresh are put in one transaction."""

from __future__ import annotations

import abc
import contextlib
import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.views.stores import Sink

_Of = TypeVar("_Of", bound=tuple[Any, ...])
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
    notes: list[tuple[DatabaseTable, str, int]]
    """Which tables were written in it, for whom, and by which refresh."""

    def __init__(self, table: str) -> None:
        *schema, self.name = table.split(".")
        self._schema = schema[0] if schema else ""
        self._table, self.steps = (".".join(map(quoted, [*schema, name])) for name in (self.name, _STEPS))

    # -- what each database does in its own way -----------------------------------------------------------------------

    @abc.abstractmethod
    def _begun(self) -> AbstractContextManager[Any]:
        """Return a connection in a new transaction, which is committed at the end, or rolled back at an error."""

    @abc.abstractmethod
    def _errors(self, of: str = "") -> AbstractContextManager[None]:
        """Make the library's errors `ViewError`, which says of what they are, by default of this table."""

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
        notes: list[tuple[DatabaseTable, str, int]] = []
        with self._errors(self.shared()), self._begun() as connection:
            for table in tables:
                table.connection, table.notes = connection, notes
            yield tables
            for some in _by_schema(notes):
                some[0][0]._note(connection, some)  # noqa: SLF001 - one of these

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
        return self.refreshes([self], [owner])[0]

    def refreshes(self, sinks: Sequence[Any], owners: Sequence[str]) -> list[int | None]:
        reached: dict[str, int] = {}
        with self._transaction() as connection:
            for some in _by_schema(zip(sinks, owners, strict=True)):
                reached |= some[0][0]._reached(connection, some)  # noqa: SLF001 - one of these
        return [reached.get(owner) for owner in owners]

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
            self.notes.append((self, owner, number))

    def append(self, changes: pa.Table, owner: str, number: int) -> None:
        with self._transaction() as connection:
            self._load(connection, self._table, changes)
            self.notes.append((self, owner, number))

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
            self.notes.append((self, owner, number))

    def seconds(self, way: str, rows: int, changed: int) -> float:
        """Return what `Sink.seconds` does, but for merging, which costs what changed: nothing else is written."""
        return 0.05 + (1e-5 * changed if way == "merge" else super().seconds(way, rows, changed))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _reached(self, connection: Any, tables: Sequence[tuple[DatabaseTable, str]]) -> dict[str, int]:
        """Return which refresh wrote to tables of one schema last, by those for whom, where that is known."""
        there = set(self._listed(connection, "table_name", _STEPS, *(table.name for table, _ in tables)))
        if _STEPS not in there:
            return {}
        pairs = ", ".join(f"({_text(table.name)}, {_text(owner)})" for table, owner in tables)
        query = f"SELECT name, owner, refresh FROM {self.steps} WHERE (name, owner) IN ({pairs})"  # noqa: S608
        return {owner: number for name, owner, number in connection.execute(query).fetchall() if name in there}

    def _note(self, connection: Any, notes: Sequence[tuple[DatabaseTable, str, int]]) -> None:
        """Write down what was written in one schema."""
        if not self._columns(connection, _STEPS):
            columns = "name varchar, owner varchar, refresh bigint, PRIMARY KEY (name, owner)"
            connection.execute(f"CREATE TABLE {self.steps} ({columns})")
        others = " OR ".join(f"name = {_text(table.name)} AND owner <> {_text(owner)}" for table, owner, _ in notes)
        connection.execute(f"DELETE FROM {self.steps} WHERE {others}")  # noqa: S608 - it is not what they wrote
        values = ", ".join(f"({_text(table.name)}, {_text(owner)}, {number})" for table, owner, number in notes)
        taken = "ON CONFLICT (name, owner) DO UPDATE SET refresh = excluded.refresh"
        connection.execute(f"INSERT INTO {self.steps} VALUES {values} {taken}")  # noqa: S608

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
        return self._listed(connection, "column_name", name or self.name)

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


def _by_schema(tables: Iterable[_Of]) -> list[list[_Of]]:
    """Return what is said of tables, that of each schema's together."""
    found: dict[str, list[_Of]] = {}
    for of in tables:
        found.setdefault(of[0].steps, []).append(of)
    return [*found.values()]


def quoted(name: str) -> str:
    """Return a name as SQL says it."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
