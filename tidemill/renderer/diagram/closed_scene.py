"""A large graph as notebooks show it at once: its boxes closed but for the outermost, as the explorer opens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.renderer.diagram.levels import MOST, DrawnGroup, levels_of
from tidemill.renderer.diagram.measures import NAME, WIDEST_TEXT
from tidemill.renderer.diagram.scene import DrawnOperator, Figures, Scene, Writing
from tidemill.renderer.diagram.text_width import clipped

_TEXT = 11.0
_FEW = 60
"""Operators up to which all of them are shown."""


def closed_scene(graph: Graph, scene: Scene) -> Scene:
    """Return a graph's scene with its operators in boxes, if there are many."""
    if len(scene.operators) <= _FEW:
        return scene
    groups = {g.id: g for g in levels_of(graph)}
    opened = _opened(groups.values())
    stands_for: dict[int, int] = {}
    for group in groups.values():  # those around others come first
        box = stands_for.get(group.id, group.id if group.id not in opened else None)
        inside = [*group.operators, *(g.id for g in groups.values() if g.parent == group.id)]
        stands_for |= {} if box is None else dict.fromkeys(inside, box)
    members: dict[int, list[DrawnOperator]] = defaultdict(list)
    for operator in scene.operators:
        members[stands_for.get(operator.id, operator.id)].append(operator)
    drawn = []
    for box, operators in members.items():
        reads = dict.fromkeys(stands_for.get(s, s) for o in operators for s in o.reads)
        reads.pop(box, None)
        if box in groups:
            drawn.append(_drawn(groups[box], operators, tuple(reads), scene))
        else:
            drawn.append(attrs.evolve(operators[0], reads=tuple(reads)))
    loops = {g.scope for g in groups.values() if g.kind == "loop" and g.id in opened and g.id not in stands_for}
    subject = f"{scene.title} in {len(drawn)} boxes"
    kept = tuple(loop for loop in scene.loops if loop.parent is None or loop.id in loops)
    return attrs.evolve(scene, operators=tuple(drawn), loops=kept, subject=subject)


def _opened(groups: Iterable[DrawnGroup]) -> set[int]:
    """Return which groups are open: those around others first, small ones first, as there is room; calls never are."""
    inside: dict[int | None, list[DrawnGroup]] = defaultdict(list)
    for group in groups:
        inside[group.parent].append(group)
    opened: set[int] = set()
    level, seen = inside[None], 1
    while level:
        more = {g.id: len(g.operators) + len(inside[g.id]) - 1 for g in level if g.kind != "call"}
        level = []
        for group_id in sorted(more, key=more.__getitem__):
            if seen + more[group_id] <= MOST:
                opened.add(group_id)
                seen += more[group_id]
                level += inside[group_id]
    return opened


def _drawn(group: DrawnGroup, operators: list[DrawnOperator], reads: tuple[int, ...], scene: Scene) -> DrawnOperator:
    first = operators[0]
    held = [o.figures for o in operators if o.figures is not None]
    result = next((o for o in operators if o.id == group.result), operators[-1])
    figures = None
    lines = [(group.title, NAME, "name"), (f"{group.line} · {len(operators)} operators", _TEXT, "quiet")]
    if held:
        rows, seconds = sum(f.state_rows for f in held), sum(f.seconds for f in held)
        records = result.figures.records if result.figures is not None else 0
        figures = Figures(records, rows, held[0].frontier, seconds)
        lines.append((f"{rows:,} held · {seconds:.3g} s", _TEXT, "state" if rows else "quiet"))
    parents = {loop.id: loop.parent for loop in scene.loops}
    loop = parents[group.scope] if group.kind == "loop" else group.scope
    return attrs.evolve(
        first,
        id=group.id,
        loop=0 if loop is None else loop,
        reads=reads,
        role="group",
        back_to=None,
        figures=figures,
        writing=Writing(
            tuple((clipped(text, size, WIDEST_TEXT), size, ink) for text, size, ink in lines),
            f"{group.title}\n{group.line}",
        ),
    )
