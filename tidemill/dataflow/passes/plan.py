"""A graph as it was built, and the passes that it goes through before an engine runs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from tidemill.dataflow.composites import Composite
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.passes.pipeline import Passes, optimised, passes_named


@attrs.frozen
class GraphPlan:
    """The plan with which engines are started. State that is gone on from may have been saved after other passes."""

    graph: Graph
    """The graph as it was built, frozen."""
    passes: tuple[str, ...]
    """The names of the passes that were asked for."""
    is_default: bool
    """Whether nobody chose among the passes: state may then have been saved after fewer."""
    takes: frozenset[type[Composite]] = frozenset()
    """The composites that the engine takes itself."""

    @classmethod
    def of(cls, graph: Graph, passes: Passes | None) -> GraphPlan:
        """Return the plan of a graph that goes through the passes that a user asked for, or for None all."""
        names = tuple(p.__name__ for p in passes_named(True if passes is None else passes))
        return cls(graph, names, is_default=passes is None)

    def taking(self, composites: Collection[type[Composite]]) -> GraphPlan:
        """Return the same plan for an engine that takes these composites itself; others are lowered for it."""
        return attrs.evolve(self, takes=frozenset(composites))

    def after(self, passes: Iterable[str] | None = None) -> Graph:
        """Return the graph after passes of these names, or after those that were asked for."""
        return optimised(self.graph, self.passes if passes is None else list(passes), self.takes)

    def without_passes(self) -> Graph:
        """Return the graph as it was built."""
        return optimised(self.graph, passes=False, takes=self.takes)
