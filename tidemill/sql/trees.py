"""Expressions with subqueries, aggregates and window calls in them: walked over, and with parts replaced."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import attrs

from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.expr import Column, Expr, Literal
from tidemill.expressions.structure import resolve
from tidemill.expressions.windows.calls import WindowCall
from tidemill.expressions.windows.functions import WindowFunction

Replacement = Callable[[Expr], Expr | None]


@attrs.frozen(eq=False, repr=False)
class Sub(Expr):
    """A subquery in an expression, until it is joined.

    ``kind`` is scalar, exists, or compare: whether some row compares with the operands as ``comparison`` says.
    """

    kind: str
    plan: Any
    values: tuple[Expr, ...] = ()
    """The expressions of the subquery's rows that count."""
    operands: tuple[Expr, ...] = ()
    comparison: str = "eq"
    node: Any = None
    """The node of sqlglot's, for errors."""
    own: object = attrs.field(factory=object)
    """What it is known by, whatever becomes of its operands."""

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands

    @property
    def label(self) -> Hashable:
        return id(self.own)

    def __repr__(self) -> str:
        return "(subquery)"


def mapped(expression: Expr, replacement: Replacement) -> Expr:
    """Return an expression with others in the place of those, outermost first, for which there is a replacement."""
    expression = resolve(expression)
    if (found := replacement(expression)) is not None:
        return found

    def inner(part: Any) -> Any:
        return mapped(part, replacement) if isinstance(part, Expr) else part

    if isinstance(expression, Aggregate):
        return attrs.evolve(
            expression,
            argument=inner(expression.argument),
            condition=inner(expression.condition),
            order_by=expression.order_by
            and tuple(attrs.evolve(k, expression=inner(k.expression)) for k in expression.order_by),
        )
    if isinstance(expression, WindowFunction):
        return attrs.evolve(expression, arguments=tuple(map(inner, expression.arguments)))
    if isinstance(expression, WindowCall):
        window = expression.window
        order = tuple(attrs.evolve(k, expression=inner(k.expression)) for k in window.order)
        window = attrs.evolve(window, partition=tuple(map(inner, window.partition)), order=order)
        function = expression.function
        if isinstance(function, Aggregate):  # the call's own, which is not a group's
            function = attrs.evolve(function, argument=inner(function.argument), condition=inner(function.condition))
        else:
            function = inner(function)
        return attrs.evolve(expression, function=function, window=window)
    if isinstance(expression, Sub):
        return attrs.evolve(expression, operands=tuple(map(inner, expression.operands)))
    parts = expression.parts
    return expression.with_parts([inner(p) for p in parts]) if parts else expression


def walked(expression: Expr, *, into: Callable[[Expr], bool] = lambda _: True) -> Iterator[Expr]:
    """Iterate over an expression and its parts, outermost first; the aggregate of a window call is no part of it."""
    todo = [expression]
    while todo:
        part = resolve(todo.pop())
        yield part
        if into(part):
            todo.extend(reversed(part.parts))


def is_larger(expressions: Iterable[Expr], limit: int) -> bool:
    """Return whether expressions have more parts than a limit together: one that reads another twice doubles it."""
    return sum(1 for e in expressions for _ in itertools.islice(walked(e), limit + 1)) > limit


def columns_of(expression: Expr) -> set[str]:
    """Return the names of the columns in an expression, without those in its subqueries."""
    found: set[str] = set()
    todo = [expression]
    while todo:
        part = resolve(todo.pop())
        if isinstance(part, Column):
            found.add(part.name)
        else:
            todo.extend(part.parts)
    return found


def renamed(expression: Expr, names: dict[str, Expr]) -> Expr:
    """Return an expression with others in the place of columns."""
    if not names:
        return expression
    return mapped(expression, lambda e: names.get(e.name) if isinstance(e, Column) else None)


def subqueries(expression: Expr) -> list[Sub]:
    """Return the subqueries in an expression, not those inside of others' operands."""
    return [p for p in walked(expression, into=lambda e: not isinstance(e, Sub)) if isinstance(p, Sub)]


def is_null(expression: Expr) -> bool:
    """Return whether an expression is a bare NULL, which has no type."""
    plain = resolve(expression)
    return isinstance(plain, Literal) and plain.value is None
