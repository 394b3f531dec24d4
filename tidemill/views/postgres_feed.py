"""What changed in a table of PostgreSQL: its logical replication, read from a slot by places in the server's log."""

from __future__ import annotations

import abc
import functools
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.renderer.embedded.whole_file import put_in_place
from tidemill.views.stores import Source, Version

Values: TypeAlias = Mapping[str, str | None]
"""A row as the feed has it: what is not in it was not sent."""
_COMMIT: Final = ord("C")


class PostgresFeed(Source):
    """A table of PostgreSQL as a source, whose versions are places in the server's log."""

    _said: str
    _table: str
    needs_key = True

    @abc.abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """Return a connection in a transaction."""

    @abc.abstractmethod
    def _fetch(self, connection: Any, query: str) -> pa.Table:
        """Return what a query gives."""

    def keep_in(self, folder: Path, key: Sequence[str]) -> None:
        self._folder, self._key = folder, tuple(key)

    @functools.cached_property
    def _slot(self) -> str:
        """What the slot and the publication of this source are called, made up once."""
        path = self._folder / "slot"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            put_in_place(path, lambda file: file.write(f"tidemill_{uuid.uuid4().hex}".encode()), new=True)
        return path.read_text()

    def identity(self) -> str:
        with self._transaction() as connection:
            ((oid,),) = connection.execute("SELECT %s::regclass::oid", [self._table]).fetchall()
            return f"{self!r} {oid}"

    def schema(self) -> pa.Schema:
        with self._transaction() as connection:
            return self._fetch(connection, f"SELECT * FROM {self._table} LIMIT 0").schema  # noqa: S608 - quoted

    def version(self, last: Version | None, /) -> Version:
        with self._transaction() as connection:
            if last is None:
                ((now,),) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchall()
                return int(now)
            commits = self._peek(connection, where=f"WHERE get_byte(data, 0) = {_COMMIT}")
            return max([last, *(_committed(data) for data in commits)])

    def fix(self, _version: Version) -> None:
        """Have the server keep from now on what changes."""
        with self._transaction() as connection:
            if not self._is_there(connection, "pg_publication", "pubname"):
                connection.execute(f"CREATE PUBLICATION {self._slot} FOR TABLE {self._table}")
        with self._transaction() as connection:
            if not self._is_there(connection, "pg_replication_slots", "slot_name"):
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self._slot])

    def changes(self, since: Version | None, until: Version) -> Iterator[tuple[pa.Table, int]]:
        with self._transaction() as connection:
            schema = self._fetch(connection, f"SELECT * FROM {self._table} LIMIT 0").schema  # noqa: S608 - quoted
            if since is None:
                yield self._fetch(connection, f"SELECT * FROM {self._table}"), 1  # noqa: S608 - quoted
                return
            last: dict[tuple[str | None, ...], Values | None] = {}
            for change in _transactions(self._peek(connection), since, until):
                last.update(self._by_key(change))
        went = [dict(zip(self._key, key, strict=True)) for key, row in last.items() if row is None]
        yield _typed(went, schema), -1
        yield _typed([row for row in last.values() if row is not None], schema), 1

    def forget(self, until: Version) -> None:
        with self._transaction() as connection:
            where = "slot_name = %s AND confirmed_flush_lsn < '0/0'::pg_lsn + %s"
            advance = "SELECT pg_replication_slot_advance(slot_name, '0/0'::pg_lsn + %s) FROM pg_replication_slots"
            advance += f" WHERE {where}"
            connection.execute(advance, [until, self._slot, until])

    def _peek(self, connection: Any, where: str = "") -> list[bytes]:
        """Return the messages that the slot has."""
        if not self._is_there(connection, "pg_replication_slots", "slot_name"):
            raise self._lost(f"the replication slot {self._slot} is gone")
        options = "'proto_version', '1', 'publication_names', %s"
        query = f"SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, {options}) {where}"  # noqa: S608
        return [bytes(data) for (data,) in connection.execute(query, [self._slot, self._slot]).fetchall()]

    def _is_there(self, connection: Any, table: str, column: str) -> bool:
        query = f"SELECT 1 FROM {table} WHERE {column} = %s"  # noqa: S608 - our own names
        return bool(connection.execute(query, [self._slot]).fetchall())

    def _by_key(self, change: _FeedChange) -> Iterator[tuple[tuple[str | None, ...], Values | None]]:
        """Yield the keys that a change is of, each with its row from then on."""
        if change.relation is None:
            what = "it was truncated"
            raise self._lost(what)
        if not change.relation.is_full and set(change.relation.key) != set(self._key):
            told = f"its replica identity is ({', '.join(change.relation.key)}), the key ({', '.join(self._key)})"
            msg = f"{self}: {told}: give the source that key, or ALTER TABLE {self._said} REPLICA IDENTITY"
            raise ViewError(msg)
        if change.old is not None:
            yield tuple(change.old[k] for k in self._key), None
        if change.new is not None:
            row = {**(change.old or {} if change.relation.is_full else {}), **change.new}
            if missing := [name for name in change.relation.columns if name not in row]:
                msg = (
                    f"{self}: PostgreSQL did not send the large values of {', '.join(missing)}, which an update left "
                    f"as they were: ALTER TABLE {self._said} REPLICA IDENTITY FULL, then views.refresh(full=True)"
                )
                raise ViewError(msg)
            yield tuple(row[k] for k in self._key), row

    def _lost(self, what: str) -> ViewError:
        return ViewError(f"{self}: {what}: read the table anew with views.refresh(full=True)")


