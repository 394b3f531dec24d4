"""What a collection is, beneath the methods that users call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from tidemill.dataflow.nodes import Filter, Map, Node, Reduce, ReduceLogic
from tidemill.errors import GraphError
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.schema import Field, Schema

if TYPE_CHECKING:
    from tidemill.collections.builder import Builder
    from tidemill.collections.collection import Collection

__all__ = ["CollectionBase", "as_version"]

BETWEEN_LAYERS: Final = frozenset(("aligned_to", "builder", "filter_by", "map_columns", "node", "reduce_by"))
"""What the modules beside this one use, and completion need not offer to users."""


class CollectionBase:
    """A node of a dataflow's graph, and how more are put behind it."""

    def __init__(self, builder: Builder, node: Node) -> None:
        self._builder = builder
        self._node = node

    @property
    def builder(self) -> Builder:
        """The dataflow that it is part of."""
        return self._builder

    @property
    def node(self) -> Node:
        """The node of the graph that gives this collection."""
        return self._node

    @property
    def schema(self) -> Schema:
        """The columns of its rows."""
        return self.node.schema

    def __repr__(self) -> str:
        return f"Collection{self.schema}"

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if n not in BETWEEN_LAYERS]

    @property
    def _itself(self) -> Collection:
        """The collection, to whoever takes one: there is but one class of them, made of this and of its methods."""
        return cast("Collection", self)

    # -- for the modules beside this one, and lowerings -------------------------------------------------------------

    def _columns(self, names: Iterable[str]) -> list[Bound]:
        return [self._column(self.schema.index(n)) for n in names]

    def _column(self, index: int) -> Bound:
        field = self.schema.fields[index]
        return BoundColumn(index, field.name, field.dtype, field.nullable)

    def map_columns(self, named: Sequence[tuple[str, Bound]]) -> Collection:
        """Return each row as the values of these bound expressions."""
        schema = Schema(tuple(Field(name, b.dtype, b.nullable) for name, b in named))
        return self._add(Map, schema=schema, columns=tuple(b for _, b in named))

    def filter_by(self, predicate: Bound) -> Collection:
        """Return the rows for which a bound predicate is true."""
        return self._add(Filter, predicate=predicate)

    def reduce_by(
        self, keys: tuple[int, ...], logic: ReduceLogic, schema: Schema, *, scalar: bool = False
    ) -> Collection:
        """Return what a logic makes of the rows that have the same in some columns; with ``scalar``, of all rows."""
        return self._add(Reduce, schema=schema, keys=keys, logic=logic, scalar=scalar)

    def _add(self, kind: type[Node], *, schema: Schema | None = None, **fields: Any) -> Collection:
        node = self.node
        made = self.builder.graph.add(
            kind, scope=node.scope, inputs=(node,), schema=self.schema if schema is None else schema, **fields
        )
        return self.builder.collection(made)


def as_version(given: str | int | None) -> str | None:
    """Return what a user calls a version of a function; `GraphError` where that is no text or number."""
    if given is not None and (not isinstance(given, (str, int)) or isinstance(given, bool)):
        msg = f"version={given!r}: expected a text or a whole number, another one whenever the function gives another"
        raise GraphError(msg)
    return None if given is None else str(given)
