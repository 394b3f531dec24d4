"""What a run gives back: `Updates` (what changed) and `Rows` (what there is), consolidated, in a fixed order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.boundary.arrow_arrays import bool_array, int64_array, numbers_of, value_array
from tidemill.boundary.feed_formats import FeedFormat, checked_format, written
from tidemill.boundary.feeds import Fed, Keyed
from tidemill.boundary.html import html_table, shown_line
from tidemill.boundary.list_columns import exact_lists, list_ranks
from tidemill.boundary.rows import plain_values, python_rows
from tidemill.completion import OfUsers
from tidemill.dataflow.lattice import Antichain, Time, shown
from tidemill.errors import EngineError, NegativeCountWarning, SchemaError
from tidemill.expressions.functions.values import row_order
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import is_arrow_nested

_FEW: Final = 64
"""Rows that are sorted sooner as Python tuples than by Arrow, whose sorting costs much to begin."""
_NUMBERS: Final = {
    pa.date32(): pa.int32(),
    pa.timestamp("us"): pa.int64(),
    pa.time64("us"): pa.int64(),
    pa.duration("us"): pa.int64(),
    pa.timestamp("us", "UTC"): pa.int64(),
}
_SHOWN_ROWS: Final = 10
_SHOWN_HTML_ROWS: Final = 20

Ints = npt.NDArray[np.int64]
Columns: TypeAlias = pa.Table | Sequence[pa.Array]


class _Table(OfUsers):
    """Rows with counts, and for updates times: sorted by time and row once, when first looked at, unless they are."""

    _between_layers: ClassVar[frozenset[str]] = frozenset(("in_no_order", "to_frame"))

    def __init__(
        self,
        schema: Schema,
        coordinates: Sequence[str],
        columns: Columns,
        times: Ints,
        counts: Ints,
        *,
        is_sorted: bool = False,
    ) -> None:
        self.schema = schema
        self._coordinates = tuple(coordinates)
        self._columns = columns
        """The schema's columns, as a table or one by one: a table takes long to make, and may not be asked for."""
        self._times = times
        self._counts = counts
        self.to_frame: Callable[[Schema, pa.Table], Any] | None = None
        """How the engine makes a DataFrame of Arrow columns, the first of them the schema's; None: it does not."""
        self._sorted = is_sorted or len(counts) < 2  # noqa: PLR2004 - nothing to sort

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def _table(self) -> pa.Table:
        if not isinstance(self._columns, pa.Table):
            self._columns = pa.Table.from_arrays(self._columns, names=self.schema.names)
        return self._columns

    def _sort(self) -> None:
        if self._sorted:
            return
        order = self._order_of_few() if len(self._counts) <= _FEW else self._order_of_many()
        self._sorted = True
        if (order[1:] > order[:-1]).all():
            return  # sorted already, as numbers are: nothing to copy
        self._columns = self._table.take(int64_array(order))
        self._times = self._times[:, order]
        self._counts = self._counts[order]

    def _order_of_many(self) -> Ints:
        import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

        names = [f"c{i}" for i in range(len(self._coordinates) + self._table.num_columns)]
        columns = [list_ranks(c) if is_arrow_nested(c.type) else c for c in self._table.columns]
        keys = pa.table([*map(int64_array, self._times), *columns], names=names)
        return numbers_of(pc.sort_indices(keys, sort_keys=[(n, "ascending", "at_start") for n in names]))

    def _order_of_few(self) -> Ints:
        """Return what `_order_of_many` does."""
        keys = list(zip(*self._times.tolist(), *map(_sort_keys, self._table.columns), strict=True))
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)

    def _rows(self) -> list[tuple[Any, ...]]:
        self._sort()
        return python_rows(self._table) if len(self.schema) else [()] * len(self._counts)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame of what ``to_arrow`` gives.

        Whole numbers and truth values with NULLs among them get pandas' nullable types (``Int64``), and in lists are
        objects, so that nothing is rounded. In floats NULL is NaN, as pandas has it; `to_arrow` and `to_polars` tell
        them apart.
        """
        import pandas as pd  # noqa: PLC0415 - only for those who have it

        table = self.to_arrow()
        nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame = table.to_pandas()
        for i, field in enumerate(table.schema):
            if field.type in nullable and table.column(i).null_count:
                frame[field.name] = table.column(i).to_pandas(types_mapper=nullable.get)
            elif lists := exact_lists(table.column(i)):
                frame[field.name] = pd.Series(lists, dtype=object)
        return frame

    def to_polars(self) -> Any:
        """Return a Polars DataFrame of what ``to_arrow`` gives."""
        import polars as pl  # noqa: PLC0415 - only for those who have it

        return pl.from_arrow(self.to_arrow())

    def to_spark(self) -> Any:
        """Return a Spark DataFrame of what ``to_arrow`` gives, in the session of the run; for runs on `tm.Spark`."""
        if self.to_frame is None:
            msg = "to_spark is for runs on tm.Spark; with another, spark.createDataFrame(x.to_arrow()) does it"
            raise EngineError(msg)
        return self.to_frame(self.schema, self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return what ``to_arrow`` gives, for ``pa.table(x)``, ``pl.DataFrame(x)`` or DuckDB's ``from x``."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_html(self, *, limit: int = _SHOWN_HTML_ROWS) -> str:
        """Return an HTML table of the first rows, as notebooks show it: static, and all text escaped."""
        columns, lines = self._head(limit)
        left_out = self._left_out()
        return html_table(columns, lines, self._size(), self._caption() + (f" ({left_out})" if left_out else ""))

    _repr_html_ = to_html

    def _head(self, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns and the first lines to be shown."""
        raise NotImplementedError

    def _caption(self) -> str:
        raise NotImplementedError

    def _size(self) -> int:
        """Return how many lines there are to be shown."""
        return len(self._counts)

    def _left_out(self) -> str:
        """Return what is said of what is not shown, if there is any."""
        return ""

    def __repr__(self) -> str:
        return self.to_text()

    def to_text(self, *, limit: int = _SHOWN_ROWS) -> str:
        """Return a table of the first rows as text, a line each, as it is printed."""
        columns, lines = self._head(limit)
        cells = [tuple(map(shown_line, line)) for line in (columns, *lines)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
        text = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        text.insert(1, "  ".join("-" * w for w in widths))
        if self._size() > len(lines):
            text.append(f"... {self._size() - len(lines)} more")
        if left_out := self._left_out():
            text.append(f"({left_out})")
        return "\n".join(text)

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table, sorted as this is."""
        raise NotImplementedError


def time_names(coordinates: Sequence[str], time: str | None = None) -> list[str]:
    """Return what the columns of times are called in tables; ``time`` renames the one of times with one coordinate."""
    if len(coordinates) != 1:
        return list(coordinates)
    return [time or ("time" if tuple(coordinates) == ("epoch",) else coordinates[0])]


class Updates(_Table):
    """Consolidated updates: iterates as ``(row, time, diff)``, times of one coordinate as ints; sorted by time and row.

    These are all the updates between the frontiers ``lower`` and ``upper``.
    """

    def __init__(  # noqa: PLR0917 - made by engines alone, all parts at once
        self,
        schema: Schema,
        coordinates: Sequence[str],
        columns: Columns,
        times: Ints,
        diffs: Ints,
        lower: Antichain,
        upper: Antichain,
        *,
        is_sorted: bool = False,
    ) -> None:
        super().__init__(schema, coordinates, columns, times, diffs, is_sorted=is_sorted)
        self.lower = lower
        self.upper = upper
        self._fed: Fed | None = None
        """What feeds of the output's changes have come to so far, where a run gave these."""

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int | Time, int]]:
        rows = self._rows()
        times = self._times[0].tolist() if len(self._times) == 1 else map(tuple, self._times.T.tolist())
        return iter(list(zip(rows, times, self._counts.tolist(), strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Updates) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def to_arrow(self, *, time: str | None = None, diff: str = "diff") -> pa.Table:
        """Return the rows with a column for each coordinate of time and one for the diff.

        ``time`` renames the time column where there is one coordinate; a clash with a column is an error.
        """
        self._sort()
        return self.in_no_order(time=time, diff=diff)

    def in_no_order(self, *, time: str | None = None, diff: str = "diff") -> pa.Table:
        """Return what `to_arrow` does, in whatever order it is in: for tables that have none."""
        names = [*self.schema.names, *self._coordinate_names(time), diff]
        if len(set(names)) < len(names):
            msg = f"columns {names} clash: rename them with time= and diff=, or rename the output's columns"
            raise SchemaError(msg)
        columns = self._columns.columns if isinstance(self._columns, pa.Table) else self._columns
        return pa.Table.from_arrays([*columns, *map(int64_array, (*self._times, self._counts))], names=names)

    def to_feed(
        self,
        key: str | Sequence[str],
        *,
        time: str | None = None,
        op: str = "op",
        format: FeedFormat = "op",  # noqa: A002 - as in run.apply
    ) -> Any:
        """Return a change feed: one row per key and time, with ``insert``, ``update`` or ``delete`` as ``op``.

        A retraction and an insertion of one key at one time are an update, shown as the new row; a deletion is shown as
        the row that was there. For another run's input with this key: ``run.apply(name, feed, time="time")``.

        An Arrow table; with ``format="delta"`` one with ``_change_type`` and ``_commit_version``, as Delta's change
        feed has them, and with ``format="debezium"`` a list of envelopes, dicts with ``before``, ``after`` and ``op``.

        `RowError` naming the key where it has a NULL in it, as in inputs with a key, or is not unique, be it for what
        was there before these changes; so it does not matter in how many batches they were read. For that the rows that
        were fed are kept by their key. Where these changes do not follow those fed last, what the output holds is
        looked up: ``TimeError`` if the run has gone on since they were read (and ``keep`` does not reach that far), or
        a subscription has acknowledged them.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
        >>> with flow.start() as run:
        ...     run.update("x", [(("a",), 0, 1), (("b",), 0, 1), (("a",), 1, 1), (("b",), 1, -1)])
        ...     run.advance_to(2)
        ...     run.changes("n").to_feed("k").to_pandas()
           k  n  time      op
        0  a  1     0  insert
        1  b  1     0  insert
        2  a  2     1  update
        3  b  1     1  delete
        """
        keys = [key] if isinstance(key, str) else list(key)
        if not keys:
            msg = "to_feed needs a key: the columns that tell rows apart, as in to_feed(key=['id'])"
            raise SchemaError(msg)
        self.schema.project(keys)
        self._sort()
        names = self._coordinate_names(time)
        keyed = Keyed(self.schema, self._table, keys)
        if checked_format(format) == "op":
            feed: Any = keyed.feed(self._times, self._counts, [*names, op])
        elif len(names) > 1:
            msg = f"format={format!r} is for times of one coordinate, here they are {self._coordinates}"
            raise SchemaError(msg)
        else:
            feed = written(format, keyed, self._times, self._counts, names[0])
        if len(self._coordinates) == 1:
            fed = self._fed or Fed(self._no_contents)
            fed.follow(keyed, self._times[0], self._counts, self.lower, self.upper)
        return feed

    @staticmethod
    def _no_contents(_before: Antichain) -> dict[Any, int]:
        msg = "to_feed: what was there before these changes is not known: they are no run's changes(), and no reader's"
        raise EngineError(msg)

    def _coordinate_names(self, time: str | None) -> list[str]:
        return time_names(self._coordinates, time)

    def _head(self, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        self._sort()
        rows = python_rows(self._table.slice(0, limit))
        times = map(tuple, self._times[:, :limit].T.tolist())
        lines = [
            (*r, t[0] if len(t) == 1 else str(t), f"{d:+d}")
            for r, t, d in zip(rows, times, self._counts.tolist(), strict=False)
        ]
        return [*self.schema.names, "time", "diff"], lines

    def _left_out(self) -> str:
        if self.upper != Antichain.minimum(len(self._coordinates)):
            return ""
        return "no time is complete yet: advance the inputs first, as in run.advance()"

    def _caption(self) -> str:
        return f"{counted(len(self), 'update')} from {self.lower} to {self.upper}"


def following(updates: Updates, fed: Fed) -> Updates:
    """Return updates of an output whose feeds go on from what these have come to so far."""
    updates._fed = fed  # noqa: SLF001 - for engines, which make updates, it is nothing
    return updates


def parts_of(updates: Updates) -> tuple[pa.Table, Ints, Ints]:
    """Return the columns of some updates, their times and their diffs, in no order."""
    return updates._table, updates._times, updates._counts  # noqa: SLF001 - the same module


def changes_beyond(updates: Updates, lower: Antichain) -> Updates:
    """Return those of some updates that are beyond a frontier, which is theirs to begin with."""
    columns, times, diffs = updates._columns, updates._times, updates._counts  # noqa: SLF001 - the same module
    if not updates.lower.dominates(lower):
        some = np.zeros(len(diffs), np.bool_)
        for element in lower.elements:
            some |= np.greater_equal(times, np.array(element)[:, None]).all(axis=0)
        if not some.all():
            columns, times, diffs = updates._table.filter(bool_array(some)), times[:, some], diffs[some]  # noqa: SLF001
    coordinates, is_sorted = updates._coordinates, updates._sorted  # noqa: SLF001
    return Updates(updates.schema, coordinates, columns, times, diffs, lower, updates.upper, is_sorted=is_sorted)


class Rows(_Table):
    """The contents of a collection at a time: iterates as tuples of values, each as often as its count, sorted.

    ``len`` is the number of rows, copies counted. ``time`` is the time it was asked for (None: after all times). A row
    with a negative count, such as one deleted and never inserted, is none of these, nor among what is exported: a
    `NegativeCountWarning` says how many there are. ``counts()`` has them, ``negative`` is their number.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> flow.output("x", flow.input("x", {"i": "int64"}))
    >>> with flow.start() as run:
    ...     run.insert("x", [(7,)])
    ...     run.delete("x", [(8,)])
    ...     run.advance()
    ...     run.snapshot("x")
    i
    -
    7
    (1 row with a negative count is not shown: counts() has it)
    """

    def __init__(
        self, schema: Schema, columns: Columns, counts: Ints, time: Time | None, *, is_sorted: bool = False
    ) -> None:
        super().__init__(schema, (), columns, np.empty((0, len(counts)), np.int64), counts, is_sorted=is_sorted)
        self.time = None if time is None else shown(time)

    def __len__(self) -> int:
        self._warn()
        return self._size()

    @property
    def negative(self) -> int:
        """How many different rows have a negative count."""
        return int((self._counts < 0).sum())

    def _size(self) -> int:
        return int(np.maximum(self._counts, 0).sum())

    def _left_out(self, done: str = "shown") -> str:
        few = self.negative
        if not few:
            return ""
        what, them = ("is", "it") if few == 1 else ("are", "them")
        return f"{counted(few, 'row')} with a negative count {what} not {done}: counts() has {them}"

    def _warn(self) -> None:
        if text := self._left_out("among these"):
            warnings.warn(f"{text}; look for what is deleted and was not there", NegativeCountWarning, stacklevel=3)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        self._warn()
        rows = self._rows()
        return iter([row for row, n in zip(rows, self._counts.tolist(), strict=True) for _ in range(n)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.counts() == other.counts()

    __hash__ = None  # type: ignore[assignment]

    def counts(self) -> dict[tuple[Any, ...], int]:
        """Return a dict from rows to counts, which may be negative where the dataflow allows it."""
        return dict(zip(self._rows(), self._counts.tolist(), strict=True))

    def to_arrow(self) -> pa.Table:
        """Return the rows, each as often as its count."""
        self._sort()
        return self.in_no_order()

    def in_no_order(self) -> pa.Table:
        """Return what `to_arrow` does, in whatever order it is in: for tables that have none."""
        self._warn()
        if (self._counts == 1).all():
            return self._table
        return self._table.take(int64_array(np.repeat(np.arange(len(self._counts)), np.maximum(self._counts, 0))))

    def _head(self, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        self._sort()
        counts = np.maximum(self._counts, 0)
        few = int(np.searchsorted(np.cumsum(counts), limit)) + 1
        rows = zip(python_rows(self._table.slice(0, few)), counts[:few].tolist(), strict=True)
        return list(self.schema.names), [row for row, n in rows for _ in range(min(n, limit))][:limit]

    def _caption(self) -> str:
        return counted(self._size(), "row") + (" in the end" if self.time is None else f" at {self.time}")


def arrow_table(schema: Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return Python rows as an Arrow table of the schema's types."""
    return pa.Table.from_arrays(arrow_columns(schema, rows), names=list(schema.names))


def arrow_columns(schema: Schema, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
    """Return Python rows as Arrow arrays of the schema's types."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return [value_array(c, f.dtype.arrow) for c, f in zip(columns, schema, strict=True)]


def _sort_keys(column: pa.ChunkedArray) -> list[Any]:
    """Return what sorts as Arrow sorts a column: NULL first, then NaN, then the values; lists and structs by theirs."""
    if is_arrow_nested(column.type):
        return [row_order((v,)) for v in plain_values(column)]
    if column.type in _NUMBERS:
        column = column.cast(_NUMBERS[column.type])
    values: list[Any] = column.to_pylist()
    if not column.null_count and not pa.types.is_floating(column.type):
        return values
    return [(0, 0) if v is None else (1, 0) if v != v else (2, v) for v in values]  # noqa: PLR0124 - NaN


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
