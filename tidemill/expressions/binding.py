"""Binding: from an expression and a schema to a typed tree, the form that engines evaluate and that prints as SQL."""

from __future__ import annotations

from typing import Any

from tidemill.errors import SchemaError, UnknownColumnError, did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.calls import MisfitError, bind_call, bind_cast
from tidemill.expressions.conversions import Operand, coerce, fits, literal
from tidemill.expressions.display import literal_hint
from tidemill.expressions.expr import Call, Cast, Column, Expr, Literal, Text
from tidemill.expressions.functions import NULL, widens
from tidemill.expressions.intervals import INTERVALS
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import as_expr, to_sql
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import BOOL, DType
from tidemill.expressions.windows.calls import WindowCall
from tidemill.expressions.windows.functions import WindowFunction

__all__ = ["bind", "bind_predicate"]


def bind(expression: Expr, schema: Schema, *, expected: DType | None = None) -> Bound:
    """Return the typed tree of an expression over the columns of a schema.

    With ``expected`` the result is of that type, widened if need be, or it is an error. ``SchemaError`` (for an unknown
    column ``UnknownColumnError``) names the expression, the types given and what was expected.

    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> schema = Schema.of({"delay": "int64", "n": "int32 not null"})
    >>> bind(col("n"), schema), bind(col("n") + 1, schema).dtype
    (BoundColumn(index=1, name='n', dtype=int32, nullable=False), int32)
    >>> bind(expr("delay / n"), schema).dtype
    float64
    >>> bind(expr("delay * 'x'"), schema)
    Traceback (most recent call last):
    ...
    tidemill.errors.SchemaError: `delay * 'x'` gets int64 and string: * expects two numbers; cast one of them
    """
    operand = _operand(expression, schema)
    bound = operand.bound
    if bound.dtype in INTERVALS:
        msg = f"`{to_sql(bound)}` is no value of a column: add it to a date or a timestamp"
        raise SchemaError(msg)
    if expected is not None:
        if not widens(bound.dtype, expected) and not (operand.loose and fits(bound, expected)):
            msg = f"`{to_sql(bound)}` is of type {bound.dtype}: expected {expected}"
            raise SchemaError(msg)
        return coerce(bound, expected)
    if bound.dtype == NULL:
        msg = "NULL alone has no type: give it one, as in lit(None).cast('int64') or CAST(NULL AS BIGINT)"
        raise SchemaError(msg)
    return bound


def bind_predicate(value: Any, schema: Schema, what: str) -> Bound:
    """Return a condition as the user gives it (an expression or SQL text), bound; ``what`` asks for it, in errors."""
    bound = bind(as_expr(value, schema), schema)
    if bound.dtype != BOOL:
        msg = f"{what}: {to_sql(bound)} is of type {bound.dtype}: expected bool"
        raise SchemaError(msg)
    return bound


def _operand(expression: Expr, schema: Schema) -> Operand:
    try:
        return _bind(expression, schema)
    except MisfitError as misfit:
        raise SchemaError("".join(p if isinstance(p, str) else to_sql(p) for p in misfit.parts)) from None


def _bind(expression: Expr, schema: Schema) -> Operand:
    expression = resolve(expression)
    if isinstance(expression, Literal):
        return literal(expression.value)
    if isinstance(expression, Column):
        return Operand(_column(expression, schema))
    if isinstance(expression, Text):
        return _bind(as_expr(expression, schema), schema)
    if isinstance(expression, Cast):
        return Operand(bind_cast(_bind(expression.arg, schema), expression.dtype))
    if isinstance(expression, Aggregate):
        msg = (
            f"`{expression!r}` is not supported in a scalar expression: an aggregate is no function of one row; use it "
            "in group_by(...).agg(...) or agg(...), and not inside another aggregate"
        )
        raise SchemaError(msg)
    if isinstance(expression, WindowCall):
        msg = (
            f"`{expression!r}` is not supported here: a window call looks at other rows; add it as a column in "
            "select(...) or with_columns(...) before, and use that"
        )
        raise SchemaError(msg)
    if isinstance(expression, WindowFunction):
        msg = f"`{expression!r}` is called over a window only: say which rows it looks at, as in .over(tm.Window...)"
        raise SchemaError(msg)
    assert isinstance(expression, Call)
    return Operand(bind_call(expression.function, tuple(_bind(a, schema) for a in expression.args)))


def _column(column: Column, schema: Schema) -> BoundColumn:
    name = column.name
    if name not in schema:
        msg = f"no column `{name}` in {schema}: {did_you_mean(name, schema.names)}{literal_hint(column)}"
        raise UnknownColumnError(msg)
    field = schema.field(name)
    return BoundColumn(schema.index(name), name, field.dtype, field.nullable)
