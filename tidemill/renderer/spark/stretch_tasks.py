"""What runs in executors on stretches of partitions that are too large for one task.

All have rows of a few partitions between two places of the order. A first task says what its stretches are to others, a
second one is told what there is around them, and gives the calls' values. Rows come in versions, one for each time and
one of what was stored, of which each has the rows of those before it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.exact_sums import Exact
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import BINARY, INT32, INT64, STRING, DType
from tidemill.expressions.windows.bound import MOST_COPIES, CallError, Windows
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, decode_rows, encode_column
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints, UpdateArray, consolidated, numbered, stacked
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.windows.large_partitions import partitions_in_order
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.range_partitions import Around, RangePartition, range_of, values_of
from tidemill.renderer.embedded.windows.summaries import Summary
from tidemill.renderer.runs import failures
from tidemill.renderer.spark.frames import DIFF, times
from tidemill.renderer.spark.tasks import detached

VERSION: Final = "version"
RANGE: Final = "range"
"""The columns that say since which version an update is there, and which range of rows it is in."""
SUMMARY: Final = (
    Field(RANGE, INT32), Field(VERSION, INT32), Field("key", STRING), Field("facts", STRING), Field("head", BINARY),
    Field("tail", BINARY),
)  # fmt: skip
"""What is said of a stretch; without facts that it cannot be one."""

Batches = Iterator[pa.RecordBatch]
Place = tuple[int, int, str]
"""A stretch: its range, version, and the partition as text."""


def row_order(windows: Windows, types: Sequence[DType], interner: Interner) -> RowOrder:
    """Return the order of rows in their partitions."""
    by_hash = any(o.column >= len(types) for o in windows.ties)
    by = windows.order if by_hash else (*windows.order, *windows.ties)
    columns = [SortColumn(o.column, types[o.column], o.descending, o.nulls_first) for o in by]
    row, hashed = ([SortColumn(i, types[i]) for i in some] * by_hash for some in (windows.row, windows.hash_columns))
    return RowOrder(columns, interner, row, hashed)


class _Version(NamedTuple):
    """A partition's rows in a range, in a version."""

    place: Place
    rows: OrderIndex


