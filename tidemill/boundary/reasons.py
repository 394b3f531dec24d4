"""Answers, as data, as text and as HTML: a tree of reasons, and the input rows at its leaves."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

__all__ = ["Reason", "Row", "Why"]

Row = tuple[Any, ...]

_MOST_LINES: Final = 60
_MOST_ROWS: Final = 20


@attrs.frozen
class Reason:
    """A line of an answer: what is there, or is not, by what operator, and the reasons for that.

    ``iteration`` counts from 1, for each loop around, the outermost first. A row's reasons are of the same iteration or
    of earlier ones, so no row is a reason for itself.
    """

    text: str
    children: tuple[Reason, ...] = ()
    row: Row | None = None
    iteration: tuple[int, ...] = ()
    operator: int = -1
    """The number of the operator in the graph, which tells it from others on the same line of the user's."""

    def lines(self) -> list[str]:
        """Return the tree as lines of text; what was explained above is not explained again."""
        return list(_lines(self))

    def html(self) -> str:
        """Return the tree as a list in HTML."""
        return _html(self)

    @property
    def line(self) -> str:
        """Its own line of text."""
        parts = [] if self.row is None else [str(self.row)]
        parts.append(self.text)
        if self.iteration:
            parts.append(f"iteration {'.'.join(map(str, self.iteration))}")
        return "  ".join(parts)


def _lines(reason: Reason) -> Iterator[str]:
    above = set[Any]()
    waiting = [(reason, "", "")]  # in a list, since trees may be deeper than functions may call each other
    while waiting:
        one, head, rest = waiting.pop()
        line, children = _shown(one, above)
        yield head + line
        for place, child in enumerate(reversed(children)):
            waiting.append((child, rest + ("├─ " if place else "└─ "), rest + ("│  " if place else "   ")))


def _html(reason: Reason) -> str:
    above, parts = set[Any](), list[str]()
    waiting: list[Reason | str] = [reason]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            parts.append(one)
            continue
        line, children = _shown(one, above)
        parts.append(f"<li><code>{html.escape(line)}</code>{'<ul>' if children else ''}")
        waiting += ["</ul></li>" if children else "</li>", *reversed(children)]
    return "".join(parts)


def _shown(reason: Reason, above: set[Any]) -> tuple[str, tuple[Reason, ...]]:
    line = reason.line
    if not reason.children:
        return line, ()
    if (line, reason.operator) in above:
        return f"{line}, as above", ()
    above.add((line, reason.operator))
    return line, reason.children


@attrs.frozen(repr=False)
class Why:
    """Why a row is in an output, or is not. Made by ``run.why``; prints as a tree."""

    output: str
    row: Row
    is_there: bool
    rows: Mapping[str, Sequence[Row]] = attrs.field(factory=dict)
    """For each input the rows that suffice; a row as often as it is needed. Nothing where the row is not there."""
    is_minimal: bool = False
    """Whether it is known that none of these rows, with all its copies, can be left out."""
    tree: Reason | None = None
    """On what way the row follows from them, or on which it was lost; None where that is too much to tell."""
    cause: str = ""
    """Why there is no tree, where there is none."""

    def __str__(self) -> str:
        text = [self._head()]
        lines = self.tree.lines() if self.tree is not None else [self.cause, *self._listed()]
        text += lines[:_MOST_LINES]
        if len(lines) > _MOST_LINES:
            text.append(f"... and {len(lines) - _MOST_LINES} more lines")
        return "\n".join(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tree = f"<ul>{self.tree.html()}</ul>" if self.tree is not None else f"<pre>{html.escape(self.cause)}</pre>"
        return f"<p>{html.escape(self._head())}</p>{tree}"

    def _head(self) -> str:
        if not self.is_there:
            return f"{self.output} has no row {self.row}:"
        number = sum(map(len, self.rows.values()))
        least = ", none can be left out" if self.is_minimal and number > 1 else ""
        suffice = f"{number} input rows suffice" if number > 1 else "an input row suffices"
        suffice = suffice if number else "no input row is needed"
        return f"{self.output} has {self.row}: {suffice}{least}"

    def _listed(self) -> Iterator[str]:
        for name, rows in self.rows.items():
            for row in rows[:_MOST_ROWS]:
                yield f"{row}  input {name!r}"
            if len(rows) > _MOST_ROWS:
                yield f"... and {len(rows) - _MOST_ROWS} more rows of input {name!r}"
