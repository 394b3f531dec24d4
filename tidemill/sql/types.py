"""Types by their names in SQL, those among them that are kept as larger ones."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from tidemill.errors import SchemaError
from tidemill.expressions.expr import Call, Expr, lit
from tidemill.expressions.sql_parser import narrowed
from tidemill.expressions.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    INTERVAL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DType,
    list_type,
    struct_type,
)
from tidemill.expressions.types import decimal_type as decimal_of
from tidemill.sql.chars import length_of
from tidemill.sql.dialects import Dialect
from tidemill.sql.syntax import Source

_Type = exp.DataType.Type
_TYPES: Final[dict[Any, DType]] = {
    _Type.BIGINT: INT64, _Type.INT: INT32, _Type.DOUBLE: FLOAT64, _Type.BOOLEAN: BOOL, _Type.TEXT: STRING,
    _Type.DATE: DATE, _Type.TIMESTAMP: TIMESTAMP, _Type.TIMESTAMPNTZ: TIMESTAMP, _Type.BINARY: BINARY,
    _Type.VARBINARY: BINARY, _Type.SMALLINT: INT32, _Type.TINYINT: INT32, _Type.FLOAT: FLOAT64,
    _Type.TIMESTAMPLTZ: TIMESTAMPTZ, _Type.TIME: TIME, _Type.INTERVAL: INTERVAL, _Type.UUID: UUID,
}  # fmt: skip


TEXTS: Final = (_Type.VARCHAR, _Type.CHAR)
"""Types of texts that have a length."""
_NOTHING: Final = lit(None)
_DIGITS: Final = (
    "write DECIMAL(precision, scale)",
    "write as many as there are at most, up to 38, as in NUMERIC(38, 9): they are fixed here",
)
"""What to write in place of a bare DECIMAL, and of a bare NUMERIC, which holds as many digits as a value has."""
_CHARS: Final = (_Type.CHAR, _Type.BPCHAR)
_BLANKS: Final = (
    "its blanks at the end are there for LIKE and in results, and count for nothing else: write VARCHAR(n) or TEXT"
)
_INSTEAD_OF_CHAR: Final = {
    "postgres": _BLANKS, "materialize": _BLANKS, "risingwave": "RisingWave has not got it: write VARCHAR or TEXT",
}  # fmt: skip


def type_of(node: exp.DataType, source: Source, dialect: Dialect) -> DType:  # noqa: PLR0911 - one line a family
    """Return the type that a type's name in SQL means; `SqlError` where there is none of that kind."""
    kind, given = node.this, node.expressions
    if kind == _Type.DECIMAL:
        numbers = [int(p.this.name) for p in given if isinstance(p.this, exp.Literal) and p.this.name.isdigit()]
        if not given and dialect.name == "spark":
            return decimal_of(10)
        if not given or len(numbers) != len(given):
            raise source.error(node, "DECIMAL without its digits", _DIGITS[dialect.folds])
        try:
            return decimal_of(*numbers)
        except SchemaError as error:
            raise source.error(node, str(error.args[0])) from None
    if kind == _Type.ARRAY and len(given) == 1:
        return list_type(_inner(given[0], source, dialect))
    if kind == _Type.STRUCT and given and all(isinstance(f, exp.ColumnDef) and f.kind for f in given):
        fields = [(dialect.written(f.this), _inner(f.kind, source, dialect)) for f in given]
        if len(dict(fields)) < len(fields):
            raise source.error(node, "a struct has two fields of one name")
        return struct_type(fields)
    if kind == _Type.VARCHAR or (kind == _Type.CHAR and given and not dialect.folds):
        return STRING
    if kind == _Type.TIMESTAMPTZ:  # how sqlglot reads Spark's TIMESTAMP, too
        return TIMESTAMP if dialect.name == "spark" else TIMESTAMPTZ
    if isinstance(kind, exp.Interval):
        units = [part.name.upper() for part in kind.find_all(exp.Var)]
        if units and set(units) <= {"DAY", "HOUR", "MINUTE", "SECOND"}:
            return INTERVAL
        raise source.error(node, "intervals of months are no columns", "of days to seconds they are")
    found = _TYPES.get(kind) if not given else None
    if found is None:
        expected = (
            "expected BIGINT, INT, SMALLINT, TINYINT, DOUBLE, REAL, DECIMAL(p, s), BOOLEAN, STRING, VARCHAR(n), DATE, "
            "TIMESTAMP, TIMESTAMPTZ, TIME, INTERVAL, UUID, BINARY, ARRAY<...> or STRUCT<...>"
        )
        hint = _INSTEAD_OF_CHAR.get(dialect.name, "write CHAR(n), or STRING") if kind in _CHARS else expected
        raise source.error(node, f"type {source.written(node).upper()} is not supported", hint)
    return found


def _inner(node: exp.DataType, source: Source, dialect: Dialect) -> DType:
    """Return the type of what an array or a struct holds."""
    if narrowed(_NOTHING, node) is not _NOTHING:
        raise source.error(node, f"{node.sql()} in an array or a struct is not supported: write the larger type")
    return type_of(node, source, dialect)


def checked(value: Expr, node: exp.DataType, dialect: Dialect) -> Expr:
    """Return a value that a table's column was given, an error where its type does not have it."""
    length = length_of(node, dialect)
    if length is not None:
        return Call("fit", (value, lit(f"char {length}"), lit(False)))
    is_comment = node.this in TEXTS and dialect.name == "duckdb"
    return value if is_comment else narrowed(value, node)
