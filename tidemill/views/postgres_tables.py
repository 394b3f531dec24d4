"""Tables of PostgreSQL, by the library ``psycopg``: COPY takes and gives CSV, which Arrow writes and reads."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.views.databases import DatabaseTable, quoted
from tidemill.views.postgres_feed import PostgresFeed
from tidemill.views.stores import library_of

_SESSION: Final = "SET LOCAL TimeZone TO 'UTC'; SET LOCAL DateStyle TO 'ISO'; SET LOCAL extra_float_digits TO 1"
_TYPES: Final[list[tuple[Callable[[pa.DataType], bool], str]]] = [
    (pa.types.is_boolean, "boolean"),
    (lambda t: t in {pa.int8(), pa.int16(), pa.uint8()}, "smallint"),
    (lambda t: t in {pa.int32(), pa.uint16()}, "integer"),
    (lambda t: t in {pa.int64(), pa.uint32()}, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t), "text"),
    (pa.types.is_date, "date"),
    (lambda t: pa.types.is_timestamp(t) and t.unit != "ns" and t.tz is None, "timestamp"),
    (lambda t: pa.types.is_timestamp(t) and t.unit != "ns", "timestamptz"),
]
"""What Arrow's types are called, beside decimals."""
_READ: Final = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
    "float8": pa.float64(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "text": pa.string(), "varchar": pa.string(), "bpchar": pa.string(),
    "name": pa.string(), "uuid": pa.string(), "json": pa.string(), "jsonb": pa.string(),
}  # fmt: skip
"""What types are in Arrow, beside numeric."""


class _Postgres(DatabaseTable, PostgresFeed):
    """A table of PostgreSQL: see `postgres`."""

    def __init__(self, conninfo: str, table: str) -> None:
        super().__init__(table)
        self._conninfo, self._said = conninfo, table
        self._where = _without_secrets(conninfo, table)

    def __repr__(self) -> str:
        return f"postgres({self._where!r}, {self._said!r})"

    def shared(self) -> str:
        return f"postgres({self._where!r})"

    @contextlib.contextmanager
    def _begun(self) -> Iterator[Any]:
        with library_of("psycopg", "postgres").connect(self._conninfo) as connection:
            connection.execute(_SESSION)  # not as options, which the user may have given
            yield connection

    @contextlib.contextmanager
    def _errors(self, of: str = "") -> Iterator[None]:
        try:
            yield
        except library_of("psycopg", "postgres").Error as error:
            msg = f"{of or self}: {error}"
            raise ViewError(msg) from error

    def _fetch(self, connection: Any, query: str) -> pa.Table:
        from pyarrow import csv  # noqa: PLC0415 - slow to import

        columns = connection.execute(f"SELECT * FROM ({query}) AS q LIMIT 0").description  # noqa: S608 - our own
        types = {column.name: self._read_as(column) for column in columns}
        text = io.BytesIO()
        with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv)") as copy:
            for data in copy:
                text.write(data)
        if not text.tell():
            return pa.schema(types.items()).empty_table()
        block = min(text.tell(), 2**31 - 1)  # a row has to lie in one, or in two
        text.seek(0)
        with self._readable():
            return csv.read_csv(
                text,
                read_options=csv.ReadOptions(column_names=list(types), block_size=block),
                parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=csv.ConvertOptions(
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    true_values=["t"],
                    false_values=["f"],
                ),
            )

    def _read_as(self, column: Any) -> pa.DataType:
        kind, is_array = column.type_display.split("(")[0], column.type_display.endswith("[]")
        if kind == "numeric" and column.precision and column.scale >= 0 and not is_array:
            return pa.decimal128(column.precision, column.scale)
        if kind not in _READ or is_array:
            msg = f"{self}: the column {column.name!r} is of type {column.type_display}, which is not read: cast it"
            raise ViewError(msg)
        return _READ[kind]

    def _create(self, connection: Any, table: str, schema: pa.Schema, *, temporary: bool = False) -> None:
        columns = ", ".join(f"{quoted(f.name)} {self._type(f)}" for f in schema)
        connection.execute(f"CREATE {'TEMPORARY ' if temporary else ''}TABLE {table} ({columns})")

    def _type(self, field: pa.Field) -> str:
        if pa.types.is_decimal(field.type):
            return f"numeric({field.type.precision}, {field.type.scale})"
        found = [name for test, name in _TYPES if test(field.type)]
        if not found:
            msg = f"{self}: the column {field.name!r} is of type {field.type}, which it does not take: cast it"
            raise ViewError(msg)
        return found[0]

    def _load(self, connection: Any, table: str, rows: pa.Table) -> None:
        from pyarrow import csv  # noqa: PLC0415 - slow to import

        text = io.BytesIO()
        rows = rows.combine_chunks()  # of a table that begins with an empty chunk Arrow writes zeros
        csv.write_csv(rows, text, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
        names = ", ".join(map(quoted, rows.column_names))
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN (FORMAT csv)") as copy:
            copy.write(text.getvalue())

    def _prepare_merge(self, connection: Any, key: Sequence[str]) -> None:
        columns = ", ".join(map(quoted, key))
        name = hashlib.sha256(f"{self._table} {columns}".encode()).hexdigest()[:16]
        connection.execute(f"CREATE INDEX IF NOT EXISTS tidemill_{name} ON {self._table} ({columns})")


def _without_secrets(conninfo: str, table: str) -> str:
    """Return what can be written down of where a server is; `ViewError` where it does not say so."""
    library = library_of("psycopg", "postgres")
    secrets = {option.keyword.decode() for option in library.pq.Conninfo.get_defaults() if option.dispchar == b"*"}
    try:
        told = library.conninfo.conninfo_to_dict(conninfo)
    except library.Error:  # which repeats the text, passwords too
        msg = f"tm.postgres(..., {table!r}): not a conninfo: expected what psycopg takes, as 'host=db dbname=shop' or "
        msg += "'postgresql://user@db/shop', where % in a password is written %25"
        raise ViewError(msg) from None
    return str(library.conninfo.make_conninfo(**{k: v for k, v in told.items() if k not in secrets}))


def postgres(conninfo: str, table: str) -> _Postgres:
    """Return a table of PostgreSQL for `Views`, as a source read by what was committed, and as a sink.

    As a source it needs ``key=``, its primary key, and a server with ``wal_level=logical``: a refresh reads what
    logical replication has, from a publication and a slot that are made for it, and costs what changed. The server
    keeps what was not read: drop the slot (``tidemill_...``) of a job that is no more. Without these rights or
    settings, ``tm.snapshot(tm.postgres(...))`` compares all of it.

    As a sink its rows and the refresh's number, in the table ``tidemill_refreshes`` beside it, are put in one
    transaction, with those of all views in the database. Merging costs what changed, by an index on the key, which is
    made where there is none. That somebody else wrote to it is noticed where keys that changed are not there as they
    should. ``conninfo`` is what ``psycopg`` takes (passwords are not written down anywhere),
    ``table`` may be ``"schema.name"``. Needs: ``pip install 'tidemill[postgres]'``.
    """
    return _Postgres(conninfo, table)
