"""Paths that users name, and files as rows: Parquet, CSV and JSON lines, with the schema of the input."""

from __future__ import annotations

import abc
import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import attrs
import pyarrow as pa

from tidemill.boundary.datasets import (
    dataset_table,
    folder_dataset,
    folder_schema,
    is_folder,
    is_remote,
    local_path,
    opened,
    remote_files,
)
from tidemill.boundary.tables import Source, checked_table, first_failing, mismatch
from tidemill.errors import RowError, SchemaError, StateError
from tidemill.expressions.schema import Schema, SchemaLike
from tidemill.expressions.types import DType


def file_path(path: str | os.PathLike[str], call: str, verb: str = "write") -> Path:
    """Return what was given as the path of a file; `StateError` where it can be none.

    >>> file_path(7, "save(7)")
    Traceback (most recent call last):
        ...
    tidemill.errors.StateError: save(7): expected the path of a file to write, a string or a Path
    """
    if isinstance(path, (str, os.PathLike)) and (text := os.fsdecode(path)) and "\0" not in text:
        return Path(text)
    msg = f"{call}: expected the path of a file to {verb}, a string or a Path"
    raise StateError(msg)


Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"

_WIDEST: Final = 76
"""The digits that Arrow's widest decimals have."""
_LARGEST_BLOCK: Final = 1 << 26
"""Bytes of JSON that are parsed at once; a line may be as long."""
_CSV_PLACE: Final = re.compile(
    r"(?:In CSV column #(\d+): |CSV parse error: )Row #(\d+): (?:CSV conversion error to [^:]*: )?"
)


@attrs.frozen
class _Files(Source):
    """Files of one kind, read one after another. A batch of several files is refused whole too."""

    takes_folders: ClassVar[bool] = False
    """Whether a folder stands for what is in it."""
    paths: tuple[str, ...]

    def read(self, schema: Schema, where: str) -> pa.Table:
        found = _found(self.paths, where, folders=self.takes_folders)
        parts = [self._read_one(path, schema, f"{where}, file {path!r}") for path in found]
        return pa.concat_tables(parts).combine_chunks()

    def _read_one(self, path: str, schema: Schema, where: str) -> pa.Table:
        try:
            return self._parsed(path, schema, where)
        except (pa.ArrowException, OSError) as error:
            msg = f"{where}: {error}"
            raise RowError(msg) from error

    @abc.abstractmethod
    def _parsed(self, path: str, schema: Schema, where: str) -> pa.Table: ...


