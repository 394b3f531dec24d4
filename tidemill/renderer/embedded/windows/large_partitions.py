"""The large partitions of an operator, each in its order, and how they come back where a step fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tidemill.renderer.embedded.kernels.updates import Codes, Ints, UpdateArray, largest
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.windows import order_index
from tidemill.renderer.embedded.windows.chunks import Chunk
from tidemill.renderer.embedded.windows.order_index import OrderIndex

Key: TypeAlias = tuple[int, ...]


class _Before(NamedTuple):
    """A partition before the step."""

    partition: OrderIndex | None
    """The rows that were in no spine; None for none."""
    state: list[Chunk] | None
    rows: int
    cached: int


class LargePartitions:
    """Partitions by their keys. They hold the rows themselves, which are in no spine, or cache spilled ones.

    See `Beside`: the spine that has the small ones has these saved and spilled with its own.
    """

    def __init__(self) -> None:
        self._rows: dict[Key, OrderIndex] = {}
        self._cached: dict[Key, OrderIndex] = {}
        self._before: dict[Key, _Before] = {}
        """The partitions that the current step has changed, as they were before."""
        self._counts: tuple[int, int] | None = None
        """How many rows and cached ones were in memory between two steps, once they are counted, as each step does."""

    def among(self, keys: Sequence[Key]) -> dict[int, OrderIndex]:
        """Return the partitions that are here, by the places of their keys: mostly there are none, or few keys."""
        if not self._rows and not self._cached:
            return {}
        found = {}
        for place, key in enumerate(keys):
            rows = self._rows.get(key, self._cached.get(key))
            if rows is not None:
                found[place] = rows
        return found

    def held(self, keys: Sequence[Key]) -> set[int]:
        """Return the places of those keys whose partitions' rows are here and nowhere else."""
        return {place for place, key in enumerate(keys) if key in self._rows} if self._rows else set()

    def __getitem__(self, key: Key) -> OrderIndex:
        """Return a partition whose rows are here and nowhere else."""
        return self._rows[key]

    def holds(self, key: Key) -> bool:
        """Return whether a partition's rows are here and nowhere else."""
        return key in self._rows

    def numbered(self, key: Key, number: int) -> list[UpdateArray]:
        """Return the rows of a partition, which are in no spine, below a number, with how often each is there."""
        found = []
        for codes in self._rows[key].chunks():
            rows = np.empty((len(codes) + 2, codes.shape[1]), np.int64)
            rows[0], rows[1:-1], rows[-1] = number, codes, 1
            found.append(rows)
        return found

    # -- changing ------------------------------------------------------------------------------------------------------

    def put(self, key: Key, rows: OrderIndex, *, cached: bool = False) -> None:
        """Hold a partition."""
        self.touch(key)
        (self._cached if cached else self._rows)[key] = rows

    def drop(self, key: Key) -> None:
        """Hold a partition no more."""
        self.touch(key)
        self._rows.pop(key, None)
        self._cached.pop(key, None)

    def touch(self, key: Key) -> None:
        """Record what a partition is like, since it is about to change; what is cached is read again when needed."""
        if key not in self._before:
            rows = self._rows.get(key)
            self._before[key] = _Before(rows, None if rows is None else rows.state(), *self._lengths(key))

    def commit(self) -> None:
        """Have the changes of the step stay."""
        counts = self._counts
        if counts is not None:
            for key, before in self._before.items():
                rows, cached = self._lengths(key)
                counts = counts[0] + rows - before.rows, counts[1] + cached - before.cached
        self._before, self._counts = {}, counts

    def rollback(self) -> None:
        """Undo the changes of the step."""
        for key, (partition, state, *_) in self._before.items():
            self._cached.pop(key, None)
            if partition is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = partition
                assert state is not None
                partition.go_back(state)
        self._before, self._counts = {}, None

    def drop_cached(self) -> None:
        """Drop the partitions that cache rows held elsewhere."""
        self._cached, self._counts = {}, None

    # -- as `Beside` ---------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return self._counted()[0]

    @property
    def cached(self) -> int:
        return self._counted()[1]

    @property
    def bytes(self) -> int:
        return sum(rows.bytes for some in (self._rows, self._cached) for rows in some.values())

    def arrays(self) -> Iterator[UpdateArray]:
        """Iterate over all rows that are in no spine, as updates."""
        for rows in self._rows.values():
            for codes in rows.chunks():
                yield updates_of(codes)

    @property
    def parts(self) -> int:
        return len(self._rows) + len(self._cached)

    def forget(self, is_gone: Callable[[Key], bool]) -> None:
        for some in (self._rows, self._cached):
            for key in [key for key in some if is_gone(key)]:
                del some[key]
        self._counts = None

    def clear(self) -> None:
        self.state = {}
        self._cached = {}
        self._before = {}

    @property
    def state(self) -> Mapping[Key, OrderIndex]:
        return self._rows

    @state.setter
    def state(self, state: Mapping[Key, OrderIndex]) -> None:
        self._rows, self._counts = dict(state), None

    def _counted(self) -> tuple[int, int]:
        """Return how many rows there are, and cached ones: all are counted once, and then what steps change."""
        if self._counts is not None and not self._before:
            return self._counts
        rows, cached = sum(map(len, self._rows.values())), sum(some.in_memory for some in self._cached.values())
        if not self._before:
            self._counts = rows, cached
        return rows, cached

    def _lengths(self, key: Key) -> tuple[int, int]:
        """Return how many rows of a partition are held here, and how many are cached."""
        copy = self._cached.get(key)
        return len(self._rows.get(key, ())), 0 if copy is None else copy.in_memory


def updates_of(codes: Codes, counts: Ints | None = None, *, time: int = 0) -> UpdateArray:
    """Return rows as updates, whose time is of no concern where they are stored. Without counts each is there once."""
    updates = np.empty((len(codes) + 2, codes.shape[1]), np.int64)
    updates[:-2] = codes
    updates[-2] = time
    updates[-1] = 1 if counts is None else counts
    return updates


def partitions_in_order(
    codes: Codes, counts: Ints, number: Ints, order: RowOrder, peers: int
) -> Iterator[tuple[int, OrderIndex]]:
    """Iterate over the partitions of rows in any order, each as often as its count says, by their numbers."""
    chunk = order_index.CHUNK
    source = order.sorted(list(codes), number).order
    codes = np.ascontiguousarray(codes)  # else all of it would be copied for each chunk that is taken
    once = largest(counts) == 1
    sizes = np.bincount(number, None if once else counts).astype(np.int64).tolist()
    if not once:
        source = source.repeat(counts.take(source))
    start = 0
    for owner, size in enumerate(sizes):
        if size:
            end = start + size
            chunks = (codes.take(source[at : min(at + chunk, end)], axis=1) for at in range(start, end, chunk))
            yield owner, OrderIndex(chunks, order, peers)
            start = end
