"""How far a long step is: a table of its operators in the terminal or the notebook, while it is under way.

A thread looks from time to time whether there is a step that takes long. Steps themselves only say when they began, so
short ones cost nothing more. Without rich, or where nobody looks, there is no such thread.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from tidemill.boundary.html import html_table
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Time, shown
from tidemill.dataflow.nodes import Node
from tidemill.errors import TidemillError

AFTER: Final = 2.0
"""Seconds after which a step is shown."""
EVERY: Final = 0.25
"""Seconds from one look to the next."""
_LOG: Final = logging.getLogger("tidemill.steps")
_DRAWN: Final = 2000.0
"""Operators for which a second goes from one picture to the next: drawing is not to take the time of the step."""
_MOST: Final = 12
"""Operators that are shown: those that took the most time."""
_COLUMNS: Final = ("operator", "updates", "share", "updates/s", "pending")


@attrs.frozen
class OperatorProgress:
    """What an operator has done so far, since its run began."""

    node: Node
    records_in: int
    seconds: float
    round: Time | None = None
    """Of the operator at work: the iteration of each loop around it."""
    pending: int | None = None
    """Updates that it is still to take, in this iteration, later ones or later steps; None where nobody has counted."""


class Watched(Protocol):
    """Whose steps are shown: a run's stepper."""

    steps: int
    began: float | None
    """When the step under way began, by ``time.perf_counter``; None between steps."""

    @property
    def name(self) -> str:
        """The dataflow's name."""

    @property
    def is_over(self) -> bool:
        """Whether the run is closed."""

    def progress(self) -> Sequence[OperatorProgress]:
        """Return what operators have done so far."""


@attrs.frozen
class Look:
    """How far a step is at a moment."""

    title: str
    lines: Sequence[tuple[str, ...]]
    """A table of the operators that took the most time."""
    shares: Mapping[int, float]
    """Which share of the time each operator took that has worked, by the ids of nodes."""


class Display(Protocol):
    """Where it is shown how far a step is."""

    def show(self, look: Look) -> None:
        """Show this in the place of what was shown before."""

    def hide(self) -> None:
        """Show nothing any more."""


