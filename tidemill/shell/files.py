"""Files of a session: COPY from and to Parquet and CSV, and what it is saved as."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.boundary.files import read_csv, read_parquet
from tidemill.boundary.results import Rows
from tidemill.errors import StateError
from tidemill.expressions.schema import Schema
from tidemill.shell.text import Words

SCRIPT: Final = "script.sql"


@attrs.frozen
class CopyStatement:
    """``COPY what FROM 'file'`` or ``TO 'file'``."""

    what: Words
    source: str | None
    to: str
    format: str
    header: bool
    delimiter: str

    def read(self, schema: Schema) -> pa.Table:
        """Return the file's rows, as a table of this schema."""
        assert self.source is not None
        if self.format == "parquet":
            files: Any = read_parquet(self.source)
        else:
            given = None if self.header else schema
            files = read_csv(self.source, schema=given, delimiter=self.delimiter, header=self.header)
        return files.read(schema, f"COPY {self.what.written()}")

    def write(self, rows: Rows) -> int:
        """Write rows, and return how many."""
        table = rows.to_arrow()
        try:
            if self.format == "parquet":
                pq.write_table(table, self.to)
            else:
                from pyarrow import csv  # noqa: PLC0415 - slow to import

                options = csv.WriteOptions(include_header=self.header, delimiter=self.delimiter)
                csv.write_csv(table, self.to, options)
        except OSError as error:
            msg = f"{self.to} cannot be written: {error}"
            raise StateError(msg) from error
        return int(table.num_rows)


def copied(statement: Words) -> CopyStatement:
    """Return what ``COPY what FROM|TO 'file' [WITH] (FORMAT csv, HEADER false, DELIMITER ';')`` says."""
    clauses = statement.clauses("COPY", "FROM", "TO")
    ways = [w for w in ("FROM", "TO") if w in clauses]
    if len(ways) != 1 or not clauses[ways[0]].word(0).startswith("'"):
        raise statement.error("COPY of another form", "write COPY t FROM 'file.parquet', or TO")
    place = clauses[ways[0]]
    path, rest = place.words[0][0].text, place[1 + (place.word(1) == "WITH") : len(place)]
    given = rest.inside() if rest.word(0) == "(" else rest
    options = {p.word(0): p.words[-1][0].text if len(p) > 1 else "true" for p in given.split(",") if len(p)}
    kind = options.pop("FORMAT", "parquet" if path.endswith((".parquet", ".pq")) else "csv").lower()
    header, delimiter = options.pop("HEADER", "true").lower(), options.pop("DELIMITER", ",")
    if kind not in ("parquet", "csv") or options:
        wrong = next(iter(options), f"FORMAT {kind}")
        raise place.error(f"COPY with {wrong} is not there", "FORMAT (parquet or csv), HEADER and DELIMITER are")
    source, to = (path, "") if ways == ["FROM"] else (None, path)
    return CopyStatement(clauses["COPY"], source, to, kind, header not in ("false", "off", "0"), delimiter)


def save(folder: str | Path, script: str, tables: Sequence[Rows]) -> str:
    """Write a script and tables' rows into a folder that is not there yet; return what is told of it."""
    place = Path(folder)
    try:
        place.mkdir(parents=True)
    except OSError as error:
        msg = f"{place} cannot be made ({error.strerror}): save to a folder that is not there yet"
        raise StateError(msg) from error
    try:
        (place / SCRIPT).write_text(script, encoding="utf-8")
        for number, rows in enumerate(tables):
            pq.write_table(rows.to_arrow(), place / f"{number}.parquet")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return f"saved to {place}"


def saved_script(folder: str | Path) -> str:
    """Return the script that was saved."""
    place = Path(folder) / SCRIPT
    try:
        return place.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"{place} cannot be read ({error.strerror}): expected a folder that was saved"
        raise StateError(msg) from error


def saved_rows(folder: str | Path, number: int) -> pa.Table:
    """Return the rows of a table that was saved: the tables are numbered as the script makes them."""
    place = Path(folder) / f"{number}.parquet"
    try:
        return pq.read_table(place)
    except (OSError, pa.ArrowInvalid) as error:
        msg = f"{place} cannot be read: {error}"
        raise StateError(msg) from error
