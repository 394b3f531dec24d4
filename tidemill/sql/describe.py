"""Plans as text, for people: a line a node, with what it computes and the columns by the names that users know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidemill.expressions.display import display
from tidemill.expressions.expr import Column, Expr
from tidemill.site import SqlPlace
from tidemill.sql import plan as p
from tidemill.sql.scopes import plain, shown

_MOST_LETTERS: Final = 50
"""Of the text of a node."""


def described(root: p.Node, text: str) -> str:
    """Return a plan as text, with the places in SQL text; a node that is read twice is written out once."""
    lines: list[str] = []
    numbers: dict[int, int] = {}
    todo: list[tuple[p.Node, int]] = [(root, 0)]
    while todo:
        node, depth = todo.pop()
        indent = "  " * depth
        if id(node) in numbers:
            lines.append(f"{indent}(as at {numbers[id(node)]})")
            continue
        numbers[id(node)] = len(numbers) + 1
        lines.append(f"{indent}{numbers[id(node)]} {_line(node)}{_place(node, text)}")
        todo += [(i, depth + 1) for i in reversed(node.inputs)]
        if isinstance(node, p.Recursive) and id(node.block) not in numbers:
            numbers[id(node.block)] = 0
            todo += [(b.value, depth + 1) for b in reversed(node.block.bindings)]
    return "\n".join(lines)


def _place(node: p.Node, text: str) -> str:
    found = written(node.span, text)
    return "" if found is None else f"  [line {found.line}: {found.text}]"


def written(span: tuple[int, int] | None, text: str, view: str = "") -> SqlPlace | None:
    """Return where a part of a text stands, and how it begins, if it is known."""
    if span is None:
        return None
    start, end = span
    words = " ".join(text[start:end].split())
    words = words if len(words) <= _MOST_LETTERS else words[:_MOST_LETTERS] + "..."
    return SqlPlace(text.count("\n", 0, start) + 1, words, view)


def _line(node: p.Node) -> str:  # noqa: PLR0911 - one line a node
    kind = type(node).__name__
    if isinstance(node, p.Get):
        return f"{kind} {node.name}"
    if isinstance(node, p.Project):
        return f"{kind} {_named(node.named)}"
    if isinstance(node, p.Join):
        return f"{kind} {node.how}{' on ' if node.conditions else ''}{_each(node.conditions, ' AND ')}"
    if isinstance(node, p.Filter):
        return f"{kind} {_each(node.conditions, ' AND ')}"
    if isinstance(node, p.Group):
        keys = f" by {_named(node.keys)}" if node.keys else ""
        return f"{kind}{keys}: {_named(node.aggregates)}"
    if isinstance(node, p.Temporal):
        ends = ((" from ", node.begin), (" to ", node.end))
        return kind + "".join(word + _text(e) for word, e in ends if e is not None)
    if isinstance(node, p.Unnest):
        return f"{kind} {node.function.name}({_each(node.arguments, ', ')}){' or NULL' * node.outer}"
    if isinstance(node, p.Window):
        return f"{kind} {_named(node.calls)}"
    if isinstance(node, p.TopK):
        order = ", ".join(_text(k.expression) + k.direction for k in node.order)
        count = "" if node.count is None else f" {node.count}{' with ties' * node.ties}"
        of = f" of each {_each(node.keys, ', ')}" if node.keys else ""
        return f"{kind}{count}{f' after {node.offset}' * bool(node.offset)}{of} by {order}"
    if isinstance(node, p.SetOp):
        return f"{kind} {node.operation}{' all' * node.all_rows}"
    if isinstance(node, p.AtMostOne):
        return f"{kind} {_each(node.keys, ', ')}".rstrip()
    if isinstance(node, p.Recursive):
        return f"{kind} {node.name} of {node.block.name}"
    return kind


def _text(expression: Expr) -> str:
    return plain(display(expression))


def _each(expressions: Iterable[Expr], between: str) -> str:
    return between.join(map(_text, expressions))


def _named(named: Iterable[p.Named]) -> str:
    parts = []
    for field, expression in named:
        text, name = _text(expression), shown(field)
        parts.append(text if isinstance(expression, Column) and text.strip("`") == name else f"{text} AS {name}")
    return ", ".join(parts)
