"""Tables of Delta Lake, by the library ``deltalake``: a source with versions, and a sink with transactions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import ViewError
from tidemill.views.stores import Sink, Source, Version, library_of

_UPKEEP: Final = ("OPTIMIZE", "VACUUM", "REORG", "FSCK")
"""Operations that leave a table's rows as they are."""
_FEED: Final = "delta.enableChangeDataFeed"
_TAKEN: Final = ["delete", "update_preimage"]
_PUT: Final = ["insert", "update_postimage"]


class _Delta(Source, Sink):
    """A table of Delta Lake: see `delta`."""

    ways = frozenset({"merge", "overwrite", "changelog"})

    def __init__(self, path: str | os.PathLike[str], storage_options: dict[str, str] | None) -> None:
        self._path = os.fspath(path)
        self._options = storage_options

    def __repr__(self) -> str:
        return f"delta({self._path!r})"

    # -- as a source --------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return self.now(None)[0]

    def schema(self) -> pa.Schema:
        return pa.schema(self._table().schema().to_arrow())

    def version(self, _last: Version | None, /) -> Version:
        return self.now(None)[1]

    def now(self, _last: Version | None, /) -> tuple[str, Version]:
        table = self._table()
        return f"{self!r} {table.metadata().id}", table.version()

    def changes(self, since: Version | None, until: Version) -> Iterator[tuple[pa.Table, int]]:
        if since is None:
            yield _rows(self._table(until)), 1
            return
        if until < since:
            msg = (
                f"{self} is at version {until}, and was read up to {since}: it was restored or made anew; read "
                "all of it with views.refresh(full=True)"
            )
            raise ViewError(msg)
        table = self._table(until)
        try:
            if table.metadata().configuration.get(_FEED) == "true":
                yield from self._fed(table, since, until)
            else:
                yield from self._between(table, since)
        except OSError as error:
            raise self._gone(since, until, error) from error

    def _fed(self, table: Any, since: int, until: int) -> Iterator[tuple[pa.Table, int]]:
        """Yield the rows of the change feed, version by version: of one key the last one counts."""
        try:
            feed = _usual(pa.table(table.load_cdf(starting_version=since + 1, ending_version=until)))
        except Exception as error:  # the library's own, which are of no common kind
            raise self._gone(since, until, error) from error
        kinds = feed["_change_type"]
        for version in sorted(pc.unique(feed["_commit_version"]).to_pylist()):
            of_it = pc.equal(feed["_commit_version"], version)
            for names, diff in ((_TAKEN, -1), (_PUT, 1)):
                rows = feed.filter(pc.and_(of_it, pc.is_in(kinds, pa.array(names))))
                if rows.num_rows:
                    yield rows.drop_columns(["_change_type", "_commit_version", "_commit_timestamp"]), diff

    def _between(self, table: Any, since: int) -> Iterator[tuple[pa.Table, int]]:
        """Yield rows of files that went and that came, or all where some are marked: there is no change feed."""
        tables = self._table(since), table
        if any(map(_is_marked, tables)):
            yield from ((_rows(table), diff) for table, diff in zip(tables, (-1, 1), strict=True))
            return
        before, now = ({f.path: f for f in table.to_pyarrow_dataset().get_fragments()} for table in tables)
        schema = pa.schema(table.schema().to_arrow())
        for fragments, others, diff in ((before, now, -1), (now, before, 1)):
            for path in sorted(fragments.keys() - others.keys()):
                yield fragments[path].to_table(schema=schema), diff

    def _gone(self, since: int, until: int, error: Exception) -> ViewError:
        return ViewError(
            f"{self}: what changed from version {since} to {until} cannot be read any more ({error}): it was vacuumed, "
            "or has no change feed for all of it; read the table anew with views.refresh(full=True)"
        )

    # -- as a sink ----------------------------------------------------------------------------------------------------

    def refresh(self, owner: str) -> int | None:
        number: int | None = self._table().transaction_version(owner) if self._is_there() else None
        return number

    def overwrite(self, rows: pa.Table, owner: str, number: int) -> None:
        self._write(rows, "overwrite", owner, number, schema_mode="overwrite")

    def append(self, changes: pa.Table, owner: str, number: int) -> None:
        self._write(changes, "append", owner, number)

    def merge(self, changes: pa.Table, key: Sequence[str], owner: str, number: int) -> None:
        names = [n for n in changes.column_names if n != "_change"]
        same = " AND ".join(f't."{k}" = s."{k}"' for k in key)
        values = {f'"{n}"': f's."{n}"' for n in names}
        merging = self._table().merge(
            changes, same, source_alias="s", target_alias="t", commit_properties=_transaction(owner, number)
        )
        merging = merging.when_matched_delete("s._change = 'delete'").when_matched_update(values)
        merging.when_not_matched_insert(values, predicate="s._change <> 'delete'").execute()

    def rows(self) -> pa.Table:
        return _rows(self._table())

    def state(self) -> Any:
        return self._table().version() if self._is_there() else None

    def require_own(self, state: Any) -> None:
        now = self.state()
        if state is None or now is None or now <= state:
            return
        since = [entry for entry in self._table().history(now - state) if entry.get("version", now) > state]
        foreign = [e["operation"] for e in since if not e["operation"].startswith(_UPKEEP)]
        if foreign:
            msg = (
                f"{self}: somebody else wrote to it since version {state} ({', '.join(foreign)}): write it anew with "
                "views.refresh(full=[...]), naming the view, or give the view a table of its own"
            )
            raise ViewError(msg)

    def seconds(self, way: str, rows: int, changed: int) -> float:
        """Measured: a merge reads and writes every file that has one of the keys, which are all where they scatter."""
        return 0.05 + (5e-6 * rows if way == "merge" else super().seconds(way, rows, changed))

    def _write(self, rows: pa.Table, mode: Any, owner: str, number: int, **options: Any) -> None:
        library_of("deltalake", "delta").write_deltalake(
            self._path,
            rows,
            mode=mode,
            storage_options=self._options,
            commit_properties=_transaction(owner, number),
            **options,
        )

    def _is_there(self) -> bool:
        found: bool = library_of("deltalake", "delta").DeltaTable.is_deltatable(self._path, self._options)
        return found

    def _table(self, version: int | None = None) -> Any:
        library = library_of("deltalake", "delta")
        try:
            return library.DeltaTable(self._path, version=version, storage_options=self._options)
        except library.exceptions.TableNotFoundError as error:
            msg = f"{self}: there is no such table"
            raise ViewError(msg) from error


