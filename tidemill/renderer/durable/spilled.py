"""What of a run's state is not in memory: batches below its spines, on the disk, got key by key.

A spine whose updates were spilled has its older ones here. What is asked for by key is read from its pages, and stays
in memory until room is needed. So the memory of a run is bounded, and a step costs what it touches.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import numbers_of
from tidemill.expressions.types import INT64
from tidemill.renderer.durable.file_work import FileWork, WorkHere
from tidemill.renderer.durable.page_files import ENDING, HASH
from tidemill.renderer.durable.spill_files import (
    Layout,
    Pages,
    SpilledBatch,
    SpillFile,
    read_file,
    write_block,
)
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column
from tidemill.renderer.embedded.kernels.updates import Codes, Ints, UpdateArray, stacked
from tidemill.renderer.embedded.state import kept_otherwise
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.elsewhere import Range
from tidemill.renderer.embedded.trace.merging import View
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.stored_order import StoredOrder, StoredPage
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.embedded.whole_file import sync_folder

_LOG: Final = logging.getLogger("tidemill.spills")
_MANY: Final = 16
"""Spilled batches from which on those that nobody has asked for a key are sorted and merged, too."""
_RATIO: Final = 4
"""A spilled batch is merged with the next older one when that is less than this many times its size."""


class SpillFolder:
    """The spilled batches of a run, in a folder of their own.

    A file is there as long as it is in a batch (`names`), the last commit refers to it (`base`), or somebody else needs
    it and has it pinned: results that were not read yet, large changes that wait, and what the log refers to. All else
    goes in `sweep`. A checkpoint lists the files that it refers to as it is written (`listed`), and only once it is
    committed these are the new base: so at every moment there is all that the last one refers to.
    """

    def __init__(self, folder: Path, users: int, interner: Interner, *, durable: bool) -> None:
        self.folder = folder
        self.durable = durable
        """Whether a crash is to be survived."""
        self.users = users
        self.interner = interner
        self.spilled: dict[str, SpilledSpine] = {}
        """By the name of the spine that they are below."""
        self.base: set[str] = set()
        """The files that the last checkpoint refers to: after a crash they are what there is."""
        self.listed: set[str] = set()
        """Those that a checkpoint refers to that is being made."""
        self.replaced = 0
        """How many files were replaced by others since the last sweep."""
        self._pins: Counter[str] = Counter()
        self._pinning = threading.RLock()
        """Results let go of their pins in whatever thread drops them, at any moment."""
        self._flusher: ThreadPoolExecutor | None = None
        self._flushing: list[tuple[list[str], Future[None]]] = []
        self.doubtful: set[str] = set()
        """Files that may not be on the disk, which could not write them."""
        self.ending = f"-{uuid.uuid4().hex[:8]}"
        """Of the names of files that this run writes."""
        self._numbers = itertools.count()
        self._whole: set[str] = set()
        """Files of runs before this one that were found to be whole."""
        self._has_new = False
        """Whether files were made of which the folder may not say on the disk that they are there."""
        self.work: FileWork = WorkHere(folder, self.new_path)
        """Who sorts, merges and checks files."""

    def beneath(self, name: str, spine: Spine) -> SpilledSpine:
        """Return what is below a spine."""
        if name not in self.spilled:
            self.spilled[name] = spine.spilled = SpilledSpine(self, name, spine)
        return self.spilled[name]

    def spill(self, name: str, spine: Spine) -> None:
        """Write what a spine holds in memory below it, and let go of it."""
        spine.exert()
        block = spine.updates_in_memory()
        if block.shape[1]:
            spilled = self.beneath(name, spine)
            file = write_block(self.new_path(name), spilled.layout, block, self.interner)
            _LOG.info("%s updates of %s were written to %s", file.rows, name, file.name)
            before, state = spilled.spilled_batches, spine.state
            try:
                spilled.add(SpilledBatch((file,)))
                spine.evict()
            except BaseException:  # interrupted: it must be there once
                spilled.spilled_batches, spine.state = before, state
                raise
            with contextlib.suppress(OSError):  # that is for tidiness, and there will be another opportunity
                spilled.settle()

    @property
    def in_memory(self) -> int:
        """How many updates were read and are still in memory."""
        return sum(spilled.in_memory for spilled in self.spilled.values())

    def forget(self) -> None:
        """Let go of all that was read."""
        for spilled in self.spilled.values():
            spilled.forget()

    def listing(self) -> dict[str, Any]:
        """Return what there is, to be written down with a checkpoint."""
        self.listed = self.names
        self.base = self.base | self.listed  # interrupted, nobody may know whether it is the last checkpoint
        return {
            name: [[f.listing() for f in batch.files] for batch in spilled.spilled_batches]
            for name, spilled in self.spilled.items()
            if spilled.spilled_batches
        }

    def restore(self, listing: Mapping[str, Any], spines: Mapping[str, Spine]) -> None:
        """Have below the spines what was written down."""
        for name, batches in listing.items():
            if name not in spines:
                raise kept_otherwise(f"operator {name}")
            found = [SpilledBatch(tuple(map(SpillFile.listed, files))) for files in batches]
            self.beneath(name, spines[name]).spilled_batches = found
        self.base = self.names

    def flush_later(self, names: Iterable[str]) -> None:
        """Have files that others wrote reach the disk in the background, while there is other work to be done."""
        if not self.durable:
            return
        if self._flusher is None:
            self._flusher = ThreadPoolExecutor(1, "tidemill-flush")
        wanted = list(names)
        self._flushing.append((wanted, self._flusher.submit(_flush, [self.folder / name for name in wanted])))

    def flushed(self) -> None:
        """Return when all files are on the disk: nothing may be committed before.

        ``OSError`` where that fails. Such files are doubtful from then on: asked again, the system may say that all is
        well although what it could not write is gone.
        """
        while self._flushing:
            names, future = self._flushing[0]
            try:
                future.result()
            except OSError:
                del self._flushing[0]
                self.doubtful.update(names)
                raise
            del self._flushing[0]
        if self._has_new:
            sync_folder(self.folder)
            sync_folder(self.folder.parent)
            self._has_new = False  # last: interrupted, it is done again

    @property
    def names(self) -> set[str]:
        """The files that arrangements refer to."""
        return {f.name for spilled in self.spilled.values() for batch in spilled.spilled_batches for f in batch.files}

    def sweep(self) -> None:
        """Remove files to which neither an arrangement refers, nor the last checkpoint, nor who pinned them."""
        self.replaced = 0
        if self.folder.exists():
            with contextlib.suppress(OSError), self._pinning:  # there will be another opportunity
                needed = self.names | self.base | set(self._pins)
                for path in self.folder.iterdir():
                    if path.is_dir():  # what a step wrote that was not taken
                        shutil.rmtree(path, ignore_errors=True)
                    elif path.name not in needed:
                        path.unlink()

    def pin(self, names: Iterable[str]) -> None:
        """Keep files, whether or not an arrangement refers to them."""
        with self._pinning:
            self._pins.update(names)

    def unpin(self, names: Iterable[str]) -> None:
        """Keep files once less."""
        with self._pinning:
            for name in names:
                self._pins[name] -= 1
                if self._pins[name] <= 0:
                    del self._pins[name]

    def require_whole(self, files: Iterable[SpillFile]) -> None:
        """Raise `StateError` where files are damaged, for others to read; once each, and none that this run wrote."""
        unseen = [f for f in files if f.name not in self._whole and not Path(f.name).stem.endswith(self.ending)]
        if unseen:
            self.work.require_whole(unseen)
        self._whole.update(f.name for f in unseen)

    def close(self) -> None:
        """Let go of the thread that flushes: what was not waited for was not committed."""
        if self._flusher is not None:
            self._flusher.shutdown(cancel_futures=True)

    def new_path(self, name: str, kind: str = ENDING) -> Path:
        """Return a path for a file of a spine that no other file has: a sorted one, if nothing else is said."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._has_new = True
        return self.folder / f"{name.replace('/', '-')}-{next(self._numbers):06}{self.ending}{kind}"


