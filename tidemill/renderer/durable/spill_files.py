"""SpilledSpine batches: updates in files, of which those of a key are read alone, by its hash.

A file of a spilled batch has the updates' values as columns ``v0, v1, ...``, the times ``t0, ...``, the weights
``w0, ...``. One that is sorted has before them ``h``, Spark's xxhash64 of the key's values, and is in its order, in
pages small enough to be read for a key (`page_files`). Where there is no key and updates lie in the order of a column,
``h`` is the number that says where (`RowOrder.number`), so that pages can be read for a range of values.
Where a spine says in which order rows of one key are to lie, large ones have pages of their own (`page_order`).
Values, not codes: any process can read them, executors of Spark too.
One that is not sorted yet, as large loads leave them, is a Parquet file, sorted when a key is first asked for.

What refers to a file has the checksums of every byte of it (`SpillFile.checksums`), which are checked as it is read; or
of a file of pages, of what has those of the pages. Cost: a pass over these bytes at the speed of CRC-32, more than a
gigabyte a second: for a page some 5 microseconds.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.boundary.arrow_arrays import arrow_scalar, bool_array, int64_array, numbers_of
from tidemill.dataflow.lattice import Antichain
from tidemill.errors import StateError
from tidemill.expressions.types import INT64, DType
from tidemill.renderer.durable.checksums import Checksums, DamagedError
from tidemill.renderer.durable.page_files import ENDING, HASH, PageFile, PageWriter, mapped
from tidemill.renderer.durable.page_order import NO_ORDER, Placed, placed, with_interner
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, encode_column
from tidemill.renderer.embedded.kernels.hashing import xxhash64_columns
from tidemill.renderer.embedded.kernels.limbs import Limbs, consolidated_limbs
from tidemill.renderer.embedded.kernels.sorting import ascending
from tidemill.renderer.embedded.kernels.times import advance
from tidemill.renderer.embedded.kernels.updates import Ints, UpdateArray
from tidemill.renderer.embedded.trace.merging import Gone, without
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.stored_order import KeyOrder
from tidemill.renderer.runs.interrupts import deferred, let_through
from tidemill.renderer.runs.system_errors import advice

PAGE: Final = 128
"""Updates in a page: what is read for a single key, some 5 KB and 10 microseconds."""
PAGE_IN_ORDER: Final = 8192
"""Those of a large key that lie in order, which are read one after another."""
_SOME: Final = 1 << 17
"""Updates that are put in order at once, about: there is not a second copy of all."""
_WINDOW: Final = 1_000_000
"""Updates that are merged at once, about."""
_UNREADABLE: Final = (
    OSError,
    DamagedError,
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowNotImplementedError,
    pa.ArrowSerializationError,
)
"""Of Arrow's, all but that there is no memory for it."""


@attrs.frozen
class Layout:
    """The columns of the files of one spine: by which values it is, what they are, how many times and weights."""

    keys: tuple[int, ...]
    types: tuple[DType | None, ...]
    users: int
    coordinates: int
    weights: int
    ordered: SortColumn | None = None
    """In which column's order updates lie that have no key."""
    by: KeyOrder | None = None
    """In which order rows of a key lie, if there are many."""
    limbs: Limbs | None = None
    """How the weights are limbs of numbers that may be beyond 64 bits."""

    @property
    def fields(self) -> list[tuple[str, DType]]:
        """The columns behind the hash."""
        values = [(f"v{i}", INT64 if t is None else t) for i, t in enumerate(self.types)]
        rest = [*(f"t{i}" for i in range(self.coordinates)), *(f"w{i}" for i in range(self.weights))]
        return values + [(name, INT64) for name in rest]

    @property
    def has_lists(self) -> bool:
        """Whether a column is nested: Spark 4.3 cannot read such where they have a dictionary with nothing in it."""
        return any(dtype.is_nested for _, dtype in self.fields)

    def decoded(self, block: UpdateArray, interner: Interner) -> pa.Table:
        """Return updates as a table, without the hash."""
        columns = [decode_column(codes, t, interner) for codes, (_, t) in zip(block, self.fields, strict=True)]
        return pa.table(dict(zip([name for name, _ in self.fields], columns, strict=True)))

    def encoded(self, table: pa.Table, interner: Interner) -> UpdateArray:
        """Return a table as updates."""
        block = np.empty((len(self.fields), len(table)), np.int64)
        for i, (name, dtype) in enumerate(self.fields):
            block[i] = encode_column(table.column(name).cast(dtype.arrow), dtype, interner)
        return block

    def hashes(self, table: pa.Table) -> Ints:
        """Return the hash of each row's key; or the number that says where a row without a key lies."""
        if self.ordered is not None:
            column, interner = table.column(f"v{self.ordered.row}"), Interner()
            codes = encode_column(column.cast(self.ordered.dtype.arrow), self.ordered.dtype, interner)
            return RowOrder([self.ordered], interner).number(codes)
        return self.key_hashes([_whole(table.column(f"v{k}")) for k in self.keys], len(table))

    def key_hashes(self, columns: Sequence[pa.Array], count: int) -> Ints:
        """Return the hashes of keys."""
        return xxhash64_columns(columns) if columns else np.zeros(count, np.int64)