# -- the messages of pgoutput -----------------------------------------------------------------------------------------


@attrs.frozen
class _FeedRelation:
    """A table as the feed describes it."""

    columns: Sequence[str]
    key: Sequence[str]
    is_full: bool
    """Whether old rows are sent whole."""


@attrs.frozen
class _FeedChange:
    """A row that changed: as it was, where that or its key was sent, and as it is; without a relation all went."""

    relation: _FeedRelation | None
    old: Values | None = None
    new: Values | None = None


class _FeedMessage:
    """A message, read from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, kind: str) -> int:
        """Return the next number, of a kind of `struct`."""
        (found,) = struct.unpack_from(f"!{kind}", self._data, self._at)
        self._at += struct.calcsize(f"!{kind}")
        return int(found)

    def has_more(self) -> bool:
        return self._at < len(self._data)

    def char(self) -> str:
        return chr(self.take("B"))

    def text(self) -> str:
        end = self._data.index(0, self._at)
        found, self._at = self._data[self._at : end].decode(), end + 1
        return found

    def row(self, relation: _FeedRelation) -> Values:
        """Return a row; large values that did not change are not in it."""
        found: dict[str, str | None] = {}
        for _, name in zip(range(self.take("h")), relation.columns, strict=True):
            kind = self.char()
            if kind == "t":
                size = self.take("i")
                found[name] = self._data[self._at : self._at + size].decode()
                self._at += size
            elif kind == "n":
                found[name] = None
        return found


def _committed(data: bytes) -> int:
    """Return up to where the log is, with what a message commits."""
    return int(struct.unpack_from("!Q", data, 10)[0])


def _transactions(messages: Sequence[bytes], since: int, until: int) -> Iterator[_FeedChange]:
    """Yield what transactions changed that were committed between two places in the log, in their order."""
    relations: dict[int, _FeedRelation] = {}
    changes: list[_FeedChange] = []
    for data in messages:
        message = _FeedMessage(data)
        kind = message.char()
        if kind == "C":
            if since < _committed(data) <= until:
                yield from changes
            changes = []
        elif kind == "R":
            number = message.take("I")
            relations[number] = _relation(message)
        elif kind == "T":
            changes.append(_FeedChange(None))
        elif kind in "IUD":
            changes.append(_change(message, relations[message.take("I")]))


def _relation(message: _FeedMessage) -> _FeedRelation:
    message.text(), message.text()
    is_full = message.char() == "f"
    columns = []
    for _ in range(message.take("h")):
        columns.append((message.take("B"), message.text()))
        message.take("I"), message.take("i")
    return _FeedRelation([name for _, name in columns], [name for flags, name in columns if flags & 1], is_full)


def _change(message: _FeedMessage, relation: _FeedRelation) -> _FeedChange:
    old, kind = None, message.char()
    if kind in "KO":
        old = message.row(relation)
        kind = message.char() if message.has_more() else ""
    return _FeedChange(relation, old, message.row(relation) if kind == "N" else None)


def _typed(rows: Sequence[Values], schema: pa.Schema) -> pa.Table:
    """Return rows of texts as a table, NULL where a value is not there."""
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_boolean(field.type):
            columns.append(pa.array([None if v is None else v == "t" for v in values], pa.bool_()))
        else:
            columns.append(pa.array(values, pa.string()).cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)