class Watcher:
    """Shows the long steps of a run for as long as that is there and open."""

    def __init__(self, watched: Watched, display: Display, *, after: float = AFTER, every: float = EVERY) -> None:
        self._watched = weakref.ref(watched)
        self._display = display
        self._after = after
        self._every = every
        self._before: Mapping[Node, OperatorProgress] = {}
        """What operators had done before the step."""
        self._counted = 0
        """How many steps there had been when that was; -1 where there was one since."""
        self._began: float | None = None
        """When the step began that was looked at last."""
        self._shows = False
        self._stopped = False
        self.thread = threading.Thread(target=self._run, name="tidemill-progress", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Show nothing any more; what is shown now goes."""
        self._stopped = True

    def _run(self) -> None:
        try:
            while self._look():
                time.sleep(self._every)
        except Exception as error:  # noqa: BLE001 - a terminal that is gone is nothing to the run
            _LOG.warning("progress is not shown any more: %s: %s", type(error).__name__, error)

    def _look(self) -> bool:
        """Show what is to be shown now; return whether to look again."""
        watched = self._watched()
        began = None if watched is None or self._stopped else watched.began
        if watched is None or watched.is_over or began is None:
            if self._shows:
                self._display.hide()
                self._shows = False
            if watched is not None and self._counted != watched.steps:
                self._before = {p.node: p for p in watched.progress()}
                self._counted = watched.steps
            return watched is not None and not watched.is_over and not self._stopped
        if began != self._began:
            if self._counted != watched.steps:  # other steps were, and no look between: better too little than theirs
                self._before = {p.node: p for p in watched.progress()}
            self._began, self._counted = began, -1  # whether it is taken or not
        elapsed = time.perf_counter() - began
        if elapsed >= self._after:
            self._shows = True
            title = f"step {watched.steps + 1} of {watched.name!r}: {elapsed:.1f} s"
            self._display.show(self._seen(title, watched.progress(), elapsed))
        return True

    def _seen(self, title: str, now: Sequence[OperatorProgress], elapsed: float) -> Look:
        done = []
        for one in now:
            before = self._before.get(one.node)
            seconds = one.seconds - (before.seconds if before else 0.0)
            records = one.records_in - (before.records_in if before else 0)
            if seconds > 0 or records or one.pending:
                done.append((seconds, records, one))
        done.sort(key=lambda line: -line[0])
        rounds = [(one.node.scope, one.round) for one in now if one.round]
        for scope, iteration in rounds:
            title += f", in {scope.path}, iteration {shown(iteration)}"
        lines = [
            (
                f"#{one.node.id} {one.node.kind} {one.node.name}",
                f"{records:,}",
                f"{min(1.0, seconds / elapsed):.0%}",
                f"{records / seconds:,.0f}" if seconds else "",
                "" if one.pending is None else f"{one.pending:,}",
            )
            for seconds, records, one in done[:_MOST]
        ]
        return Look(title, lines, {one.node.id: min(1.0, seconds / elapsed) for seconds, _, one in done})


def in_notebook() -> bool:
    """Return whether this is a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def display_here() -> Display | None:
    """Return where tables can be shown: the notebook, or the terminal where rich is there; None where nobody looks."""
    if in_notebook():
        return InNotebook()
    if sys.stderr is not None and sys.stderr.isatty() and importlib.util.find_spec("rich") is not None:
        return InTerminal()
    return None


class InTerminal:
    """At the end of the terminal, by rich; gone when the step is taken."""

    def __init__(self, console: Any = None) -> None:
        self._console = console
        self._live: Any = None

    def show(self, look: Look) -> None:
        """Show a table."""
        from rich.console import Console  # noqa: PLC0415 - slow to import, and optional
        from rich.live import Live  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(title=Text(look.title), title_justify="left", box=None, pad_edge=False)
        for i, column in enumerate(_COLUMNS):
            table.add_column(column, justify="right" if i else "left", no_wrap=True)
        for line in look.lines:
            table.add_row(*map(Text, line))
        if self._live is None:
            console = self._console or Console(stderr=True)
            self._live = Live(console=console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(table, refresh=True)

    def hide(self) -> None:
        """Leave the terminal as it was."""
        self._live.stop()
        self._live = None


class InNotebook:
    """Below the cell, as HTML; empty when the step is taken.

    With a picture, a function of operators' shares of the time, that is below the table, and both stay.
    """

    def __init__(self, picture: Callable[[Mapping[int, float]], str] | None = None) -> None:
        self._picture = picture
        self._handle: Any = None

    def show(self, look: Look) -> None:
        """Show a table."""
        picture = "" if self._picture is None else self._picture(look.shares)
        self._put(html_table(_COLUMNS, list(look.lines), len(look.lines), look.title) + picture)

    def hide(self) -> None:
        """Leave nothing; of a picture what it was at last."""
        if self._picture is None:
            self._put("")
        self._handle = None

    def _put(self, text: str) -> None:
        ipython: Any = importlib.import_module("IPython.display")  # only for those who have it, and without types
        if self._handle is None:
            self._handle = ipython.display(ipython.HTML(text), display_id=True)
        else:
            self._handle.update(ipython.HTML(text))


def watch(stepper: Any, graph: Graph, after: Any) -> Callable[[], None]:
    """Show steps that take longer than so many seconds, in the place of what shows them now; return what ends it."""
    if not isinstance(after, int | float) or isinstance(after, bool) or not after >= 0:
        msg = f"after={after!r}: expected seconds, 0 or more"
        raise TidemillError(msg)
    if stepper.watcher is not None:
        stepper.watcher.stop()
        stepper.watcher = None
    notebook = in_notebook()
    display = InNotebook(lambda shares: _picture(graph, shares)) if notebook else display_here()
    if display is None:
        return lambda: None
    every = EVERY + len(graph.nodes) / _DRAWN
    watcher = stepper.watcher = Watcher(stepper, display, after=float(after), every=every)
    return watcher.stop


def _picture(graph: Graph, shares: Mapping[int, float]) -> str:
    """Return the graph with each operator in the colour of its share of the time, as an image in HTML."""
    from tidemill.renderer.diagram.scene import Figures, scene_of  # noqa: PLC0415 - slow to import
    from tidemill.renderer.diagram.svg import bundle_of, svg_of  # noqa: PLC0415 - as above

    figures = {node.id: Figures(0, 0, "", 0.0, shares.get(node.id, 0.0)) for node in graph.nodes}
    scene = scene_of(graph, figures)
    return bundle_of("", svg_of(scene), scene.title)["text/html"]
