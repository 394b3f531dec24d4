"""What views are read from and written to: the interfaces of sources and sinks, and tables as both want them."""

from __future__ import annotations

import abc
import contextlib
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import ViewError
from tidemill.expressions.schema import Schema

Version: TypeAlias = Any
"""A state of a source, as JSON: a number, or the files that are there."""
CHANGE: Final = "_change"
"""The column that says whether a row came or went."""


def library_of(module: str, extra: str) -> Any:
    """Return a module of an extra's library; `ViewError` where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"tm.{extra} needs the library {module.partition('.')[0]}: pip install 'tidemill[{extra}]'"
        raise ViewError(msg) from error


class Source(abc.ABC):
    """A table whose states have versions."""

    needs_key = False
    """Whether its changes are told by a key."""

    @abc.abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns that it has now."""

    @abc.abstractmethod
    def version(self, last: Version | None, /) -> Version:
        """Return the version of what is there now; ``last`` is that of the refresh before."""

    @abc.abstractmethod
    def changes(self, since: Version | None, until: Version) -> Iterator[tuple[pa.Table, int]]:
        """Yield the rows that went (with -1) and came (+1) between two versions, in order."""

    def identity(self) -> str:
        """Return what tells the table from another one in its place."""
        return repr(self)

    def now(self, last: Version | None, /) -> tuple[str, Version]:
        """Return what `identity` and `version` do, by one look at the table."""
        return self.identity(), self.version(last)

    def fix(self, version: Version) -> None:  # noqa: B027 - most keep their versions themselves
        """Have a version that was there just now stay readable until the refresh is done."""

    def keep_in(self, folder: Path, key: Sequence[str]) -> None:  # noqa: B027 - as above
        """Keep in a folder, which need not be there, what the table itself does not keep; rows are told by the key."""

    def read_as(self, schema: Schema) -> None:  # noqa: B027 - most know the types of their columns themselves
        """Give rows as an input of this schema takes them."""

    def forget(self, until: Version) -> None:  # noqa: B027 - as above
        """Release what was kept of versions before one, which no refresh will ask for any more."""

    def rest(self, at: Version) -> None:  # noqa: B027 - as above
        """Take note that there is nothing after a version; another refresh may be under way meanwhile."""


class Sink(abc.ABC):
    """A table that a view is written to, with the number of the refresh that it is of."""

    ways: frozenset[str]
    """The ways in which it can be written, of merge, overwrite and changelog."""
    keeps_logs = True
    """Whether a changelog can be gone on with where its note is gone, such as with the snapshot that had it."""

    @abc.abstractmethod
    def refresh(self, owner: str) -> int | None:
        """Return the number of the refresh that was written last by a view, None where there is none."""

    @abc.abstractmethod
    def overwrite(self, rows: pa.Table, owner: str, number: int) -> None:
        """Put these rows in the place of all, with the number of the refresh, both or neither."""

    def shared(self) -> str:
        """Return what tells its database from others: the sinks of one are written in one transaction."""
        return repr(self)

    def refreshes(self, sinks: Sequence[Sink], owners: Sequence[str]) -> list[int | None]:
        """Return what `refresh` does, of sinks of this one's database."""
        return [sink.refresh(owner) for sink, owner in zip(sinks, owners, strict=True)]

    def at_hand(self) -> contextlib.AbstractContextManager[Any]:
        """Keep open what several transactions in turn need."""
        return contextlib.nullcontext()

    def together(self, sinks: Sequence[Sink]) -> contextlib.AbstractContextManager[Sequence[Sink]]:
        """Return sinks of this one's database as they are to be written: in one transaction, all of them or none."""
        return contextlib.nullcontext(sinks)

    def merge(self, changes: pa.Table, key: Sequence[str], owner: str, number: int) -> None:
        """Take rows, one of a key, with the number, both or neither. ``_change`` is insert, update, or delete."""
        raise NotImplementedError

    def append(self, changes: pa.Table, owner: str, number: int) -> None:
        """Add rows to a changelog, with the number of the refresh, both or neither."""
        raise NotImplementedError

    def rows(self) -> pa.Table:
        """Return what is in it, where that may be a changelog."""
        raise NotImplementedError

    def state(self) -> Any:
        """Return what tells the sink as it is now from what anybody else makes of it, as JSON; None if nothing does."""
        return None

    def require_own(self, state: Any) -> None:  # noqa: B027 - sinks that are overwritten whole do not ask
        """`ViewError` where somebody else has written since the sink had a state."""

    def seconds(self, way: str, rows: int, changed: int) -> float:
        """Return about how long a way takes on a usual disk, before any was measured."""
        return 0.05 + 1.5e-6 * (changed if way == "changelog" else rows)


def plain(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Return the columns of a schema, zoned moments in UTC; `ViewError` naming a column that is gone.

    Without a zone, where the schema says so.
    """
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            msg = (
                f"{where} has no column {field.name!r} any more: it has {', '.join(table.column_names)}; declare the "
                "source as it is now, and views.refresh(full=True)"
            )
            raise ViewError(msg)
        column = table[field.name]
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            column = pc.cast(column, pa.timestamp(column.type.unit, "UTC"))
            if pa.types.is_timestamp(field.type) and field.type.tz is None:
                column = pc.cast(column, pa.timestamp(column.type.unit))
        columns.append(column)
    return pa.Table.from_arrays(columns, names=schema.names)
