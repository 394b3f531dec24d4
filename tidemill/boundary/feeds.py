"""Change feeds: rows that each say whether they insert, update or delete the row of a key."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Never, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.boundary.arrow_arrays import int64_array, numbers_of, text_array
from tidemill.boundary.list_columns import list_ranks
from tidemill.boundary.rows import checked_rows, listed_rows, python_rows
from tidemill.boundary.tables import Source, as_table, checked_table
from tidemill.boundary.values import as_dict, field_names
from tidemill.dataflow.lattice import Antichain
from tidemill.errors import RowError, SchemaError, brief
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64, STRING, is_arrow_nested

OPS: Final[dict[str, bool]] = {
    **dict.fromkeys(("insert", "i", "update", "u", "create", "c", "read", "r", "upsert"), True),
    **dict.fromkeys(("delete", "d"), False),
}
"""Whether a row is put or deleted, by what its operation is called, in whatever case: Debezium's letters too."""

EMPTYING: Final = ("truncate", "t")
"""What an operation is called that takes all rows."""
NO_OPERATION: Final = "is not an operation: expected insert, update or delete, or their first letters"

Ints: TypeAlias = "npt.NDArray[np.int64]"
Row: TypeAlias = tuple[Any, ...]


@attrs.frozen
class Write:
    """A row put in the place of that with its key, or with no row the key deleted, or with no key all rows.

    ``time`` where the feed has one.
    """

    key: tuple[Any, ...] | None
    row: tuple[Any, ...] | None
    time: Any


@attrs.frozen
class Feed:
    """What a feed for an input is made of: the input's columns and key, one for the operation, one for times if named.

    Deletions need the key's columns only; of the others they may have anything that fits, or NULL.
    """

    schema: Schema
    key: tuple[int, ...]
    op: str
    time: str | None

    def writes(self, feed: Any, where: str) -> list[Write]:
        """Return what the rows of a feed do, in its order; `RowError` naming the row where one does not fit."""
        self.check(where)
        return [self._write(row, number, where) for number, row in enumerate(self._rows(feed, where))]

    def check(self, where: str) -> None:
        """Refuse names of a feed's own columns that are the input's."""
        if clash := [n for n in (self.op, self.time) if n in self.schema]:
            msg = f"{where}: {clash[0]!r} is a column of the input: call the feed's another name, and say op= or time="
            raise SchemaError(msg)

    @property
    def _columns(self) -> Schema:
        relaxed = [attrs.evolve(f, nullable=True) for f in self.schema]
        times = [] if self.time is None else [Field(self.time, INT64, nullable=False)]
        return Schema((*relaxed, Field(self.op, STRING), *times))

    def _rows(self, feed: Any, where: str) -> list[tuple[Any, ...]]:
        columns = self._columns
        if isinstance(feed, Source):
            return python_rows(feed.read(columns, where))
        table = as_table(columns, feed, where)
        if table is not None:
            return python_rows(checked_table(columns, table, where))
        return checked_rows(columns, [self._completed(columns, row) for row in listed_rows(feed, where)], where)

    def _completed(self, columns: Schema, row: Any) -> Any:
        """Return what takes rows, its columns said by name, with NULL for those left out; any other row as it is."""
        names = field_names(row)
        if names is None or self.op not in names or set(columns.names) <= set(names):
            return row
        values = as_dict(row, names)
        said = values[self.op]
        word = said.lower() if isinstance(said, str) else ""
        own = columns.names[: len(self.schema)]
        if word in EMPTYING:
            return {**dict.fromkeys(own), **values}
        others = [n for i, n in enumerate(own) if i not in self.key]
        return {**dict.fromkeys(others), **values} if OPS.get(word) is False else row

    def _write(self, row: tuple[Any, ...], number: int, where: str) -> Write:
        def refused(what: str, column: str) -> RowError:
            return RowError(f"{where}, row {number}: {what}").about(row=row, row_index=number, column=column)

        width = len(self.schema)
        values, op, time = row[:width], row[width], row[-1] if self.time else None
        if op is not None and op.lower() in EMPTYING:
            if any(value is not None for value in values):
                what = f"{op} of {values}: it takes all rows, so that its columns are NULL"
                raise refused(what, self.op)
            return Write(None, None, time)
        puts = OPS.get(op.lower()) if op is not None else None
        if puts is None:
            what = f"{brief(op)} {NO_OPERATION}"
            raise refused(what, self.op)
        for i, (value, field) in enumerate(zip(values, self.schema, strict=True)):
            if value is None and i in self.key:
                what = f"{op} of {values}: {field.name!r} is NULL: the key columns must have values"
                raise refused(what, field.name)
            if value is None and puts and not field.nullable:
                what = f"{op} of {values}: column {field} is NULL: nulls are not allowed here"
                raise refused(what, field.name)
        return Write(tuple([values[i] for i in self.key]), values if puts else None, time)


