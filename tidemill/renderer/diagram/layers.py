"""The layers of one scope: which element is in which, in what order, and how far across.

An element is an operator, a loop that is laid out already, or a bend of an edge that passes a layer. The edges of one
source share their bends, so what many read is one trunk with branches.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

import attrs

BEND = 6.0
"""The room that an edge takes across where it passes a layer."""
APART = 22.0
"""The room between two elements of a layer; less beside a bend."""


@attrs.define(eq=False)
class Element:
    """What has a place in a layer."""

    across: float
    along: float
    is_bend: bool = False
    pinned: int = 0
    """-1: belongs into the first layer; 1: into the last one."""
    layer: int = 0
    place: int = 0
    """Its number in the order of its layer."""
    center: float = 0.0
    above: list[tuple[Element, float, float]] = attrs.field(factory=list)
    """Elements of the layer before that it is joined to: with the offsets from the centre there, and here."""
    below: list[tuple[Element, float, float]] = attrs.field(factory=list)
    """Elements of the layer after: with the offsets from the centre there, and here."""


@attrs.define(eq=False)
class Trunk:
    """All that reads one source, from where it is to the layers of those that read."""

    source: Element
    offset: float
    targets: list[tuple[Element, int]]
    """Who reads, and the number of the edge."""
    bends: dict[int, Element] = attrs.field(factory=dict)
    """The trunk: its bend in each layer that it passes."""


def layered(elements: Sequence[Element], wires: Sequence[Trunk], *, has_border: bool) -> int:
    """Give every element its layer, after those that it reads; return how many layers there are.

    With a border what enters is alone in the first layer, and what leaves in the last one.
    """
    readers: dict[Element, list[Element]] = defaultdict(list)
    waits_for: dict[Element, int] = defaultdict(int)
    for wire in wires:
        for target, _ in wire.targets:
            readers[wire.source].append(target)
            waits_for[target] += 1
    reads_nothing = {e for e in elements if not waits_for[e]}
    ready = deque(e for e in elements if not waits_for[e])
    first = 1 if has_border else 0
    for e in elements:
        e.layer = 0 if e.pinned < 0 else first
    in_order: list[Element] = []
    while ready:
        element = ready.popleft()
        in_order.append(element)
        for target in readers[element]:
            target.layer = max(target.layer, element.layer + 1)
            waits_for[target] -= 1
            if not waits_for[target]:
                ready.append(target)
    last = max([e.layer for e in elements if e.pinned <= 0], default=first)
    if has_border:
        last += 1
        for e in elements:
            if e.pinned > 0:
                e.layer = last
    for element in reversed(in_order):  # what reads nothing comes where it is read
        if element in reads_nothing and not element.pinned and readers[element]:
            element.layer = max(element.layer, min(t.layer for t in readers[element]) - 1)
    return last + 1


def bent(wires: Sequence[Trunk]) -> list[Element]:
    """Make the bends of wires that pass layers, and return them."""
    for wire in wires:
        start = wire.source.layer
        end = max((t.layer for t, _ in wire.targets), default=start)
        wire.bends = {layer: Element(BEND, 0.0, is_bend=True, layer=layer) for layer in range(start + 1, end)}
    return [bend for wire in wires for bend in wire.bends.values()]


def join(wires: Sequence[Trunk], ports: Mapping[int, float]) -> None:
    """Have elements know what they are joined to in neighbouring layers, and where: at ports by the edges' numbers."""
    joins: list[tuple[Element, float, Element, float]] = []
    for wire in wires:
        trunk = {wire.source.layer: (wire.source, wire.offset)}
        trunk |= {layer: (bend, 0.0) for layer, bend in wire.bends.items()}
        joins += [(*trunk[layer - 1], bend, 0.0) for layer, bend in wire.bends.items()]
        joins += [(*trunk[t.layer - 1], t, ports.get(number, 0.0)) for t, number in wire.targets]
    for upper, _, lower, _ in joins:
        upper.below.clear()
        lower.above.clear()
    for upper, out, lower, port in joins:
        upper.below.append((lower, port, out))
        lower.above.append((upper, out, port))


