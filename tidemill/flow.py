"""The dataflow as users hold it: build it, start it, look at it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, overload

from tidemill.collections.builder import Builder
from tidemill.dataflow.explain import explain
from tidemill.renderer.run import Engine, Run

if TYPE_CHECKING:
    import networkx as nx

    from tidemill.renderer.embedded.run import EmbeddedRun

__all__ = ["Dataflow", "load"]


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

    @overload
    def start(self, engine: None = None, *, keep: int = 0) -> EmbeddedRun: ...
    @overload
    def start(self, engine: Engine, *, keep: int = 0) -> Run: ...
    def start(self, engine: Engine | None = None, *, keep: int = 0) -> Run:
        """Return a run of this dataflow: on the embedded engine, or on the one given. Freezes the graph.

        ``keep`` says how many complete times before the last one stay distinguishable for ``snapshot(at=...)`` and
        ``changes(since=...)``.
        """
        self.graph.freeze()
        if engine is None:
            from tidemill.renderer.embedded.run import EmbeddedRun  # noqa: PLC0415 - its imports cost more than ours

            return EmbeddedRun(self.graph, keep)
        return engine.start(self.graph, keep)

    def explain(self) -> str:
        """Return the graph as text: a line an operator, with what it reads, its schema and the user's line."""
        return explain(self.graph)

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """Return a copy of the graph: nodes by id with the attribute ``node``, edges with ``port`` and ``feedback``."""
        return self.graph.digraph.copy()

    def __repr__(self) -> str:
        return self.explain()


def load(path: str | os.PathLike[str], flow: Dataflow) -> EmbeddedRun:
    """Return a run of the dataflow on the embedded engine that goes on where ``run.save(path)`` was.

    Raises `StateError` where the file is damaged, of another version, or was saved by a dataflow that differs in more
    than the lines it was written on.

    >>> import tempfile, tidemill as tm
    >>> flow = tm.Dataflow()
    >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    >>> run = flow.start()
    >>> run.insert("x", [("a",)])
    >>> run.advance()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(folder + "/state")
    ...     again = tm.load(folder + "/state", flow)
    >>> list(again.snapshot("n")), again.frontier("x")
    ([('a', 1)], Antichain(1))
    """
    from tidemill.renderer.embedded.run import EmbeddedRun  # noqa: PLC0415 - as above
    from tidemill.renderer.embedded.state import restore  # noqa: PLC0415

    flow.graph.freeze()
    run = EmbeddedRun(flow.graph, keep=0)
    restore(run, Path(path))
    return run