@attrs.frozen
class ParquetFiles(_Files):
    """Parquet files as rows: what `read_parquet` returns."""

    takes_folders: ClassVar[bool] = True
    columns: Mapping[str, str] | None

    def arrow_schema(self) -> pa.Schema:
        """Return the schema of the first file, or folder, under the input's names."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        path = _found(self.paths, "like=", folders=True)[0]
        try:
            if is_folder(path, "like="):
                schema = folder_schema(path, f"like=, folder {path!r}")
            else:
                with opened(path, "like=") as there:
                    schema = pq.read_schema(there)
        except (OSError, pa.ArrowException) as error:
            msg = f"like=: {path} cannot be read: {error}"
            raise SchemaError(msg) from error
        ours = {theirs: name for name, theirs in (self.columns or {}).items()}
        return pa.schema([f.with_name(ours.get(f.name, f.name)) for f in schema])

    def _parsed(self, path: str, schema: Schema, where: str) -> pa.Table:
        from pyarrow import parquet  # noqa: PLC0415 - slow to import

        theirs = self._their_names(schema, where)
        if is_folder(path, where):
            dataset = folder_dataset(path, schema, self.columns or {}, where)
            return dataset_table(dataset, schema, theirs, where, threads=not is_remote(path))
        with opened(path, where) as there, parquet.ParquetFile(there) as file:
            if wrong := mismatch(file.schema_arrow.names, tuple(theirs), more=True):
                msg = f"{where}: it has the columns {file.schema_arrow.names}, expected {list(theirs)}: {wrong}"
                raise RowError(msg)
            # Threads of Arrow's that let go of a Python file as the process ends would have it aborted.
            table = file.read(columns=list(theirs), use_threads=not is_remote(path)).select(list(theirs))
        return checked_table(schema, table.rename_columns(list(schema.names)), where)

    def _their_names(self, schema: Schema, where: str) -> list[str]:
        """Return the file's name for each of the input's columns."""
        columns = self.columns or {}
        if unknown := [n for n in columns if n not in schema]:
            msg = f"{where}: columns= renames {unknown}, which are not among the input's columns {list(schema.names)}"
            raise RowError(msg)
        return [columns.get(n, n) for n in schema.names]


@attrs.frozen
class CsvFiles(_Files):
    """CSV files as rows: what `read_csv` returns."""

    schema: Schema | None
    delimiter: str
    header: bool
    nulls: tuple[str, ...]

    def _parsed(self, path: str, schema: Schema, where: str) -> pa.Table:
        own = self.schema or schema
        if nested := [f for f in schema if f.dtype.is_nested]:
            msg = f"{where}: column {nested[0]}: CSV has no lists and structs; read text, or use Parquet"
            raise RowError(msg)
        names: list[str] = []
        try:
            names = self._header(path) if self.header else list(own.names)
            table = self._table(path, names, own, schema, where)
        except pa.ArrowInvalid as error:
            raise self._located(str(error), names, own, where) from None
        return checked_table(schema, table, where)

    def _table(self, path: str, names: list[str], own: Schema, schema: Schema, where: str) -> pa.Table:
        if wrong := mismatch(names, schema.names, more=True):
            msg = f"{where}: it has the columns {names}, expected {list(schema.names)}: {wrong}"
            raise RowError(msg)
        wanted = own.project(schema.names)
        try:
            table = self._typed(path, names, wanted, threads=True)
        except pa.ArrowInvalid:  # once more, in order: then the message says where
            table = self._typed(path, names, wanted, threads=False)
        return _with_decimals(table, wanted, where)

    def _header(self, path: str) -> list[str]:
        from pyarrow import csv  # noqa: PLC0415 - slow to import

        options = csv.ReadOptions(use_threads=False)
        with (
            opened(path, path) as there,
            csv.open_csv(there, read_options=options, parse_options=self._parsing(csv)) as reader,
        ):
            return list(reader.schema.names)

    def _parsing(self, csv: Any, columns: int = 2) -> Any:
        # An empty line is the NULL of a file with one column.
        return csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=columns > 1)

    def _typed(self, path: str, names: list[str], wanted: Schema, *, threads: bool) -> pa.Table:
        from pyarrow import csv  # noqa: PLC0415 - slow to import

        with opened(path, path) as there:
            return csv.read_csv(
                there,
                read_options=csv.ReadOptions(use_threads=threads, column_names=None if self.header else names),
                parse_options=self._parsing(csv, len(names)),
                convert_options=csv.ConvertOptions(
                    column_types={f.name: _parsed_as(f.dtype) for f in wanted},
                    include_columns=list(wanted.names),
                    null_values=list(self.nulls),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )

    def _located(self, message: str, names: list[str], own: Schema, where: str) -> RowError:
        """Return an error with Arrow's message and the row counted as everywhere here: from 0, without the header."""
        match = _CSV_PLACE.match(message)
        if match is None:
            return RowError(f"{where}: {message}")
        row = int(match[2]) - 1 - self.header
        name = names[int(match[1])] if match[1] else None
        column = f"column {own.field(name)}: " if name else ""
        return RowError(f"{where}, row {row}: {column}{message[match.end() :]}").about(row_index=row, column=name)


@attrs.frozen
class JsonFiles(_Files):
    """Files of JSON lines as rows: what `read_json` returns."""

    def _parsed(self, path: str, schema: Schema, where: str) -> pa.Table:
        with opened(path, path) as there, pa.input_stream(there) as stream:
            content = stream.read_buffer()
        try:
            table = _from_json(content, schema)
        except pa.ArrowInvalid:  # once more, line by line: then it is known where, and Arrow takes no empty file
            lines = [line for line in content.to_pybytes().splitlines() if line.strip()]
            table = self._by_lines(pa.chunked_array([lines], pa.binary()), schema, where)
        return checked_table(schema, table, where)

    def _by_lines(self, lines: pa.ChunkedArray, schema: Schema, where: str) -> pa.Table:
        def parsed(some: pa.ChunkedArray) -> pa.Table:
            content = b"\n".join(some.to_pylist())
            return _from_json(pa.py_buffer(content), schema) if content else _as_in_json(schema).empty_table()

        try:
            return parsed(lines)
        except pa.ArrowInvalid:
            row = first_failing(lines, parsed)
        try:
            return parsed(lines.slice(row, 1))
        except pa.ArrowInvalid as error:
            msg = f"{where}, row {row}: {str(error).removesuffix(' in row 0')}"
            raise RowError(msg).about(row_index=row) from None


