"""What ``flow.start`` takes."""

from __future__ import annotations

from typing import Protocol

from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.renderer.runs.run import Run

__all__ = ["Engine"]


class Engine(Protocol):
    """What ``flow.start`` takes: something that makes a run of a graph."""

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run of a frozen graph, before any input; ``keep`` as for ``flow.start``."""
        ...