class _Rows:
    """The rows of a task: all codes of their columns, NULL in those that are not given."""

    def __init__(self, node: Reduce, given: Sequence[int], batches: Sequence[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches)
        self.interner = Interner()
        self._schema = node.inputs[0].schema
        self._width = len(node.keys)
        self._range = table.column(RANGE)[0].as_py()
        self._versions = encode_column(table.column(VERSION), INT32, self.interner)
        self._updates = np.full((len(self._schema) + 1, table.num_rows), NULL)
        for i in given:
            self._updates[i] = encode_column(table.column(f"c{i}"), self._schema.dtypes[i], self.interner)
        self._updates[-1] = encode_column(table.column(DIFF), INT64, self.interner)
        assert isinstance(node.logic, Windows)
        self._windows = node.logic
        self._order = row_order(node.logic, self._schema.dtypes, self.interner)

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
        keys = decode_rows(Schema(self._schema.fields[:width]), codes[:width].take(one, axis=1), self.interner)
        for n, found in partitions_in_order(codes, counts, number, self._order, len(self._windows.order)):
            yield _Version((self._range, version, repr(keys[n])), found)


@attrs.frozen
class StretchTask:
    """Says what stretches are to others."""

    node: Any
    given: tuple[int, ...]
    """The columns of rows that are given."""
    versions: int
    asked: tuple[Summary, ...]
    most: int
    """How many rows of a stretch may be of concern to others."""

    @classmethod
    def of(cls, node: Reduce, *given: Any) -> StretchTask:
        """Return the task for a node, which is cut off from its graph."""
        return cls(detached(node), *given)

    def run(self, batches: Batches) -> Batches:
        """Return a line for each stretch, of each version."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        rows = _Rows(self.node, self.given, found)
        lines = [line for version in range(self.versions) for line in self._lines(rows, version)]
        columns = zip(*lines, strict=True) if lines else ([] for _ in SUMMARY)
        arrays = [pa.array(c, f.dtype.arrow) for c, f in zip(columns, SUMMARY, strict=True)]
        yield pa.record_batch(arrays, [f.name for f in SUMMARY])

    def _lines(self, rows: _Rows, version: int) -> Iterator[tuple[Any, ...]]:
        windows, types = self.node.logic, self.node.inputs[0].schema.dtypes
        there = rows.at(version)
        if (there[-1] < 0).any() or (there[-1] > MOST_COPIES).any():
            yield -1, version, "", None, None, None
            return
        for place, partition in rows.partitions(there, version):
            one = range_of(partition, windows, types, self.asked, rows.interner)
            if max(one.head_rows, one.tail_rows) > self.most:
                yield *place, None, None, None
                return
            edges = [_written(self._edge(codes, rows.interner)) for codes in (one.head, one.tail)]
            yield *place, self._facts(one, rows.interner), *edges

    def _edge(self, codes: Codes, interner: Interner) -> pa.Table:
        schema = self.node.inputs[0].schema
        columns = [decode_column(codes[i], schema.dtypes[i], interner) for i in self.given]
        return pa.table(columns, [str(i) for i in self.given])

    def _facts(self, one: RangePartition, interner: Interner) -> str:
        types = self.node.inputs[0].schema.dtypes
        of_rows = [
            [_plain(known[wanted], types[wanted.column], interner) for wanted in self.asked]
            for known in (one.whole, one.before_tail, one.behind_head)
        ]
        counts = [one.rows, one.groups, one.head_rows, one.tail_rows, one.groups_before_tail]
        return json.dumps([counts, of_rows])


def _plain(value: Any, dtype: DType, interner: Interner) -> Any:
    """Return what rows come to without codes that only one process knows."""
    if isinstance(value, tuple) and not isinstance(value, Exact):
        column = decode_column(np.array(value, np.int64), dtype, interner)
        return {"codes": base64.b64encode(_written(pa.table([column], ["v"]))).decode()}
    return value


def read_stretch(
    line: Mapping[str, Any], asked: Sequence[Summary], types: Sequence[DType], interner: Interner
) -> RangePartition:
    """Return what a line says of a stretch; its edges as tables."""
    counts, of_rows = json.loads(line["facts"])
    rows, groups, head_rows, tail_rows, groups_before_tail = counts
    known = [
        {
            wanted: _with_codes(value, types[wanted.column], interner)
            for wanted, value in zip(asked, values, strict=True)
        }
        for values in of_rows
    ]
    head, tail = (_read(line[name]) for name in ("head", "tail"))
    return RangePartition(rows, groups, head, tail, head_rows, tail_rows, groups_before_tail, *known)


def _with_codes(value: Any, dtype: DType, interner: Interner) -> Any:
    if isinstance(value, dict):
        return tuple(encode_column(_read(base64.b64decode(value["codes"])).column(0), dtype, interner).tolist())
    return Exact(*value) if isinstance(value, list) else value


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _read(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


@attrs.frozen
class StretchValuesTask:
    """Gives the calls' values of stretches."""

    node: Any
    times: tuple[Time | None, ...]
    """The time of each version; None of one that was there before, with its values."""
    around: Mapping[Place, Around]
    """What is around each stretch: rows as tables, codes as arrays."""

    @classmethod
    def of(cls, node: Reduce, versions: Sequence[Time | None], found: Mapping[Place, Around]) -> StretchValuesTask:
        """Return the task for a node, which is cut off from its graph."""
        return cls(detached(node), tuple(versions), found)

    @property
    def made(self) -> list[Field]:
        """The columns of the output's updates."""
        coordinates = next(len(time) for time in self.times if time is not None)
        numbers = [Field(name, INT64) for name in (*times(coordinates), DIFF)]
        return [*(Field(f"c{i}", t) for i, t in enumerate(self.node.schema.dtypes)), *numbers]

    def run(self, batches: Batches) -> Batches:
        """Return the output's updates."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        rows = _Rows(self.node, range(len(self.node.inputs[0].schema)), found)
        before: UpdateArray | None = None
        for version, time in enumerate(self.times):
            after, differ = self._valued(rows, version)
            if time is not None:
                if before is not None:
                    gone = before.copy()
                    gone[-1] = -gone[-1]
                    change = consolidated(stacked([gone, after]))
                else:
                    change = after if differ else consolidated(after)
                if change.shape[1]:
                    yield from self._batches(change, time, rows.interner)
            before = after

    def _valued(self, rows: _Rows, version: int) -> tuple[UpdateArray, bool]:
        """Return the rows of a version with their values and counts, and whether these differ from one another."""
        windows, schema = self.node.logic, self.node.inputs[0].schema
        there = rows.at(version)
        here = [
            (partition, self._beside(self.around[place], rows.interner))
            for place, partition in rows.partitions(there, version)
        ]
        kept = list(windows.kept(len(self.node.keys)))
        if not here:
            return np.empty((len(kept) + len(windows.calls) + 1, 0), np.int64), True
        try:
            codes, values = values_of(windows, schema.dtypes, here, rows.interner)
        except CallError as error:
            (row,) = decode_rows(schema, error.row[:, None], rows.interner)
            raise failures.no_window_value(self.node, windows, row, error) from None
        ones = np.ones((1, codes.shape[1]), np.int64)
        return np.concatenate((codes.take(kept, axis=0), values, ones)), bool((there[-1] == 1).all())

    def _beside(self, found: Around, interner: Interner) -> Around:
        """Return what is around a stretch in codes of this process."""
        schema = self.node.inputs[0].schema

        def codes(table: pa.Table) -> Codes:
            rows = np.full((len(schema), table.num_rows), NULL)
            for name, column in zip(table.column_names, table.columns, strict=True):
                rows[int(name)] = encode_column(column, schema.dtypes[int(name)], interner)
            return rows

        def known(values: Mapping[Summary, Any]) -> dict[Summary, Any]:
            return {
                w: tuple(encode_column(v, schema.dtypes[w.column], interner).tolist()) if isinstance(v, pa.Array) else v
                for w, v in values.items()
            }

        return attrs.evolve(
            found,
            before=tuple(map(codes, found.before)),
            behind=tuple(map(codes, found.behind)),
            of_rows_before=known(found.of_rows_before),
            of_rows_behind=known(found.of_rows_behind),
        )

    def _batches(self, change: UpdateArray, time: Time, interner: Interner) -> Batches:
        made, count = self.made, change.shape[1]
        numbers: list[Ints] = [np.full(count, t, np.int64) for t in time]
        block = [*change[:-1], *numbers, change[-1]]
        columns = [decode_column(c, f.dtype, interner) for c, f in zip(block, made, strict=True)]
        yield from pa.table(columns, [f.name for f in made]).to_batches(max_chunksize=100_000)
