"""What ``flow.start`` takes."""

from __future__ import annotations

from typing import Protocol

from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.renderer.runs.run import Run


class Engine(Protocol):
    """Something that makes a run of a graph."""

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run of a frozen graph, at its start or where saved state says; ``keep`` as for ``flow.start``."""
        ...
