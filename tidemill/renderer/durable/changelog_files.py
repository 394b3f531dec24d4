"""The files of one output's changelog: one for each step that changed it, and for older ones one for a range of steps.

A file of a range has the changes of its steps added up at the last of their times. It is put in place before the files
go that it stands for: what lies within another's range does not count, so at every moment there is all of it, once.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import attrs
import pyarrow as pa

from tidemill.boundary.arrow_arrays import numbers_of
from tidemill.boundary.results import Updates
from tidemill.dataflow.lattice import Antichain
from tidemill.errors import StateError
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels.codec import Interner, decode, encode
from tidemill.renderer.embedded.kernels.updates import consolidated
from tidemill.renderer.embedded.whole_file import put_in_place

WRITTEN_BY: Final = b"tidemill.views"
"""The metadata of a file by which one of a view says its ``owner`` and ``refresh``, as JSON."""
_NAME: Final = re.compile(r"steps?-(\d{10})(?:-(\d{10}))?\.parquet")
_RATIO: Final = 4
"""A file of a range is merged with the older one next to it when that has less than this many times its updates."""
_TRIES: Final = 100


@attrs.frozen
class ChangeFile:
    """A file of changes, and the steps of which it has them."""

    path: Path
    first: int
    last: int

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """Return what a file is by its name; None where it is none of these."""
        match = _NAME.fullmatch(path.name)
        return None if match is None else cls(path, int(match[1]), int(match[2] or match[1]))

    @property
    def is_range(self) -> bool:
        """Whether it stands for those of several steps."""
        return self.path.name.startswith("steps-")

    @property
    def rows(self) -> int:
        """How many updates it has."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        return int(pq.read_metadata(self.path).num_rows)


def change_files(folder: Path) -> tuple[list[ChangeFile], list[ChangeFile]]:
    """Return the files of a changelog that count, oldest first, and those within the range of one of them."""
    found = [file for path in folder.iterdir() if (file := ChangeFile.of(path)) is not None]
    counting: list[ChangeFile] = []
    covered: list[ChangeFile] = []
    for file in sorted(found, key=lambda f: (f.first, -f.last, not f.is_range)):
        within = counting and counting[-1].is_range and file.last <= counting[-1].last
        (covered if within else counting).append(file)
    return counting, covered


def merge_older(folder: Path, keep: int, schema: Schema, coordinates: Sequence[str]) -> None:
    """Have files of steps before the last ``keep`` in a few of ranges, where there are twice as many files as that."""
    files, covered = change_files(folder)
    _remove(covered)
    steps = [file for file in files if not file.is_range]
    if len(steps) <= 2 * max(keep, 1):
        return
    new = steps[: len(steps) - keep]
    ranges, rows = [file for file in files if file.is_range], sum(file.rows for file in new)
    while ranges and ranges[-1].rows < _RATIO * rows:
        older = ranges.pop()
        rows += older.rows
        new = [older, *new]
    _write_range(folder, new, schema, coordinates)
    _remove(new)


def _write_range(folder: Path, files: Sequence[ChangeFile], schema: Schema, coordinates: Sequence[str]) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    table = pa.concat_tables([pq.read_table(file.path) for file in files])
    k, interner = len(schema), Interner()
    block = encode(schema, table.select(list(range(k))).combine_chunks(), interner, more_rows=len(coordinates) + 1)
    for i in range(k, len(block)):
        block[i] = numbers_of(table.column(i))
    if len(table):
        block[k:-1] = block[k:-1].max(axis=1, keepdims=True)
    block = consolidated(block)
    nowhere = Antichain()
    updates = Updates(
        schema, coordinates, decode(schema, block[:k], interner), block[k:-1], block[-1], nowhere, nowhere
    )
    merged = updates.to_arrow().rename_columns(table.column_names)
    name = f"steps-{files[0].first:010}-{files[-1].last:010}.parquet"
    put_in_place(folder / name, lambda file: pq.write_table(merged, file))


def _remove(files: Sequence[ChangeFile]) -> None:
    for file in files:
        with contextlib.suppress(OSError):  # it does not count: there will be another opportunity
            file.path.unlink()


def read_files(folder: Path) -> pa.Table:
    """Return all changes in the files that count, in the order of their steps; tried again where files were merged."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    for _ in range(_TRIES):
        try:
            files, _covered = change_files(folder)
            if not files:
                msg = f"{os.fspath(folder)} holds no changes: expected an output's folder in that of run.to_changelog"
                raise StateError(msg)
            return pa.concat_tables([pq.read_table(file.path) for file in files])
        except FileNotFoundError:
            if not folder.is_dir():
                msg = f"{os.fspath(folder)}: no such folder: expected an output's in that of run.to_changelog"
                raise StateError(msg) from None
    msg = f"{os.fspath(folder)} is being merged all the time: try again"
    raise StateError(msg)
