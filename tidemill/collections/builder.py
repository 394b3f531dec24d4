"""The builder: puts nodes into a graph, entering scopes and sharing arrangements on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import attrs

from tidemill.completion import OfUsers
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Enter, Filter, Input, Map, Node
from tidemill.dataflow.scopes import Scope
from tidemill.errors import GraphError
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import Expr, col
from tidemill.expressions.schema import Field, Schema

Monotone: TypeAlias = Literal["increasing", "decreasing"]
Named = Sequence[tuple[str, Expr]]
"""Expressions with the names of the columns that they become."""


@attrs.frozen
class DeclaredWatermark:
    """What ``flow.input(..., watermark=...)`` said."""

    column: int
    delay: int | None
    """In the units of `tidemill.expressions.instants`; None where the watermark is only told."""
    told: Input
    """Where `Run.watermark` puts what it is told."""


class Builder(OfUsers):
    """A graph being built, and which of its blocks are open. It knows nodes; what users hold is made of it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.watermarks: dict[Input, DeclaredWatermark] = {}
        self.monotone: dict[Node, Monotone] = {}
        """Inputs whose values were declared to move in one way only."""
        self._open: list[Scope] = [graph.root]

    def add(self, kind: type[Node], *sources: Node, schema: Schema | None = None, **fields: Any) -> Node:
        """Return a new node in the scope where its sources meet, which they enter; with the first one's schema."""
        scope = self.meeting_scope(sources)
        inputs = tuple(self.enter(source, scope) for source in sources)
        made = sources[0].schema if schema is None else schema
        return self.graph.add(kind, scope=scope, inputs=inputs, schema=made, **fields)

    def map(self, node: Node, columns: Iterable[tuple[str, Bound]]) -> Node:
        """Return each row as the values of these bound expressions."""
        columns = list(columns)
        schema = Schema(tuple(Field(name, b.dtype, b.nullable) for name, b in columns))
        return self.add(Map, node, schema=schema, columns=tuple(b for _, b in columns))

    def compute(self, node: Node, named: Named) -> Node:
        """Return each row as the values of these expressions, in which there are no window calls."""
        return self.map(node, [(name, bind(e, node.schema, alone=True)) for name, e in named])

    def pick(self, node: Node, names: Iterable[str]) -> Node:
        """Return the rows with these columns, in this order."""
        return self.compute(node, [(name, col(name)) for name in names])

    def filter(self, node: Node, predicate: Bound) -> Node:
        """Return the rows for which a bound predicate is true."""
        return self.add(Filter, node, predicate=predicate)

    def meeting_scope(self, nodes: Iterable[Node]) -> Scope:
        """Return the innermost of the nodes' scopes, into which the others can be entered."""
        scopes = [n.scope for n in nodes]
        deepest = max(scopes, key=lambda s: s.coordinates)
        for scope in scopes:
            if not deepest.within(scope):
                msg = (
                    f"collections of the {scope.kind} block {scope.name!r} ({scope.site.location}) and of "
                    f"{deepest.name!r} ({deepest.site.location}) cannot meet: neither block is inside the other; "
                    "return it from the body, or read the block's result, and use that"
                )
                raise GraphError(msg)
        return deepest

    def enter(self, node: Node, scope: Scope) -> Node:
        """Return the node as seen in a scope: itself, or brought in through each loop on the way."""
        if node.scope is scope:
            return node
        assert scope.parent is not None, "meeting_scope has found a scope inside the node's own"
        outside = self.enter(node, scope.parent)
        return self.graph.entered(outside, scope) or self.graph.add(
            Enter, scope=scope, inputs=(outside,), name=node.name, schema=node.schema
        )

    def arrange(self, node: Node, keys: tuple[int, ...]) -> Node:
        """Return the node arranged by key columns, once for all who ask; what was entered is arranged outside."""
        if isinstance(node, Arrange) and node.keys == keys:
            return node
        if isinstance(node, Arrange):
            return self.arrange(node.inputs[0], keys)
        if isinstance(node, Enter):
            return self.enter(self.arrange(node.inputs[0], keys), node.scope)
        return self.graph.arranged(node, keys) or self.graph.add(
            Arrange, scope=node.scope, inputs=(node,), name=node.name, schema=node.schema, keys=keys
        )

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Build in a scope: scopes opened meanwhile are inside it. Ends, if all went well, by closing the scope."""
        self._open.append(scope)
        try:
            yield
        finally:
            self._open.pop()
        self.graph.close(scope)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Build something; where that goes wrong, leave no trace of it."""
        mark, depth = self.graph.mark(), len(self._open)
        try:
            yield
        except BaseException:
            self.graph.truncate(mark)
            del self._open[depth:]
            raise

    @property
    def current(self) -> Scope:
        """The innermost scope that is being built."""
        return self._open[-1]

    _between_layers = frozenset((*(n for n in dir() if not n.startswith("_")), "graph", "monotone", "watermarks"))
    """All of it: what users call is added by `Building`."""


def either_nullable(a: Schema, b: Schema) -> Schema:
    """Return the schema of rows that come from either of two alike."""
    return Schema(tuple(Field(x.name, x.dtype, x.nullable or y.nullable) for x, y in zip(a, b, strict=True)))


def all_nullable(schema: Schema) -> Schema:
    """Return the schema with NULL allowed everywhere."""
    return Schema(tuple(Field(f.name, f.dtype) for f in schema))
