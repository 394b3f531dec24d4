"""Files of state that executors write and read: values in ``v0, ...``, times in ``t0, ...``, weights in ``w0, ...``."""

from __future__ import annotations

import functools
import re
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as T  # noqa: N812 - as above

from tidemill.errors import EngineError, StateError
from tidemill.expressions.types import DType
from tidemill.renderer.durable.file_work import TOGETHER
from tidemill.renderer.durable.spill_files import Layout, SpillFile
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.embedded.trace.elsewhere import Range
from tidemill.renderer.spark.failures import OTHER_DISKS
from tidemill.renderer.spark.frames import DIFF, Frame, columns, times
from tidemill.renderer.spark.live.file_tasks import Described, described
from tidemill.renderer.spark.live.read_pages import read_pages
from tidemill.renderer.spark.types import spark_type

_UNWRITABLE: Final = re.compile(
    r"No space left on device|Mkdirs failed[^\n]*|Permission denied|Read-only file system|Disk quota exceeded"
)
"""How Spark says that it could not write."""
_GLOB: Final = re.compile(r"[{}\[\]*?\\]")
"""Characters that in the path of what is to be read would stand for others."""
_READ: Final = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "datetimeRebaseMode": "CORRECTED"}
"""How files of ours are read, whatever the session has for others: all rows of all files, days as they are."""
_WRITTEN: Final = {"compression": "snappy", "maxRecordsPerFile": str(TOGETHER)}
"""How they are written; what there is no option for is checked with the session."""


def read_files(
    spark: SparkSession,
    store: SpillFolder,
    layout: Layout,
    files: Sequence[SpillFile],
    ranges: Sequence[Range] | None = None,
) -> DataFrame:
    """Return the contents of files as a DataFrame. Spark checks no bytes: those of earlier runs are checked before it.

    What columns they have is known: to ask them is a job of Spark's. With ``ranges`` of an order that they lie in,
    of those that are sorted the rows in these are read.
    """
    store.require_whole(files)
    alike: dict[Any, list[SpillFile]] = {}
    in_pages = [f for f in files if f.sorted]
    found = [read_pages(spark, store.folder, layout, in_pages, ranges)] if in_pages else []
    for file in files:
        if not file.sorted:
            alike.setdefault((file.columns, file.constants), []).append(file)
    for some in alike.values():
        sources = some[0].sources(layout)
        inside = {source: T.StructField(source, spark_type(t)) for _, t, source in sources if isinstance(source, str)}
        reader = spark.read.options(**_READ).schema(T.StructType(list(inside.values())))
        data = reader.parquet(*(_pattern(store.folder / f.name) for f in some))
        found.append(data.select(*(_column(source, t).alias(name) for name, t, source in sources)))
    return functools.reduce(DataFrame.union, found)


def _column(source: str | int | None, dtype: DType) -> Column:
    return F.col(source) if isinstance(source, str) else F.lit(source).cast(spark_type(dtype))


def as_updates(data: DataFrame, width: int, coordinates: int) -> DataFrame:
    """Return what was read from files with the columns that updates have in a `Frame`."""
    row = [F.col(f"v{i}").alias(name) for i, name in enumerate(columns(width))]
    return data.select(*row, *times(coordinates), F.col("w0").alias(DIFF))


def file_columns(frame: Frame) -> DataFrame:
    """Return updates with the columns that they have in files."""
    row = [F.col(name).alias(f"v{i}") for i, name in enumerate(columns(frame.width))]
    return frame.data.select(*row, *times(frame.coordinates), F.col(DIFF).alias("w0"))


def write_files(
    store: SpillFolder, name: str, data: DataFrame, *, has_lists: bool, apart: Sequence[str] = ()
) -> list[SpillFile]:
    """Write a DataFrame, in no order, and return the files. Of numbers to be told ``apart`` each file has one."""
    return [file for file, _ in written_files(store, name, data, has_lists=has_lists, apart=apart)]


def written_files(
    store: SpillFolder, name: str, data: DataFrame, *, has_lists: bool, apart: Sequence[str] = ()
) -> list[tuple[SpillFile, bool]]:
    """Do the same, and say of each file whether a row may be marked as invalid."""
    folder = store.folder / f"writing-{uuid.uuid4().hex[:8]}"
    dictionary = "false" if has_lists else "true"  # see `Layout.has_lists`
    seen = Observation()
    data = data.observe(seen, F.count(F.lit(1)).alias("rows"))
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        writer = data.write.options(**_WRITTEN).option("parquet.enable.dictionary", dictionary)
        (writer.partitionBy(*apart) if apart else writer).parquet(_uri(folder))
        parts = _parts(data.sparkSession, folder, seen.get["rows"])
        files = [(_moved(store, name, folder, *part), part[1].may_have_invalid) for part in parts.items()]
    except Exception as error:
        if isinstance(error, OSError) or (found := _UNWRITABLE.search(str(error))):
            what = error if isinstance(error, OSError) else found[0] if found else ""
            msg = f"{store.folder} could not be written ({what}): nothing was taken; make room or mend what is wrong"
            raise StateError(msg) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    store.flush_later([f.name for f, _ in files])
    return files


def _uri(path: Path) -> str:
    """Return a path as Hadoop writes it, with nothing encoded: else it would be one of the session's file system."""
    return f"file://{path.absolute()}"


def _pattern(path: Path) -> str:
    """Return a path as Spark reads it, which takes it for a pattern."""
    if _GLOB.search(str(path)) and ":" in str(path):
        msg = f"{path.parent}: Spark reads no path with a colon and one of {{}}[]*?\\ in it: use another folder"
        raise EngineError(msg)
    return _GLOB.sub(r"\\\g<0>", _uri(path))


def _parts(spark: SparkSession, folder: Path, wrote: int) -> dict[Path, Described]:
    """Return the files with rows that Spark wrote, and what they are: together they have those that its tasks counted.

    What an executor wrote to a disk of its own is not among what Spark puts together in the folder.
    """
    parts = sorted(folder.rglob("part-*.parquet"))
    rows = sum(pq.read_metadata(part).num_rows for part in parts)
    if rows != wrote:
        msg = f"{folder}: Spark's executors wrote {wrote} rows there, and {rows} are there: {OTHER_DISKS}"
        raise EngineError(msg)
    try:
        found = described(spark, parts)
    except FileNotFoundError as error:
        msg = f"{error.filename}: an executor did not find it: {OTHER_DISKS}"
        raise EngineError(msg) from error
    return {part: about for part, about in zip(parts, found, strict=True) if about.rows}


def _moved(store: SpillFolder, name: str, folder: Path, part: Path, about: Described) -> SpillFile:
    path = store.new_path(name, ".parquet")
    apart = [name.partition("=") for name in part.parent.relative_to(folder).parts]
    part.rename(path)
    constants = tuple((column, int(number)) for column, _, number in apart)
    return SpillFile(path.name, about.rows, sorted=False, checksums=about.checksums, constants=constants)


def remove_files(store: SpillFolder, files: Iterable[SpillFile]) -> None:
    """Delete files that nothing refers to."""
    for file in files:
        (store.folder / file.name).unlink(missing_ok=True)
