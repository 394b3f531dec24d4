"""Draw the pictures of docs/how-it-works.md: ``python docs/draw.py``. Shapes and text, which any viewer shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

PICTURES: Final = Path(__file__).parent / "pictures"
INK, GREY, PALE, BLUE, LIGHT, AMBER, SAND, RED = (
    "#22303a", "#7c8791", "#eceff1", "#0b6e99", "#d8ebf3", "#c7791a", "#f8e8cf", "#b23a48",
)  # fmt: skip


class Picture:
    """Shapes, in the order in which they are drawn."""

    def __init__(self, width: int, height: int) -> None:
        self.size = (width, height)
        self.shapes: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, fill: str, line: str = "none", r: float = 4) -> None:
        """Add a rectangle."""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{r:g}" fill="{fill}" stroke="{line}"/>'
        )

    def text(
        self, x: float, y: float, text: str, colour: str = INK, size: int = 13, at: str = "middle", weight: int = 400
    ) -> None:
        """Add a line of text; ``y`` is its baseline."""
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}" font-weight="{weight}" text-anchor="{at}" '
            f'font-family="system-ui, Helvetica, Arial, sans-serif">{escape(text)}</text>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], colour: str = GREY, width: float = 1.5, dash: str = "none"
    ) -> None:
        """Add a line through points."""
        through = " ".join(f"{x:g},{y:g}" for x, y in points)
        stroke = f'stroke="{colour}" stroke-width="{width:g}" stroke-dasharray="{dash}"'
        self.shapes.append(f'<polyline points="{through}" fill="none" {stroke}/>')

    def arrow(self, x0: float, y0: float, x1: float, y1: float, colour: str = GREY, dash: str = "none") -> None:
        """Add a line with a head at its end."""
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        self.line([(x0, y0), (x1 - 6 * dx, y1 - 6 * dy)], colour, dash=dash)
        head = [(x1, y1), (x1 - 8 * dx - 4 * dy, y1 - 8 * dy + 4 * dx), (x1 - 8 * dx + 4 * dy, y1 - 8 * dy - 4 * dx)]
        self.shapes.append(f'<polygon points="{" ".join(f"{x:.4g},{y:.4g}" for x, y in head)}" fill="{colour}"/>')

    def dot(self, x: float, y: float, fill: str, line: str = "none", r: float = 6) -> None:
        """Add a circle."""
        self.shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}" fill="{fill}" stroke="{line}" stroke-width="2"/>')

    def way(self, path: str, colour: str = GREY, fill: str = "none") -> None:
        """Add a path, by SVG's commands; one that is filled has no line."""
        self.shapes.append(f'<path d="{path}" fill="{fill}" stroke="{colour if fill == "none" else "none"}"/>')

    @property
    def svg(self) -> str:
        """The picture, on white."""
        w, h = self.size
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        ground = f'<rect width="{w}" height="{h}" fill="#ffffff"/>'
        return "\n".join([head, ground, *self.shapes, "</svg>\n"])

    def save(self, name: str) -> None:
        """Write the picture."""
        (PICTURES / name).write_text(self.svg)


