"""Calls of literals as what they give."""

from __future__ import annotations

from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import BoundCall, BoundLiteral
from tidemill.expressions.expr import Call, Cast, Expr, Literal
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.schema import Schema
from tidemill.expressions.structure import resolve


def folded(expression: Expr) -> Expr:  # noqa: PLR0911 - what is not folded
    """Return a call of literals as what it gives, so that it is no error of rows; one that fails stays as it is."""
    if not isinstance(expression, (Call, Cast)) or not all(map(_is_literal, expression.parts)):
        return expression
    if isinstance(expression, Cast) and isinstance(resolve(expression.arg), Literal) and _is_typed(expression):
        return expression
    try:
        bound = bind(expression, Schema(()))
    except SchemaError:
        return expression
    if not isinstance(bound, BoundCall) or bound.function not in FUNCTIONS or FUNCTIONS[bound.function].lazy:
        return expression
    if bound.dtype.is_nested or not all(isinstance(a, BoundLiteral) for a in bound.args):
        return expression
    types = tuple(a.dtype for a in bound.args)
    try:
        value = FUNCTIONS[bound.function].value([a.value for a in bound.args], types, bound.dtype)  # type: ignore[union-attr]
    except FailureError:
        return expression
    return Cast(Literal(value), bound.dtype)


def _is_literal(part: Expr) -> bool:
    plain = resolve(part)
    return isinstance(plain, Literal) or (isinstance(plain, Cast) and isinstance(resolve(plain.arg), Literal))


def _is_typed(cast: Cast) -> bool:
    try:
        return isinstance(bind(cast, Schema(())), BoundLiteral)
    except SchemaError:
        return False
