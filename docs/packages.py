"""The picture of docs/architecture.md: which package imports which, laid out as dataflows are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import networkx as nx
from draw import BLUE, GREY, INK, LIGHT, Picture
from support.imports import TOP, own_imports, package  # beside the tests that read imports; docs/generate.py says where

from tidemill.renderer.diagram.layout import Point, lay_out
from tidemill.renderer.diagram.scene import DrawnOperator, Loop, Scene

ROOM: Final = 12


def imports() -> nx.DiGraph:
    """Return which package imports which, without arrows that follow from others; those in a circle are one."""
    graph = nx.DiGraph({(package(i.module), package(i.imported)) for i in own_imports() if not i.for_types})
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    grouped = nx.condensation(graph)
    names = {n: " and ".join(sorted(map(_shown, data["members"]))) for n, data in grouped.nodes(data=True)}
    reduced: nx.DiGraph = nx.relabel_nodes(nx.transitive_reduction(grouped), names)
    return reduced


def picture(graph: nx.DiGraph) -> str:
    """Return the picture: who imports is above whom it imports."""
    order = list(nx.lexicographical_topological_sort(graph))
    ids = {name: number for number, name in enumerate(order)}
    found = [_operator(ids[name], name, sorted(ids[a] for a in graph.predecessors(name))) for name in order]
    layout = lay_out(Scene("packages", (), tuple(found), (Loop(0, "dataflow", "packages", None),)))
    drawn = Picture(round(layout.across) + 2 * ROOM, round(layout.along) + 2 * ROOM)
    for edge in layout.edges:
        points = [(u + ROOM, v + ROOM) for u, v in edge.points]
        drawn.way(" ".join(_way(points)))
        u, v = points[-1]
        drawn.way(f"M{u:g} {v:g}l-3.5 -7h7z", fill=GREY)
    for box in layout.boxes:
        at = box.at
        drawn.box(at.u + ROOM, at.v + ROOM, at.across, at.along, LIGHT, BLUE)
        drawn.text(at.u + at.across / 2 + ROOM, at.v + at.along / 2 + ROOM + 4, box.operator.name, INK, 10)
    return drawn.svg


def _operator(id_: int, name: str, reads: list[int]) -> DrawnOperator:
    """Return a package as something that is drawn small."""
    return DrawnOperator(id_, "", name, "", "", "", "", "", 0, tuple(reads), "feedback")


def _way(points: list[Point]) -> Iterator[str]:
    """Return the commands of a path through points: curves where both coordinates change."""
    u, v = points[0]
    yield f"M{u:g} {v:g}"
    for to_u, to_v in points[1:]:
        if to_u != u and to_v != v:
            yield f"C{u:g} {(v + to_v) / 2:g} {to_u:g} {(v + to_v) / 2:g} {to_u:g} {to_v:g}"
        else:
            yield f"L{to_u:g} {to_v:g}"
        u, v = to_u, to_v


def _shown(name: str) -> str:
    return "import tidemill" if name == TOP else name
