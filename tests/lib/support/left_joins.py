"""Stacks of left joins, and how many records their unions pass on."""

from __future__ import annotations

import tidemill as tm
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Concat, Join, Node
from tidemill.dataflow.passes.pipeline import PASSES

__all__ = ["WITHOUT", "stack", "unions"]

WITHOUT = [p.__name__ for p in PASSES if p.__name__ != "consolidate_unions"]
"""All passes but the one."""


def stack(depth: int) -> tm.Dataflow:
    """Return a flow of so many left joins of ``t``, each with a table of its own, all on one key."""
    flow = tm.Dataflow("stack")
    joined = flow.input("t", {"x": "int64", "y": "int64"})
    for i in range(depth):
        joined = joined.join(flow.input(f"d{i}", {"x": "int64", f"z{i}": "int64"}), on="x", how="left")
    flow.output("out", joined)
    return flow


def unions(graph: Graph) -> list[Node]:
    """Return what puts pairs and padded rows together, the joins' results, in the order of the stack."""
    return [n for n in graph.nodes if isinstance(n, Concat) and isinstance(n.inputs[0], Join)]
