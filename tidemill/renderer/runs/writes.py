"""Writes to inputs with a key, checked: rows to put in the place of those with their keys, and keys to delete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any

import attrs

from tidemill.boundary.rows import Batch, checked_batch, python_rows
from tidemill.boundary.tables import Source, as_table
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema

__all__ = ["Writes", "keys_of", "writes_of"]

Row = tuple[Any, ...]


@attrs.frozen(eq=False)
class Writes:
    """Checked writes in the order of the calls. Of those to one key at one time the last counts."""

    rows: Batch
    """Those that are put."""
    deleted: Batch
    """The keys of which the row is deleted."""
    puts: bool | list[bool]
    """Whether a row is put: by all of the writes, or by each."""
    times: Time | list[Time]

    def __len__(self) -> int:
        return len(self.rows) + len(self.deleted)

    def listed(self, key: tuple[int, ...]) -> Iterator[tuple[Time, Row, Row | None]]:
        """Give the time of each write, its key, and the row to put there; None to delete it."""
        rows, deleted = iter(python_rows(self.rows)), iter(python_rows(self.deleted))
        times = self.times if isinstance(self.times, list) else repeat(self.times, len(self))
        puts = self.puts if isinstance(self.puts, list) else repeat(self.puts, len(self))
        for time, is_put in zip(times, puts, strict=True):
            if is_put:
                row = next(rows)
                yield time, tuple([row[i] for i in key]), row
            else:
                yield time, next(deleted), None


def keys_of(node: Input) -> Schema:
    """Return the schema of an input's keys."""
    schema = node.schema
    return schema.project([schema.names[i] for i in node.key])


def writes_of(node: Input, rows: Any, time: Time, sign: int) -> Writes:
    """Return the writes that put rows, or with a negative sign delete by key; ``RowError`` if any row does not fit."""
    if sign > 0:
        batch = checked_batch(node.schema, rows, node.where)
        _check_keys(node, batch, node.key)
        return Writes(batch, [], True, time)
    deleted = _deleted(node, rows)
    _check_keys(node, deleted, tuple(range(len(node.key))))
    return Writes([], deleted, False, time)


def _deleted(node: Input, rows: Any) -> Batch:
    """Return the keys of rows of the key's columns alone, or of whole rows."""
    where, keys = node.where, keys_of(node)
    given = list(rows) if isinstance(rows, (list, tuple, set, frozenset)) or hasattr(rows, "__next__") else rows
    by_key = isinstance(given, list) and all(
        isinstance(r, (tuple, list, Mapping)) and len(r) == len(keys) for r in given
    )
    if by_key:
        return checked_batch(keys, given, where)
    if isinstance(given, Source):  # of files no more than the key is read
        return given.read(keys, where)
    table = None if isinstance(given, list) else as_table(node.schema, given, where)
    if table is not None and sorted(table.column_names) == sorted(keys.names):
        return checked_batch(keys, table, where)
    full = checked_batch(node.schema, given if table is None else table, where)
    if isinstance(full, list):
        return [tuple([row[i] for i in node.key]) for row in full]
    return full.select(list(node.key))


def _check_keys(node: Input, batch: Batch, places: tuple[int, ...]) -> None:
    """Refuse keys with a NULL; ``places`` are those of the key's columns in the batch."""
    if isinstance(batch, list):
        for bad in batch:
            if None in [bad[i] for i in places]:
                break
        else:
            return
    else:
        columns = [batch.column(i) for i in places if batch.column(i).null_count]
        if not columns:
            return
        at = int(columns[0].is_null().to_numpy().argmax())
        (bad,) = python_rows(batch.slice(at, 1))
    key = tuple([bad[i] for i in places])
    msg = f"{node.where}: key {key} has a NULL in it: the key columns must have values"
    raise RowError(msg)
