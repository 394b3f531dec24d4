"""What passes and engines ask of bound expressions, and how they make others of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral, rebuilt, walk
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.functions.casts import cast_can_fail
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import BOOL, FLOAT64


def can_fail(bound: Bound) -> bool:
    """Return whether some row may be an error.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.sql_text import expr
    >>> schema = Schema.of({"a": "int64", "f": "float64"})
    >>> [can_fail(bind(expr(text), schema)) for text in ("a + 1", "a = 1", "f + 1", "1 / f", "a % 2", "a % 0", "f / 2")]
    [True, False, False, True, False, True, False]
    """
    return any(isinstance(part, BoundCall) and itself_can_fail(part) for part in walk(bound))


def itself_can_fail(call: BoundCall) -> bool:
    """Return whether some row may be an error though none of the call's arguments is."""
    if call.function == "cast":
        return cast_can_fail(call.args[0].dtype, call.dtype)
    never = call.dtype == FLOAT64 and call.function in ("add", "subtract", "multiply", "negate", "abs")
    fails = FUNCTIONS[call.function].can_fail
    if callable(fails):
        return fails([a.value if isinstance(a, BoundLiteral) else None for a in call.args])
    return fails and not never


def column(schema: Schema, index: int) -> BoundColumn:
    """Return a column of a schema as an expression."""
    field = schema.fields[index]
    return BoundColumn(index, field.name, field.dtype, field.nullable)


def column_uses(bound: Bound) -> Iterator[int]:
    """Iterate over the columns that an expression reads, each as often as it stands in it."""
    return (part.index for part in walk(bound) if isinstance(part, BoundColumn))


def substituted(bound: Bound, replacement: Callable[[BoundColumn], Bound]) -> Bound:
    """Return the expression with each column replaced."""
    return rebuilt(bound, lambda leaf: replacement(leaf) if isinstance(leaf, BoundColumn) else leaf)


def moved(bound: Bound, to: Callable[[int], int]) -> Bound:
    """Return the expression with its columns at other places."""
    return substituted(bound, lambda c: attrs.evolve(c, index=to(c.index)))


def columns_among(expressions: Iterable[Bound]) -> set[int]:
    """Return which of the expressions are columns, by their places."""
    return {e.index for e in expressions if isinstance(e, BoundColumn)}


def conditions(predicate: Bound) -> Iterator[Bound]:
    """Iterate over the conditions that all have to be true for the predicate to be."""
    return iter(predicate.args if isinstance(predicate, BoundCall) and predicate.function == "and" else (predicate,))


def all_true(first: Bound, *others: Bound) -> Bound:
    """Return the predicate that is true where all of these are."""
    if not others:
        return first
    parts = [part for predicate in (first, *others) for part in conditions(predicate)]
    return BoundCall("and", tuple(parts), BOOL, any(p.nullable for p in (first, *others)))
