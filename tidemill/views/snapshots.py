"""A source of which only the present is known: each refresh compares what there is with what there was."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.renderer.embedded.whole_file import put_in_place
from tidemill.views.stores import Source, Version


class _Snapshot(Source):
    """What a function returns, or a file holds: see `snapshot`. Its versions are digests, of copies in a folder."""

    def __init__(self, read: Callable[[], Any] | str | os.PathLike[str]) -> None:
        self._given = read
        self._folder = Path()
        self._table: pa.Table | None = None
        """What was read to know the schema; the next refresh takes it."""
        self._fixable: pa.Table | None = None
        """What was read last."""

    def __repr__(self) -> str:
        given = getattr(self._given, "__name__", "...") if callable(self._given) else os.fspath(self._given)
        return f"snapshot({given})"

    def keep_in(self, folder: Path, _key: Sequence[str]) -> None:
        self._folder = folder

    def identity(self) -> str:
        return "a snapshot"  # whatever reads it, it is compared whole

    def schema(self) -> pa.Schema:
        return self._looked().schema

    def version(self, _last: Version | None, /) -> Version:
        table, self._table = self._looked(), None
        self._fixable = table
        return _digest(table)

    def fix(self, version: Version) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        if not self._copy(version).exists():
            assert self._fixable is not None
            self._folder.mkdir(parents=True, exist_ok=True)
            put_in_place(self._copy(version), functools.partial(pq.write_table, self._fixable))

    def changes(self, since: Version | None, until: Version) -> Iterator[tuple[pa.Table, int]]:
        for version, sign in ((since, -1), (until, 1)):
            if version is not None:
                if not self._copy(version).exists():
                    msg = f"{self}: its copy {self._copy(version)} is gone: read it anew with views.refresh(full=True)"
                    raise ViewError(msg)
                yield _read(self._copy(version)), sign

    def forget(self, until: Version) -> None:
        for path in self._folder.glob("*.parquet"):
            if path.stem != until:
                path.unlink()

    def _looked(self) -> pa.Table:
        """Return what is there, read once for the schema and the refresh that follows."""
        if self._table is None:
            self._table = self._now()
        return self._table

    def _now(self) -> pa.Table:
        if not callable(self._given):
            return _read(self._given)
        given = self._given()
        try:
            return pa.table(given.toArrow() if hasattr(given, "toArrow") else given).replace_schema_metadata()
        except (TypeError, pa.ArrowException) as error:
            msg = f"{self}: expected a table of Arrow, pandas, Polars, DuckDB or Spark ({error})"
            raise ViewError(msg) from error

    def _copy(self, version: Version) -> Path:
        return self._folder / f"{version}.parquet"


def _digest(table: pa.Table) -> str:
    """Return what tells a table from others, by its columns and rows in their order."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()[:32]


def _read(path: str | os.PathLike[str]) -> pa.Table:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    return pq.read_table(path).replace_schema_metadata()


def snapshot(read: Callable[[], Any] | str | os.PathLike[str]) -> Source:
    """Return a source for `Views` of which only the present is known: a function that returns a table, or a file.

    What it gives is any table that speaks Arrow (pandas, Polars, Arrow, DuckDB, Spark), or a Parquet file. Each refresh
    keeps a copy of it, and compares the next one with that.

    Cost: of each refresh in which it differs, all its rows.
    """
    return _Snapshot(read)