def _from_json(content: pa.Buffer, schema: Schema) -> pa.Table:
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import
    from pyarrow import json  # noqa: PLC0415 - slow to import

    parsing = json.ParseOptions(explicit_schema=_as_in_json(schema), unexpected_field_behavior="ignore")
    options = json.ReadOptions(block_size=min(max(content.size, 1), _LARGEST_BLOCK))
    table = json.read_json(pa.BufferReader(content), read_options=options, parse_options=parsing)
    for i, field in enumerate(schema):
        if pa.types.is_time(field.dtype.arrow):  # to which Arrow casts no text
            at = pc.binary_join_element_wise("1970-01-01T", table.column(i), "").cast(pa.timestamp("us"))
            table = table.set_column(i, field.name, at)
    return table.cast(pa.schema([(f.name, f.dtype.arrow) for f in schema]))


def _as_in_json(schema: Schema) -> pa.Schema:
    """Return the types to parse with: Arrow's parser takes no text for dates and times of day, which have no other."""
    return pa.schema([(f.name, _text_in_json(f.dtype.arrow)) for f in schema])


def _text_in_json(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_list(dtype):
        return pa.list_(_text_in_json(dtype.value_type))
    if pa.types.is_struct(dtype):
        return pa.struct([(f.name, _text_in_json(f.type)) for f in dtype])
    return pa.string() if pa.types.is_date(dtype) or pa.types.is_time(dtype) else dtype


def read_parquet(path: Paths, *, columns: Mapping[str, str] | None = None) -> ParquetFiles:
    """Return Parquet files as rows for ``insert``, ``delete``, ``upsert`` and ``apply``. Nothing is read yet.

    ``path`` is a path, a glob pattern or several of them; a folder, with what is in the folders below it, where
    ``key=value`` in their names are columns too (hive partitions); or a URL of these that fsspec opens, if installed.
    Only the input's columns are read, whatever else there is; ``columns`` maps the input's names of columns to the
    file's, where they differ. A dataset of Arrow's (``pyarrow.dataset``) is rows as it is.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet, tidemill as tm
    >>> from tidemill.boundary.files import read_parquet
    >>> flow = tm.Dataflow()
    >>> flow.output("n", flow.input("flights", {"origin": "string"}).count("n"))
    >>> with tempfile.TemporaryDirectory() as folder, flow.start() as run:
    ...     pa.parquet.write_table(pa.table({"ORIGIN": ["JFK", "LGA"], "day": [1, 2]}), folder + "/1.parquet")
    ...     run.insert("flights", read_parquet(folder + "/*.parquet", columns={"origin": "ORIGIN"}))
    ...     run.advance()
    ...     list(run.snapshot("n"))
    [('JFK', 1), ('LGA', 1)]
    """
    if columns is not None and not isinstance(columns, Mapping):
        msg = f"columns={columns!r}: expected a dict of the input's column names to the file's; others need no mention"
        raise SchemaError(msg)
    return ParquetFiles(_paths(path), columns)


def read_csv(
    path: Paths,
    *,
    schema: SchemaLike | None = None,
    delimiter: str = ",",
    header: bool = True,
    nulls: str | Sequence[str] = "",
) -> CsvFiles:
    r"""Return CSV files as rows for ``insert``, ``delete``, ``upsert`` and ``apply``. Nothing is read yet.

    ``path`` is a path, a glob pattern or several of them, or URLs that fsspec opens; ``.gz`` and the like are
    decompressed. Types are those of
    the input's columns, not guessed; ``schema`` gives those of the file's where they differ. Columns that the input
    does not have are left out. Without a ``header`` the columns are those of the schema, in its order. A field that is
    one of ``nulls`` and stands without quotes is NULL; in quotes it is text. Rows in errors are counted from 0, after
    the header.

    >>> import pathlib, tempfile, tidemill as tm
    >>> from tidemill.boundary.files import read_csv
    >>> flow = tm.Dataflow()
    >>> flow.output("x", flow.input("flights", {"origin": "string", "delay": "int64"}))
    >>> with tempfile.TemporaryDirectory() as folder, flow.start() as run:
    ...     file = pathlib.Path(folder) / "flights.csv"
    ...     _ = file.write_text('delay,origin,gate\n3,JFK,B1\nNA,"",\n')
    ...     run.insert("flights", read_csv(file, nulls=["", "NA"]))
    ...     run.advance()
    ...     list(run.snapshot("x"))
    [('', None), ('JFK', 3)]
    """
    if len(delimiter) != 1:
        msg = f"delimiter={delimiter!r}: expected one character"
        raise SchemaError(msg)
    types = None if schema is None else Schema.of(schema)
    return CsvFiles(_paths(path), types, delimiter, header, (nulls,) if isinstance(nulls, str) else tuple(nulls))


def read_json(path: Paths) -> JsonFiles:
    r"""Return files of JSON lines as rows for ``insert``, ``delete``, ``upsert`` and ``apply``. Nothing is read yet.

    ``path`` is as for `read_csv`. A line is an object with the input's columns; one that a line lacks is NULL, and
    others are left out. Dates, times and UUIDs are text, decimals numbers or text. Rows in errors are counted from 0,
    without empty lines.

    >>> import pathlib, tempfile, tidemill as tm
    >>> from tidemill.boundary.files import read_json
    >>> flow = tm.Dataflow()
    >>> flow.output("x", flow.input("flights", {"origin": "string", "day": "date", "delays": "list<int64>"}))
    >>> with tempfile.TemporaryDirectory() as folder, flow.start() as run:
    ...     file = pathlib.Path(folder) / "flights.jsonl"
    ...     _ = file.write_text('{"origin": "JFK", "day": "2013-01-02", "delays": [3, null]}\n{"origin": "LGA"}\n')
    ...     run.insert("flights", read_json(file))
    ...     run.advance()
    ...     list(run.snapshot("x"))
    [('JFK', datetime.date(2013, 1, 2), (3, None)), ('LGA', None, None)]
    """
    return JsonFiles(_paths(path))


def _paths(path: Paths) -> tuple[str, ...]:
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not given:
        msg = "no path given: expected a path, a glob pattern or several of them"
        raise SchemaError(msg)
    return tuple(os.fspath(p) for p in given)


def _found(paths: Sequence[str], where: str, *, folders: bool = False) -> list[str]:
    """Return the files that paths and patterns stand for, those of a pattern sorted; and folders, if these may be."""
    files: list[str] = []
    for path in map(local_path, paths):
        if not folders and is_folder(path, where):
            msg = f"{where}: {path!r} is a folder: say which files, as in {os.path.join(path, '*')!r}"  # noqa: PTH118
            raise RowError(msg)
        if is_remote(path):
            files += remote_files(path, where)
            continue
        found = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))  # noqa: PTH110, PTH207
        if not found:
            msg = f"{where}: no file {path!r}"
            raise RowError(msg)
        files += found
    return files


def _parsed_as(dtype: DType) -> pa.DataType:
    """Return the type to parse with: Arrow's parser lets decimals overflow, so they are text at first."""
    return pa.string() if dtype.is_decimal else dtype.arrow


def _with_decimals(table: pa.Table, wanted: Schema, where: str) -> pa.Table:
    for i, field in enumerate(wanted):
        if field.dtype.is_decimal:
            text = table.column(i)
            try:
                table = table.set_column(i, field.name, _decimals(text, field.dtype))
            except pa.ArrowInvalid as error:
                row = first_failing(text, partial(_decimals, dtype=field.dtype))
                msg = f"{where}, row {row}: column {field}: {error}"
                raise RowError(msg).about(row_index=row, column=field.name) from None
    return table


def _decimals(text: pa.ChunkedArray, dtype: DType) -> pa.ChunkedArray:
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    longest = pc.max(pc.utf8_length(text)).as_py()
    if longest is not None and longest > _WIDEST:
        msg = f"a number of {longest} characters"
        raise pa.ArrowInvalid(msg)
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")  # Arrow takes some rows of zeros for a loss
    return text.cast(pa.decimal256(_WIDEST, dtype.scale)).cast(dtype.arrow)
