"""The embedded engine: columns in NumPy, arrangements as spines, in the user's own process.

`compile` makes an operator of each node of a graph; `schedule` says which operator runs when, and where updates wait
for it; `run` takes steps with them, all or nothing; `state` and `array_file` save a run to a file. The operators are in
``operators/`` and ``reduce/``, what they remember in ``trace/``, the array functions they are made of in ``kernels/``,
and scalar expressions in ``expressions/``. An operator handles many updates by a few dozen NumPy calls, never by a loop
over rows: that is what makes one engine serve both a change of one row and a load of a million.
"""

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
