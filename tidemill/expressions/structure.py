"""The structure of expressions: without wrappers, their names and identity, and with some parts replaced."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Hashable

from tidemill.expressions.expr import Alias, Call, Column, Expr, Literal, When
from tidemill.expressions.intervals import Interval

__all__ = ["identical", "key", "output_name", "replaced", "resolve"]


def resolve(expression: Expr) -> Expr:
    """Return the expression without the wrappers that carry no meaning: an alias, an open CASE, a negated literal."""
    if isinstance(expression, Alias):
        return resolve(expression.arg)
    if isinstance(expression, When):
        return Call("case", (*expression.branches, Literal(None)))
    if isinstance(expression, Call) and expression.function == "negate":
        arg = resolve(expression.args[0])
        numbers = (int, float, decimal.Decimal, Interval)
        if isinstance(arg, Literal) and isinstance(arg.value, numbers) and not isinstance(arg.value, bool):
            return Literal(arg.value.copy_negate() if isinstance(arg.value, decimal.Decimal) else -arg.value)
    return expression


def output_name(expression: Expr) -> str | None:
    """Return the column name that an expression brings along: its alias or, for a plain column, the column's."""
    return expression.name if isinstance(expression, (Alias, Column)) else None


def key(expression: Expr) -> Hashable:
    """Return a hashable key, the same for two expressions of the same structure."""
    expression = resolve(expression)
    return type(expression).__name__, expression.label, *map(key, expression.parts)


def identical(a: Expr, b: Expr) -> bool:
    """Return whether two expressions have the same structure (``==`` builds an expression instead).

    >>> from tidemill.expressions.expr import col
    >>> identical(col("a") + 1, col("a") + 1), identical(col("a") + 1, col("a") + 1.0)
    (True, False)
    """
    return key(a) == key(b)


def replaced(expression: Expr, replacement: Callable[[Expr], Expr | None]) -> Expr:
    """Return the expression with others in the place of those, outermost first, for which there is a replacement."""
    found = replacement(expression)
    if found is not None:
        return found
    return expression.with_parts([replaced(p, replacement) for p in expression.parts])
