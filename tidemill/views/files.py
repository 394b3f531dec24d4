"""Files as tables: a source that new files are new rows of; sinks that are a Parquet file, or a changelog's folder."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidemill.errors import ViewError
from tidemill.renderer.embedded.whole_file import put_in_place
from tidemill.views.stores import CHANGE, Sink, Source, Version

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from tidemill.renderer.durable.changelog_files import ChangeFile

_FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


class _FileTable(Source, Sink):
    """Files that match a pattern, or one to be written: see `files`."""

    keeps_logs = False  # the names of somebody else's files may stand for those that would come

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._pattern = os.fspath(path)
        self.ways = frozenset({"overwrite" if Path(path).suffix else "changelog"})

    def __repr__(self) -> str:
        return f"files({self._pattern!r})"

    def schema(self) -> pa.Schema:
        paths = self._paths()
        if not paths:
            msg = f"{self}: no file is there yet to take columns from: give them as views.source(..., schema={{...}})"
            raise ViewError(msg)
        return self._dataset(paths[:1]).schema.remove_metadata()

    def version(self, _last: Version | None, /) -> Version:
        return {path: self._stamp(path) for path in self._paths()}

    def changes(self, since: Version | None, until: Version) -> Iterator[tuple[pa.Table, int]]:
        before: Mapping[str, Any] = since or {}
        for path, stamp in before.items():
            if until.get(path) != stamp:
                what = "is gone" if path not in until else "was written anew"
                msg = (
                    f"{self}: {path} {what} since it was read, and what was in it is not known: files are rows for "
                    "good. Read all of them anew with views.refresh(full=True), or declare tm.snapshot(...)"
                )
                raise ViewError(msg)
        for path in until:
            if path in before:
                continue
            if not Path(path).exists() or self._stamp(path) != until[path]:
                msg = f"{self}: {path} was written while it was to be read: write files elsewhere, and move them there"
                raise ViewError(msg)
            yield self._dataset([path]).to_table(), 1

    def refresh(self, owner: str) -> int | None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        from tidemill.renderer.durable.changelog_files import WRITTEN_BY  # noqa: PLC0415 - as above

        files = self._log()
        path = files[-1].path if files else Path(self._pattern)
        if not path.is_file():
            return None
        mark = json.loads((pq.read_schema(path).metadata or {}).get(WRITTEN_BY, b"null"))
        return mark["refresh"] if mark and mark["owner"] == owner else None

    def overwrite(self, rows: pa.Table, owner: str, number: int) -> None:
        path = Path(self._pattern)
        if path.suffix == ".parquet" and not glob.has_magic(self._pattern) and CHANGE not in rows.column_names:
            self._put(path, rows, owner, number)
        elif not path.suffix and not glob.has_magic(self._pattern) and CHANGE in rows.column_names:
            stays = path / f"steps-{0:010}-{number:010}.parquet"
            self._put(stays, rows, owner, number)
            for file in (*self._log(), *self._log(covered=True)):  # beyond it are those of a state that is no more
                if file.path != stays:
                    file.path.unlink()
        else:
            msg = (
                f"{self}: a view is written to one Parquet file, such as out/by_region.parquet, and its changelog to a "
                "folder, such as out/changes: give the path of one"
            )
            raise ViewError(msg)

    def append(self, changes: pa.Table, owner: str, number: int) -> None:
        self._put(Path(self._pattern) / f"step-{number:010}.parquet", changes, owner, number)

    def rows(self) -> pa.Table:
        from tidemill.renderer.durable.changelog_files import read_files  # noqa: PLC0415 - slow to import

        return read_files(Path(self._pattern))

    def _log(self, *, covered: bool = False) -> list[ChangeFile]:
        """Return the files of a changelog, oldest first, or those that others stand for; none where it is no folder."""
        from tidemill.renderer.durable.changelog_files import change_files  # noqa: PLC0415 - slow to import

        folder = Path(self._pattern)
        return change_files(folder)[covered] if folder.is_dir() else []

    @staticmethod
    def _put(path: Path, rows: pa.Table, owner: str, number: int) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        from tidemill.renderer.durable.changelog_files import WRITTEN_BY  # noqa: PLC0415 - as above

        mark = json.dumps({"owner": owner, "refresh": number})
        path.parent.mkdir(parents=True, exist_ok=True)
        put_in_place(path, lambda file: pq.write_table(rows.replace_schema_metadata({WRITTEN_BY: mark}), file))

    def _paths(self) -> list[str]:
        pattern = f"{self._pattern}/**/*.*" if Path(self._pattern).is_dir() else self._pattern
        found = [Path(p) for p in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - of absolute paths too
        return sorted(str(p) for p in found if p.is_file() and not p.name.startswith(("_", ".")))

    @staticmethod
    def _stamp(path: str) -> list[int]:
        status = Path(path).stat()
        return [status.st_size, status.st_mtime_ns]

    def _dataset(self, paths: list[str]) -> ds.Dataset:
        import pyarrow.dataset as ds  # noqa: PLC0415 - as above

        kind = _FORMATS.get(Path(paths[0]).suffix.lower())
        if kind is None:
            msg = f"{self}: {paths[0]}: expected files that end in {', '.join(_FORMATS)}"
            raise ViewError(msg)
        return ds.dataset(paths, format=kind, partitioning="hive")


def files(path: str | os.PathLike[str]) -> _FileTable:
    """Return files for `Views`: new ones are new rows of a source; a sink is a Parquet file, or a changelog's folder.

    ``path`` is a folder, a pattern such as ``"in/items/*.parquet"``, or a file. Parquet, CSV and JSON lines, by what
    names end in; parts of paths such as ``day=2013-01-01/`` are columns. Files are read once: one that is written anew
    or taken away later is a `ViewError` that names it. A view is written to one Parquet file, whole; a changelog to a
    folder, a file a refresh, which `read_changelog` and Spark (`register_changelog`) read.
    """
    return _FileTable(path)
