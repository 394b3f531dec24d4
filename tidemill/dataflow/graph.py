"""The graph of a dataflow: made once, node by node, checked as it is made, then frozen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs

from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Arrange, Enter, Feedback, Input, Leave, Node, Output, Variable
from tidemill.dataflow.origins import Origins
from tidemill.dataflow.scopes import Scope
from tidemill.errors import GraphError
from tidemill.site import Site, SqlPlace

if TYPE_CHECKING:
    import networkx as nx


N = TypeVar("N", bound=Node)


class Graph:
    """Nodes and scopes. A node's inputs are made before it, so the order of ids is a topological order.

    The one edge that goes back is the one from a Feedback to its Variable.
    """

    def __init__(self, name: str, coordinates: Sequence[str]) -> None:
        self.name = name
        self.coordinates = tuple(coordinates)
        self.nodes: list[Node] = []
        self._consumers: list[list[tuple[Node, int]]] = []
        """Of each node who reads it, and at which port."""
        self.inputs: dict[str, Input] = {}
        """The inputs by name, in the order of making; constants left out."""
        self.outputs: dict[str, Output] = {}
        """The outputs by name, in the order of making."""
        self.read_as: dict[str, Node] = {}
        """What queries read by the name of an input whose columns they have to check."""
        self.root = Scope(0, name, "flow", None, len(self.coordinates), Site.here())
        self.scopes: list[Scope] = [self.root]
        self.frozen = False
        self._closed: set[Scope] = set()
        self._plans: dict[Scope, dict[int, Node | Scope]] = {}
        """For each scope, its own nodes by id, and the loops directly inside by the id of their last node."""
        self._last_ids: dict[Scope, int] = {}
        self._undefined: dict[Variable, None] = {}
        self._feedback: dict[Variable, Feedback] = {}
        self._entered: dict[tuple[Node, Scope], Enter] = {}
        self._arranged: dict[tuple[Node, tuple[int, ...]], Arrange] = {}
        self._made_for: Node | None = None
        """The operator that nodes added now are a part of, if any: they have its name and the user's line."""
        self._call: Node | None = None
        """Its number, and what it does."""
        self._origins: Origins | None = None
        self._sql: SqlPlace | None = None

    # -- making ---------------------------------------------------------------------------------------------------

    def scope(self, kind: Literal["iterate", "letrec"], name: str, parent: Scope) -> Scope:
        """Return a new loop inside ``parent``."""
        self._check_open(parent)
        made = Scope(len(self.scopes), name, kind, parent, parent.coordinates + 1, Site.here())
        self.scopes.append(made)
        return made

    def close(self, scope: Scope) -> None:
        """Declare a loop finished: nothing is added to it any more, and now it can be left."""
        for node in self._undefined:
            if node.scope is scope:
                msg = f"{node.where} has no definition: define {node.name!r} before the end of the block"
                raise GraphError(msg)
        self._closed.add(scope)

    def is_closed(self, scope: Scope) -> bool:
        """Return whether the scope, or one around it, was declared finished."""
        return any(s in self._closed for s in scope)

    def add(self, kind: type[N], *, scope: Scope, inputs: tuple[Node, ...] = (), name: str = "", **fields: Any) -> N:
        """Return a new node of this kind, checked; without a name it takes the name of its kind."""
        self._check_open(scope)
        whole = self._made_for
        if whole is None:
            name, site, part_of, call = name or kind.__name__.lower(), Site.here(self._sql), None, None
        else:
            name, site, part_of = name or whole.name, whole.site, whole.part_of or whole.called
            call = self._call
        place: dict[str, Any] = {"id": len(self.nodes), "scope": scope, "inputs": inputs}
        return self.put(
            kind(name=name, site=site, origins=self._origins, part_of=part_of, call=call, **place, **fields)
        )

    @contextmanager
    def on_behalf_of(self, node: Node) -> Iterator[None]:
        """Have nodes that are added meanwhile be parts of a node: they have its name and the user's line."""
        before = self._made_for, self._call
        self._made_for, self._call = node, node.call or node
        try:
            yield
        finally:
            self._made_for, self._call = before

    @contextmanager
    def telling(self, origins: Origins) -> Iterator[None]:
        """Have errors of nodes that are added meanwhile tell this."""
        before, self._origins = self._origins, origins
        try:
            yield
        finally:
            self._origins = before

    @contextmanager
    def written(self, sql: SqlPlace | None) -> Iterator[None]:
        """Have nodes that are added meanwhile point to what stands in a line of SQL, if that is known."""
        before = self._sql
        if sql is not None:
            self._sql = sql if before is None or sql.view else attrs.evolve(sql, view=before.view)
        try:
            yield
        finally:
            self._sql = before

    def put(self, node: N) -> N:
        """Add a node that was made elsewhere, checked; its id has to be the next one. For passes, which copy graphs."""
        assert node.id == len(self.nodes), "ids are the order of making"
        self._check(node)
        self._register(node)
        return node

    def emptied(self, kept: int = 0) -> Graph:
        """Return a graph of the same name, times and scopes, all open, with the first ``kept`` nodes, to fill."""
        made = Graph(self.name, self.coordinates)
        made.root, made.scopes = self.root, list(self.scopes)
        for node in self.nodes[:kept]:
            made._register(node)
        return made

    def close_as(self, other: Graph) -> None:
        """Close the scopes that are closed in a graph of which this is a copy."""
        self._closed = set(other._closed)

    def mark(self) -> tuple[int, int]:
        """Return how much there is, to go back to with `truncate`."""
        return len(self.nodes), len(self.scopes)

    def truncate(self, mark: tuple[int, int]) -> None:
        """Forget nodes and scopes made since the mark: what was being built went wrong."""
        nodes, scopes = mark
        kept = self.nodes[:nodes]
        self.read_as = {name: node for name, node in self.read_as.items() if node.id < nodes}
        for known in (
            self.nodes, self._consumers, self.inputs, self.outputs, self._plans, self._last_ids, self._undefined,
            self._feedback, self._entered, self._arranged,
        ):  # fmt: skip
            known.clear()
        del self.scopes[scopes:]
        for node in kept:
            self._register(node)

    def freeze(self) -> None:
        """Check the whole, and refuse additions from now on. Running a dataflow freezes it."""
        if not self.frozen:
            self.check()
            self.frozen = True

    def _register(self, node: Node) -> None:
        self.nodes.append(node)
        self._place(node)
        self._consumers.append([])
        for port, source in enumerate(node.inputs):
            self._consumers[source.id].append((node, port))
        if isinstance(node, Variable):
            self._undefined[node] = None
        elif isinstance(node, Feedback):
            self._feedback[node.variable] = node
            self._undefined.pop(node.variable, None)
        elif isinstance(node, Enter):
            self._entered.setdefault((node.inputs[0], node.scope), node)
        elif isinstance(node, Arrange):
            self._arranged.setdefault((node.inputs[0], node.keys), node)
        elif isinstance(node, Output):
            self.outputs[node.name] = node
        elif isinstance(node, Input) and node.rows is None:
            self.inputs[node.name] = node

    def _place(self, node: Node) -> None:
        """Have a node, and all loops around it, come last in the plans."""
        self._plans.setdefault(node.scope, {})[node.id] = node
        for scope in node.scope:
            if scope.parent is not None:
                around = self._plans.setdefault(scope.parent, {})
                around.pop(self._last_ids.get(scope, -1), None)
                around[node.id] = scope
            self._last_ids[scope] = node.id

    # -- reading --------------------------------------------------------------------------------------------------

    def feedback_of(self, variable: Variable) -> Feedback:
        """Return the node that defines a loop's variable; ``KeyError`` while the block is still open without one."""
        return self._feedback[variable]

    def entered(self, node: Node, scope: Scope) -> Enter | None:
        """Return the first Enter that brings a node into a loop directly inside its scope, if there is one."""
        return self._entered.get((node, scope))

    def arranged(self, node: Node, keys: tuple[int, ...]) -> Arrange | None:
        """Return a node's arrangement by these columns, if there is one; the first that was made."""
        return self._arranged.get((node, keys))

    def consumers(self, node: Node) -> list[tuple[Node, int]]:
        """Return who reads a node, and at which port, in the order of ids; not counting the way back."""
        return list(self._consumers[node.id])

    def digraph(self) -> nx.MultiDiGraph[int]:
        """Return the whole as a networkx graph.

        Nodes go by id and have the attribute ``node``; edges ``port`` and, where they go back, ``feedback=True``.
        """
        import networkx as nx  # noqa: PLC0415 - 0.15 s that `import tidemill` need not spend

        made: nx.MultiDiGraph[int] = nx.MultiDiGraph(name=self.name)
        for node in self.nodes:
            made.add_node(node.id, node=node)
        for node in self.nodes:
            for port, source in enumerate(node.inputs):
                made.add_edge(source.id, node.id, port=port, feedback=False)
            if isinstance(node, Feedback):
                made.add_edge(node.id, node.variable.id, port=0, feedback=True)
        return made

    def plan(self, scope: Scope) -> list[Node | Scope]:
        """Return a scope's own nodes and the loops directly inside it, in an order in which they can be run.

        A loop comes where its last node was made: after all that enters it, before all that leaves it.
        """
        return list(self._plans.get(scope, {}).values())

    def last_id(self, scope: Scope) -> int:
        """Return the id of the last node of a scope and of the loops inside it; -1 where there is none."""
        return self._last_ids.get(scope, -1)

    def minimum(self, scope: Scope) -> Time:
        """Return the least time of a scope: 0 in the user's coordinates and in every loop's."""
        return (0,) * scope.coordinates

    # -- checking -------------------------------------------------------------------------------------------------

    def _check_open(self, scope: Scope) -> None:
        if self.frozen:
            msg = f"dataflow {self.name!r} has been started and cannot change any more: build all of it first"
            raise GraphError(msg)
        for s in scope:
            if s in self._closed:
                msg = (
                    f"a collection of the {s.kind} block {s.name!r} ({s.site.location}) is used outside of it: "
                    "return it from the body, or read the block's result, and use that"
                )
                raise GraphError(msg)

    def _check(self, node: Node) -> None:
        if node.arity is not None and len(node.inputs) != node.arity:
            msg = f"{node.where} reads {len(node.inputs)} collections: expected {node.arity}"
            raise GraphError(msg)
        for source in node.inputs:
            if source.id >= len(self.nodes) or self.nodes[source.id] is not source:
                msg = f"{node.where} reads {source.where}, which is of another dataflow: both must be of one"
                raise GraphError(msg)
            self._check_border(node, source)
        if isinstance(node, Feedback) and node.variable in self._feedback:
            msg = f"{node.variable.where} is defined twice: define each binding once"
            raise GraphError(msg)
        known: Node | None = None
        if isinstance(node, Output):
            known = self.outputs.get(node.name)
        elif isinstance(node, Input) and node.rows is None:
            known = self.inputs.get(node.name)
        if known is not None:
            msg = f"{node.where} has the name of {known.where}: names of {node.kind.lower()}s must differ"
            raise GraphError(msg)

    def _check_border(self, node: Node, source: Node) -> None:
        """Refuse an edge across the border of a scope, other than at Enter and Leave and by one level."""
        if isinstance(node, Enter):
            fits = node.scope.parent is source.scope
        elif isinstance(node, Leave):
            fits = source.scope.parent is node.scope
        else:
            fits = source.scope is node.scope
        if not fits:
            msg = (
                f"{node.where} in scope {node.scope.path} reads {source.where} of scope {source.scope.path}: "
                "only Enter and Leave cross the border of a scope, one level at a time"
            )
            raise GraphError(msg)

    def check(self) -> None:
        """Refuse a graph with an open block, or with a cycle that does not advance time."""
        for scope in self.scopes[1:]:
            if scope not in self._closed:
                msg = f"the {scope.kind} block {scope.name!r} ({scope.site.location}) is still open: end it first"
                raise GraphError(msg)
        for node in self.nodes:
            for source in node.inputs:
                if source.id >= node.id:
                    msg = f"a cycle does not advance time: {node} reads {source}, which comes after it; "
                    msg += "only a loop's feedback may go back"
                    raise GraphError(msg)


def explain(graph: Graph) -> str:
    """Return the graph as an outline: a line a node, with what it reads; loops indented.

    Shows id, kind, name, what it does, ``<-`` the ids it reads, its schema, and the user's line; below windows a line a
    call, how it is kept up to date and what a change costs.
    """
    head = f"dataflow {graph.name!r}, times ({', '.join(graph.coordinates)})"
    return "\n".join([head, *_lines(graph, graph.root, 1)])


def _lines(graph: Graph, scope: Scope, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for item in graph.plan(scope):
        if isinstance(item, Scope):
            yield f"{pad}{item.kind} {item.name!r}  [{item.site}]"
            yield from _lines(graph, item, depth + 1)
        else:
            yield pad + _line(item)
            yield from (f"{pad}    {note}" for note in item.notes())


def _line(node: Node) -> str:
    name = "" if node.name == node.kind.lower() else f" {node.name!r}"
    reads = " <- " + ", ".join(f"#{n.id}" for n in node.inputs) if node.inputs else ""
    what = node.describe()
    does = f" [{what}]" if what else ""
    return f"#{node.id} {node.kind}{name}{does}{reads}  {node.schema}  [{node.site}]"
