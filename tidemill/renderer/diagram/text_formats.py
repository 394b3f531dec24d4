"""A scene as text that other people's tools draw: Mermaid and Graphviz's DOT."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from tidemill.renderer.diagram.measures import label_of
from tidemill.renderer.diagram.scene import DrawnOperator, Loop, Scene

_SHAPES: Final = {"end": ("([", "])"), "variable": ("{{", "}}"), "border": ("([", "])"), "feedback": ("([", "])")}
_DOT_FILLS: Final = {
    "end": "#dbeafe", "state": "#ede9fe", "variable": "#fef3c7", "feedback": "#fee2e2", "border": "#f1f5f9",
    "plain": "#ffffff", "missing": "#fee2e2",
}  # fmt: skip


def mermaid_of(scene: Scene) -> str:
    """Return a scene as a Mermaid flowchart: loops as subgraphs, what goes back as dotted edges."""
    lines = ["flowchart TD"]
    lines += _nested(scene, _mermaid_node, lambda loop: f'subgraph s{loop.id}["{_quoted(loop.title)}"]', "end")
    for operator in scene.operators:
        for source in operator.reads:
            label = label_of(scene.operators[source])
            lines.append(f"  n{source} -->{f'|{label}|' if label else ''} n{operator.id}")
        if operator.back_to is not None:
            lines.append(f"  n{operator.id} -.-> n{operator.back_to}")
    return "\n".join(lines) + "\n"


def dot_of(scene: Scene) -> str:
    """Return a scene in Graphviz's language: loops as clusters, what goes back in red, without a say in ranks."""
    lines = [f'digraph "{_quoted_for_dot(scene.name)}" {{', '  node [shape=box, style="rounded,filled", fontsize=10];']
    lines += _nested(scene, _dot_node, _dot_cluster, "}")
    for operator in scene.operators:
        for source in operator.reads:
            label = label_of(scene.operators[source])
            lines.append(f"  n{source} -> n{operator.id}" + (f' [label="{label}"]' if label else "") + ";")
        if operator.back_to is not None:
            lines.append(f'  n{operator.id} -> n{operator.back_to} [color="#dc2626", constraint=false];')
    return "\n".join([*lines, "}"]) + "\n"


def _nested(
    scene: Scene, node: Callable[[DrawnOperator], str], begin: Callable[[Loop], str], end: str
) -> Iterator[str]:
    """Return a line for each operator, each loop's between its beginning and its end."""
    members: dict[int, list[DrawnOperator]] = defaultdict(list)
    inside: dict[int | None, list[Loop]] = defaultdict(list)
    for operator in scene.operators:
        members[operator.loop].append(operator)
    for loop in scene.loops:
        inside[loop.parent].append(loop)

    def lines(loop: Loop, pad: str) -> Iterator[str]:
        for operator in members[loop.id]:
            yield pad + node(operator)
        for inner in inside[loop.id]:
            yield pad + begin(inner)
            yield from lines(inner, pad + "  ")
            yield pad + end

    (root,) = inside[None]
    return lines(root, "  ")


def _mermaid_node(operator: DrawnOperator) -> str:
    opened, closed = _SHAPES.get(operator.role, ("[", "]"))
    name = f"<br/>{_quoted(operator.name)}" if operator.name else ""
    return f'n{operator.id}{opened}"{operator.kind}{name}"{closed}'


def _dot_node(operator: DrawnOperator) -> str:
    text = _quoted_for_dot(operator.kind) + (f"\\n{_quoted_for_dot(operator.name)}" if operator.name else "")
    return f'n{operator.id} [label="{text}", fillcolor="{_DOT_FILLS[operator.role]}"];'


def _dot_cluster(loop: Loop) -> str:
    return f'subgraph cluster_{loop.id} {{ label="{_quoted_for_dot(loop.title)}"; labeljust=l; color="#94a3b8";'


def _quoted(text: str) -> str:
    """Return text as it stands between quotes in Mermaid, which takes entities for what means something to it."""
    return "".join([c if c.isalnum() or c in " _.,=+-/()⟳" else f"#{ord(c)};" for c in text])


def _quoted_for_dot(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
