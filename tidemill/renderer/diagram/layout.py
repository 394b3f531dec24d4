"""The layout: each scope on its own, innermost first, so that a loop is one box to what is around it.

Everything is measured across the flow and along it; a picture from left to right is one from top to bottom, turned.
Edges change their place across only between layers, where there are no boxes, so none goes through one. What goes back
runs through lanes of its own beside the layers. The same scene has the same layout every time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import attrs

from tidemill.renderer.diagram.layers import Element, Trunk, bent, join, layered, ordered, placed
from tidemill.renderer.diagram.measures import CHIP, PORT, SMALL, label_of, label_width, lines_of, size_of, title_of
from tidemill.renderer.diagram.scene import DrawnOperator, Loop, Scene
from tidemill.renderer.diagram.text_width import text_width

Direction: TypeAlias = Literal["down", "right"]
Point: TypeAlias = tuple[float, float]
"""Across and along. Points that differ in both are joined by a curve that begins and ends along the flow."""

_LABEL = 14.0
_ARROW = 12.0
_CURVE = 26.0
_TRACK = 9.0
_PAD = 16.0
_TITLE = 12.0
_LONG = 64
"""Points of a trunk, two a layer: up to so many are gone by each of its edges, as in most pictures."""
_LARGE = 400
"""Elements from which on fewer sweeps have to do."""


@attrs.frozen
class Rectangle:
    """Where something is: its corner across and along, and its size."""

    u: float
    v: float
    across: float
    along: float


@attrs.frozen
class Box:
    """An operator in its place; where there is a label, that begins beside the edges' common stem."""

    operator: DrawnOperator
    lines: tuple[tuple[str, float, str], ...]
    at: Rectangle
    label: str


@attrs.frozen
class Edge:
    """From one operator to another, through points; or from where another edge from there is left."""

    source: int
    target: int
    points: tuple[Point, ...]
    is_feedback: bool = False


@attrs.define
class LoopLayout:
    """A loop laid out, in coordinates of its own."""

    loop: Loop
    across: float
    along: float
    border: Rectangle
    title: Rectangle
    boxes: list[Box]
    loops: list[tuple[float, float, LoopLayout]]
    """The loops inside, and where."""
    edges: list[Edge]

    def everything(self, u: float = 0.0, v: float = 0.0) -> Iterator[tuple[float, float, LoopLayout]]:
        """Iterate over this one and those inside, outer ones first, and where they are."""
        yield u, v, self
        for du, dv, inner in self.loops:
            yield from inner.everything(u + du, v + dv)


def lay_out(scene: Scene, direction: Direction = "down") -> LoopLayout:
    """Return the layout of a scene. Cost: about that of sorting its edges, a few times."""
    members: dict[int, list[DrawnOperator]] = defaultdict(list)
    for operator in scene.operators:
        members[operator.loop].append(operator)
    around = {loop.id: loop.parent for loop in scene.loops}
    inside: dict[int, list[LoopLayout]] = defaultdict(list)
    readers: dict[int, list[DrawnOperator]] = defaultdict(list)
    for operator in scene.operators:
        for source in operator.reads:
            readers[source].append(operator)
    done: LoopLayout | None = None
    for loop in sorted(scene.loops, key=lambda s: -_depth(s.id, around)):
        done = _Scope(loop, members[loop.id], inside[loop.id], readers, direction).lay_out()
        if loop.parent is not None:
            inside[loop.parent].append(done)
    assert done is not None, "the dataflow itself comes last"
    return done


def _depth(loop: int, around: Mapping[int, int | None]) -> int:
    parent = around[loop]
    return 0 if parent is None else 1 + _depth(parent, around)


@attrs.define(eq=False)
class _Joint:
    """Where edges of an operator leave or arrive: at its own box, or at a chip of a loop inside."""

    element: Element
    offset: float
    """From the element's centre, across."""
    first: float
    """From the element's beginning to where edges arrive, along."""
    last: float
    """From the element's beginning to where edges leave."""


