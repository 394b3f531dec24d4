"""Watching a run: the graph coloured by where the time of a long step goes, while it is under way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidemill.dataflow.graph import Graph
from tidemill.errors import TidemillError
from tidemill.renderer.diagram.scene import Figures, scene_of
from tidemill.renderer.diagram.svg import bundle_of, svg_of
from tidemill.renderer.runs import progress
from tidemill.renderer.runs.stepper import Stepper

_LARGE: Final = 2000.0
"""Operators for which a second goes from one picture to the next: drawing is not to take the time of the step."""


def watch(stepper: Stepper, graph: Graph, after: Any) -> Callable[[], None]:
    """Show steps that take longer than so many seconds, in the place of what shows them now; return what ends it."""
    if not isinstance(after, int | float) or isinstance(after, bool) or not after >= 0:
        msg = f"after={after!r}: expected seconds, 0 or more"
        raise TidemillError(msg)
    if stepper.watcher is not None:
        stepper.watcher.stop()
        stepper.watcher = None
    notebook = progress.in_notebook()
    display = progress.InNotebook(lambda shares: _picture(graph, shares)) if notebook else progress.display_here()
    if display is None:
        return lambda: None
    every = progress.EVERY + len(graph.nodes) / _LARGE
    stepper.watcher = progress.Watcher(stepper, display, after=float(after), every=every)
    return stepper.watcher.stop


def _picture(graph: Graph, shares: Mapping[int, float]) -> str:
    """Return the graph with each operator in the colour of its share of the time, as an image in HTML."""
    figures = {node.id: Figures(0, 0, "", 0.0, shares.get(node.id, 0.0)) for node in graph.nodes}
    scene = scene_of(graph, figures)
    return bundle_of("", svg_of(scene), scene.title)["text/html"]
