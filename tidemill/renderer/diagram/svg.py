"""A layout as SVG that survives notebooks, mail and GitHub.

Presentation attributes only, and no references: viewers strip style sheets, markers and gradients, and paint what is
left black. Arrowheads are paths, the ground is a white rectangle.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, Literal, TypeAlias, cast, get_args

import attrs

from tidemill.dataflow.collector import collector_paused
from tidemill.errors import TidemillError
from tidemill.renderer.diagram.layout import Box, Direction, Edge, LoopLayout, Point, Rectangle, lay_out
from tidemill.renderer.diagram.measures import SMALL, title_of
from tidemill.renderer.diagram.scene import DrawnOperator, Scene

DirectionOrAuto: TypeAlias = Literal["auto", "down", "right"]

_MARGIN: Final = 12.0
WIDEST: Final = 1150.0
"""Up to which width a picture is drawn from left to right where nothing is said: about a notebook's."""
_FEW: Final = 80
"""Operators up to which it is tried."""

_FILLS: Final = {
    "end": ("#dbeafe", "#3b82f6"),
    "state": ("#ede9fe", "#7c3aed"),
    "variable": ("#fef3c7", "#d97706"),
    "feedback": ("#fee2e2", "#dc2626"),
    "border": ("#f1f5f9", "#64748b"),
    "plain": ("#ffffff", "#64748b"),
    "missing": ("#fee2e2", "#dc2626"),
    "group": ("#ecfdf5", "#15803d"),
}
_TEXT: Final = {
    "kind": "#64748b",
    "name": "#0f172a",
    "quiet": "#64748b",
    "state": "#6d28d9",
    "chip": "#334155",
    "finding": "#0f172a",
    "iteration": "#92400e",
}
_FONT: Final = 'font-family="Helvetica, Arial, sans-serif"'
_EDGE, _BACK, _NEVER = "#475569", "#dc2626", "#94a3b8"
_LOOPS: Final = ("#f8fafc", "#eef2f7")
_HEAT: Final = ((255, 247, 237), (234, 88, 12))
"""From no time at all to all of it."""


def checked_direction(given: object) -> DirectionOrAuto:
    """Return which way a picture is to run; `TidemillError` where that is none."""
    for known in get_args(DirectionOrAuto):
        if given == known:
            return cast("DirectionOrAuto", known)
    msg = f"direction={given!r}: expected 'auto', 'down' or 'right'"
    raise TidemillError(msg)


def chosen_layout(scene: Scene, direction: DirectionOrAuto = "auto") -> tuple[LoopLayout, Direction]:
    """Return a scene's layout, and which way it runs: where nothing is said to the right if that is wide, not tall."""
    if direction != "auto":
        return lay_out(scene, direction), direction
    down = lay_out(scene, "down")
    if len(scene.operators) <= _FEW and down.along > down.across:
        right = lay_out(scene, "right")
        if right.along <= WIDEST:
            return right, "right"
    return down, "down"


@collector_paused()
def svg_of(scene: Scene, direction: DirectionOrAuto = "auto") -> str:
    """Return the picture of a scene."""
    layout, chosen = chosen_layout(scene, direction)
    drawing = _Drawing(scene, down=chosen == "down")
    width, height = (layout.across, layout.along) if chosen == "down" else (layout.along, layout.across)
    width, height = width + 2 * _MARGIN, height + 2 * _MARGIN
    size = f'width="{_n(width)}" height="{_n(height)}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_n(width)} {_n(height)}" {_FONT}>',
        f"<title>{_escaped(scene.title)}</title>",
        f'<rect {size} fill="#ffffff"/>',
        *drawing.all_of(layout),
        "</svg>",
        "",
    ])  # fmt: skip


