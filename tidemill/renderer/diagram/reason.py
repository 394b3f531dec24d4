"""A tree of reasons, as data and as text: why a row is there, or what is missing for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tidemill.site import Site

Row = tuple[Any, ...]


@attrs.frozen
class Reason:
    """A line of an answer: what is there, or is not, by what operator, and the reasons for that.

    ``iteration`` counts from 1, for each loop around, the outermost first. A row's reasons are of the same iteration or
    of earlier ones, so no row is a reason for itself.
    """

    text: str
    """What an operator does, or which input it is; or what there is that would need more."""
    children: tuple[Reason, ...] = ()
    row: Row | None = None
    iteration: tuple[int, ...] = ()
    operator: int = -1
    """The number of the operator in the graph, which tells it from others on the same line of the user's."""
    site: Site | None = None
    """The user's line on which the operator is."""
    finding: str = ""
    """What was found at the operator, where something is missing."""
    is_repeated: bool = False
    """Whether its reasons are told elsewhere in the tree."""

    def lines(self) -> list[str]:
        """Return the tree as lines of text; what was explained above is not explained again."""
        return list(_lines(self))

    @property
    def line(self) -> str:
        """Its own line of text, with the path of the user's file, as terminals make links of it."""
        return self._line("" if self.site is None else self.site.location)

    @property
    def short_line(self) -> str:
        """Its own line of text, the same on every machine."""
        return self._line("" if self.site is None else str(self.site))

    def _line(self, place: str) -> str:
        parts = [] if self.row is None else [str(self.row)]
        text = f"{self.text} ({place})" if place else self.text
        parts.append(f"{text}: {self.finding}" if self.finding else text)
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


def _shown(reason: Reason, above: set[Any]) -> tuple[str, tuple[Reason, ...]]:
    line = reason.line
    if not reason.children:
        return line, ()
    if (line, reason.operator) in above:
        return f"{line}, as above", ()
    above.add((line, reason.operator))
    return line, reason.children
