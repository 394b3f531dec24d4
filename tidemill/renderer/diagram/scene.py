"""What a picture shows of a graph, as plain data: operators, loops, and what a run did, before anything has a place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from tidemill.dataflow import nodes
from tidemill.dataflow.collector import collector_paused
from tidemill.dataflow.composites import Composite
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node

Role: TypeAlias = Literal["end", "state", "variable", "feedback", "border", "plain", "missing", "group"]


@attrs.frozen
class Figures:
    """What a run did at an operator, and where it is."""

    records: int
    """Updates that it sent on."""
    state_rows: int
    frontier: str
    """Empty where a picture has colours alone, and no figures."""
    seconds: float = 0.0
    share: float | None = None
    """How much of a step's time it took, where the picture is coloured by that: from 0 to 1."""


@attrs.frozen
class Writing:
    """What is written in a box that is no operator's: each line's text, its size, and which colour it is of."""

    lines: tuple[tuple[str, float, str], ...]
    tooltip: str
    is_sent: bool = True
    """Whether anything comes along the edges from here."""


@attrs.frozen
class DrawnOperator:
    """A node as it is shown; or a box with a writing of its own."""

    id: int
    kind: str
    name: str
    """Its own name, or what it does where it has none."""
    does: str
    schema: str
    columns: str
    """The names of its columns."""
    line: str
    source: str
    """The text of the user's line."""
    loop: int
    """In which loop it is drawn: a Leave in the one that it leaves."""
    reads: tuple[int, ...]
    role: Role
    back_to: int | None = None
    """The variable that a feedback sends to."""
    figures: Figures | None = None
    writing: Writing | None = None

    @property
    def sends_nothing(self) -> bool:
        """Whether it is known that nothing comes along the edges from here."""
        if self.writing is not None:
            return not self.writing.is_sent
        return self.figures is not None and bool(self.figures.frontier) and not self.figures.records

    @property
    def is_chip(self) -> bool:
        """Whether it is drawn small: it passes on what it gets."""
        return self.role in {"border", "feedback"}


@attrs.frozen
class Loop:
    """A scope as it is shown; the outermost is the dataflow itself, id 0."""

    id: int
    kind: str
    name: str
    parent: int | None

    @property
    def title(self) -> str:
        return f"⟳ {self.name}" if self.name == self.kind else f"⟳ {self.kind} {self.name}"


@attrs.frozen
class Scene:
    """Operators in the order of their ids, which is topological, and loops from the outermost on."""

    name: str
    coordinates: tuple[str, ...]
    operators: tuple[DrawnOperator, ...]
    loops: tuple[Loop, ...]
    subject: str = ""
    """What the picture is of, where that is not the dataflow."""

    @property
    def title(self) -> str:
        """What the picture is of, in a line."""
        if self.subject:
            return self.subject
        return f"dataflow {self.name}: {len(self.operators)} operators"


@collector_paused()
def scene_of(graph: Graph, figures: Mapping[int, Figures] | None = None) -> Scene:
    """Return the scene of a graph, with what a run did at each operator where that is given, by the ids of nodes."""
    figures = figures or {}
    loops = [Loop(s.id, s.kind, s.name, None if s.parent is None else s.parent.id) for s in graph.scopes]
    operators = [_operator(node, figures.get(node.id)) for node in graph.nodes]
    used = _with_those_around({o.loop for o in operators} | {0}, loops)
    return Scene(graph.name, graph.coordinates, tuple(operators), tuple(loop for loop in loops if loop.id in used))


def _with_those_around(ids: set[int], loops: list[Loop]) -> set[int]:
    around = {loop.id: loop.parent for loop in loops}
    found: set[int] = set()
    for one in ids:
        loop: int | None = one
        while loop is not None and loop not in found:
            found.add(loop)
            loop = around[loop]
    return found


def _operator(node: Node, figures: Figures | None) -> DrawnOperator:
    loop = node.inputs[0].scope if isinstance(node, nodes.Leave) else node.scope
    does = node.describe()
    return DrawnOperator(
        id=node.id,
        kind=node.called,
        name=_name(node, does),
        does=does,
        schema=str(node.schema),
        columns=", ".join(node.schema.names),
        line=str(node.site),
        source=node.site.source,
        loop=loop.id,
        reads=tuple(n.id for n in node.inputs),
        role=_role(node),
        back_to=node.variable.id if isinstance(node, nodes.Feedback) else None,
        figures=figures,
    )


def _name(node: Node, does: str) -> str:
    """Return what tells a node from others of its kind."""
    if isinstance(node, nodes.Enter):
        return _passed_on(node)
    if isinstance(node, nodes.Feedback):
        return node.variable.name
    own = "" if node.name == node.kind.lower() else node.name
    return own or does


def _passed_on(node: Node) -> str:
    """Return the name of what is brought into a loop."""
    while isinstance(node, nodes.Enter | nodes.Arrange):
        if not isinstance(node, nodes.Enter) and node.name != "arrange":
            break
        node = node.inputs[0]
    return "" if node.name == node.kind.lower() else node.name


def _role(node: Node) -> Role:
    if isinstance(node, nodes.Input | nodes.Output):
        return "end"
    if isinstance(node, nodes.Variable):
        return "variable"
    if isinstance(node, nodes.Feedback):
        return "feedback"
    if isinstance(node, nodes.Enter | nodes.Leave):
        return "border"
    holds = isinstance(node, nodes.Arrange | nodes.Reduce | nodes.Threshold | Composite)
    return "state" if holds else "plain"