@attrs.frozen
class _Drawing:
    scene: Scene
    down: bool

    def all_of(self, layout: LoopLayout) -> Iterator[str]:
        places = list(layout.everything(_MARGIN, _MARGIN))
        operators = {o.id: o for o in self.scene.operators}
        for u, v, loop in places:
            yield from self._ground(u, v, loop)
        for u, v, loop in places:
            for edge in loop.edges:
                yield from self._edge(u, v, edge, never=operators[edge.source].sends_nothing)
        for u, v, loop in places:
            if loop.loop.parent is not None:
                yield from self._title(u, v, loop)
            for box in loop.boxes:
                yield from self._box(u, v, box)

    def _turned(self, u: float, v: float) -> Point:
        """Return where something is drawn: x and y."""
        return (u, v) if self.down else (v, u)

    def _rectangle(self, u: float, v: float, at: Rectangle) -> tuple[float, float, float, float]:
        x, y = self._turned(u + at.u, v + at.v)
        width, height = self._turned(at.across, at.along)
        return x, y, width, height

    def _ground(self, u: float, v: float, layout: LoopLayout) -> Iterator[str]:
        if layout.loop.parent is None:
            return
        x, y, width, height = self._rectangle(u, v, layout.border)
        depth = self._depth(layout.loop.id)
        yield (
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="8" '
            f'fill="{_LOOPS[(depth - 1) % 2]}" stroke="#94a3b8"/>'
        )

    def _depth(self, loop: int) -> int:
        around = {s.id: s.parent for s in self.scene.loops}
        depth = 0
        while (parent := around[loop]) is not None:
            loop, depth = parent, depth + 1
        return depth

    def _title(self, u: float, v: float, layout: LoopLayout) -> Iterator[str]:
        x, y, width, height = self._rectangle(u, v, layout.title)
        yield (
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="8" '
            'fill="#ffffff" stroke="#94a3b8"/>'
        )
        yield _text(x + width / 2, y + 12, title_of(layout.loop), SMALL + 1.5, "#334155", anchor="middle", bold=True)

    def _box(self, u: float, v: float, box: Box) -> Iterator[str]:
        x, y, width, height = self._rectangle(u, v, box.at)
        operator = box.operator
        fill, stroke = _FILLS[operator.role]
        share = None if operator.figures is None else operator.figures.share
        if share is not None:
            fill = _heat(share)
        yield f"<g><title>{_escaped(_tooltip(operator))}</title>"
        yield (
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
            f'rx="{10 if operator.is_chip else 5}" fill="{fill}" stroke="{stroke}"/>'
        )
        at = y + 4.5 if not operator.is_chip else y
        for text, size, colour in box.lines:
            at += size + 3.5
            ink = _TEXT[colour if share is None else "name"]  # grey cannot be read on orange
            yield _text(x + width / 2, at, text, size, ink, anchor="middle", bold=colour == "name")
        yield "</g>"
        if box.label:
            du, dv = box.at.u + box.at.across / 2, box.at.v + box.at.along
            x, y = self._turned(u + du, v + dv)
            x, y = (x + 5, y + 11) if self.down else (x + 5, y - 4)
            yield _text(x, y, box.label, SMALL + 1, "#334155")

    def _edge(self, u: float, v: float, edge: Edge, *, never: bool) -> Iterator[str]:
        colour = _BACK if edge.is_feedback else _NEVER if never else _EDGE
        dashes = ' stroke-dasharray="4 3"' if never else ""
        yield f'<path d="{self._way(u, v, edge.points)}" fill="none" stroke="{colour}" stroke-width="1.4"{dashes}/>'
        x, y = self._turned(u + edge.points[-1][0], v + edge.points[-1][1])
        head = "l-3.5 -7 h7 z" if self.down else "l-7 -3.5 v7 z"
        yield f'<path d="M{_n(x)} {_n(y)} {head}" fill="{colour}"/>'

    def _way(self, u: float, v: float, points: Sequence[Point]) -> str:
        at = points[0]
        parts = ["M" + self._point(u, v, at)]
        for to in points[1:]:
            if to[0] != at[0] and to[1] != at[1]:
                middle = (at[1] + to[1]) / 2
                one, two = self._point(u, v, (at[0], middle)), self._point(u, v, (to[0], middle))
                parts.append(f"C{one} {two} {self._point(u, v, to)}")
            else:
                parts.append("L" + self._point(u, v, to))
            at = to
        return "".join(parts)

    def _point(self, u: float, v: float, point: Point) -> str:
        x, y = self._turned(u + point[0], v + point[1])
        return f"{_n(x)} {_n(y)}"


def _tooltip(operator: DrawnOperator) -> str:
    if operator.writing is not None:
        return operator.writing.tooltip
    does = f"\n{operator.does}" if operator.does else ""
    return f"#{operator.id} {operator.kind} {operator.name}{does}\n{operator.schema}\n{operator.line}"


def _text(x: float, y: float, text: str, size: float, fill: str, *, anchor: str = "", bold: bool = False) -> str:
    extra = f' text-anchor="{anchor}"' if anchor else ""
    extra += ' font-weight="bold"' if bold else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{fill}"{extra}>{_escaped(text)}</text>'


def _heat(share: float) -> str:
    """Return the colour of an operator that took so much of the time."""
    least, most = _HEAT
    return "#" + "".join(f"{round(a + (b - a) * share**0.7):02x}" for a, b in zip(least, most, strict=True))


def _escaped(text: str) -> str:
    """Return text as it stands in XML, which has no characters for control."""
    if not text.replace("\n", "").isprintable():
        text = "".join([c if c.isprintable() or c == "\n" else " " for c in text])
    return escape(text)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def bundle_of(text: str, svg: str, title: str) -> dict[str, str]:
    """Return the outline, the SVG, and HTML that holds the SVG as an image.

    Jupyter drops SVG of notebooks that are not trusted, and shows SVG inside HTML as text; an image stays.
    """
    data = base64.b64encode(svg.encode()).decode()
    image = f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}" style="max-width: 100%"/>'
    return {"text/plain": text, "image/svg+xml": svg, "text/html": image}
