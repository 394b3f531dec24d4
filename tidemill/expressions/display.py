"""Expressions that no schema is known for yet, as text like SQL: for people to read, in errors and at prompts."""

from __future__ import annotations

import decimal
from typing import Any, Final

from tidemill.expressions.expr import Alias, Call, Cast, Column, Expr, Literal, Text
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.intervals import Interval, interval_text
from tidemill.expressions.recursion_guard import recursion_guard
from tidemill.expressions.structure import resolve

_WORDS: Final = frozenset(("and", "or", "int_divide", "like"))
"""Operators that are words."""


@recursion_guard
def display(expression: Expr | str) -> str:
    """Return an expression as text; what a user gave as text as it is.

    >>> from tidemill.expressions.expr import col
    >>> display((col("x") + 1) * col("two words")), display("x + 1")
    ('(x + 1) * `two words`', 'x + 1')
    """
    if isinstance(expression, str):
        return expression
    expression = resolve(expression)
    if isinstance(expression, Column):
        return expression.name if expression.name.isidentifier() else f"`{expression.name}`"
    if isinstance(expression, Text):
        return expression.text
    if isinstance(expression, Literal):
        return _literal(expression.value)
    if isinstance(expression, Cast):
        return f"CAST({display(expression.arg)} AS {expression.dtype})"
    return _call(expression) if isinstance(expression, Call) else repr(expression)


def literal_hint(column: Column) -> str:
    """Return what to do where a string that a function took names no column, to be put behind an error."""
    text = column.read_from
    return "" if text is None else f"; a string in a function is a column or SQL text: a literal is tm.lit({text!r})"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (int, float, decimal.Decimal)):
        return str(value).upper() if isinstance(value, bool) else str(value)
    if isinstance(value, Interval):
        text, first, last = interval_text(value)
        return f"INTERVAL '{text}' {first}{f' TO {last}' if last else ''}"
    return "'" + str(value).replace("'", "\\'") + "'"


def _call(call: Call) -> str:
    args = list(map(display, call.args))
    if call.function == "case":
        pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
        return "CASE " + "".join(f"WHEN {c} THEN {v} " for c, v in pairs) + f"ELSE {args[-1]} END"
    name = FUNCTIONS[call.function].sql if call.function in FUNCTIONS else call.function
    if not _is_operator(call):
        return f"{name}({', '.join(args)})"
    args = [f"({a})" if _is_operator(resolve(e)) else a for a, e in zip(args, call.args, strict=True)]
    if call.function == "in":
        return f"{args[0]} IN ({', '.join(args[1:])})"
    if call.function == "is_null":
        return f"{args[0]} IS NULL"
    if len(args) == 1:
        return f"{name} {args[0]}" if name.isidentifier() else f"{name}{args[0]}"
    return f" {name} ".join(args)


def _is_operator(expression: Expr) -> bool:
    if not isinstance(expression, Call):
        return False
    sign = FUNCTIONS[expression.function].sql if expression.function in FUNCTIONS else expression.function
    return not sign.isidentifier() or expression.function in _WORDS or expression.function in ("in", "not")


def _repr(expression: Expr) -> str:
    if isinstance(expression, Alias):
        return f"{display(expression.arg)} AS {expression.name}"
    return display(expression)


# Here, for the text needs the registry of functions, which stands on expressions.
Expr.__repr__ = _repr  # type: ignore[method-assign,assignment]