@attrs.frozen
class SpillFile:
    """A file of a spilled batch."""

    name: str
    rows: int
    sorted: bool
    checksums: Checksums
    columns: tuple[int, ...] | None = None
    """Which of the file's values are the arrangement's, where it was not written for it."""
    constants: tuple[tuple[str, int | None], ...] = ()
    """Columns that are the same throughout, and so not in the file: numbers, and NULL for values that nobody reads."""

    @classmethod
    def listed(cls, listing: Any) -> Self:
        """Return what was written down."""
        name, rows, is_sorted, checksums, columns, constants = listing
        picked = None if columns is None else tuple(columns)
        found = Checksums.listed(checksums)
        # Sorted files were Parquet, in earlier versions: such are sorted anew when a key is asked for.
        return cls(name, rows, is_sorted and name.endswith(ENDING), found, picked, tuple(map(tuple, constants)))

    def listing(self) -> list[Any]:
        """Return what is to be written down."""
        return [self.name, self.rows, self.sorted, self.checksums.listing(), self.columns, self.constants]

    def require_whole(self, folder: Path) -> None:
        """Raise `StateError` where the file is not what was written: for those that others read."""
        path = folder / self.name
        try:
            if self.sorted:
                pages = PageFile(path, self.checksums)
                pages.check(pages.all())
            else:
                self.checksums.check_file(path)
        except _UNREADABLE as error:
            raise _damaged(path, error) from error

    def sources(self, layout: Layout) -> list[tuple[str, DType, str | int | None]]:
        """Return for each column of the layout its name, its type, and what it is called in the file, or what it is."""
        called = {f"v{i}": f"v{c}" for i, c in enumerate(self.columns or ())}
        same = dict(self.constants)
        inside = [called.get(name, name) for name, _ in layout.fields]
        return [(*field, same.get(name, name)) for field, name in zip(layout.fields, inside, strict=True)]


@attrs.frozen
class SpilledBatch:
    """Updates that came together, in one file or more."""

    files: tuple[SpillFile, ...]

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)


Within = tuple[int | None, int | None]
"""Hashes from one on and below another; without one, of all before or behind."""


class Pages(PageFile):
    """The pages of a sorted file; what is wrong with it is a `StateError`."""

    def __init__(self, folder: Path, file: SpillFile) -> None:
        path = folder / file.name
        try:
            super().__init__(path, file.checksums)
        except _UNREADABLE as error:
            raise _damaged(path, error) from error

    def read(self, pages: Sequence[int]) -> pa.Table:
        """Return the rows of some pages."""
        try:
            return super().read(pages)
        except _UNREADABLE as error:
            raise _damaged(self.path, error) from error


def write_block(path: Path, layout: Layout, block: UpdateArray, interner: Interner) -> SpillFile:
    """Write updates to a sorted file, which is on the disk when this returns."""
    return _write_sorted(path, layout, iter([layout.decoded(block, interner)]))


def read_file(folder: Path, layout: Layout, file: SpillFile) -> pa.Table:
    """Return what is in a file."""
    if file.sorted:
        pages = Pages(folder, file)
        return pages.read(pages.all()).select([name for name, _ in layout.fields])
    sources = file.sources(layout)
    try:
        content = mapped(folder / file.name)
        file.checksums.check(memoryview(content))
        reader = pq.ParquetFile(pa.BufferReader(content))
        found = reader.read(columns=[s for *_, s in sources if isinstance(s, str)])
    except _UNREADABLE as error:
        raise _damaged(folder / file.name, error) from error
    return pa.table(
        {
            name: found.column(s) if isinstance(s, str) else pa.repeat(arrow_scalar(s, dtype.arrow), found.num_rows)
            for name, dtype, s in sources
        }
    )


def sorted_file(path: Path, layout: Layout, folder: Path, unsorted: Sequence[SpillFile]) -> SpillFile:
    """Write a sorted file of what is in some that are not. All of it is in memory for that."""
    tables = [read_file(folder, layout, file) for file in unsorted]
    return _write_sorted(path, layout, iter([pa.concat_tables(tables)]))


def merged(  # noqa: PLR0917 - what is merged, and into what
    path: Path,
    layout: Layout,
    files: Sequence[Pages],
    rows: int,
    since: Antichain,
    gone: Gone | None = None,
    within: Within = (None, None),
) -> SpillFile | None:
    """Write one sorted file of the updates of several, consolidated at compacted times; None where none are left.

    With a range of hashes ``within`` which they lie, of these alone; ``rows`` are those of all files.

    Updates that are ``gone`` are left out: nobody asks for them any more.

    A range of hashes at a time: what is held in memory does not grow with the files.
    """
    file = _write_sorted(path, layout, _windows(layout, files, rows, since, gone, within))
    if file.rows:
        return file
    path.unlink()
    return None


