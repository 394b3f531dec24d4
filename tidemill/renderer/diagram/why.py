"""The answer to why a row is there, or is not: as data, as text, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from tidemill.renderer.diagram.layout import lay_out
from tidemill.renderer.diagram.reason import Reason, Row
from tidemill.renderer.diagram.reason_scene import scene_of_reasons
from tidemill.renderer.diagram.svg import WIDEST, DirectionOrAuto, bundle_of, checked_direction, svg_of

_MOST_LINES: Final = 60
_MOST_ROWS: Final = 20


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
        text = [self._head() if self.is_there else f"{self._head()}:"]
        lines = self.tree.lines() if self.tree is not None else [f"{self.cause}:", *self._listed()]
        text += lines[:_MOST_LINES]
        if len(lines) > _MOST_LINES:
            text.append(f"... and {len(lines) - _MOST_LINES} more lines")
        return "\n".join(text)

    __repr__ = __str__

    def to_svg(self, *, direction: DirectionOrAuto = "auto") -> str:
        """Return the tree's picture as SVG, from the input rows to the row that was asked for, as notebooks show it.

        Each row is in it once, whatever it is a reason for, with its operator and the iteration in which it is there;
        what is missing is red, and edges along which nothing comes are dashed. It has the sixty reasons nearest to what
        was asked; what is cut short is in tooltips. ``direction`` is ``"down"``, ``"right"``, or ``"auto"``: to the
        right where that is not too wide.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("odd", flow.input("x", {"i": "int64"}).filter("i % 2 = 1"))
        >>> run = flow.start(why=True)
        >>> run.insert("x", [(3,)])
        >>> run.advance()
        >>> run.why("odd", (3,)).to_svg()[:38]
        '<svg xmlns="http://www.w3.org/2000/svg'
        """
        wanted = checked_direction(direction)
        tree = self.tree
        if tree is None:
            rows = tuple(Reason(f"input {name!r}", (), row) for name, some in self.rows.items() for row in some)
            tree = Reason(self.cause, rows)
        scene = scene_of_reasons(tree, self.output, self.row, self._head(), is_there=self.is_there)
        if wanted == "auto":
            wanted = "right" if lay_out(scene, "right").along <= WIDEST else "down"
        return svg_of(scene, wanted)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return bundle_of(str(self), self.to_svg(), self._head())

    def _head(self) -> str:
        if not self.is_there:
            return f"{self.output} has no row {self.row}"
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
