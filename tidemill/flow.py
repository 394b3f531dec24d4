"""The dataflow as users hold it: build it, start it, look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.collections.builder import Builder
from tidemill.dataflow.explain import explain
from tidemill.renderer.run import Engine, Run

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Dataflow"]


class Dataflow(Builder):
    """A dataflow: inputs, collections computed from them, outputs. Build it, then start it any number of times.

    ``time`` names the coordinates of user time: one (epochs) unless told otherwise.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow("routes")
    >>> flights = flow.input("flights", {"origin": "string", "dest": "string"})
    >>> flow.output("by_origin", flights.group_by("origin").agg(n=tm.count()))
    >>> with flow.start() as run:
    ...     run.insert("flights", [("JFK", "LAX"), ("JFK", "SFO")])
    ...     run.advance_to(1)
    ...     run.delete("flights", [("JFK", "SFO")])
    ...     run.advance_to(2)
    ...     run.changes("by_origin")
    origin  n  time  diff
    ------  -  ----  ----
    JFK     2  0     +1
    JFK     1  1     +1
    JFK     2  1     -1
    """

    def start(self, engine: Engine | None = None, *, keep: int = 0) -> Run:
        """Return a run of this dataflow: on the embedded engine, or on the one given. Freezes the graph.

        ``keep`` says how many complete times before the last one stay distinguishable for ``snapshot(at=...)`` and
        ``changes(since=...)``.
        """
        self.graph.freeze()
        if engine is None:
            from tidemill.renderer.embedded import Embedded  # noqa: PLC0415 - its imports cost more than the graph's

            engine = Embedded()
        return engine.start(self.graph, keep)

    def explain(self) -> str:
        """Return the graph as text: a line an operator, with what it reads, its schema and the user's line."""
        return explain(self.graph)

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return a copy of the graph: nodes by id with the attribute ``node``, edges with ``port`` and ``feedback``."""
        return self.graph.digraph.copy()

    def __repr__(self) -> str:
        return self.explain()