def ranges(files: Sequence[Pages], rows: int, each: int) -> list[Within]:
    """Return ranges of hashes, one after another, in which files of so many rows have about as many ``each``."""
    bounds = np.unique(np.concatenate([f.bounds for f in files]))
    step = max(1, len(bounds) * each // max(rows, 1))
    return list(itertools.pairwise([None, *bounds[step::step].tolist(), None]))


def _windows(  # noqa: PLR0917 - as `merged`
    layout: Layout, files: Sequence[Pages], rows: int, since: Antichain, gone: Gone | None, within: Within
) -> Iterator[pa.Table]:
    first, end = within
    for begin, stop in ranges(files, rows, _WINDOW):
        low = first if begin is None or (first is not None and first > begin) else begin
        high = end if stop is None or (end is not None and end < stop) else stop
        if low is not None and high is not None and low >= high:
            continue
        interner = Interner()  # what is merged is not what the run holds
        parts = [f.read(pages) for f in files if (pages := f.within(low, high))]
        if not parts:
            continue
        table = pa.concat_tables(parts)
        hashes = numbers_of(table.column(HASH))
        inside = np.ones(len(hashes), np.bool_)
        if low is not None:
            inside &= hashes >= low
        if high is not None:
            inside &= hashes < high
        block = layout.encoded(table.filter(bool_array(inside)), interner)
        block, _ = without(gone, block, block[-1])
        block = advance(block, len(layout.types), layout.users, since)
        block = consolidated_limbs(block, layout.weights, layout.limbs)
        yield layout.decoded(block, interner)


def _write_sorted(path: Path, layout: Layout, tables: Iterator[pa.Table]) -> SpillFile:
    schema = pa.schema([(HASH, pa.int64()), *((name, dtype.arrow) for name, dtype in layout.fields)])
    try:
        rows, begin = _write_tables(path, layout, schema, tables)
    except BaseException:  # a disk that is full is not to be filled with what is of no use
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return SpillFile(path.name, rows, sorted=True, checksums=Checksums.of(path, begin))


def _write_tables(path: Path, layout: Layout, schema: pa.Schema, tables: Iterator[pa.Table]) -> tuple[int, int]:
    """Return how many rows were written, and where what is behind the pages begins."""
    rows = 0
    with deferred(), path.open("xb") as file, let_through():
        writer = PageWriter(file, schema)
        for table in tables:
            hashes = layout.hashes(table)
            columns = [int64_array(hashes), *(table.column(name).cast(t.arrow) for name, t in layout.fields)]
            _write_rows(writer, layout, hashes, pa.table(columns, schema=schema).combine_chunks())
            rows += len(table)
        begin = writer.finish()
        file.flush()
        os.fsync(file.fileno())
    return rows, begin


def _write_rows(writer: PageWriter, layout: Layout, hashes: Ints, table: pa.Table) -> None:
    """Write updates whose hashes are known in the order of these; those of large keys in theirs."""
    if layout.by is None:
        order, _ = ascending(hashes)
        pages = [(start, min(start + PAGE, len(order))) for start in range(0, len(order), PAGE)]
        found = Placed(order, pages, [NO_ORDER] * len(pages))
    else:
        found = _in_order(layout, layout.by, hashes, table)
    in_order = hashes.take(found.order)
    for _, some in itertools.groupby(zip(found.pages, found.about, strict=True), lambda page: page[0][0] // _SOME):
        pages_about = list(some)
        first, end = pages_about[0][0][0], pages_about[-1][0][1]
        (batch,) = table.take(int64_array(found.order[first:end])).combine_chunks().to_batches()
        for (start, stop), about in pages_about:
            writer.write(batch.slice(start - first, stop - start), in_order[start:stop], about)


def _in_order(layout: Layout, by: KeyOrder, hashes: Ints, table: pa.Table) -> Placed:
    """Return how updates are to lie so that those of large keys lie in their order."""
    interner = Interner()  # what is sorted is not what the run holds
    width = len(layout.types)

    def codes_of(which: Ints) -> UpdateArray:
        block = layout.encoded(table.take(int64_array(which)), interner)
        return np.concatenate((block[:width], block[-layout.weights :]))

    return placed(hashes, codes_of, layout.keys, with_interner(by, interner), PAGE_IN_ORDER, PAGE)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _damaged(path: Path, error: Exception) -> StateError:
    if isinstance(error, FileNotFoundError):
        return StateError(f"{path} is missing, which was committed: the folder was changed from outside; restore it")
    if isinstance(error, OSError) and error.errno is not None:  # the system's, not the file's
        return StateError(f"{path} could not be read ({error}): {advice(error)}")
    return StateError(
        f"{path} is not a whole file of state ({error}): it was cut off or changed; restore it from a copy"
    )
