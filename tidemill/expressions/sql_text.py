"""SQL text in and out: here and at once is where it is parsed, and sqlglot is imported when the first is met."""

from __future__ import annotations

import re
from typing import Any, Final

from tidemill.errors import SchemaError
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import Column, Expr, Text, lit
from tidemill.expressions.schema import Schema
from tidemill.expressions.structure import replaced

_DATE: Final = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}\b")


def expr(sql: str) -> Expr:
    """Return the expression that SQL text stands for (Spark's dialect; strings in quotes, names with blanks in ``).

    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.structure import identical
    >>> identical(expr("a + 1"), col("a") + 1)
    True
    """
    from tidemill.expressions.sql_parser import parse  # noqa: PLC0415 - sqlglot is imported only where SQL is used

    if not isinstance(sql, str):
        msg = f"{sql!r} is not SQL text: expected a string; tm.lit(value) makes a literal"
        raise SchemaError(msg)
    return parse(sql)


def as_expr(value: Any, schema: Schema) -> Expr:
    """Return what a value in an expression's place means: a column's name that column, any other string SQL text.

    So it is with the strings that functions in an expression took for columns.

    >>> schema = Schema.of({"a b": "int64"})
    >>> as_expr("a b", schema), as_expr("`a b` + 1", schema), as_expr(5, schema)
    (`a b`, `a b` + 1, 5)
    """
    if isinstance(value, str):
        return Column(value) if value in schema else expr(value)
    return _read(lit(value), schema)


def _read(expression: Expr, schema: Schema) -> Expr:
    """Return an expression with the strings that functions in it took as what they stand for."""

    def found(part: Expr) -> Expr | None:
        if not isinstance(part, Text):
            return part if part.reads_text else None
        if _DATE.match(part.text) and part.text not in schema:
            given = repr(part.text)
            msg = f"{given} in a function would be SQL text, a difference of numbers: a date is tm.lit({given})"
            raise SchemaError(msg)
        return replaced(as_expr(part.text, schema), lambda c: _marked(c, part.text))

    return replaced(expression, found)


def _marked(part: Expr, text: str) -> Expr | None:
    if isinstance(part, Column):
        return Column(part.name, read_from=text)
    return part if part.reads_text else None


def to_sql(bound: Bound, *, explicit: bool = False) -> str:
    """Return a bound tree as Spark SQL text, short: binding the text again gives an equal tree.

    ``explicit=True`` writes the type of every literal and every widening out, so that nothing is left to the rules of
    whoever reads the text.

    >>> from tidemill.expressions.bound import BoundCall, BoundColumn
    >>> from tidemill.expressions.types import INT32, INT64
    >>> to_sql(BoundCall("cast", (BoundColumn(0, "a b", INT32),), INT64), explicit=True)
    'CAST(`a b` AS BIGINT)'
    """
    from tidemill.expressions.sql_printer import print_sql  # noqa: PLC0415 - see expr

    return print_sql(bound, explicit=explicit)
