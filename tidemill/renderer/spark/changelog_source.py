"""A changelog as a data source of Spark's own, in batches and as a stream whose offsets are steps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidemill.errors import StateError
from tidemill.renderer.durable.changelog_files import WRITTEN_BY, ChangeFile, change_files

_BEFORE = -1
"""The step before the first one."""


class ChangelogSource(DataSource):  # type: ignore[misc]  # PySpark's types are not followed
    """The files of a changelog: see `register_changelog`."""

    @classmethod
    def name(cls) -> str:
        return "tidemill_changelog"

    def schema(self) -> Any:
        files = _files(self._folder())
        if not files:
            msg = f"{self._folder()} holds no changes yet to take columns from: give them as spark.read.schema(...)"
            raise StateError(msg)
        return from_arrow_schema(pq.read_schema(files[0].path).remove_metadata())

    def reader(self, schema: Any) -> _ChangelogReader:
        return _ChangelogReader(self._folder(), schema)

    def streamReader(self, schema: Any) -> _ChangelogStream:  # noqa: N802 - PySpark's name
        return _ChangelogStream(self._folder(), schema)

    def _folder(self) -> Path:
        if "path" not in self.options:
            msg = "tidemill_changelog: expected the folder of a changelog: spark.read.format(...).load(folder)"
            raise StateError(msg)
        return Path(self.options["path"])


class _ChangelogFiles:
    """What reads files of a folder as Arrow."""

    def __init__(self, folder: Path, schema: Any) -> None:
        self._folder = folder
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        table = pq.read_table(partition.value).replace_schema_metadata()
        schema = to_arrow_schema(self._schema)
        yield from table.select(schema.names).cast(schema).to_batches()


class _ChangelogReader(_ChangelogFiles, DataSourceReader):  # type: ignore[misc]  # as above
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(str(file.path)) for file in _files(self._folder)]


class _ChangelogStream(_ChangelogFiles, DataSourceStreamReader):  # type: ignore[misc]  # as above
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        return {"step": _BEFORE, "of": None}

    def latestOffset(self, start: dict[str, Any], _limit: Any) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        files = _files(self._folder)
        return {"step": files[-1].last, "of": _whose(files[-1])} if files else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        after, until = start["step"], end["step"]
        files = [file for file in _files(self._folder) if file.last > after and file.first <= until]
        whose = start.get("of"), end.get("of")
        if until < after or (None not in whose and whose[0] != whose[1]):
            raise self._begun_anew(f"the changelog is another one than that of which step {after} was read")
        for file in files:
            if file.first <= after or file.last > until:
                what = f"steps {file.first} to {file.last} are one file by now, and steps {after + 1} to {until} are "
                raise self._begun_anew(what + "to be read")
        return [InputPartition(str(file.path)) for file in files]

    def _begun_anew(self, what: str) -> StateError:
        return StateError(
            f"{self._folder}: {what}: the changelog was begun anew, or merged (keep=) before the stream had read it; "
            "begin the stream anew, with another checkpoint"
        )


def _whose(file: ChangeFile) -> str | None:
    """Return the view that a file is of, by what it says of itself; None where it is that of a run."""
    mark = (pq.read_schema(file.path).metadata or {}).get(WRITTEN_BY)
    return None if mark is None else str(json.loads(mark)["owner"])


def _files(folder: Path) -> list[ChangeFile]:
    return change_files(folder)[0] if folder.is_dir() else []
