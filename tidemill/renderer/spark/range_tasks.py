"""Tasks that executors run on ranges of partitions that are too large for one task.

All have rows of a few partitions between two places of the order. A first kernel says what its ranges are to others, a
second one is told what there is around them, and gives the calls' values. Rows come in versions, one for each time and
one of what was stored, of which each has the rows of those before it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.exact_sums import Exact
from tidemill.dataflow.lattice import Time
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import BINARY, INT32, INT64, STRING, DType
from tidemill.expressions.windows.bound import MOST_COPIES, CallError, Windows
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, decode_rows, encode
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, UpdateArray, consolidated, numbered, stacked
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.windows.large_partitions import partitions_in_order
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.range_partitions import RangeSummary, Surroundings, summary_of_range, values_of
from tidemill.renderer.embedded.windows.summaries import Summary
from tidemill.renderer.runs import failures
from tidemill.renderer.spark.frames import DIFF, times
from tidemill.renderer.spark.tasks import detached, encoded

VERSION: Final = "version"
RANGE: Final = "range"
"""The columns that say since which version an update is there, and which range of rows it is in."""
SUMMARY: Final = Schema(
    (Field(RANGE, INT32), Field(VERSION, INT32), Field("key", STRING), Field("summary", BINARY, nullable=True))
)
"""A range of a partition: its pickled `RangeSummary`; none where it has none."""

Place = tuple[int, int, str]
"""A range: its number, version, and the partition as text."""
R = TypeVar("R", RangeSummary, Surroundings)


def row_order(windows: Windows, types: Sequence[DType], interner: Interner) -> RowOrder:
    """Return the order of rows in their partitions."""
    by_hash = any(o.column >= len(types) for o in windows.ties)
    by = windows.order if by_hash else (*windows.order, *windows.ties)
    columns = [SortColumn(o.column, types[o.column], o.descending, o.nulls_first) for o in by]
    row, hashed = ([SortColumn(i, types[i]) for i in some] * by_hash for some in (windows.row, windows.hash_columns))
    return RowOrder(columns, interner, row, hashed)


@attrs.frozen
class Transport:
    """Turns codes, which only one process knows, into values to be sent to others, and back."""

    types: Sequence[DType]
    given: Sequence[int]
    """Which columns of rows there are."""
    interner: Interner

    def sent(self, one: R) -> R:
        """Return a range, or what is around it, with tables for rows and columns for codes in summaries."""
        return _converted(one, self._sent)

    def received(self, one: R, *, rows: bool = True) -> R:
        """Return one that was sent with codes again; but for rows, if only summaries are wanted."""
        return _converted(one, lambda v: v if isinstance(v, pa.Table) and not rows else self._received(v))

    def codes(self, table: pa.Table) -> Codes:
        """Return rows that were sent as codes, NULL in columns that are not there."""
        found = np.full((len(self.types), table.num_rows), NULL)
        found[list(self.given)] = encoded(table.columns, (self.types[i] for i in self.given), self.interner)
        return found

    def _sent(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            columns = [decode_column(value[i], self.types[i], self.interner) for i in self.given]
            return pa.table(columns, [str(i) for i in self.given])
        if isinstance(value, dict):
            return {
                requested: decode_column(np.array(v, np.int64), self.types[requested.column], self.interner)
                if isinstance(v, tuple) and not isinstance(v, Exact)
                else v
                for requested, v in value.items()
            }
        return value

    def _received(self, value: Any) -> Any:
        if isinstance(value, pa.Table):
            return self.codes(value)
        if isinstance(value, dict):
            return {
                requested: tuple(encoded([v], [self.types[requested.column]], self.interner)[0].tolist())
                if isinstance(v, pa.Array)
                else v
                for requested, v in value.items()
            }
        return value


def _converted(one: R, convert: Callable[[Any], Any]) -> R:
    kind: Any = type(one)
    made: Any = {f.name: getattr(one, f.name) for f in attrs.fields(kind)}
    found: R = kind(**{n: tuple(map(convert, v)) if isinstance(v, tuple) else convert(v) for n, v in made.items()})
    return found


class _Version(NamedTuple):
    """A partition's rows in a range, in a version."""

    place: Place
    rows: OrderIndex


class _Rows:
    """The rows of a task: all codes of their columns, NULL in those that are not given."""

    def __init__(self, node: Any, given: Sequence[int], block: UpdateArray, interner: Interner) -> None:
        self._schema = node.inputs[0].schema
        self._width = len(node.keys)
        self._windows = node.logic
        self._interner = interner
        self._range, self._versions = int(block[0, 0]), block[1]
        self._updates = np.full((len(self._schema) + 1, block.shape[1]), NULL)
        self._updates[[*given, -1]] = block[2:]
        self._order = row_order(node.logic, self._schema.dtypes, interner)

    def at(self, version: int) -> UpdateArray:
        """Return the rows of a version with their counts."""
        mask = self._versions <= version
        return consolidated(self._updates if mask.all() else self._updates.compress(mask, axis=1))

    def partitions(self, rows: UpdateArray, version: int) -> Iterator[_Version]:
        """Iterate over the partitions of rows, each in its order."""
        codes, counts, width = rows[:-1], rows[-1], self._width
        if not len(counts):
            return
        one, number = numbered(codes[:width])
        keys = decode_rows(Schema(self._schema.fields[:width]), codes[:width].take(one, axis=1), self._interner)
        for n, found in partitions_in_order(codes, counts, number, self._order, len(self._windows.order)):
            yield _Version((self._range, version, repr(keys[n])), found)


