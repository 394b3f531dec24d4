"""Tables of Iceberg, by the library ``pyiceberg``: sources with snapshots; sinks whose snapshots say the refresh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.views.stores import Sink, Source, Version, library_of

_OWNER: Final = "tidemill.owner"
_REFRESH: Final = "tidemill.refresh"
_EMPTY: Final = 0
"""The version of a table without snapshots."""


class _Iceberg(Source, Sink):
    """A table of Iceberg: see `iceberg`."""

    ways = frozenset({"overwrite", "changelog"})

    def __init__(self, table: str, catalog: str, properties: Mapping[str, str]) -> None:
        self._name, self._catalog, self._properties = table, catalog, properties
        if not all(table.rpartition(".")[::2]):
            msg = f"{self}: expected a name with that of its namespace, such as 'shop.orders'"
            raise ViewError(msg)

    def __repr__(self) -> str:
        return f"iceberg({self._name!r}, catalog={self._catalog!r})"  # properties have passwords

    # -- as a source --------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return f"{self!r} {self._there().metadata.table_uuid}"

    def schema(self) -> pa.Schema:
        return _without_metadata(self._there().schema().as_arrow())

    def version(self, _last: Version | None, /) -> Version:
        snapshot = self._there().current_snapshot()
        return _EMPTY if snapshot is None else snapshot.snapshot_id

    def changes(self, since: Version | None, until: Version) -> Iterator[tuple[pa.Table, int]]:
        table = self._there()
        if since not in {None, _EMPTY} and since not in _ancestors(table, until):
            msg = (
                f"{self}: what changed since snapshot {since} cannot be read any more: it was rolled back, or its "
                "snapshots have expired; read the table anew with views.refresh(full=True)"
            )
            raise ViewError(msg)
        before, now = _files(table, since or _EMPTY), _files(table, until)
        for files, others, diff in ((before, now, -1), (now, before, 1)):
            for key in sorted(files.keys() - others.keys()):
                yield _read(table, files[key]), diff

    # -- as a sink ----------------------------------------------------------------------------------------------------

    def refresh(self, owner: str) -> int | None:
        table = self._found()
        for snapshot in [] if table is None else _snapshots(table):
            said = snapshot.summary.additional_properties
            if said.get(_OWNER) == owner:
                return int(said[_REFRESH])
        return None

    def overwrite(self, rows: pa.Table, owner: str, number: int) -> None:
        table = self._found()
        if table is None:
            catalog = self._opened()
            catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
            table = catalog.create_table(self._name, schema=rows.schema)
        if table.schema().as_arrow().names != rows.column_names:
            msg = (
                f"{self} has the columns {', '.join(table.schema().as_arrow().names)}, and the view "
                f"{', '.join(rows.column_names)}: give it another table, or drop this one"
            )
            raise ViewError(msg)
        try:
            table.overwrite(rows, snapshot_properties=_said(owner, number))
        except ValueError as error:  # of columns of other types
            msg = f"{self} does not take the view: {error}\ngive it another table, or drop this one"
            raise ViewError(msg) from error

    def append(self, changes: pa.Table, owner: str, number: int) -> None:
        self._there().append(changes, snapshot_properties=_said(owner, number))

    def rows(self) -> pa.Table:
        table = self._there().scan().to_arrow()
        return table.cast(_without_metadata(table.schema))

    def state(self) -> Any:
        return None if self._found() is None else self.version(None)

    def require_own(self, state: Any) -> None:
        table = self._found()
        if table is None or state is None:
            return
        since = []
        for snapshot in _snapshots(table):
            if snapshot.snapshot_id == state:
                break
            since.append(snapshot.summary.operation.value)
        foreign = [operation for operation in since if operation != "replace"]  # what compaction does
        if foreign or (state != _EMPTY and state not in _ancestors(table, self.version(None))):
            msg = (
                f"{self}: somebody else wrote to it since snapshot {state} ({', '.join(foreign) or 'rolled back'}): "
                "write it anew with views.refresh(full=[...]), naming the view, or give the view a table of its own"
            )
            raise ViewError(msg)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _opened(self) -> Any:
        load_catalog = library_of("pyiceberg.catalog", "iceberg").load_catalog
        return load_catalog(self._catalog, **self._properties)

    def _found(self) -> Any:
        catalog = self._opened()
        return catalog.load_table(self._name) if catalog.table_exists(self._name) else None

    def _there(self) -> Any:
        table = self._found()
        if table is None:
            msg = f"{self}: there is no such table"
            raise ViewError(msg)
        return table


def _said(owner: str, number: int) -> dict[str, str]:
    return {_OWNER: owner, _REFRESH: str(number)}


def _snapshots(table: Any) -> Iterator[Any]:
    """Yield the snapshots that led to the current one, that one first."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        snapshot = None if snapshot.parent_snapshot_id is None else table.snapshot_by_id(snapshot.parent_snapshot_id)


def _ancestors(table: Any, until: int) -> set[int]:
    """Return a snapshot and those that led to it, as far as they are kept."""
    found: set[int] = set()
    snapshot = table.snapshot_by_id(until)
    while snapshot is not None:
        found.add(snapshot.snapshot_id)
        snapshot = None if snapshot.parent_snapshot_id is None else table.snapshot_by_id(snapshot.parent_snapshot_id)
    return found


def _files(table: Any, snapshot: int) -> dict[tuple[str, ...], Any]:
    """Return the files of a snapshot: of each its name, and those of what is deleted from it."""
    if snapshot == _EMPTY:
        return {}
    tasks = table.scan(snapshot_id=snapshot).plan_files()
    return {(task.file.file_path, *sorted(file.file_path for file in task.delete_files)): task for task in tasks}


def _read(table: Any, task: Any) -> pa.Table:
    """Return the rows of a file that are not deleted, with the columns that the table has now."""
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - an extra
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - an extra

    found = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])
    return found.cast(_without_metadata(found.schema))


def _without_metadata(schema: pa.Schema) -> pa.Schema:
    """Return a schema of plain strings, without the numbers of its columns."""
    plain = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return pa.schema([pa.field(f.name, plain.get(f.type, f.type)) for f in schema])


def iceberg(table: str, *, catalog: str = "default", **properties: str) -> _Iceberg:
    """Return a table of Iceberg for `Views`: as a source read by snapshots, as a sink written with one for a refresh.

    As a source it costs the files that came and went, deletions within files included. As a sink it is overwritten, or
    a changelog; the refresh's number is in the summary of its snapshot. ``catalog`` and ``properties`` are what
    ``pyiceberg`` takes, ``table`` is ``"namespace.table"``. Needs: ``pip install 'tidemill[iceberg]'``.
    """
    return _Iceberg(table, catalog, properties)
