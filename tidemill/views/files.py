"""Files as tables: a source that new files are new rows of, and a sink that is one Parquet file."""

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
from tidemill.views.stores import Sink, Source, Version

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_MARK: Final = b"tidemill.views"


class _FileTable(Source, Sink):
    """Files that match a pattern, or one to be written: see `files`."""

    ways = frozenset({"overwrite"})

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._pattern = os.fspath(path)

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
        mark = self._mark()
        return mark["refresh"] if mark and mark["owner"] == owner else None

    def overwrite(self, rows: pa.Table, owner: str, number: int) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        path = Path(self._pattern)
        if path.suffix != ".parquet" or glob.has_magic(self._pattern):
            msg = f"{self}: a view is written to one Parquet file: give the path of one, such as out/by_region.parquet"
            raise ViewError(msg)
        mark = json.dumps({"owner": owner, "refresh": number})
        path.parent.mkdir(parents=True, exist_ok=True)
        put_in_place(path, lambda file: pq.write_table(rows.replace_schema_metadata({_MARK: mark}), file))

    def _mark(self) -> Any:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        try:
            metadata = pq.read_schema(self._pattern).metadata or {}
        except FileNotFoundError:
            return None
        return json.loads(metadata.get(_MARK, b"null"))

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
    """Return files for `Views`: as a source each new file is new rows; as a sink it is one Parquet file, written whole.

    ``path`` is a folder, a pattern such as ``"in/items/*.parquet"``, or a file. Parquet, CSV and JSON lines, by what
    names end in; parts of paths such as ``day=2013-01-01/`` are columns. Files are read once: one that is written anew
    or taken away later is a `ViewError` that names it.
    """
    return _FileTable(path)
