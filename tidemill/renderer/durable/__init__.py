"""Runs that survive their process: what was put in is written down with each step, and taken in again after a crash.

Apart from any distributed engine: a folder with a log of steps and checkpoints beneath the embedded engine's run.
"""

from __future__ import annotations

import os

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.passes.pipeline import Passes
from tidemill.renderer.runs.run import Run

__all__ = ["Durable"]


@attrs.frozen
class Durable:
    """An engine in this process whose runs go on after a crash where the folder ``state`` says they were."""

    state: str | os.PathLike[str]
    checkpoint_every: int = attrs.field(default=1000, kw_only=True)
    in_memory: int = attrs.field(default=20_000_000, kw_only=True)

    def start(self, graph: Graph, keep: int) -> Run:
        """Return a run of the graph, which goes on where the last one on this folder committed."""
        return self.start_after(graph, keep, passes=False)

    def start_after(self, graph: Graph, keep: int, passes: Passes) -> Run:
        """Return a run of the graph after these passes, or all: then, of a state that is there, after its own."""
        from tidemill.renderer.durable.run import DurableRun  # noqa: PLC0415 - its kernels cost more than all the rest

        return DurableRun(graph, keep, passes, self.state, self.checkpoint_every, self.in_memory)