def step() -> None:
    """Draw a step: all updates with times in [lower, upper), round by round."""
    p = Picture(820, 400)
    left, top, cell, high = 150, 60, 78, 52
    for epoch in range(8):
        fill = PALE if epoch < 3 else LIGHT if epoch < 6 else "#ffffff"
        p.box(left + epoch * cell, top, cell, 5 * high, fill, r=0)
        p.text(left + (epoch + 0.5) * cell, top + 5 * high + 22, str(epoch), INK)
    for i in range(5):
        p.text(left - 14, top + (4 - i + 0.6) * high, str(i), INK)
        p.line([(left, top + i * high), (left + 8 * cell, top + i * high)], "#ffffff" if i else GREY, 1)
    p.text(left + 4 * cell, top + 5 * high + 48, "epoch, the user's time", GREY)
    p.text(left - 30, top + 2.6 * high, "iteration", GREY, at="end")
    y1 = top + 3.5 * high
    p.box(left + 3 * cell + 3, y1 - 21, 3 * cell - 6, 42, SAND, AMBER, 21)
    worked = [(0, 1, 2), (0, 1), (0, 1, 2, 4), (0, 1, 2), (0, 1, 4), (0, 1, 2, 4), (0,), (0,)]
    for epoch, rounds in enumerate(worked):
        for i in rounds:
            colour = GREY if epoch < 3 else BLUE if epoch < 6 else "#ffffff"
            p.dot(left + (epoch + 0.5) * cell, top + (4.5 - i) * high, colour, BLUE if epoch > 5 else "none")
    p.line([(left + 3 * cell, top - 12), (left + 3 * cell, top + 5 * high)], BLUE, 2)
    p.line([(left + 6 * cell, top - 12), (left + 6 * cell, top + 5 * high)], BLUE, 2)
    p.text(left + 3 * cell, top - 20, "lower = {3}", BLUE, weight=600)
    p.text(left + 6 * cell, top - 20, "upper = {6}", BLUE, weight=600)
    p.text(left + 1.5 * cell, top - 20, "final", GREY)
    p.text(left + 7.1 * cell, top - 20, "waiting", GREY)
    p.text(left + 8 * cell - 6, y1 - 4, "round 1: epochs", AMBER, 12, "end")
    p.text(left + 8 * cell - 6, y1 + 12, "3, 4 and 5 at once", AMBER, 12, "end")
    p.text(left + 8 * cell - 6, top + 1.6 * high, "round 3: no work,", GREY, 12, "end")
    p.text(left + 8 * cell - 6, top + 1.6 * high + 16, "jumped over", GREY, 12, "end")
    p.save("how-step.svg")


def spine() -> None:
    """Draw a spine: sorted batches of growing size, a tail, and a merge under way."""
    p = Picture(820, 300)
    x, y = 40, 90
    sizes = [(290, "524,288"), (150, "65,536"), (80, "16,384"), (74, "15,000")]
    for w, label in sizes:
        p.box(x, y, w, 54, LIGHT, BLUE)
        p.text(x + w / 2, y + 32, label, BLUE, 12, weight=600)
        if label in {"16,384", "15,000"}:
            p.line([(x + w / 2, y + 54), (x + w / 2, y + 84)], AMBER)
        x += w + 10
    p.box(x, y, 54, 54, SAND, AMBER)
    p.text(x + 27, y + 32, "tail", AMBER, 12, weight=600)
    p.text(205, 68, "batches: sorted by key, immutable, each some times as large as the next", BLUE, 13, "start")
    p.text(x + 27, y + 76, "up to 512", AMBER, 12)
    p.text(x + 27, y + 92, "updates, unsorted", AMBER, 12)
    p.line([(540, y + 84), (627, y + 84)], AMBER)
    p.arrow(583, y + 84, 583, y + 112, AMBER)
    p.box(505, y + 114, 156, 46, "#ffffff", AMBER)
    p.box(505, y + 114, 94, 46, SAND, "none")
    p.box(505, y + 114, 156, 46, "none", AMBER)
    p.text(583, y + 141, "a merge, under way", AMBER, 12)
    p.text(495, y + 133, "gets on a little at each step;", GREY, 12, "end")
    p.text(495, y + 149, "equal rows at times nobody can tell apart add up", GREY, 12, "end")
    said = "A key is looked up in each batch by binary search, and in the tail by comparing with all of it"
    p.text(40, 30, said, INK, 14, "start", 600)
    p.arrow(790, 117, 734, 117, GREY)
    p.text(738, 106, "new updates", GREY, 12, "start")
    p.save("how-spine.svg")


