"""Files of pages: rows in the order of a hash, some of which are read for a key without the rest.

A page is a record batch in Arrow's stream format, not compressed, so that to read one is little more than its checksum.
Behind the pages are their schema and an index: where each page begins, the least and the greatest hash in it, its
checksum and its rows, and what is known of pages that lie in an order (`About`), if some do; and the last two bytes of
each row's hash, which tell of most keys that are not there without a page being read. What refers to a file has the
checksums of that part, which has those of the others.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.boundary.arrow_arrays import int64_array, numbers_of
from tidemill.renderer.durable.checksums import Checksums, DamagedError
from tidemill.renderer.durable.page_order import NO_ORDER, About, about_pages
from tidemill.renderer.embedded.kernels.updates import Ints

HASH: Final = "h"
ENDING: Final = ".pages"
_LENGTHS: Final = struct.Struct("<qqq")
"""How many bytes the schema has, how many numbers there are about each page, and how many pages."""
_MARK: Final = np.dtype("<u2")
Marks: TypeAlias = npt.NDArray[np.uint16]
_PLAIN: Final = 5
"""Numbers in the index about each page; there are more where some lie in an order."""


class PageWriter:
    """Writes pages, one after another, and what says where they are."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file
        self._schema = schema
        self._index: list[tuple[int, ...]] = []
        self._marks: list[Marks] = []
        self._at = 0

    def write(self, page: pa.RecordBatch, hashes: Ints, about: tuple[int, int, int, int]) -> None:
        """Write rows in the order of their hashes, and what is known of another order of theirs."""
        content = page.serialize()
        low, high = hashes[[0, -1]].tolist()
        self._index.append((self._at, low, high, zlib.crc32(content), len(hashes), *about))
        self._marks.append(_marks(hashes))
        self._at += self._file.write(content)

    def finish(self) -> int:
        """Write what is behind the pages; return where that begins."""
        schema = self._schema.serialize()
        index = np.array(self._index, "<i8").reshape(-1, _PLAIN + len(NO_ORDER)).T
        if (index[_PLAIN:].T == NO_ORDER).all():
            index = index[:_PLAIN]
        self._file.write(_LENGTHS.pack(schema.size, *index.shape) + bytes(schema) + index.tobytes())
        for marks in self._marks:
            self._file.write(marks.tobytes())
        return self._at


class PageFile:
    """A file of pages, by the hashes they have. Whatever is wrong with it, an error says that."""

    def __init__(self, path: Path, checksums: Checksums) -> None:
        self.path = path
        self._content = content = mapped(path)  # stays readable where the file is removed, as when it was merged
        checksums.check(memoryview(content))
        at = checksums.begin + _LENGTHS.size
        length, width, pages = _LENGTHS.unpack(content[checksums.begin : at])
        self._schema = pa.ipc.read_schema(content[at : at + length])
        index: Ints = np.frombuffer(content, "<i8", width * pages, at + length).reshape(width, pages)
        self._marks: Marks = np.frombuffer(content, _MARK, offset=at + length + index.nbytes)
        self._starts = np.append(index[0], checksums.begin)
        self._low, self._high, self._crc, self._rows = index[1:_PLAIN]
        self._ends = self._rows.cumsum()
        self._about = about_pages(index[_PLAIN:].T, self._low)

    @property
    def bounds(self) -> Ints:
        """The least hash of each page."""
        found: Ints = self._low
        return found

    def of(self, hashes: Ints) -> list[int]:
        """Return the pages that may have one of these hashes, which are sorted."""
        first, end = self._high.searchsorted(hashes, "left"), self._low.searchsorted(hashes, "right")
        pages = _between(first, end)
        ends = self._ends[pages]
        starts = ends - self._rows[pages]
        sought = _marks(hashes).repeat(end - first).repeat(ends - starts)
        there = self._marks[_between(starts, ends)] == sought
        found = np.logical_or.reduceat(there, (ends - starts).cumsum() - (ends - starts)) if len(pages) else there
        return [int(page) for page in np.unique(pages[found])]

    def within(self, low: int | None, high: int | None) -> list[int]:
        """Return the pages that may have a hash from ``low`` on and below ``high``."""
        first = 0 if low is None else self._high.searchsorted(low, "left")
        end = len(self._low) if high is None else self._low.searchsorted(high, "left")
        return list(range(first, end))

    @property
    def keys_in_order(self) -> Collection[int]:
        """The hashes of the keys whose rows lie in an order."""
        return self._about.keys()

    def in_order(self, key: int) -> list[About]:
        """Return the pages of a key by its hash, in the order in which its rows lie; none if they lie in no order."""
        return self._about.get(key, [])

    def all(self) -> list[int]:
        """Return all pages."""
        return list(range(len(self._low)))

    def check(self, pages: Sequence[int]) -> list[pa.Buffer]:
        """Return the bytes of some pages; raise `DamagedError` where they are not what was written."""
        which = np.array(pages, np.int64)
        starts, ends = self._starts[which].tolist(), self._starts[which + 1].tolist()
        found = [self._content.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
        for start, content, crc in zip(starts, found, self._crc[which].tolist(), strict=True):
            if zlib.crc32(content) != crc:
                msg = f"the checksum of its page from byte {start} on is wrong"
                raise DamagedError(msg)
        return found

    def read(self, pages: Sequence[int]) -> pa.Table:
        """Return the rows of some pages."""
        found = [pa.ipc.read_record_batch(content, self._schema) for content in self.check(pages)]
        return pa.Table.from_batches(found, self._schema).combine_chunks()  # whatever is done with chunks is slow

    def rows_of(self, hashes: Ints) -> pa.Table:
        """Return the rows that have one of these hashes, which are sorted."""
        table = self.read(self.of(hashes))
        there = numbers_of(table.column(HASH))  # in order, as pages are
        places = _between(there.searchsorted(hashes, "left"), there.searchsorted(hashes, "right"))
        return table.take(int64_array(places))


def mapped(path: Path) -> pa.Buffer:
    """Return a file's content, which stays on the disk until it is looked at."""
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def _between(first: Ints, end: Ints) -> Ints:
    """Return the numbers of all ranges, which begin with one and end before another, one range after the other."""
    counts = end - first
    found: Ints = np.arange(counts.sum()) + (first + counts - counts.cumsum()).repeat(counts)
    return found


def _marks(hashes: Ints) -> Marks:
    """Return the last two bytes of hashes."""
    return hashes.astype(_MARK)
