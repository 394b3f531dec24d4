"""What the picture of a run shows: its graph, with what every operator did and where it is."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, shown
from tidemill.renderer.diagram.scene import Figures, Scene, scene_of
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.metrics import Metrics

__all__ = ["frontier_text", "run_scene"]


def frontier_text(frontier: Antichain) -> str:
    """Return a frontier for people.

    >>> frontier_text(Antichain([(3,)])), frontier_text(Antichain([(0, 2), (4, 0)])), frontier_text(Antichain())
    ('3', '(0, 2) (4, 0)', 'closed')
    """
    return " ".join(str(shown(t)) for t in frontier.elements) or "closed"


def run_scene(graph: Graph, metrics: Metrics, frontiers: Frontiers, shares: Mapping[int, float] | None = None) -> Scene:
    """Return the scene of a run as it is now, coloured by operators' shares of the time where these are given."""
    held = {o.id: o for o in metrics}
    figures = {}
    for node in graph.nodes:
        did = held[node.id]
        share = None if shares is None else shares.get(node.id, 0.0)
        where = frontier_text(frontiers.of(node))
        figures[node.id] = Figures(did.records_out, did.state_rows, where, did.seconds, share)
    return scene_of(graph, figures)
