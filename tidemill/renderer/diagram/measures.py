"""How large things are drawn, and what is written in them."""

from __future__ import annotations

from typing import Final

from tidemill.renderer.diagram.scene import DrawnOperator, Loop
from tidemill.renderer.diagram.text_width import clipped, text_width

KIND: Final = 9.5
NAME: Final = 12.0
SMALL: Final = 9.0
CHIP: Final = 20.0
"""The height of what is drawn small."""
WIDEST_TEXT: Final = 190.0
_NARROWEST: Final = 84.0
_PAD: Final = 10.0
PORT: Final = 9.0
"""The room that an incoming edge takes at a box."""


def lines_of(operator: DrawnOperator) -> list[tuple[str, float, str]]:
    """Return what is written in an operator's box: each line's text, its size, and which colour it is of."""
    figures = operator.figures
    if operator.writing is not None:
        return list(operator.writing.lines)
    if operator.is_chip:
        text = operator.kind.lower() + (f" {operator.name}" if operator.name else "")
        return [(clipped(text, SMALL + 1, WIDEST_TEXT), SMALL + 1, "chip")]
    lines = [(f"{operator.kind} · {operator.line}", KIND, "kind")]
    if operator.name:
        lines.append((operator.name, NAME, "name"))
    lines.append((f"({operator.columns})", SMALL, "quiet"))
    if figures is not None and figures.frontier:
        held = f"{figures.state_rows:,} held · " if figures.state_rows else ""
        lines.append((f"{held}frontier {figures.frontier}", SMALL, "state" if held else "quiet"))
    return [(clipped(text, size, WIDEST_TEXT), size, colour) for text, size, colour in lines]


def size_of(operator: DrawnOperator, lines: list[tuple[str, float, str]]) -> tuple[float, float]:
    """Return the width and the height of an operator's box."""
    width = max(text_width(text, size) for text, size, _ in lines) + 2 * _PAD
    if operator.is_chip:
        return round(width), CHIP
    return round(max(width, _NARROWEST)), round(sum(size + 3.5 for _, size, _ in lines) + 12)


def title_of(loop: Loop) -> str:
    """Return what is written on a loop's border: no wider than what is written in a box."""
    return clipped(loop.title, SMALL + 2, WIDEST_TEXT)


def label_of(operator: DrawnOperator) -> str:
    """Return what is written beside the edges that leave an operator: how many records it sent."""
    return f"{operator.figures.records:,}" if operator.figures is not None and operator.figures.frontier else ""


def label_width(label: str) -> float:
    """Return the room that a label takes; none without one."""
    return text_width(label, SMALL + 1) + 8 if label else 0.0
