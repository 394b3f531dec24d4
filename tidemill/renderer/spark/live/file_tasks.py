"""Whole files of state, looked through, sorted and merged by executors: the driver learns of each what it is.

A task is given names of files, makes files under names of its own, and says of each what a checkpoint says: rows and
checksums. One that ran twice, or was lost on its way back, leaves files that nobody knows of, which are swept up.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidemill.dataflow.lattice import Antichain
from tidemill.errors import EngineError, StateError
from tidemill.renderer.durable.checksums import Checksums
from tidemill.renderer.durable.file_work import TOGETHER, FileWork, WorkHere, together
from tidemill.renderer.durable.page_files import ENDING
from tidemill.renderer.durable.page_order import with_interner
from tidemill.renderer.durable.spill_files import Layout, Pages, SpillFile, Within, merged, ranges, sorted_file
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.trace.merging import Gone
from tidemill.renderer.spark.failures import OTHER_DISKS

INVALID: Final = "odd"
"""The column of files that says whether a row is invalid."""
_MOST_RUNS: Final = 16
"""Sorted files of a batch that are left as they are: with more, a key would be looked for in too many."""

_Task = Callable[[], Any]


@attrs.frozen
class Described:
    """What a file that Spark wrote is."""

    rows: int
    checksums: Checksums
    may_have_invalid: bool
    """Whether a row of it may be marked as invalid."""


@attrs.frozen
class WorkOnExecutors:
    """See `FileWork`. Executors do it where there are many rows; few are quicker done here."""

    spark: SparkSession
    store: SpillFolder
    most_here: int
    here: WorkHere

    @classmethod
    def beside(cls, spark: SparkSession, store: SpillFolder, most_here: int) -> FileWork:
        return cls(spark, store, most_here, WorkHere(store.folder, store.new_path))

    def sorted(self, name: str, layout: Layout, files: Sequence[SpillFile], since: Antichain) -> list[SpillFile]:
        """See `FileWork`. Where that makes many, they are merged into files of which each has a range of hashes."""
        if self._are_few(files):
            return self.here.sorted(name, layout, files, since)
        prefix, folder, sent = self._prefix(name), self.store.folder, _sent(layout)
        runs = self._new_files([_Sort(folder, prefix, sent, some) for some in together(files)])
        return runs if len(runs) <= _MOST_RUNS else self.merged(name, layout, runs, since, None)

    def merged(
        self, name: str, layout: Layout, files: Sequence[SpillFile], since: Antichain, gone: Gone | None
    ) -> list[SpillFile]:
        """See `FileWork`. What rows are gone is known here alone."""
        if gone is not None or self._are_few(files):
            return self.here.merged(name, layout, files, since, gone)
        prefix, folder, sent = self._prefix(name), self.store.folder, _sent(layout)
        within = ranges([Pages(folder, f) for f in files], sum(f.rows for f in files), TOGETHER)
        return self._new_files([_Merge(folder, prefix, sent, files, since, some) for some in within])

    def require_whole(self, files: Sequence[SpillFile]) -> None:
        """See `FileWork`."""
        if self._are_few(files):
            self.here.require_whole(files)
        else:
            done(self.spark, [_Check(self.store.folder, file) for file in files])

    def _are_few(self, files: Sequence[SpillFile]) -> bool:
        return sum(f.rows for f in files) <= self.most_here

    def _prefix(self, name: str) -> str:
        """Return how names of new files begin, up to a number: what tasks add instead tells them apart."""
        return self.store.new_path(name).stem.removesuffix(self.store.ending)

    def _new_files(self, tasks: Sequence[_Sort | _Merge]) -> list[SpillFile]:
        found = [SpillFile.listed(listing) for listing in done(self.spark, tasks) if listing is not None]
        for file in found:
            _require_here(self.store.folder / file.name, file.checksums)
        return found


def described(spark: SparkSession, paths: Sequence[Path]) -> list[Described]:
    """Return what files are that Spark wrote, each looked through by an executor: ``OSError`` if it does not see it."""
    found = done(spark, [_Describe(path) for path in paths])
    return [Described(rows, Checksums.listed(sums), invalid) for rows, sums, invalid in found]


# -- tasks ------------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Describe:
    path: Path

    def __call__(self) -> Any:
        about = pq.read_metadata(self.path)
        return about.num_rows, Checksums.of(self.path).listing(), _may_have_invalid(about)


@attrs.frozen
class _Sort:
    folder: Path
    prefix: str
    layout: Layout
    files: Sequence[SpillFile]

    def __call__(self) -> Any:
        return sorted_file(_new(self.folder, self.prefix), self.layout, self.folder, self.files).listing()


@attrs.frozen
class _Merge:
    folder: Path
    prefix: str
    layout: Layout
    files: Sequence[SpillFile]
    since: Antichain
    within: Within

    def __call__(self) -> Any:
        path, pages = _new(self.folder, self.prefix), [Pages(self.folder, file) for file in self.files]
        rows = sum(f.rows for f in self.files)
        file = merged(path, self.layout, pages, rows, self.since, within=self.within)
        return None if file is None else file.listing()


@attrs.frozen
class _Check:
    folder: Path
    file: SpillFile

    def __call__(self) -> None:
        self.file.require_whole(self.folder)


def _may_have_invalid(about: pq.FileMetaData) -> bool:
    """Return whether a row may be marked as invalid, by the statistics of the column that says so, the last one."""
    for group in map(about.row_group, range(about.num_row_groups)):
        column = group.column(group.num_columns - 1)
        if column.path_in_schema != INVALID:
            return False
        seen = column.statistics
        if seen is None or not seen.has_min_max or seen.max:
            return True
    return False


def _new(folder: Path, prefix: str) -> Path:
    """Return a path that no other attempt at a task has."""
    return folder / f"{prefix}-{uuid.uuid4().hex[:12]}{ENDING}"


def _sent(layout: Layout) -> Layout:
    """Return a layout without the values that this run holds."""
    return layout if layout.by is None else attrs.evolve(layout, by=with_interner(layout.by, Interner()))


def _require_here(path: Path, checksums: Checksums) -> None:
    """Raise `EngineError` where this process does not see a file as the task left it."""
    if not path.exists() or path.stat().st_size != checksums.size:
        msg = f"{path}: an executor wrote {checksums.size} bytes there, which are not there: {OTHER_DISKS}"
        raise EngineError(msg)


# -- jobs -------------------------------------------------------------------------------------------------------------


def done(spark: SparkSession, tasks: Sequence[_Task]) -> list[Any]:
    """Return what tasks return, in their order: values that JSON has. Each is a task of one job of Spark's.

    An ``OSError`` or `StateError` of a task is raised here as such.
    """

    def run(batches: Any) -> Any:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"number": [number], "found": [_told(tasks[number])]})

    given = spark.range(0, len(tasks), 1, len(tasks))
    told = given.mapInArrow(run, "number bigint, found string").collect()
    return _results([json.loads(text) for _, text in sorted(told)])


def _results(told: Sequence[Any]) -> list[Any]:
    for one in told:
        if "errno" in one:
            raise OSError(one["errno"], one["error"], one["file"])
        if "error" in one:
            raise StateError(one["error"])
    return [one["found"] for one in told]


def _told(task: _Task) -> str:
    try:
        return json.dumps({"found": task()})
    except StateError as error:
        return json.dumps({"error": str(error)})
    except OSError as error:
        what = os.strerror(error.errno) if error.errno else str(error)
        return json.dumps({"errno": error.errno or errno.EIO, "error": what, "file": error.filename})