def _flush(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:  # it may be gone: it was refused
            os.fsync(file.fileno())


class SpilledSpine:
    """What is below one spine. See `Spilled`."""

    def __init__(self, store: SpillFolder, name: str, spine: Spine) -> None:
        self.spilled_batches: list[SpilledBatch] = []
        """Oldest first."""
        of = spine.layout
        ordered = of.order.columns[0] if of.order is not None and of.order.columns and not of.keys else None
        self.layout = Layout(of.keys, of.types, of.users, of.coordinates, of.weights, ordered, spine.by, of.limbs)
        self._store = store
        self._name = name
        self._order = of.order
        self._since = spine.since
        self._gone = spine.gone
        self._pages: dict[str, Pages] = {}
        self._transaction = Transaction()
        self._read = self._empty()
        self._loaded: set[tuple[str, int]] = set()
        """What of which file was read: rows with a hash, all that there are; or a page, in a column's order."""
        self._known: set[Any] = set()
        """The keys of which all was read."""

    # -- see Spilled --------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return sum(batch.rows for batch in self.spilled_batches)

    @property
    def batches(self) -> int:
        return len(self.spilled_batches)

    @property
    def bytes(self) -> int:
        return self._read.bytes

    @property
    def on_disk(self) -> dict[str, int]:
        return {f.name: f.checksums.size for batch in self.spilled_batches for f in batch.files}

    def find(self, keys: Codes) -> tuple[Ints, UpdateArray]:
        self._load(keys)
        return self._read.find(keys)

    def loaded(self, keys: Codes) -> View:
        self._load(keys)
        return self._read.view

    def loaded_between(self, ranges: Sequence[Range]) -> View:
        if not self.spilled_batches:
            return self._read.view
        assert self.layout.ordered is not None, "it lies in an order"
        self._sort()
        for file in self._files:
            found = [page for low, high in ranges for page in self._of(file).within(low, high)]
            self._load_pages(file, found)
        return self._read.view

    def in_order(self, keys: Codes, most: int) -> dict[int, StoredOrder]:
        if self.layout.by is None or not self.spilled_batches:
            return {}
        self._sort()
        new = self._unknown_in_order(keys)
        if any(self._lies_apart(key_hash, most) for key_hash in new.values()):
            self._merge_all(most)
            if not self.spilled_batches:  # all of it has cancelled
                return {}
        found = {number: self._stored(keys[:, number : number + 1], hash_, most) for number, hash_ in new.items()}
        return {number: stored for number, stored in found.items() if stored is not None}

    def _unknown_in_order(self, keys: Codes) -> dict[int, int]:
        """Return the hashes of keys that may have rows in the order and were not read, by the number of the key."""
        large = set[int]().union(*(self._of(f).keys_in_order for f in self._files))
        if not large:
            return {}
        hashes = self._hashes(keys)
        some = np.isin(hashes, list(large)).nonzero()[0]
        codes = self._codes(keys.take(some, axis=1))
        pairs = zip(some.tolist(), hashes.take(some).tolist(), strict=True)
        return {number: hash_ for (number, hash_), code in zip(pairs, codes, strict=True) if code not in self._known}

    def _lies_apart(self, key_hash: int, most: int) -> bool:
        """Return whether a key has rows in the order in several files, more than a few of them not in the largest."""
        rows = self._rows_in_order(key_hash)
        return sum(rows) - max(rows) > max(rows) // most

    def _rows_in_order(self, key_hash: int) -> list[int]:
        """Return how many rows of a key lie in the order in each of the files."""
        return [sum(about.rows for about in self._of(f).in_order(key_hash)) for f in self._files]

    def _merge_all(self, most: int) -> None:
        """Have all in one file, if that is more than one row in so many that is not; else it would take too long."""
        sizes = [f.rows for f in self._files]
        if sum(sizes) - max(sizes) > max(sizes) // most:
            with contextlib.suppress(OSError):  # there is no room: it is read as it is
                self._merge(*self.spilled_batches)

    def _stored(self, key: Codes, key_hash: int, most: int) -> StoredOrder | None:
        """Return how the rows of a key lie; None where they are not in order, but for a few."""
        rows, files = self._rows_in_order(key_hash), self._files
        largest = files[rows.index(max(rows))]
        about, apart = self._of(largest).in_order(key_hash), self._lies_apart(key_hash, most)
        if not about or apart or (largest.name, key_hash) in self._loaded:
            return None
        for file in files:
            if file is not largest:
                self._load_rows(file, [key_hash])
        read = partial(self._codes_of, self._of(largest))
        pages = [StoredPage(a.first, a.last, a.rows, a.groups, partial(read, a.page)) for a in about]
        first = pages[0].read()
        if (first[list(self.layout.keys), :1] != key).any():  # another key with the same hash
            return None
        pages[0] = pages[0]._replace(read=lambda: first)
        return StoredOrder(pages, self._read.find(key)[1])

    def _codes_of(self, pages: Pages, page: int) -> Codes:
        """Return the rows of a page, each as often as it is there."""
        block = self.layout.encoded(pages.read([page]), self._store.interner)
        rows, counts = block[: len(self.layout.types)], block[-1]
        return rows.copy() if (counts == 1).all() else rows.repeat(counts, axis=1)

    def count(self, keys: Codes) -> Ints:
        self._load(keys)
        return self._read.count(keys)

    def all_updates(self) -> UpdateArray:
        folder = self._store.folder
        tables = [read_file(folder, self.layout, f) for b in self.spilled_batches for f in b.files]
        blocks = [self.layout.encoded(table, self._store.interner) for table in tables]
        return stacked(blocks) if blocks else self._read.updates_in_memory()[:, :0]

    def updates_in_memory(self) -> UpdateArray:
        return self._read.updates_in_memory()

    def forget_keys(self) -> None:
        self._known.clear()

    def clear(self) -> None:
        self.spilled_batches = []
        self.forget()

    # -- in and out of memory -----------------------------------------------------------------------------------------

    @property
    def in_memory(self) -> int:
        return self._read.size

    def forget(self) -> None:
        """Let go of what was read."""
        self._read = self._empty()
        self._loaded.clear()
        self._known.clear()
        self._pages.clear()

    @property
    def _files(self) -> list[SpillFile]:
        return [f for batch in self.spilled_batches for f in batch.files]

    def add(self, batch: SpilledBatch) -> None:
        """Have this as the newest batch."""
        self.spilled_batches = [*self.spilled_batches, batch]
        self._known.clear()

    def settle(self, most: int = _MANY) -> None:
        """Merge neighbours that have become similar in size; and all, sorted for it, where there are too many batches.

        What is there is the same before, afterwards, and where it fails.
        """
        if len(self.spilled_batches) > most:
            self._sort()
        while len(self.spilled_batches) > 1:
            older, newer = self.spilled_batches[-2:]
            if len(self.spilled_batches) <= most and older.rows >= _RATIO * newer.rows:
                return
            if not all(f.sorted for batch in (older, newer) for f in batch.files):
                return  # nobody has asked for a key yet
            self._merge(older, newer)

    def _merge(self, *newest: SpilledBatch) -> None:
        """Merge the newest batches, which are given, into one."""
        files = [f for batch in newest for f in batch.files]
        rows = sum(batch.rows for batch in newest)
        found = self._store.work.merged(self._name, self.layout, files, self._since(), self._gone)
        _LOG.debug("%s updates of %s in %s files were merged", rows, self._name, len(files))
        rest = [SpilledBatch(tuple(found))] if found else []
        self.forget()  # first: interrupted in between, what was read of two files would be read again from the one
        self.spilled_batches = [*self.spilled_batches[: -len(newest)], *rest]
        self._store.replaced += len(files)

    def _empty(self) -> Spine:
        of = self.layout
        layout = UpdateLayout(of.keys, of.types, of.coordinates, of.users, of.weights, self._order, of.limbs)
        return Spine(layout, self._since, self._transaction)

    def _load(self, keys: Codes) -> None:
        """Have all pages in memory that may have one of these keys."""
        if not self.spilled_batches:
            return
        codes = self._codes(keys)
        new = [i for i, key in enumerate(codes) if key not in self._known]
        if not new:
            return
        self._sort()
        hashes = np.unique(self._hashes(keys.take(new, axis=1))).tolist()
        for file in self._files:
            if self.layout.ordered is None:
                self._load_rows(file, hashes)
            else:
                self._load_pages(file, self._of(file).all())
        self._known.update(codes[i] for i in new)

    @staticmethod
    def _codes(keys: Codes) -> list[Any]:
        """Return keys one by one, as they are known."""
        return keys[0].tolist() if len(keys) == 1 else list(zip(*keys.tolist(), strict=True)) or [()] * keys.shape[1]

    def _hashes(self, keys: Codes) -> Ints:
        types = [self.layout.types[k] or INT64 for k in self.layout.keys]
        columns = [decode_column(c, t, self._store.interner) for c, t in zip(keys, types, strict=True)]
        return self.layout.key_hashes(columns, keys.shape[1])

    def _load_rows(self, file: SpillFile, hashes: Sequence[int]) -> None:
        """Have all rows of a file in memory that have one of these hashes, which are sorted."""
        missing = [hash_ for hash_ in hashes if (file.name, hash_) not in self._loaded]
        if missing:
            table = self._of(file).rows_of(np.array(missing, np.int64))
            self._add_read(file, table, np.unique(numbers_of(table.column(HASH))).tolist())

    def _load_pages(self, file: SpillFile, pages: Iterable[int]) -> None:
        missing = sorted(page for page in set(pages) if (file.name, page) not in self._loaded)
        self._add_read(file, self._of(file).read(missing), missing)

    def _add_read(self, file: SpillFile, table: pa.Table, what: Sequence[int]) -> None:
        """Have in memory what was read of a file."""
        if not what:
            return
        block = self.layout.encoded(table, self._store.interner)
        try:
            self._read.append(block)
            self._transaction.commit()
            self._loaded.update((file.name, number) for number in what)
        except BaseException:  # interrupted: it must not be there twice
            self._transaction = Transaction()
            self.forget()
            raise

    def _sort(self) -> None:
        """Sort what large loads left unsorted, now that it is asked for by key."""
        for i, batch in enumerate(self.spilled_batches):
            unsorted = [f for f in batch.files if not f.sorted]
            if unsorted:
                _LOG.info("%s updates of %s are sorted by key", sum(f.rows for f in unsorted), self._name)
                files = self._store.work.sorted(self._name, self.layout, unsorted, self._since())
                self.spilled_batches[i] = SpilledBatch((*(f for f in batch.files if f.sorted), *files))
                self._store.replaced += len(unsorted)
        self.spilled_batches = [batch for batch in self.spilled_batches if batch.files]  # merged, all may cancel

    def _of(self, file: SpillFile) -> Pages:
        if file.name not in self._pages:
            self._pages[file.name] = Pages(self._store.folder, file)
        return self._pages[file.name]
