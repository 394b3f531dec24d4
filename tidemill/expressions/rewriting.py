"""What passes and engines ask of bound expressions, and how they make others of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.functions import FUNCTIONS, widens
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import BOOL, FLOAT64

__all__ = ["both", "can_fail", "column", "column_uses", "conditions", "substituted"]


def can_fail(bound: Bound) -> bool:
    """Return whether some row may be an error.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.sql_text import expr
    >>> schema = Schema.of({"a": "int64", "f": "float64"})
    >>> [can_fail(bind(expr(text), schema)) for text in ("a + 1", "a = 1", "f + 1", "1 / f")]
    [True, False, False, True]
    """
    if not isinstance(bound, BoundCall):
        return False
    if bound.function == "cast":
        own = not widens(bound.args[0].dtype, bound.dtype)
    else:
        never = bound.dtype == FLOAT64 and bound.function in ("add", "subtract", "multiply", "negate", "abs")
        own = FUNCTIONS[bound.function].can_fail and not never
    return own or any(can_fail(a) for a in bound.args)


def column(schema: Schema, index: int) -> BoundColumn:
    """Return a column of a schema as an expression."""
    field = schema.fields[index]
    return BoundColumn(index, field.name, field.dtype, field.nullable)


def column_uses(bound: Bound) -> Iterator[int]:
    """Iterate over the columns that an expression reads, each as often as it stands in it."""
    if isinstance(bound, BoundColumn):
        yield bound.index
    elif isinstance(bound, BoundCall):
        for arg in bound.args:
            yield from column_uses(arg)


def substituted(bound: Bound, replacement: Callable[[BoundColumn], Bound]) -> Bound:
    """Return the expression with each column replaced."""
    if isinstance(bound, BoundColumn):
        return replacement(bound)
    if isinstance(bound, BoundLiteral):
        return bound
    return attrs.evolve(bound, args=tuple(substituted(a, replacement) for a in bound.args))


def conditions(predicate: Bound) -> Iterator[Bound]:
    """Iterate over the conditions that all have to be true for the predicate to be."""
    if isinstance(predicate, BoundCall) and predicate.function == "and":
        for arg in predicate.args:
            yield from conditions(arg)
    else:
        yield predicate


def both(first: Bound, second: Bound) -> Bound:
    """Return the predicate that is true where both are."""
    return BoundCall("and", (first, second), BOOL, first.nullable or second.nullable)