def ordered(rows: list[list[Element]], sweeps: int) -> list[list[Element]]:
    """Return the layers in an order with few crossings: sorted by the middle of what each is joined to, in sweeps.

    What has the same middle keeps its order, and then, if there are crossings still, has it the other way round.
    """
    _number(rows)
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for turn in (1, -1):
        for sweep in range(sweeps):
            if not fewest:
                break
            _sort(rows, turn, down=sweep % 2 == 0)
            found = _crossings(rows)
            if found < fewest:
                best, fewest = [list(row) for row in rows], found
    _number(best)
    return best


def _sort(rows: list[list[Element]], turn: int, *, down: bool) -> None:
    for row in rows[1:] if down else rows[-2::-1]:
        keys = {e: (_middle(e.above if down else e.below, e.place), turn * e.place) for e in row}
        row.sort(key=keys.__getitem__)
        for place, element in enumerate(row):
            element.place = place


def _number(rows: list[list[Element]]) -> None:
    for row in rows:
        for place, element in enumerate(row):
            element.place = place


def _middle(joined: list[tuple[Element, float, float]], otherwise: float) -> float:
    if not joined:
        return otherwise
    return sum(e.place + (off / e.across if e.across else 0.0) for e, off, _ in joined) / len(joined)


def _crossings(rows: list[list[Element]]) -> int:
    """Return how many pairs of edges between neighbouring layers cross."""
    total = 0
    for row in rows[:-1]:
        ends: list[float] = []
        for element in row:
            for out in sorted({o for _, _, o in element.below}):
                here = sorted(e.place for e, _, o in element.below if o == out)
                total += sum(len(ends) - bisect_right(ends, end) for end in here)
                for end in here:
                    insort(ends, end)
    return total


def placed(rows: list[list[Element]], sweeps: int) -> None:
    """Give elements their centres: as near as may be to what they are joined to, in order and without overlap."""
    for row in rows:
        at = 0.0
        for element in row:
            element.center = at + element.across / 2
            at += element.across + APART
    if len(rows) == 1:
        return
    for sweep in range(sweeps):
        down = sweep % 2 == 0
        final = sweep >= sweeps - 2
        for row in rows if down else reversed(rows):
            _settle(row, [*_wishes(row, above=down or final, below=not down or final)])


def _wishes(row: list[Element], *, above: bool, below: bool) -> list[tuple[float, float]]:
    """Return for each element where it would like to be, and how much."""
    found = []
    for element in row:
        total = weight = 0.0
        for wanted, joined in ((above, element.above), (below, element.below)):
            if wanted:
                for other, there, here in joined:
                    w = 6.0 if element.is_bend and other.is_bend else 1.0
                    total += w * (other.center + there - here)
                    weight += w
        found.append((total / weight, weight) if weight else (element.center, 0.01))
    return found


def _settle(row: list[Element], wishes: list[tuple[float, float]]) -> None:
    """Put elements where the weighted squares of their distances from where they would like to be are least.

    Taken from each is the room before it, so that all that is asked for is an order that does not fall; neighbours that
    would be out of it are pooled at their mean.
    """
    room, rooms, pools = 0.0, [], []
    for place, (element, (wish, weight)) in enumerate(zip(row, wishes, strict=True)):
        if place:
            before = row[place - 1]
            apart = APART / 2 if before.is_bend or element.is_bend else APART
            room += (before.across + element.across) / 2 + apart
        rooms.append(room)
        pools.append([wish - room, weight, 1])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            at, heavy, count = pools.pop()
            known = pools[-1]
            known[0] = (known[0] * known[1] + at * heavy) / (known[1] + heavy)
            known[1] += heavy
            known[2] += count
    place = 0
    for at, _, count in pools:
        for _ in range(int(count)):
            row[place].center = at + rooms[place]
            place += 1
