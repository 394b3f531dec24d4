"""The embedded engine: columns in NumPy, arrangements as spines, in the user's own process."""

from __future__ import annotations

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.renderer.runs.run import Run

__all__ = ["Embedded"]


@attrs.frozen
class Embedded:
    """The engine that ``flow.start()`` uses unless told otherwise."""

    def start(self, graph: Graph, keep: int) -> Run:
        """Return a run of the graph in this process."""
        from tidemill.renderer.embedded.run import EmbeddedRun  # noqa: PLC0415 - its kernels cost more than all the rest

        return EmbeddedRun(graph, keep)
