"""What changed in a table of PostgreSQL: its logical replication, read from a slot by places in the server's log."""

from __future__ import annotations

import abc
import contextlib
import functools
import struct
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.renderer.embedded.whole_file import put_in_place
from tidemill.views.stores import Source, Version

Values: TypeAlias = Mapping[str, str | None]
"""A row as the feed has it: what is not in it was not sent."""
_Key: TypeAlias = tuple[str | None, ...]
_COMMIT: Final = ord("C")
_LOG_FILE: Final = 1 << 24
"""How many bytes of its log the server keeps or removes at once."""
_CREATE_SLOT: Final = "SELECT lsn - '0/0' FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
_IDENTITY: Final = """
    SELECT c.relreplident::text, ARRAY(
        SELECT a.attname::text FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid
        WHERE i.indrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
        AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END)
    FROM pg_class AS c WHERE c.oid = %s::regclass"""


class PostgresFeed(Source):
    """A table of PostgreSQL as a source, whose versions are places in the server's log."""

    _said: str
    _table: str
    _idle = 0
    """A place in the log up to which nothing is of this table, beyond what the last refresh read."""
    _kept = 0
    """Where the slot was when it was looked at last."""
    needs_key = True

    @abc.abstractmethod
    def _transaction(self) -> contextlib.AbstractContextManager[Any]:
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
            if generated := self._generated(connection):
                msg = (
                    f"{self}: PostgreSQL does not send the generated columns {', '.join(generated)}: name the others "
                    "in views.source(..., schema={...}) and compute these, or declare tm.snapshot(tm.postgres(...))"
                )
                raise ViewError(msg)
            return self._fetch(connection, f"SELECT * FROM {self._table} LIMIT 0").schema  # noqa: S608 - quoted

    def version(self, last: Version | None, /) -> Version:
        with self._transaction() as connection:
            ((now,),) = connection.execute("SELECT pg_current_wal_flush_lsn() - '0/0'").fetchall()
            if last is None:
                return int(now)
            commits = self._peek(connection, last, where=f"WHERE get_byte(data, 0) = {_COMMIT}")
            found: int = max([last, *(_committed(data) for data in commits)])
            self._idle = int(now) if found == last else 0
            return found

    def fix(self, version: Version) -> None:
        """Have the server keep from now on what changes."""
        with self._transaction() as connection:
            if not self._missing(connection):
                return
            self._require_identity(connection)
            slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
            connection.execute(slots, [self._slot])  # it knows a publication only from when that was made
        with self._transaction() as connection:
            connection.execute(f"DROP PUBLICATION IF EXISTS {self._slot}")
            connection.execute(f"CREATE PUBLICATION {self._slot} FOR TABLE {self._table}")
        try:
            with self._transaction() as connection:
                ((begin,),) = connection.execute(_CREATE_SLOT, [self._slot]).fetchall()
        except BaseException:  # with a publication alone the table's users may be refused, and nobody is served
            with self._transaction() as connection:
                connection.execute(f"DROP PUBLICATION {self._slot}")
            raise
        self._pass_over(version, int(begin))

    def changes(self, since: Version | None, until: Version) -> Iterator[tuple[pa.Table, int]]:
        with self._transaction() as connection:
            generated = self._generated(connection)  # which are not sent, and not to be had at first and NULL later
            whole = self._fetch(connection, f"SELECT * FROM {self._table} {'LIMIT 0' if since else ''}")  # noqa: S608
            whole = whole.drop_columns(generated)
            if since is None:
                yield whole, 1
                return
            last: dict[_Key, Values | None] = {}
            for transaction in _transactions(self._peek(connection, since), since, until):
                last.update(self._by_key(transaction))
        went = [dict(zip(self._key, key, strict=True)) for key, row in last.items() if row is None]
        with self._readable():
            gone, there = (_typed(rows, whole.schema) for rows in (went, [row for row in last.values() if row]))
        yield gone, -1
        yield there, 1

    def rest(self, at: Version) -> None:
        self.forget(at)  # the slot goes on to where nothing of this table was when it was looked at

    def forget(self, until: Version) -> None:
        if max(until, self._idle - _LOG_FILE) <= self._kept:  # most refreshes with nothing new
            return
        with self._transaction() as connection:
            query = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s"
            for (kept,) in connection.execute(query, [self._slot]).fetchall():
                to = until
                if self._idle - max(until, kept) >= _LOG_FILE:  # others write, and of this table there is nothing
                    self._pass_over(until, self._idle)
                    to = self._idle
                if kept < to:
                    advance = "SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s)"
                    connection.execute(advance, [self._slot, to])

    # -- the slot -----------------------------------------------------------------------------------------------------

    def _pass_over(self, version: Version, place: int) -> None:
        """Note that the slot may be at a place in the log, for whoever has read up to a version: nothing is between."""
        put_in_place(self._folder / "passed_over", lambda file: file.write(f"{version} {place}".encode()))

    def _passed_over(self, since: Version) -> int:
        """Return up to where the slot may be, for whoever has read up to a version."""
        path = self._folder / "passed_over"
        version, place = map(int, path.read_text().split()) if path.exists() else (0, 0)
        return max(int(since), place if since >= version else 0)

    def _missing(self, connection: Any) -> str:
        """Return what of the publication and the slot is not there, if anything."""
        query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND wal_status IS DISTINCT FROM 'lost'"
        if not connection.execute(query, [self._slot]).fetchall():
            return f"the replication slot {self._slot} is gone, or the log that it needs"
        query = "SELECT 1 FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid "
        query += "WHERE pubname = %s AND prrelid = %s::regclass"
        if not connection.execute(query, [self._slot, self._table]).fetchall():
            return f"the publication {self._slot} is gone, or has this table no more, which may be another one by now"
        return ""

    def _peek(self, connection: Any, since: Version, where: str = "") -> list[bytes]:
        """Return the messages that the slot has, where those since a version are among them."""
        if missing := self._missing(connection):
            raise self._lost(missing)
        query = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s"
        ((kept,),) = connection.execute(query, [self._slot]).fetchall()
        self._kept = kept
        if kept > self._passed_over(since):
            what = f"the replication slot {self._slot} is beyond what was read, as if the state were an older copy"
            raise self._lost(what)
        options = "'proto_version', '1', 'publication_names', %s"
        query = f"SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, {options}) {where}"  # noqa: S608
        return [bytes(data) for (data,) in connection.execute(query, [self._slot, self._slot]).fetchall()]

    # -- the table ----------------------------------------------------------------------------------------------------

    def _generated(self, connection: Any) -> list[str]:
        """Return the columns that the server computes, which it does not send."""
        query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attgenerated <> ''"
        query += " AND NOT attisdropped ORDER BY attnum"
        return [name for (name,) in connection.execute(query, [self._table]).fetchall()]

    def _require_identity(self, connection: Any) -> None:
        """`ViewError` where the table does not tell its rows by the key: publishing it would refuse its users."""
        ((kind, columns),) = connection.execute(_IDENTITY, [self._table]).fetchall()
        self._require_key(columns, is_full=kind == "f")

    def _require_key(self, columns: Sequence[str], *, is_full: bool) -> None:
        if not is_full and set(columns) != set(self._key):
            told = f"its replica identity is ({', '.join(columns)}), the key ({', '.join(self._key)})"
            msg = f"{self}: {told}: give the source that key, or ALTER TABLE {self._said} REPLICA IDENTITY"
            raise ViewError(msg)

    def _by_key(self, transaction: Sequence[_FeedChange]) -> dict[_Key, Values | None]:
        """Return the keys that a transaction changed, each with its row from then on.

        Where old rows are sent whole they are summed up: two rows may then have one key within the transaction.
        """
        found: dict[_Key, Values | None] = {}
        sums: Counter[tuple[tuple[str, str | None], ...]] = Counter()
        for change in transaction:
            relation = change.relation
            if relation is None:
                what = "it was truncated"
                raise self._lost(what)
            self._require_key(relation.key, is_full=relation.is_full)
            new = None if change.new is None else self._whole(relation, change.old, change.new)
            for row, times in ((change.old, -1), (new, 1)):
                if row is not None and relation.is_full:
                    sums[tuple(row.items())] += times
                elif row is not None:
                    found[self._key_of(row)] = row if times > 0 else None
        for items, times in sorted(sums.items(), key=lambda item: item[1]):  # those that went first
            if times:
                found[self._key_of(dict(items))] = dict(items) if times > 0 else None
        return found

    def _key_of(self, row: Values) -> _Key:
        return tuple(row[k] for k in self._key)

    def _whole(self, relation: _FeedRelation, old: Values | None, new: Values) -> Values:
        """Return a row with the large values that an update left as they were."""
        row = {**(old or {} if relation.is_full else {}), **new}
        if missing := [name for name in relation.columns if name not in row]:
            msg = (
                f"{self}: PostgreSQL did not send the large values of {', '.join(missing)}, which an update left "
                f"as they were: ALTER TABLE {self._said} REPLICA IDENTITY FULL, then views.refresh(full=True)"
            )
            raise ViewError(msg)
        return row

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Say of values that Arrow does not take which table they are in, and what to do."""
        try:
            yield
        except pa.ArrowException as error:
            msg = (
                f"{self}: PostgreSQL has a value that Arrow does not, such as 'infinity' for a date or a year beyond "
                f"9999: {error}: have the column as text, or NULL in its place"
            )
            raise ViewError(msg) from error

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


def _transactions(messages: Sequence[bytes], since: int, until: int) -> Iterator[Sequence[_FeedChange]]:
    """Yield what each of the transactions changed that were committed between two places in the log, in their order."""
    relations: dict[int, _FeedRelation] = {}
    changes: list[_FeedChange] = []
    for data in messages:
        message = _FeedMessage(data)
        kind = message.char()
        if kind == "C":
            if since < _committed(data) <= until:
                yield changes
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