@attrs.frozen(eq=False)
class Keyed:
    """Rows of updates, sorted by time and row, with the columns that are to tell them apart."""

    schema: Schema
    table: pa.Table
    key: Sequence[str]

    def feed(self, times: Ints, diffs: Ints, names: Sequence[str]) -> pa.Table:
        """Return a row for each key and time, with its time and an operation, in columns of these names."""
        before, after = self.pairs(times, diffs)
        at = np.where(after < 0, before, after)
        ops = np.where(after < 0, "delete", np.where(before < 0, "insert", "update"))
        return self.rows(at, times, ops, names)

    def images(self, times: Ints, diffs: Ints, names: Sequence[str]) -> pa.Table:
        """Return the rows that went and came as Delta's change feed has them, its kind and time in these columns."""
        before, after = self.pairs(times, diffs)
        both = (before >= 0) & (after >= 0)
        at = np.stack([before, after], axis=1).reshape(-1)
        kinds = np.where(both, "update_preimage", "delete"), np.where(both, "update_postimage", "insert")
        there = at >= 0
        return self.rows(at[there], times, np.stack(kinds, axis=1).reshape(-1)[there], names)

    def rows(self, at: Ints, times: Ints, ops: Any, names: Sequence[str]) -> pa.Table:
        """Return rows with their times and an operation, in columns of these names behind theirs."""
        clash = [n for n in names if n in self.schema]
        if clash or len(set(names)) < len(names):
            columns = [*self.schema.names, *names]
            msg = f"columns {columns} clash: rename them with time= and op=, or rename the output's columns"
            raise SchemaError(msg)
        added = [*(int64_array(t[at]) for t in times), text_array(ops.tolist())]
        return pa.table([*self.table.take(int64_array(at)).columns, *added], names=[*self.schema.names, *names])

    def pairs(self, times: Ints, diffs: Ints) -> tuple[Ints, Ints]:
        """Return for each key and time the places of the row that went and of that which came; -1 for none."""
        size = len(diffs)
        self._require_values()
        of_key = _numbered([_codes(self.table.column(self.schema.index(k))) for k in self.key], size)
        groups = _numbered([*times, of_key], size)
        count = int(groups.max(initial=-1)) + 1
        went, came = np.full(count, -1), np.full(count, -1)
        for found, some, how_many in ((went, diffs < 0, -diffs), (came, diffs > 0, diffs)):
            many = np.bincount(groups[some], how_many[some], count) > 1
            if many.any():
                (row,) = python_rows(self.table.slice(int(many[groups].argmax()), 1))
                self.refuse(row, "has several rows at one time")
            found[groups[some]] = np.flatnonzero(some)
        order = np.argsort(np.where(came < 0, went, came))
        return went[order], came[order]

    def _require_values(self) -> None:
        """Refuse NULL in keys, as inputs with a key do."""
        for name in self.key:
            column = self.table.column(self.schema.index(name))
            if column.null_count:
                (row,) = python_rows(self.table.slice(column.is_null().index(True).as_py(), 1))
                key = f"key ({', '.join(self.key)}) = {brief(self.key_of(row))}"
                msg = f"{key} has a NULL in it, such as {brief(row)}: no row of a feed is known by it; filter these out"
                raise RowError(msg).about(row=row, column=name)

    def follow(self, time: Ints, diffs: Ints, before: Mapping[Row, Row], changed: dict[Row, Row | None]) -> None:
        """Go through the updates in order and note in ``changed`` which row each key has then.

        To begin with it has that of ``changed``, else of ``before``. `RowError` for a row that comes while another with
        its key is there, or goes when it is not there.
        """
        rows, comes, wrong = python_rows(self.table), (diffs > 0).tolist(), dict[Row, Row]()
        for i in np.lexsort((diffs > 0, time)).tolist():
            row = rows[i]
            key = self.key_of(row)
            there = changed[key] if key in changed else before.get(key)
            if there != (None if comes[i] else row):
                wrong[key] = row
            changed[key] = row if comes[i] else None
        for row in wrong.values():
            self.refuse(row, "has several rows, or negative ones, from one time to the next")

    def before(self, diffs: Ints, after: Mapping[Row, int]) -> dict[Row, Row]:
        """Return the row that each key had, given what there is after the updates."""
        counts = Counter(after)
        for row, diff in zip(python_rows(self.table), diffs.tolist(), strict=True):
            counts[row] -= diff
        found: dict[Row, Row] = {}
        for row, count in counts.items():
            if count and (count != 1 or found.setdefault(self.key_of(row), row) is not row):
                self.refuse(row, "has several rows, or negative ones, before these changes")
        return found

    def key_of(self, row: Row) -> Row:
        """Return the values of a row's key."""
        return tuple([row[i] for i in self._places])

    @functools.cached_property
    def _places(self) -> list[int]:
        return [self.schema.index(k) for k in self.key]

    def refuse(self, row: Row, what: str) -> Never:
        """Raise `RowError` for the key of a row."""
        which = f"key ({', '.join(self.key)}) = {brief(self.key_of(row))} {what}, such as {brief(row)}"
        msg = f"{which}: a feed needs a key that is unique; add columns to it"
        raise RowError(msg)


