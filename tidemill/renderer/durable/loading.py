"""Operators that are new in a dataflow, loaded from what inputs and kept operators hold: only they work, and aside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Input,
    Inspect,
    LateRows,
    Node,
    Output,
    Retime,
    SortBuffer,
    Variable,
    Watermark,
)
from tidemill.dataflow.passes.rebuild import Copy
from tidemill.dataflow.progress import Progress
from tidemill.errors import StateError
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.schedule import Operator
from tidemill.renderer.embedded.state import dump_operator, in_memory, load_operator

_TIMED: Final[dict[type[Node], str]] = {
    Retime: "delay",
    Watermark: "a watermark",
    SortBuffer: 'emit="on_close"',
    LateRows: "late_rows",
}
"""What gives rows by when others came, which contents do not say; as users call it."""


@attrs.frozen
class Loading:
    """What is to be worked out anew, and from what."""

    targets: Collection[Node]
    """Whose state is new."""
    worked: Collection[Node]
    """All that takes part in that, and what holds what they read."""
    sources: Mapping[Node, Operator]
    """Of these, those whose contents are there: what holds them."""

    @property
    def rows(self) -> int:
        """How many rows are read."""
        return sum(operator.spines()["spine"].size for operator in self.sources.values())


def loading(
    executor: EmbeddedExecutor, new: Collection[Node], held: Mapping[Node, Operator], missing: Collection[Input]
) -> Loading:
    """Return how what is new is loaded, where contents of some nodes are ``held``; `StateError` where it cannot be.

    ``missing`` are inputs whose rows were not kept.
    """
    graph, worked, sources = executor.graph, dict[Node, None](), dict[Node, Operator]()
    held = {node: operator for node, operator in held.items() if node not in _behind_timed(graph)}
    todo = [node for node in new if executor.compiled.operators[node].spines()]  # all else only passes rows on
    while todo:
        node = todo.pop()
        if node in worked:
            continue
        worked[node] = None
        if node in held and node not in new:
            sources[node] = held[node]
            continue
        require_loadable(node, missing)
        todo += node.inputs
        if isinstance(node, Variable):
            todo.append(graph.feedback_of(node))
    targets = [node for node in new if node in worked and not isinstance(node, Inspect)]  # which holds nothing
    return Loading(targets, worked, sources)


def _behind_timed(graph: Graph) -> set[Node]:
    """Return what gives rows by when others came, and all behind it: what it holds may be a part of what it held."""
    found: set[Node] = set()
    for node in graph.nodes:
        if isinstance(node, tuple(_TIMED)) or any(source in found for source in node.inputs):
            found.add(node)
    return found


def load(executor: EmbeddedExecutor, how: Loading, checked: Collection[Input]) -> None:
    """Work out the state of the targets where the executor's frontiers are; ``checked`` are inputs checked anew."""
    graph, copies = _copy(executor.graph, how, checked)
    compiled = executor.compiled
    aside = EmbeddedExecutor(graph, Progress(graph), interner=compiled.interner)
    frontiers = {
        c: compiled.operators[n].frontier.upper for n, c in copies.items() if isinstance(c, Input) and c.rows is None
    }
    for node, holder in how.sources.items():
        stand_in = copies[node].inputs[0] if isinstance(node, Arrange) else copies[node]
        assert isinstance(stand_in, Input)
        aside.compiled.inputs[stand_in].ports[0].defer(holder.spines()["spine"].all_updates())
        frontiers[stand_in] = compiled.operators[node].frontier.upper
    aside.step(frontiers)
    outputs = {c: compiled.outputs[n] for n, c in copies.items() if isinstance(n, Output) and isinstance(c, Output)}
    aside.commit({c: operator.readers_since for c, operator in outputs.items()})
    for node in how.targets:
        load_operator(
            compiled.operators[node], in_memory(dump_operator(aside.compiled.operators[copies[node]], whole=False))
        )
    for node in checked:
        if node in copies:
            checked_aside = aside.compiled.checks[copies[node]]
            load_operator(compiled.checks[node], in_memory(dump_operator(checked_aside, whole=False)))


def require_loadable(node: Node, missing: Collection[Input]) -> None:
    """Raise `StateError` where what an operator gives cannot be worked out of what inputs hold."""
    if node in missing:
        msg = (
            f"{node.where}: something is new that has to be loaded from what it holds, and that was not kept, as with "
            "keep_inputs=False or in the state of an earlier version: give the dataflow another folder, and put the "
            "rows in again, or start it as it was"
        )
        raise StateError(msg)
    called = next((words for kind, words in _TIMED.items() if isinstance(node, kind)), None)
    if called is not None and not (isinstance(node, Retime) and node.column is not None):
        msg = (
            f"{called} ({node.site.location}) is new, or something new reads it, and it gives rows by when others "
            "came, which what inputs hold does not say: give the dataflow another folder, and put the rows in again, "
            "or start it as it was"
        )
        raise StateError(msg)


def _copy(graph: Graph, how: Loading, checked: Collection[Input]) -> tuple[Graph, Mapping[Node, Node]]:
    """Return a graph of the targets and what they need, in which inputs stand for sources; and what stands for what."""
    copy, copies = Copy(graph), dict[Node, Node]()
    for node in graph.nodes:
        if node not in how.worked:
            continue
        if node in how.sources:
            made: Node = _stand_in(copy, node, unique=node in checked)
            if isinstance(node, Arrange):
                made = copy.put(node, inputs=(made,))
        elif isinstance(node, Inspect):  # it has seen them
            made = copy.now(node.inputs[0])
        else:
            made = copy.put(node)
        copy.stands_for(made, node)
        copies[node] = made
    made_graph = copy.finished()
    made_graph.freeze()
    return made_graph, copies


def _stand_in(copy: Copy, node: Node, *, unique: bool) -> Input:
    place, name = len(copy.graph.nodes), f"{node.id} {node.name}"
    return copy.graph.put(
        Input(id=place, name=name, scope=copy.graph.root, site=node.site, schema=node.schema, unique=unique)
    )


def kept_nodes(kept: Iterable[Operator]) -> dict[Node, Operator]:
    """Return the nodes whose contents are in operators whose state is kept: arrangements, and what outputs show."""
    found: dict[Node, Operator] = {}
    for operator in kept:
        node = operator.node
        if node.scope.parent is not None or not operator.frontier.upper.elements:
            continue
        if isinstance(node, Arrange):
            found[node] = operator
        elif isinstance(node, Output) and not operator.ports[0].pending and not isinstance(node.inputs[0], Input):
            found.setdefault(node.inputs[0], operator)
    return found
