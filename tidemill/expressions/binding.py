"""Binding: from an expression and a schema to a typed tree, the form that engines evaluate and that prints as SQL."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

from tidemill.errors import SchemaError, UnknownColumnError, did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.calls import MisfitError, bind_call, bind_cast
from tidemill.expressions.composed_aggregates import Composition
from tidemill.expressions.conversions import Operand, coerce, fits, literal
from tidemill.expressions.display import literal_hint
from tidemill.expressions.expr import Call, Cast, Column, Expr, Literal, Text, lit
from tidemill.expressions.functions import NULL, widens
from tidemill.expressions.functions.registry import lossless_type
from tidemill.expressions.intervals import INTERVALS
from tidemill.expressions.recursion_guard import MAX_DEPTH, too_deep
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import as_expr, to_sql
from tidemill.expressions.structure import resolve, walk
from tidemill.expressions.types import BOOL, INTERVAL, DType
from tidemill.expressions.windows.calls import SessionCall, WindowCall
from tidemill.expressions.windows.functions import WindowFunction


def bind(expression: Expr, schema: Schema, *, expected: DType | None = None, alone: bool = False) -> Bound:
    """Return the typed tree of an expression over the columns of a schema.

    With ``expected`` the result is of that type, widened if need be, or it is an error; with ``alone`` it may be NULL
    without a type. ``SchemaError`` (for an unknown
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
    if widens(bound.dtype, INTERVAL) and bound.dtype != NULL:
        bound = coerce(bound, INTERVAL)
    if bound.dtype in INTERVALS:
        msg = f"`{to_sql(bound)}` is no value of a column: add it to a date or a timestamp"
        raise SchemaError(msg)
    if expected is not None:
        if not widens(bound.dtype, expected) and not (operand.loose and fits(bound, expected)):
            msg = f"`{to_sql(bound)}` is of type {bound.dtype}: expected {expected}; cast it"
            raise SchemaError(msg)
        return coerce(bound, expected)
    if bound.dtype == NULL and isinstance(bound, BoundLiteral) and not alone:
        msg = "NULL alone has no type: give it one, as in lit(None).cast('int64') or CAST(NULL AS BIGINT)"
        raise SchemaError(msg)
    return bound


def bind_with_default(value: Expr, default: Any, schema: Schema) -> tuple[Bound, Bound]:
    """Return a value and what may stand in its place, brought to one type that loses nothing of either."""
    bound, beside = bind(value, schema), _operand(lit(default), schema)
    common = lossless_type([bound.dtype, beside.bound.dtype])
    if common is None or (beside.loose and fits(beside.bound, bound.dtype)):
        return bound, bind(lit(default), schema, expected=bound.dtype)
    return coerce(bound, common), coerce(beside.bound, common)


def bind_predicate(value: Any, schema: Schema, what: str) -> Bound:
    """Return a condition as the user gives it (an expression or SQL text), bound; ``what`` asks for it, in errors."""
    if value is None:
        msg = f"{what}: None is no condition: expected an expression or SQL text"
        raise SchemaError(msg)
    bound = _operand(as_expr(value, schema), schema).bound
    if bound.dtype in (BOOL, NULL):
        return coerce(bound, BOOL)
    text = to_sql(bound)
    compared = f"{text} = 1" if bound.dtype.is_numeric else f"{text} IS NOT NULL"
    msg = f"{what}: `{text}` is of type {bound.dtype}: expected bool: compare it with something, as in `{compared}`"
    raise SchemaError(msg)


def _operand(expression: Expr, schema: Schema) -> Operand:
    try:
        return _bind(expression, schema)
    except MisfitError as misfit:
        raise SchemaError("".join(p if isinstance(p, str) else to_sql(p) for p in misfit.parts)) from None


def _bind(expression: Expr, schema: Schema) -> Operand:
    todo: list[tuple[Expr, int | None]] = [(expression, None)]
    """What is to be bound, and then the nodes that are made of the last so many operands."""
    made: list[Operand] = []
    while todo:
        node, count = todo.pop()
        if count is not None:
            first = len(made) - count
            made[first:] = [_made_of(node, made[first:])]
            continue
        node = resolve(node)
        parts = _parts(node, schema)
        if parts is None:
            made.append(_leaf(node, schema))
        else:
            todo.append((node, len(parts)))
            todo.extend((part, None) for part in reversed(parts))
    return made.pop()


def _parts(node: Expr, schema: Schema) -> Sequence[Expr] | None:
    """Return what has to be bound before the node is; None for one that is bound at once."""
    if isinstance(node, Text):
        return (as_expr(node, schema),)
    if isinstance(node, Cast):
        return (node.arg,)
    if not isinstance(node, Call):
        return None
    return _chained(node) if node.function in _CHAINS else node.args


_CHAINS: Final = ("and", "or", "&", "|")


def _chained(node: Call) -> Sequence[Expr]:
    """Return a, b, c of a AND b AND c, however they are put in parentheses."""
    return [p for p in walk(node, into=lambda p: _is_link(p, node.function)) if not _is_link(p, node.function)]


def _is_link(part: Expr, function: str) -> bool:
    return isinstance(part, Call) and part.function == function and len(part.args) > 1


def _made_of(node: Expr, operands: list[Operand]) -> Operand:
    if isinstance(node, Text):
        return operands[0]
    if isinstance(node, Cast):
        bound = bind_cast(operands[0], node.dtype)
    else:
        assert isinstance(node, Call)
        bound = _call(node.function, operands)
    if isinstance(bound, BoundCall) and bound.depth > MAX_DEPTH:
        raise too_deep()
    return Operand(bound)


def _call(function: str, operands: list[Operand]) -> Bound:
    in_twos = function in _CHAINS and any(o.bound.dtype not in (BOOL, NULL) for o in operands)  # of bits, or an error
    if not in_twos:
        return bind_call(function, tuple(operands))
    return functools.reduce(lambda a, b: Operand(bind_call(function, (a, b))), operands).bound


def _leaf(expression: Expr, schema: Schema) -> Operand:
    if isinstance(expression, Literal):
        return literal(expression.value)
    if isinstance(expression, Column):
        return Operand(_column(expression, schema))
    if isinstance(expression, (Aggregate, Composition)):
        msg = (
            f"`{expression!r}` is not supported in a scalar expression: an aggregate is no function of one row; use it "
            "in group_by(...).agg(...) or agg(...), and not inside another aggregate"
        )
        raise SchemaError(msg)
    if isinstance(expression, (WindowCall, SessionCall)):
        msg = (
            f"`{expression!r}` is not supported here: a window call looks at other rows; add it as a column in "
            "select(...) or with_columns(...) before, and use that"
        )
        raise SchemaError(msg)
    assert isinstance(expression, WindowFunction)
    msg = f"`{expression!r}` is called over a window only: say which rows it looks at, as in .over(tm.Window...)"
    raise SchemaError(msg)


def _column(column: Column, schema: Schema) -> BoundColumn:
    name = column.name
    if name not in schema:
        msg = f"no column `{name}` in {schema}: {did_you_mean(name, schema.names)}{literal_hint(column)}"
        raise UnknownColumnError(msg).about(column=name)
    field = schema.field(name)
    return BoundColumn(schema.index(name), name, field.dtype, field.nullable)