def interesting_times() -> None:
    """Draw the times at which a reduce has to look at a key: joins of the times of its updates."""
    p = Picture(900, 380)
    left, top, cell = 90, 50, 64
    for i in range(5):
        p.line([(left + i * cell, top), (left + i * cell, top + 4 * cell)], PALE, 1.5)
        p.line([(left, top + i * cell), (left + 4 * cell, top + i * cell)], PALE, 1.5)
        p.text(left + i * cell, top + 4 * cell + 26, str(i), GREY)
        p.text(left - 24, top + (4 - i) * cell + 5, str(i), GREY)
    p.text(left + 2 * cell, top + 4 * cell + 50, "day", GREY)
    p.text(left - 40, top - 14, "correction", GREY, at="start")

    def at(day: float, correction: float) -> tuple[float, float]:
        return left + day * cell, top + (4 - correction) * cell

    (x0, y0), (x1, y1), (x2, _) = at(-0.2, 1.5), at(1.5, 0.5), at(2.5, 0)
    bottom = top + 4 * cell + 12
    p.box(x0, y0, x1 - x0, bottom - y0, "#eef6fa", r=0)
    p.box(x1, y1, x2 - x1, bottom - y1, "#eef6fa", r=0)
    p.line([(x0, y0), (x1, y0), (x1, y1), (x2, y1), (x2, bottom)], BLUE, 2, "6 4")
    p.text(left + 2.2 * cell, top + 0.6 * cell, "upper = {(0, 2), (2, 1), (3, 0)}", BLUE, 12)
    p.text(left + 2.2 * cell, top + 0.6 * cell + 17, "this step closes the times below", BLUE, 12)
    for first, second in (((1, 0), (0, 1)), ((2, 0), (0, 1))):
        join = at(max(first[0], second[0]), max(first[1], second[1]))
        for time in (first, second):
            p.line([at(*time), join], "#e9c48f", 2)
    for day, correction, row in ((1, 0, "a"), (0, 1, "b"), (2, 0, "c")):
        p.dot(*at(day, correction), BLUE, r=9)
        p.text(at(day, correction)[0], at(day, correction)[1] + 4, row, "#ffffff", 12, weight=600)
    p.dot(*at(1, 1), AMBER, r=9)
    p.dot(*at(2, 1), "#ffffff", AMBER, 8)
    notes = [
        (BLUE, "none", "Updates of one key: a at (1, 0), b at (0, 1), c at (2, 0)."),
        (AMBER, "none", "(1, 1), the join of a's and b's: nothing came in there, yet"),
        (None, None, "both are there from then on, so the output may change."),
        ("#ffffff", AMBER, "(2, 1), the join of b's and c's, is beyond upper: pending."),
        (None, None, "It belongs to the step that closes it, and is kept even"),
        (None, None, "when the input that it comes of has been compacted."),
    ]
    y = 94
    for fill, line, text in notes:
        if fill:
            y += 14
            p.dot(420, y - 4, fill, line or "none", 7)
        p.text(440, y, text, INK, 13, "start")
        y += 20
    p.save("how-interesting-times.svg")


def prefix_sums() -> None:
    """Draw how an order is cut into blocks, and which of them a query is made of."""
    p = Picture(820, 350)
    left, cell, high = 110, 82, 44
    places, xs = [10, 20, 30, 40, 50, 60, 70, 80], [1, 2, 3, 4, 5, 6, 7, 8]
    rows = {name: 40 + n * (high + 12) for n, name in enumerate(("the whole", "blocks around", "blocks", "rows"))}

    def block(name: str, first: int, last: int, text: str, *, used: bool = False) -> None:
        x = left + first * cell
        p.box(x + 2, rows[name], (last - first + 1) * cell - 4, high, SAND if used else LIGHT, AMBER if used else BLUE)
        p.text(x + (last - first + 1) * cell / 2, rows[name] + 27, text, AMBER if used else BLUE, 13, weight=600)

    for name, y in rows.items():
        p.text(left - 12, y + 27, name, GREY, 13, "end")
    block("the whole", 0, 7, "36")
    block("blocks around", 0, 5, "21")
    block("blocks around", 6, 7, "15")
    block("blocks", 0, 1, "3")
    block("blocks", 2, 5, "18", used=True)
    block("blocks", 6, 7, "15")
    for i, (place, x) in enumerate(zip(places, xs, strict=True)):
        block("rows", i, i, f"x = {x}", used=place in {20, 70})
        separator = {30: "separator", 70: "separator, height 2"}.get(place, "")
        p.text(left + (i + 0.5) * cell, rows["rows"] + high + 20, str(place), INK, 13, weight=600 if separator else 400)
        p.text(left + (i + 0.5) * cell, rows["rows"] + high + 37, separator, GREY, 11)
    y = rows["rows"] + high + 58
    p.line([(left + cell, y - 6), (left + cell, y), (left + 7 * cell, y), (left + 7 * cell, y - 6)], AMBER, 2)
    said = "the sum over [20, 80) is 2 + 18 + 7: three pieces, however many rows lie between"
    p.text(left + 4 * cell, y + 20, said, AMBER, 13)
    p.save("how-prefix-sums.svg")


if __name__ == "__main__":
    for draw in (step, spine, interesting_times, prefix_sums):
        draw()
