"""What makes two graphs the same dataflow, whatever lines they were written on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Input, Node

__all__ = ["describe", "difference", "fingerprint"]


def describe(graph: Graph) -> list[str]:
    """Return a line for the times and one for each node: all that its state depends on. Functions go by their names."""
    return [f"times {', '.join(graph.coordinates)}", *map(_line, graph.nodes)]


def fingerprint(graph: Graph) -> str:
    """Return a digest of the description."""
    return hashlib.sha256("\n".join(describe(graph)).encode()).hexdigest()


def difference(saved: Sequence[str], graph: Graph) -> str | None:
    """Return where a description differs first from that of a graph, or None."""
    now = describe(graph)
    for was, is_ in zip(saved, now, strict=False):
        if was != is_:
            return f"saved: {was}; now: {is_}"
    if len(saved) != len(now):
        return f"saved: {len(saved) - 1} operators; now: {len(now) - 1}"
    return None


def _line(node: Node) -> str:
    reads = ", ".join(f"#{n.id}" for n in node.inputs)
    rows = f" {node.rows!r}" if isinstance(node, Input) and node.rows is not None else ""
    what = f"#{node.id} {node.kind} {node.name!r} in {node.scope.path} [{node.describe()}]"
    return f"{what} <- {reads} {node.schema}{rows}"
