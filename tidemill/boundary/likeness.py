"""Schemas of what is at hand: tables, files, classes; and rows that have more columns than are asked for."""

from __future__ import annotations

import sys
import types
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from tidemill.boundary.files import ParquetFiles
from tidemill.boundary.rows import listed_rows
from tidemill.boundary.tables import Source, as_table
from tidemill.boundary.values import as_dict, field_names, names_of_class
from tidemill.errors import SchemaError, TidemillError, brief
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import DType, dtype, list_type, struct_type

_MOMENTS: Final = {"AwareDatetime": "timestamptz", "NaiveDatetime": "timestamp"}
"""Pydantic's types for moments with a zone, and without."""


def schema_like(given: Any) -> Schema:
    """Return the schema of a table, a schema of Arrow's, Parquet files, a collection, or a class with annotations.

    Tables are pandas', Polars', Arrow's, DuckDB's, Spark's, and what else speaks Arrow; of pandas' object columns the
    values are looked at. Classes are dataclasses, those of attrs, named tuples, pydantic's models: ``int`` is not NULL,
    ``int | None`` may be.
    """
    if type(given).__name__ == "LazyFrame":
        msg = "like= is a LazyFrame, which has no rows yet: give what collect() makes of it"
        raise SchemaError(msg)
    if isinstance(getattr(given, "schema", None), Schema):
        return given.schema  # type: ignore[no-any-return]
    if isinstance(given, type):
        try:
            return _of_class(given)
        except RecursionError:
            msg = f"like={given.__name__}: its fields hold values of its own class: no column is of such a type"
            raise SchemaError(msg) from None
    found = _arrow_schema(given)
    if found is None:
        msg = f"like={brief(given)}: expected a table, a schema of Arrow's, Parquet files or a class with annotations"
        raise SchemaError(msg)
    try:
        return Schema(tuple(Field(f.name, dtype(f.type), f.nullable) for f in found))
    except TidemillError as error:
        msg = f"like={brief(given)}: {error.args[0]}; give the schema itself, as a dict of column names to types"
        raise SchemaError(msg) from None


def _arrow_schema(given: Any) -> pa.Schema | None:
    if isinstance(given, ParquetFiles):
        return given.arrow_schema()
    if hasattr(given, "toArrow") and hasattr(given, "limit"):  # Spark's: none of its rows
        given = given.limit(0).toArrow()
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, pandas.DataFrame):
        return pa.Schema.from_pandas(given, preserve_index=False)
    found = given if isinstance(given, pa.Schema) else getattr(given, "projected_schema", None)  # a scanner's
    found = getattr(given, "schema", None) if found is None else found
    if isinstance(found, pa.Schema):  # also Arrow's tables, batches, datasets
        return found
    if hasattr(given, "__arrow_c_schema__"):
        return pa.schema(given)
    try:
        table = None if isinstance(given, (list, tuple)) else as_table(Schema(()), given, "like=")
    except TidemillError:
        table = None
    return None if table is None else table.schema


def _of_class(given: type) -> Schema:
    """Return the schema of a class whose fields have annotations."""
    try:
        hints = get_type_hints(given)
    except (NameError, TypeError) as error:
        msg = f"like={given.__name__}: its annotations cannot be read ({error})"
        raise SchemaError(msg) from None
    names = names_of_class(given)
    if not names:
        msg = f"like={given.__name__}: expected a dataclass, a class of attrs, a named tuple or a pydantic model"
        raise SchemaError(msg)
    return Schema(tuple(_field(given, name, hints.get(name)) for name in names))


def _kinds(hint: Any) -> list[Any]:
    """Return the types that may be there, None aside."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [o for o in options if o is not type(None)]


def _type(hint: Any) -> DType:
    """Return the type of a field: of a class with fields a struct, of lists of them a list."""
    if get_origin(hint) is list:
        (of,) = get_args(hint)
        kinds = _kinds(of)
        return list_type(_type(kinds[0] if len(kinds) == 1 else of))
    if getattr(hint, "__module__", None) == "pydantic.types" and hint.__name__ in _MOMENTS:
        return dtype(_MOMENTS[hint.__name__])
    if isinstance(hint, type) and names_of_class(hint):
        return struct_type([(f.name, f.dtype) for f in _of_class(hint)])
    return dtype(hint)


def _field(given: type, name: str, hint: Any) -> Field:
    kinds = _kinds(hint)
    if len(kinds) != 1 or kinds[0] is None:
        msg = f"like={given.__name__}: field {name!r} is {hint}: expected one type, or one and None"
        raise SchemaError(msg)
    try:
        return Field(name, _type(kinds[0]), nullable=hint is not kinds[0])
    except SchemaError as error:
        msg = f"like={given.__name__}: field {name!r}: {error.args[0]}"
        raise SchemaError(msg) from None


def known_columns(schema: Schema, rows: Any, where: str) -> Any:
    """Return rows without the columns that a schema does not have: of tables, and where rows have names."""
    if isinstance(rows, Source):
        return rows  # files are read so anyway
    if not isinstance(rows, (list, tuple)):
        if hasattr(rows, "toArrow") and hasattr(rows, "select"):  # Spark's stay there
            return rows.select(*[c for c in rows.columns if c in schema])
        table = as_table(schema, rows, where)
        if table is not None:
            return table.select([i for i, name in enumerate(table.column_names) if name in schema])
    return [_known(schema, row) for row in listed_rows(rows, where)]


def _known(schema: Schema, row: Any) -> Any:
    names = field_names(row)
    if names is None or all(name in schema for name in names):
        return row
    return {name: value for name, value in as_dict(row, names).items() if name in schema}
