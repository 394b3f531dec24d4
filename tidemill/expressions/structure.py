"""The structure of expressions: without wrappers, their names and identity, and with some parts replaced."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Hashable, Iterator

from tidemill.expressions.expr import Alias, Call, Column, Expr, Literal, When
from tidemill.expressions.intervals import Interval


def resolve(expression: Expr) -> Expr:
    """Return the expression without the wrappers that carry no meaning: an alias, an open CASE, a negated literal."""
    kind = type(expression)
    if kind is Column or (kind is Call and expression.function != "negate"):  # type: ignore[attr-defined]
        return expression  # at once, since plans of queries are walked over many times
    while isinstance(expression, Alias):
        expression = expression.arg
    if isinstance(expression, When):
        return Call("case", (*expression.branches, Literal(None)))
    inner, negated = expression, False
    while isinstance(inner, Alias) or (isinstance(inner, Call) and inner.function == "negate"):
        negated ^= isinstance(inner, Call)
        (inner,) = inner.parts
    if inner is expression or not isinstance(inner, Literal) or isinstance(inner.value, bool):
        return expression
    value = inner.value
    if not isinstance(value, (int, float, decimal.Decimal, Interval)):
        return expression
    if negated:
        value = value.copy_negate() if isinstance(value, decimal.Decimal) else -value
    return Literal(value)


def output_name(expression: Expr) -> str | None:
    """Return the column name that an expression brings along: its alias or, for a plain column, the column's."""
    return expression.name if isinstance(expression, (Alias, Column)) else None


def key(expression: Expr) -> Hashable:
    """Return a hashable key, the same for two expressions of the same structure."""
    found: list[Hashable] = []
    todo = [expression]
    while todo:
        part = resolve(todo.pop())
        parts = part.parts
        found += [type(part).__name__, part.label, len(parts)]
        todo.extend(reversed(parts))
    return tuple(found)


def walk(expression: Expr, *, into: Callable[[Expr], bool] = lambda _: True) -> Iterator[Expr]:
    """Iterate over an expression and its parts, outermost first, not those inside of what is not gone into."""
    todo = [expression]
    while todo:
        part = todo.pop()
        yield part
        if into(part):
            todo.extend(reversed(part.parts))


def identical(a: Expr, b: Expr) -> bool:
    """Return whether two expressions have the same structure (``==`` builds an expression instead).

    >>> from tidemill.expressions.expr import col
    >>> identical(col("a") + 1, col("a") + 1), identical(col("a") + 1, col("a") + 1.0)
    (True, False)
    """
    return key(a) == key(b)


def replaced(expression: Expr, replacement: Callable[[Expr], Expr | None]) -> Expr:
    """Return the expression with others in the place of those, outermost first, for which there is a replacement."""
    todo: list[tuple[Expr, bool]] = [(expression, False)]
    made: list[Expr] = []
    while todo:
        part, is_ready = todo.pop()
        if is_ready:
            first = len(made) - len(part.parts)
            made[first:] = [part.with_parts(made[first:])]
        elif (found := replacement(part)) is not None:
            made.append(found)
        elif not part.parts:
            made.append(part)
        else:
            todo.append((part, True))
            todo.extend((p, False) for p in reversed(part.parts))
    return made.pop()