def _rows(table: Any) -> pa.Table:
    """Return what is in a table; what the library gives as a dataset knows no rows that are marked as gone."""
    return _usual(pa.table(table.scan()) if _is_marked(table) else table.to_pyarrow_table())


def _is_marked(table: Any) -> bool:
    """Return whether rows of a table may be marked as gone, by deletion vectors."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def _usual(table: pa.Table) -> pa.Table:
    """Return a table without views of strings, which Arrow's own functions do not take."""
    types = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    schema = pa.schema([f.with_type(types.get(f.type, f.type)) for f in table.schema])
    return table.cast(schema)


def _transaction(owner: str, number: int) -> Any:
    library = library_of("deltalake", "delta")
    return library.CommitProperties(app_transactions=[library.Transaction(owner, number)])


def delta(path: str | os.PathLike[str], *, storage_options: dict[str, str] | None = None) -> _Delta:
    """Return a table of Delta Lake for `Views`: as a source read by versions, as a sink written with transactions.

    As a source a table with a change feed (``delta.enableChangeDataFeed``) costs the rows that changed; one without
    costs the files that changed. Moments with a zone, Delta's TIMESTAMP, are of type ``timestamptz``, and so written.
    As a sink, each refresh is one commit, with its number as an application transaction, so that none is written twice.
    ``path`` and ``storage_options`` are what ``deltalake`` takes. Needs it: ``pip install 'tidemill[delta]'``.
    """
    return _Delta(path, storage_options)