def _given(node: Any, columns: Sequence[int]) -> list[Field]:
    row = [Field(f"c{i}", node.inputs[0].schema.dtypes[i]) for i in columns]
    return [Field(RANGE, INT32), Field(VERSION, INT32), *row, Field(DIFF, INT64)]


@attrs.frozen
class RangeKernel:
    """Summarises ranges, each as a `RangeSummary`."""

    node: Any = attrs.field(converter=detached)
    columns: tuple[int, ...]
    """The columns of rows that are given."""
    versions: int
    requested: tuple[Summary, ...]
    most: int
    """How many rows of a range may be of concern to others."""

    @property
    def given(self) -> Sequence[Field]:
        """See `Kernel`."""
        return _given(self.node, self.columns)

    @property
    def made(self) -> Sequence[Field]:
        """See `Kernel`."""
        return SUMMARY.fields

    def apply(self, given: UpdateArray, interner: Interner) -> UpdateArray:
        """Return a line for each range, of each version."""
        rows = _Rows(self.node, self.columns, given, interner)
        lines = [line for version in range(self.versions) for line in self._lines(rows, version, interner)]
        return encode(SUMMARY, lines, interner)

    def _lines(self, rows: _Rows, version: int, interner: Interner) -> Iterator[tuple[Any, ...]]:
        types = self.node.inputs[0].schema.dtypes
        there = rows.at(version)
        if (there[-1] < 0).any() or (there[-1] > MOST_COPIES).any():
            yield -1, version, "", None
            return
        for place, partition in rows.partitions(there, version):
            one = summary_of_range(partition, self.node.logic, types, self.requested, interner)
            if max(one.head_rows, one.tail_rows) > self.most:
                yield *place, None
                return
            yield *place, pickle.dumps(Transport(types, self.columns, interner).sent(one))


@attrs.frozen
class RangeValuesKernel:
    """Gives the calls' values of ranges."""

    node: Any = attrs.field(converter=detached)
    times: tuple[Time | None, ...]
    """The time of each version; None of one that was there before, with its values."""
    columns: tuple[int, ...]
    """The columns of rows of what is around."""
    around: Mapping[Place, Surroundings]
    """The surroundings of each range, as they are sent."""

    @property
    def given(self) -> Sequence[Field]:
        """See `Kernel`."""
        return _given(self.node, range(len(self.node.inputs[0].schema)))

    @property
    def made(self) -> Sequence[Field]:
        """See `Kernel`."""
        coordinates = next(len(time) for time in self.times if time is not None)
        numbers = [Field(name, INT64) for name in (*times(coordinates), DIFF)]
        return [*(Field(f"c{i}", t) for i, t in enumerate(self.node.schema.dtypes)), *numbers]

    def apply(self, given: UpdateArray, interner: Interner) -> UpdateArray:
        """Return the output's updates."""
        rows = _Rows(self.node, range(len(self.node.inputs[0].schema)), given, interner)
        before: UpdateArray | None = None
        found = [np.empty((len(self.made), 0), np.int64)]
        for version, time in enumerate(self.times):
            after, differ = self._valued(rows, version, interner)
            if time is not None:
                gone = after[:, :0] if before is None else before.copy()
                gone[-1] = -gone[-1]
                change = after if differ and before is None else consolidated(stacked([gone, after]))
                at = np.repeat(np.array(time, np.int64)[:, None], change.shape[1], axis=1)
                found.append(np.concatenate((change[:-1], at, change[-1:])))
            before = after
        return np.concatenate(found, axis=1)

    def _valued(self, rows: _Rows, version: int, interner: Interner) -> tuple[UpdateArray, bool]:
        """Return the rows of a version with their values and counts, and whether these differ from one another."""
        windows, schema = self.node.logic, self.node.inputs[0].schema
        transport = Transport(schema.dtypes, self.columns, interner)
        there = rows.at(version)
        here = [
            (partition, transport.received(self.around[place])) for place, partition in rows.partitions(there, version)
        ]
        kept = list(windows.kept(len(self.node.keys)))
        if not here:
            return np.empty((len(kept) + len(windows.calls) + 1, 0), np.int64), True
        try:
            codes, values = values_of(windows, schema.dtypes, here, interner)
        except CallError as error:
            (row,) = decode_rows(schema, error.row[:, None], interner)
            raise failures.no_window_value(self.node, windows, row, error) from None
        ones = np.ones((1, codes.shape[1]), np.int64)
        return np.concatenate((codes.take(kept, axis=0), values, ones)), bool((there[-1] == 1).all())