class _Scope:
    """One scope while it is laid out."""

    def __init__(
        self,
        loop: Loop,
        operators: list[DrawnOperator],
        inside: list[LoopLayout],
        readers: Mapping[int, list[DrawnOperator]],
        direction: Direction,
    ) -> None:
        self.loop = loop
        self.operators = operators
        self.inside = sorted(inside, key=lambda i: i.loop.id)
        self.readers = readers
        self.down = direction == "down"
        self.has_border = loop.parent is not None
        self.ends: dict[int, _Joint] = {}
        self.boxes: dict[int, tuple[Element, list[tuple[str, float, str]], float, float]] = {}
        self.loop_elements: list[Element] = []
        self.labels: dict[int, str] = {o.id: label_of(o) for o in operators}
        self.elements = [self._element(o) for o in operators] + [self._loop_element(i) for i in self.inside]

    def _element(self, operator: DrawnOperator) -> Element:
        lines = lines_of(operator)
        width, height = size_of(operator, lines)
        across, along = (width, height) if self.down else (height, width)
        across = max(across, PORT * (len(operator.reads) + 1))
        label = label_width(self.labels[operator.id])
        pinned = 0
        if operator.role == "border":
            pinned = -1 if operator.kind == "Enter" else 1
        room = max(across, 2 * (label + 3) if self.down else (2 * _LABEL if label else 0))
        element = Element(room, along, pinned=pinned)
        self.boxes[operator.id] = element, lines, across, along
        self.ends[operator.id] = _Joint(element, 0.0, 0.0, along)
        return element

    def _loop_element(self, inner: LoopLayout) -> Element:
        element = Element(inner.across, inner.along)
        self.loop_elements.append(element)
        for box in inner.boxes:
            if box.operator.role == "border":
                at = box.at
                offset = at.u + at.across / 2 - inner.across / 2
                self.ends[box.operator.id] = _Joint(element, offset, at.v, at.v + at.along)
                self.labels[box.operator.id] = box.label
        return element

    # -- the steps ----------------------------------------------------------------------------------------------------

    def lay_out(self) -> LoopLayout:
        self._wire()
        count = layered(self.elements, self.wires, has_border=self.has_border)
        bends = bent(self.wires)
        join(self.wires, {})
        rows: list[list[Element]] = [[] for _ in range(count)]
        for element in [*self.elements, *bends]:
            rows[element.layer].append(element)
        large = len(self.elements) + len(bends) > _LARGE
        self.rows = ordered(rows, 4 if large else 10)
        self._order_ports()
        placed(self.rows, 6 if large else 12)
        self._straighten()
        self._lanes()
        self._bands()
        return self._done()

    def _wire(self) -> None:
        """Find who reads whom here: operators of this scope, and those on the borders of loops inside."""
        self.edges: list[tuple[int, int]] = []
        self.wires: list[Trunk] = []
        self.wire_of: dict[int, Trunk] = {}
        for source, end in self.ends.items():
            wire = Trunk(end.element, end.offset, [])
            for reader in self.readers.get(source, ()):
                target = self.ends.get(reader.id)
                if target is None or target.element is end.element:
                    continue
                wire.targets.append((target.element, len(self.edges)))
                self.edges.append((source, reader.id))
            if wire.targets:
                self.wires.append(wire)
                self.wire_of[source] = wire
        self.back = [(o.id, o.back_to) for o in self.operators if o.back_to is not None and o.back_to in self.ends]

    def _order_ports(self) -> None:
        """Give each edge its place at the box that it arrives at, in the order of where it comes from."""
        arriving: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
        for wire in self.wires:
            for target, number in wire.targets:
                upper = wire.bends.get(target.layer - 1, wire.source)
                offset = wire.offset if upper is wire.source else 0.0
                arriving[self.edges[number][1]].append((upper.place, offset, number))
        self.ports: dict[int, float] = {}
        for reader, edges in arriving.items():
            end = self.ends[reader]
            edges.sort()
            width = self.boxes[reader][2] if reader in self.boxes else 0.0
            step = min(24.0, (width - 4) / (len(edges) + 1)) if len(edges) > 1 else 0.0
            for i, (_, _, number) in enumerate(edges):
                self.ports[number] = end.offset + step * (i - (len(edges) - 1) / 2)
        join(self.wires, self.ports)

    def _straighten(self) -> None:
        """Have places across begin at 0, on whole numbers."""
        least = min((e.center - e.across / 2 for row in self.rows for e in row), default=0.0)
        for row in self.rows:
            for element in row:
                element.center = round(element.center - least + 0.01)

    def _lanes(self) -> None:
        """Give what goes back a lane beside the layers, and its tracks between them: short ways run inside."""
        spans = []
        for source, target in self.back:
            first, last = self.ends[target].element.layer, self.ends[source].element.layer
            spans.append((last - first, last, source, target))
        spans.sort()
        self.lane_of = {(s, t): i for i, (_, _, s, t) in enumerate(spans)}
        self.tracks_out: dict[int, list[int]] = defaultdict(list)
        self.tracks_in: dict[int, list[int]] = defaultdict(list)
        for _, _, source, target in spans:
            self.tracks_out[self.ends[source].element.layer].append(source)
            self.tracks_in[self.ends[target].element.layer].append(target)
        lanes = _TRACK * len(spans) + (4 if spans else 0)
        title = text_width(title_of(self.loop), SMALL + 2) + 16
        self.title_along = title
        left = lanes + _PAD if self.has_border else lanes
        if self.has_border and self.down:  # the title is on the border, beside what enters
            first_row = self.rows[0]
            begins = min((e.center - e.across / 2 for e in first_row), default=title)
            left = max(left, title + 14 - begins)
        self.left = round(left + (0 if self.down or not self.has_border else _TITLE / 2))
        self.across = self.left + max((e.center + e.across / 2 for row in self.rows for e in row), default=0.0)
        if self.has_border:
            self.across = max(self.across + _PAD, title + 30 if self.down else 0)
        for row in self.rows:
            for element in row:
                element.center += self.left

    def _bands(self) -> None:
        """Put one layer after the other, with as much room between as labels, tracks and curves take."""
        at = 0.0 if self.has_border else 2.0
        self.strips: dict[int, float] = defaultdict(float)
        for source in self.wire_of.keys() | {s for s, _ in self.back}:
            if label := self.labels[source]:
                layer = self.ends[source].element.layer
                self.strips[layer] = max(self.strips[layer], _LABEL if self.down else label_width(label))
        self.bands: list[Point] = []
        self.curves: list[Point] = []
        for layer, row in enumerate(self.rows):
            at += _TRACK * len(self.tracks_in[layer]) if layer == 0 else 0
            end = at + max((e.along for e in row), default=0.0)
            self.bands.append((at, end))
            strip = self.strips[layer]
            begin = end + strip + _TRACK * len(self.tracks_out[layer])
            span = max((abs(e.center + out - t.center - port) for e in row for t, port, out in e.below), default=0.0)
            close = begin + _CURVE + min(36.0, span / 12)
            self.curves.append((round(begin), round(close)))
            following = _TRACK * len(self.tracks_in[layer + 1]) if layer + 1 < len(self.rows) else 0
            at = round(close + following + _ARROW)
        last = self.bands[-1][1] if self.bands else 0.0
        if not self.has_border:
            last += self.strips[len(self.rows) - 1]
        elif self.rows and not any(e.pinned > 0 for e in self.rows[-1]):
            last = max(last, self.curves[-1][0] + 6)
        self.along = float(round(last))
        if not self.down and self.has_border:
            self.along = max(self.along, self.title_along + 60)

    # -- what comes out -----------------------------------------------------------------------------------------------

    def _done(self) -> LoopLayout:
        boxes = [self._box(o) for o in self.operators]
        loops = []
        for element, inner in zip(self.loop_elements, self.inside, strict=True):
            loops.append((element.center - inner.across / 2, self.bands[element.layer][0], inner))
        edges = [edge for wire in self.wires for edge in self._edges(wire)]
        edges += [self._way_back(source, target) for source, target in self.back]
        begin, end = self._border_along()
        top = 0.0 if self.down else _TITLE / 2
        border = Rectangle(0.0, begin, self.across, end - begin)
        title = Rectangle(8.0, begin - 8, self.title_along - 10, 16.0)
        if not self.down:
            border = Rectangle(top, begin, self.across - top, end - begin)
            title = Rectangle(top - 8, begin + 12, 16.0, self.title_along - 10)
        return LoopLayout(self.loop, self.across, self.along, border, title, boxes, loops, edges)

    def _border_along(self) -> Point:
        """Return where the border is: it goes through the middle of what enters and of what leaves."""
        if not self.has_border:
            return 0.0, self.along
        first, last = self.bands[0], self.bands[-1]
        if first[1] == first[0]:  # nothing enters
            first = (0.0, CHIP)
        end = (last[0] + last[1]) / 2 if any(e.pinned > 0 for e in self.rows[-1]) else self.along
        return (first[0] + first[1]) / 2, max(end, self.along - CHIP if self.down else end)

    def _box(self, operator: DrawnOperator) -> Box:
        element, lines, across, along = self.boxes[operator.id]
        v0, v1 = self.bands[element.layer]
        v = v0
        if operator.role == "border":
            v = v0 + (v1 - v0 - along) / 2
        self.ends[operator.id].first, self.ends[operator.id].last = v - v0, v - v0 + along
        label = self.labels[operator.id] if operator.id in self.readers or operator.back_to is not None else ""
        return Box(operator, tuple(lines), Rectangle(element.center - across / 2, v, across, along), label)

    def _edges(self, wire: Trunk) -> Iterator[Edge]:
        """Iterate over the edges of a trunk: along it, without a long part that one before has gone, to who reads."""
        at, first = wire.source.center + wire.offset, wire.source.layer
        trunk = [(at, self.bands[first][0]), (at, self.curves[first][0])]
        for layer, bend in wire.bends.items():
            trunk += [(bend.center, self.curves[layer - 1][1]), (bend.center, self.curves[layer][0])]
        gone = 0
        for target, number in wire.targets:
            source, reader = self.edges[number]
            trunk[0] = (at, self.bands[first][0] + self.ends[source].last)
            here, layer = target.center + self.ports[number], target.layer
            arrival = self.bands[layer][0] + self.ends[reader].first
            end = 2 * (layer - first)
            begin = min(gone, end) - 1 if min(gone, end) > _LONG else 0
            gone = max(gone, end)
            points = [*trunk[begin:end], (here, self.curves[layer - 1][1]), (here, arrival)]
            yield Edge(source, reader, _without_repeats(points))

    def _way_back(self, source: int, target: int) -> Edge:
        end, into = self.ends[source].element, self.ends[target].element
        outside = self.left - 8 - _TRACK * self.lane_of[source, target]
        out = self.curves[end.layer][0] - _TRACK * (self.tracks_out[end.layer].index(source) + 0.5)
        back = self.bands[into.layer][0] - _ARROW - _TRACK * (self.tracks_in[into.layer].index(target) + 0.5)
        points = [
            (end.center, self.bands[end.layer][0] + self.ends[source].last),
            (end.center, out),
            (outside, out),
            (outside, back),
            (into.center, back),
            (into.center, self.bands[into.layer][0] + self.ends[target].first),
        ]
        return Edge(source, target, tuple(points), is_feedback=True)


def _without_repeats(points: list[Point]) -> tuple[Point, ...]:
    """Return points without those in the middle of a straight line."""
    kept = [points[0]]
    for here, after in zip(points[1:], [*points[2:], None], strict=True):
        if after is not None and kept[-1][0] == here[0] == after[0]:
            continue
        kept.append(here)
    return tuple(kept)
