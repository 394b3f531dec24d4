"""Many files as one table of rows: Arrow's datasets, folders with hive partitions, and files that fsspec opens."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from tidemill.boundary.tables import checked_table, mismatch
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema

_LOCAL: Final = "file://"


def dataset_table(dataset: Any, schema: Schema, theirs: Sequence[str], where: str, *, threads: bool) -> pa.Table:
    """Return a dataset's columns, called as the schema's, checked. Only these are read."""
    if wrong := mismatch(dataset.schema.names, tuple(theirs), more=True):
        msg = f"{where}: it has the columns {dataset.schema.names}, expected {list(theirs)}: {wrong}"
        raise RowError(msg)
    try:
        table = dataset.to_table(columns=list(theirs), use_threads=threads)
    except (pa.ArrowException, OSError) as error:
        msg = f"{where}: {error}"
        raise RowError(msg) from error
    return checked_table(schema, table.rename_columns(list(schema.names)), where)


def folder_dataset(folder: str, schema: Schema, columns: Mapping[str, str], where: str) -> Any:
    """Return the Parquet files in a folder; what ``key=value`` in the paths says are columns of the schema's types."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - slow to import

    found = _hive(folder, where)
    in_files = {n for fragment in found.get_fragments() for n in fragment.physical_schema.names}
    ours = {columns.get(f.name, f.name): f.dtype.arrow for f in schema}
    in_paths = [(n, ours[n]) for n in found.schema.names if n not in in_files and n in ours]
    if not in_paths:
        return found
    return _hive(folder, where, ds.partitioning(pa.schema(in_paths), flavor="hive"))


def folder_schema(folder: str, where: str) -> pa.Schema:
    """Return the columns of the Parquet files in a folder, and those of its paths: numbers, where all are, or text."""
    return _hive(folder, where).schema


def _hive(folder: str, where: str, partitioning: Any = "hive") -> Any:
    import pyarrow.dataset as ds  # noqa: PLC0415 - slow to import

    filesystem, path = _filesystem(folder, where) if is_remote(folder) else (None, folder)
    ahead = ds.ParquetFragmentScanOptions(
        pre_buffer=filesystem is None
    )  # which Arrow does in threads, see `ParquetFiles`
    kind = ds.ParquetFileFormat(default_fragment_scan_options=ahead)
    found = ds.dataset(path, format=kind, partitioning=partitioning, filesystem=filesystem)
    if not found.files:
        msg = f"{where}: there are no Parquet files in it"
        raise RowError(msg)
    return found


def is_folder(path: str, where: str) -> bool:
    """Return whether a path, or a URL, is that of a folder."""
    if not is_remote(path):
        return os.path.isdir(path)  # noqa: PTH112 - a string, as users gave it
    filesystem, there = _filesystem(path, where)
    return not filesystem.isfile(there) and filesystem.isdir(there)  # over HTTP that reads all of a file, for its links


def local_path(path: str) -> str:
    """Return the path that a URL of this machine is, and everything else as it is."""
    return path.removeprefix(_LOCAL) if path.startswith(_LOCAL) else path


def is_remote(path: str) -> bool:
    """Return whether a path is a URL, for fsspec to open."""
    return "://" in path and not path.startswith(_LOCAL)


def remote_files(url: str, where: str) -> list[str]:
    """Return the URLs that one is, of a file or a folder, or that a pattern stands for, sorted."""
    filesystem, path = _filesystem(url, where)
    if filesystem.isfile(path) or filesystem.isdir(path):
        return [url]
    found = sorted(map(filesystem.unstrip_protocol, filesystem.glob(path)))
    if not found:
        msg = f"{where}: no file {url!r}"
        raise RowError(msg)
    return found


@contextlib.contextmanager
def opened(path: str, where: str) -> Iterator[Any]:
    """Give what Arrow reads a file from: its path, or of a URL the file as fsspec opens it."""
    if not is_remote(path):
        yield path
        return
    filesystem, there = _filesystem(path, where)
    with filesystem.open(there, "rb") as file:
        yield file


def _filesystem(url: str, where: str) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415 - for those who have URLs
    except ImportError:
        scheme = url.partition("://")[0]
        msg = f"{where}: {url!r} is a URL, which fsspec opens: pip install fsspec, and what it needs for {scheme}"
        raise RowError(msg) from None
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        msg = f"{where}: {url!r} cannot be opened: {error}"
        raise RowError(msg) from error
    return filesystem, os.fspath(path)