@attrs.frozen
class _FedUpTo:
    """Where the last feed by a key began and ended, which row each key had then, and of those it changed, before."""

    lower: Antichain
    upper: Antichain
    rows: dict[Row, Row]
    before: dict[Row, Row | None]


@attrs.frozen(eq=False)
class Fed:
    """What receivers have of an output, by each key that feeds of its changes were made by.

    A feed is of changes to that: whether a row may come depends on what was there before its first change, however
    many feeds the changes are cut into. Each is followed from where the last one ended; where it begins elsewhere, what
    was there is worked out of ``contents``: those before a frontier.
    """

    contents: Callable[[Antichain], Mapping[Row, int]]
    _ends: dict[tuple[str, ...], _FedUpTo] = attrs.field(factory=dict)

    def follow(self, keyed: Keyed, time: Ints, diffs: Ints, lower: Antichain, upper: Antichain) -> None:
        """Go through the updates between two frontiers; `RowError` where a key is not that of one row at most."""
        name = tuple(keyed.key)
        end = self._ends.get(name)
        before: dict[Row, Row | None] = {}
        if lower == Antichain.minimum(1):
            rows: dict[Row, Row] = {}
        elif end is not None and lower in (end.lower, end.upper):
            rows, before = end.rows, end.before if lower == end.lower else before
        else:
            rows = keyed.before(diffs, self.contents(upper))
        changed = dict(before)
        keyed.follow(time, diffs, rows, changed)
        self._ends[name] = _FedUpTo(lower, upper, rows, {k: before[k] if k in before else rows.get(k) for k in changed})
        for key, row in changed.items():
            if row is None:
                rows.pop(key, None)
            else:
                rows[key] = row


def _codes(column: pa.ChunkedArray) -> Ints:
    """Return numbers that are equal where the values are, NULL and NaN each equal to itself."""
    if is_arrow_nested(column.type):
        column = pa.chunked_array([list_ranks(column)])
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    arrays = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    codes = [numbers_of(a.indices).astype(np.int64) for a in arrays]
    return np.concatenate(codes) if codes else np.empty(0, np.int64)


def _numbered(columns: Sequence[Ints], size: int) -> Ints:
    """Return a number for each row, the same where all columns are the same, in the order of the columns."""
    if not size or not columns:
        return np.zeros(size, np.int64)
    _, numbers = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return numbers.reshape(-1)
