"""Files of state that executors write."""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tidemill.errors import EngineError, StateError
from tidemill.renderer.durable.spill_files import SpillFile
from tidemill.renderer.durable.spilled import SpillFolder

__all__ = ["written"]

_UNWRITABLE: Final = re.compile(
    r"No space left on device|Mkdirs failed[^\n]*|Permission denied|Read-only file system|Disk quota exceeded"
)
"""How Spark says that it could not write."""


def written(store: SpillFolder, name: str, data: DataFrame, *, has_lists: bool) -> list[SpillFile]:
    """Write a DataFrame, in no order, and return the files."""
    folder = store.folder / f"writing-{uuid.uuid4().hex[:8]}"
    dictionary = "false" if has_lists else "true"  # see `Layout.has_lists`
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        data.write.option("parquet.enable.dictionary", dictionary).parquet(str(folder))
        files = [_moved(store, name, part) for part in _parts(folder) if pq.read_metadata(part).num_rows]
    except Exception as error:
        if isinstance(error, OSError) or (found := _UNWRITABLE.search(str(error))):
            what = error if isinstance(error, OSError) else found[0] if found else ""
            msg = f"{store.folder} could not be written ({what}): nothing was taken; make room or mend what is wrong"
            raise StateError(msg) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    store.flush_later([f.name for f in files])
    return files


def _parts(folder: Path) -> list[Path]:
    """Return the files that Spark wrote; also of nothing it writes one."""
    parts = sorted(folder.glob("part-*.parquet"))
    if not parts:
        msg = (
            f"{folder}: what Spark wrote there is not there, so its executors have other disks: give tm.Spark a state= "
            "on one that they share with this process, or an in_driver= that no change goes beyond"
        )
        raise EngineError(msg)
    return parts


def _moved(store: SpillFolder, name: str, part: Path) -> SpillFile:
    path = store.new_path(name)
    part.rename(path)
    return SpillFile(path.name, pq.read_metadata(path).num_rows, sorted=False)
