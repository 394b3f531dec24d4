"""Checked changes on their way to an input: updates; for one with a key, rows to put there and keys to delete.

An input with a key may be emptied, too: of all writes at that time those before count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Protocol

import attrs

from tidemill.boundary.rows import Batch, checked_batch, checked_rows, listed_rows, python_rows
from tidemill.boundary.tables import Source, as_table, checked_table
from tidemill.boundary.values import field_names
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input
from tidemill.errors import RowError, brief
from tidemill.expressions.schema import Schema


class Change(Protocol):
    """Something checked that is queued at an input: `Queued`, `Writes`, or what an engine has of its own."""

    def __len__(self) -> int: ...


@attrs.frozen
class Queued:
    """Checked updates to an input: one time and diff for all rows, or one for each."""

    batch: Batch
    times: Time | list[Time]
    diffs: int | list[int]

    def __len__(self) -> int:
        return len(self.batch)

    def listed(self) -> Iterator[tuple[Row, Time, int]]:
        """Give the updates one by one."""
        times = self.times if isinstance(self.times, list) else repeat(self.times, len(self))
        diffs = self.diffs if isinstance(self.diffs, list) else repeat(self.diffs, len(self))
        return zip(python_rows(self.batch), times, diffs, strict=True)


Row = tuple[Any, ...]
DELETE, PUT, EMPTY = range(3)
"""Kinds of writes."""


@attrs.frozen(eq=False)
class Writes:
    """Checked writes in the order of the calls. Of those to one key at one time the last counts."""

    rows: Batch
    """Those that are put."""
    deleted: Batch
    """The keys of which the row is deleted."""
    kinds: int | list[int]
    """What all of the writes do, or each."""
    times: Time | list[Time]

    def __len__(self) -> int:
        return len(self.kinds) if isinstance(self.kinds, list) else len(self.rows) + len(self.deleted)

    def listed(self, key: tuple[int, ...]) -> Iterator[tuple[Time, Row | None, Row | None]]:
        """Give the time of each write, its key, or None for all keys, and the row to put there; None to delete."""
        rows, deleted = iter(python_rows(self.rows)), iter(python_rows(self.deleted))
        times = self.times if isinstance(self.times, list) else repeat(self.times, len(self))
        kinds = self.kinds if isinstance(self.kinds, list) else repeat(self.kinds, len(self))
        for time, kind in zip(times, kinds, strict=True):
            if kind == PUT:
                row = next(rows)
                yield time, tuple([row[i] for i in key]), row
            else:
                yield time, next(deleted) if kind == DELETE else None, None


def keys_of(node: Input) -> Schema:
    """Return the schema of an input's keys."""
    schema = node.schema
    return schema.project([schema.names[i] for i in node.key])


def writes_of(node: Input, rows: Any, time: Time, sign: int) -> Writes:
    """Return the writes that put rows, or with a negative sign delete by key; ``RowError`` if any row does not fit."""
    if sign > 0:
        return Writes(checked_puts(node, rows), [], PUT, time)
    return Writes([], _checked_deleted(node, rows), DELETE, time)


def checked_puts(node: Input, rows: Any, first: int = 0) -> Batch:
    """Return rows to put into an input, checked, and their keys where it has one; the first has a number in errors."""
    batch = checked_batch(node.schema, rows, node.where, first=first)
    if node.key:
        _check_keys(node, batch, node.key, first=first)
    return batch


def each_deleted(node: Input, rows: Any, first: int = 0) -> Batch:
    """Return the keys to delete, as `writes_of` does, each row of a list being a key or a whole row on its own."""
    if not isinstance(rows, list):
        return _checked_deleted(node, rows, first)
    return [key for number, row in enumerate(rows, first) for key in python_rows(_checked_deleted(node, [row], number))]


def _checked_deleted(node: Input, rows: Any, first: int = 0) -> Batch:
    deleted = _deleted(node, rows, first)
    _check_keys(node, deleted, tuple(range(len(node.key))), first=first)
    return deleted


def _deleted(node: Input, rows: Any, first: int) -> Batch:
    """Return the keys of rows of the key's columns alone, or of whole rows."""
    where, keys = node.where, keys_of(node)
    if isinstance(rows, Source):  # of files no more than the key is read
        return rows.read(keys, where)
    table = as_table(node.schema, rows, where)
    if table is not None:
        if sorted(table.column_names) == sorted(keys.names):
            return checked_table(keys, table, where)
        return checked_table(node.schema, table, where).select(list(node.key))
    given = listed_rows(rows, where)
    if all(_is_key(row, keys) for row in given):
        return checked_rows(keys, given, where, first=first)
    return [tuple([row[i] for i in node.key]) for row in checked_rows(node.schema, given, where, first=first)]


def _is_key(row: Any, keys: Schema) -> bool:
    """Return whether a row has as many values as a key, whatever they are and are called."""
    names = field_names(row)
    if names is not None:
        return len(names) == len(keys)
    return isinstance(row, (tuple, list)) and len(row) == len(keys)


def _check_keys(node: Input, batch: Batch, places: tuple[int, ...], *, first: int = 0) -> None:
    """Refuse keys with a NULL; ``places`` are those of the key's columns in the batch, whose first row has a number."""
    if isinstance(batch, list):
        wrong = [n for n, row in enumerate(batch) if None in [row[i] for i in places]]
        if not wrong:
            return
        at, bad = wrong[0], batch[wrong[0]]
    else:
        columns = [batch.column(i) for i in places if batch.column(i).null_count]
        if not columns:
            return
        at = int(columns[0].is_null().to_numpy().argmax())
        (bad,) = python_rows(batch.slice(at, 1))
    key = tuple([bad[i] for i in places])
    msg = f"{node.where}: key {brief(key)} has a NULL in it: the key columns must have values"
    raise RowError(msg).about(row=bad, row_index=first + at)
