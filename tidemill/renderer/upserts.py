"""Inputs with a key: the last write in an epoch wins, and becomes the difference from what was there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidemill.collections.schema import Schema
from tidemill.collections.tables import Source, as_table
from tidemill.collections.validation import checked_batch, python_rows
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input
from tidemill.errors import RowError, TimeError

if TYPE_CHECKING:
    from tidemill.renderer.run import Queued

__all__ = ["Upserts"]

Row = tuple[Any, ...]


class Upserts:
    """The current row of each key of an input, and the writes of times not closed yet.

    Needs times of one coordinate: of two writes at incomparable times neither is the last.
    """

    def __init__(self, node: Input) -> None:
        self._node = node
        self.schema: Schema = node.schema
        self.keys = self.schema.project([self.schema.names[i] for i in node.key])
        self._rows: dict[Row, Row] = {}
        self._writes: dict[Time, dict[Row, Row | None]] = {}
        self._resolved: tuple[list[Time], dict[Row, Row | None]] = ([], {})

    def put(self, rows: Any, time: Time, sign: int) -> None:
        """Write rows, or with a negative sign delete by key, at a time; refused whole if any row does not fit."""
        writes: list[tuple[Row, Row | None]]
        if sign > 0:
            writes = [(self._key(row), row) for row in python_rows(checked_batch(self.schema, rows, self._node.where))]
        else:
            writes = [(key, None) for key in self._deleted_keys(rows)]
        for key, _ in writes:
            if any(k is None for k in key):
                msg = f"{self._node.where}: key {key} has a NULL in it: the key columns must have values"
                raise RowError(msg)
        self.write([(time, key, row) for key, row in writes])

    def write(self, writes: list[tuple[Time, Row, Row | None]]) -> None:
        """Take checked writes: time, key, and the row to put there or None to delete. Of one key the last stays."""
        for time, _, _ in writes:
            if len(time) != 1:
                msg = f"{self._node.where} has a key, which needs times of one coordinate: {time} has {len(time)}"
                raise TimeError(msg)
        for time, key, row in writes:
            self._writes.setdefault(time, {})[key] = row

    def resolve(self, frontier: Antichain) -> Queued | None:
        """Return the differences that the writes of the times now closing make; kept only when `commit` follows."""
        from tidemill.renderer.run import Queued  # noqa: PLC0415 - a run is made of upserts

        times = sorted(t for t in self._writes if not frontier.beyond(t))
        changed: dict[Row, Row | None] = {}
        rows: list[Row] = []
        at: list[Time] = []
        diffs: list[int] = []
        for time in times:
            for key, row in self._writes[time].items():
                old = changed[key] if key in changed else self._rows.get(key)
                if old == row:
                    continue
                for one, diff in ((old, -1), (row, 1)):
                    if one is not None:
                        rows.append(one)
                        at.append(time)
                        diffs.append(diff)
                changed[key] = row
        self._resolved = (times, changed)
        return Queued(rows, at, diffs) if rows else None

    def commit(self) -> None:
        """Make what was last resolved the current rows: the step was taken."""
        times, changed = self._resolved
        for time in times:
            del self._writes[time]
        for key, row in changed.items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        self._resolved = ([], {})

    def discard(self) -> None:
        """Forget the writes of times not closed yet."""
        self._writes.clear()
        self._resolved = ([], {})

    def waiting(self) -> dict[Time, dict[Row, Row | None]]:
        """Return a copy of the writes of times not closed yet."""
        return {time: dict(of_time) for time, of_time in self._writes.items()}

    def put_back(self, waiting: dict[Time, dict[Row, Row | None]]) -> None:
        """Have these writes wait, and no others."""
        self._writes = waiting
        self._resolved = ([], {})

    def everything(self, *, after: bool = False) -> tuple[list[Row], list[tuple[Time, Row, Row | None]]]:
        """Return the current rows, and the writes that wait as time, key and row (None to delete).

        With ``after``, as they are when what was last resolved is committed.
        """
        closed, changed = self._resolved if after else ([], {})
        rows = {**self._rows, **changed} if changed else self._rows
        waiting = {time: of_time for time, of_time in self._writes.items() if time not in closed}
        writes = [(time, key, row) for time, of_time in waiting.items() for key, row in of_time.items()]
        return [row for row in rows.values() if row is not None], writes

    def refill(self, rows: list[Row], writes: Iterable[tuple[Time, Row, Row | None]]) -> None:
        """Hold these current rows and waiting writes, and no others."""
        self._rows = {self._key(row): row for row in rows}
        self._writes = {}
        for time, key, row in writes:
            self._writes.setdefault(time, {})[key] = row

    def _key(self, row: Row) -> Row:
        return tuple([row[i] for i in self._node.key])

    def _deleted_keys(self, rows: Any) -> list[Row]:
        where = self._node.where
        given = list(rows) if isinstance(rows, (list, tuple, set, frozenset)) or hasattr(rows, "__next__") else rows
        by_key = isinstance(given, list) and all(
            isinstance(r, (tuple, list, Mapping)) and len(r) == len(self.keys) for r in given
        )
        if by_key:
            return python_rows(checked_batch(self.keys, given, where))
        if isinstance(given, Source):  # of files no more than the key is read
            return python_rows(given.read(self.keys, where))
        table = None if isinstance(given, list) else as_table(self.schema, given, where)
        if table is not None and sorted(table.column_names) == sorted(self.keys.names):
            return python_rows(checked_batch(self.keys, table, where))
        full = checked_batch(self.schema, given if table is None else table, where)
        return [self._key(row) for row in python_rows(full)]
