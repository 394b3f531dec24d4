"""How an engine finds what it does for a node: by the node's class, in a table that its own files fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from tidemill.dataflow.composites import Composite
from tidemill.dataflow.nodes import Node
from tidemill.errors import EngineError

V = TypeVar("V")
D = TypeVar("D")


class Registry(Generic[V]):
    """What an engine has for each class of nodes, or of Reduce logic. Calling it gives a decorator that registers more.

    >>> from tidemill.dataflow import nodes
    >>> rules = Registry[Callable[[], str]]("example engine")
    >>> @rules(nodes.Map, nodes.Filter)
    ... def row_by_row() -> str:
    ...     return "one row after the other"
    >>> sorted(kind.__name__ for kind in rules)
    ['Filter', 'Map']
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._found: dict[type, Any] = {}

    def __call__(self, *kinds: type) -> Callable[[D], D]:
        """Return the decorator of what the engine has for these classes."""

        def add(what: D) -> D:
            self._found |= dict.fromkeys(kinds, what)
            return what

        return add

    def __iter__(self) -> Iterator[type]:
        return iter(self._found)

    @property
    def composites(self) -> frozenset[type[Composite]]:
        """The composites that the engine takes itself; others are lowered for it."""
        return frozenset(kind for kind in self._found if issubclass(kind, Composite))

    def of(self, node: Node, kind: type | None = None) -> V:
        """Return what there is for a node; or for another class, of a part of it."""
        wanted = type(node) if kind is None else kind
        if wanted not in self._found:
            msg = f"{node.where}: the {self._engine} does not know {wanted.__name__}: run the dataflow on another one"
            raise EngineError(msg)
        found: V = self._found[wanted]
        return found
