"""A run's methods that show it: its log of steps, pictures, the explorer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidemill.boundary.paths import file_path
from tidemill.boundary.results import Rows
from tidemill.dataflow.nodes import Output
from tidemill.errors import EngineError, StateError, TidemillError, TimeError
from tidemill.renderer.diagram.bundle import bundle_of
from tidemill.renderer.diagram.explorer_page import data_of, page_of
from tidemill.renderer.diagram.record import record_of
from tidemill.renderer.diagram.scene import Scene
from tidemill.renderer.diagram.svg import DirectionOrAuto, checked_direction, svg_of
from tidemill.renderer.runs.pictures import READABLE, history_of, records_of, run_scene, updates_on_record
from tidemill.renderer.runs.run_base import alone
from tidemill.renderer.runs.run_reading import RunReading
from tidemill.renderer.runs.step_events import StepEvents
from tidemill.renderer.runs.watch import watch

if TYPE_CHECKING:
    from tidemill.notebook.explorer import Explorer

_ALL: Final = 10**9
"""More steps than a run takes."""


class RunPictures(RunReading):
    """Methods of `Run`."""

    @alone
    def log_events(self, limit: int = 1000, *, rows: int = 10) -> None:
        """Log what every operator does in each step from now on: the last ``limit`` steps, read as `events`; 0 ends it.

        Of the updates that an operator emits in a step the first ``rows`` are kept in full.

        Cost: while events are logged, some microseconds for each operator and step, and for each of these updates; else
        nothing.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> edges = flow.input("edges", {"a": "int64", "b": "int64"})
        >>> start = flow.constant({"at": "int64"}, [(1,)])
        >>> step = lambda here: here.join(edges, on={"at": "a"}).select(at="b").concat(start).distinct()
        >>> flow.output("reached", start.iterate(step))
        >>> with flow.start() as run:
        ...     run.log_events()
        ...     run.insert("edges", [(1, 2), (2, 3)])
        ...     run.advance()
        ...     (distinct,) = (n for n in run.graph.nodes if n.kind == "Threshold")
        ...     work = run.events[-1].operators[distinct.id]
        ...     work.rounds, work.times
        (2, {(0, 0): 2, (0, 1): 1})
        """
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            msg = f"limit={limit!r}: expected a number of steps, 0 or more"
            raise TimeError(msg)
        if limit > sys.maxsize:
            msg = f"limit={limit}: more steps than a log can have; for all of them, limit={_ALL}"
            raise TimeError(msg)
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
            msg = f"rows={rows!r}: expected a number of updates for each operator and step, 0 or more"
            raise TimeError(msg)
        self._stepper.log_events(limit, rows)

    @property
    @alone
    def events(self) -> StepEvents:
        """The last steps, oldest first, with what every operator did in each; see `log_events`."""
        if self._stepper.events is None:
            msg = "this run logs no events: begin with run.log_events(), before the steps that you want to see"
            raise EngineError(msg)
        return self._stepper.events

    @alone
    def to_svg(self, *, direction: DirectionOrAuto = "auto") -> str:
        """Return the picture of the run as SVG: what is run, with records sent, rows held, and frontiers.

        ``direction`` as for `Dataflow.to_svg`. An edge on which nothing was ever sent is dashed.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("once", flow.input("x", {"i": "int64"}).distinct())
        >>> with flow.start() as run:
        ...     run.insert("x", [(1,), (2,)])
        ...     run.advance()
        ...     "2 held · frontier 1" in run.to_svg()
        True
        """
        return svg_of(self._scene(), checked_direction(direction))

    @alone
    def to_html(self) -> str:
        """Return the explorer of the run as one HTML page, which needs no network, no kernel and no Python.

        It has what `to_svg` has and the rows of outputs, and where events are logged (`log_events`) it steps through
        closed times: who had work at each, in which iterations, how many records went along each edge, and which
        operators had passed the time, held it back, or were waiting.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("once", flow.input("x", {"i": "int64"}).distinct())
        >>> with flow.start() as run:
        ...     run.log_events()
        ...     run.insert("x", [(1,), (2,)])
        ...     run.advance()
        ...     page = run.to_html()
        >>> "<!doctype html>" in page, "http://" in page.replace("http://www.w3.org/2000/svg", "")
        (True, False)
        """
        return page_of(self._data(), f"a run of {self.graph.name}")

    @alone
    def watch(self, *, after: float = 0.5) -> Callable[[], None]:
        """Show steps that take longer than ``after`` seconds while they are under way; returns a function that ends it.

        In a notebook below the cell that calls it: operators with the updates that came to them, their share of the
        time, their rate and the updates still to come to them, the loop and the iteration that it is in, and the graph
        coloured by where the time goes. In a terminal the table alone, by rich. Where nobody looks nothing is shown. It
        is in the place of the table that ``flow.start(progress=True)`` shows of itself.
        """
        return watch(self._stepper, self.graph, after)

    @alone
    def record(self, path: str | os.PathLike[str]) -> None:
        """Save what `to_html` shows to a file, which ``tidemill explore path`` makes a page of: a bug report in a file.

        It is JSON: the graph with the lines of code that made it, figures, logged events, and the first rows of
        outputs. Nothing is run to look at it.
        """
        text = record_of(self._data(), f"a run of {self.graph.name}")
        file = file_path(path, f"record({path!r})")
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            msg = f"record({path!r}): cannot be written ({error.strerror}): expected a path in a folder that is there"
            raise StateError(msg) from error

    @alone
    def explore(self, *, height: int = 560) -> Explorer:
        """Return the explorer as a widget for notebooks, where a click on an output shows its rows.

        At an earlier time rows are asked of the run, as far back as ``keep`` reaches. A click on another operator shows
        the last of its updates that `log_events` has kept. The widget shows the run up to here; see `to_html`. A saved
        notebook, which has no kernel, shows the picture of it instead. Needs anywidget
        (``pip install 'tidemill[notebook]'``).
        """
        from tidemill.notebook.explorer import explorer  # noqa: PLC0415 - for notebooks alone

        return explorer(self._data(), height, self._repr_mimebundle_(), self._records_at)

    def _records_at(self, id_: int, time: Sequence[int | str] | None) -> dict[str, Any]:
        """Return for the explorer what an output holds at a time, or else now; of others what is logged of them."""
        node, at = self.graph.nodes[id_], None if time is None else tuple(map(int, time))
        try:
            if isinstance(node, Output):
                return records_of(self.snapshot(node.name, at=at))
            return updates_on_record(self.events[:], node, at)
        except TidemillError as error:
            return {"note": str(error)}

    def _data(self) -> str:
        events = () if self._stepper.events is None else self._stepper.events
        held = {o.id: o.state_rows for o in self.executor.metrics()}
        large = {n: held[o.id] for n, o in self._outputs.items() if held[o.id] > READABLE}
        small = [name for name in self._outputs if name not in large]
        outputs = {name: rows for name in small if (rows := self._last_rows(name)) is not None}
        return data_of(self._scene(), history_of(events, self._frontiers, outputs, large))

    def _last_rows(self, name: str) -> Rows | None:
        """Return what an output holds, or None where it cannot be said: nothing is complete, or not which time."""
        try:
            return self.snapshot(name)
        except TimeError:
            return None

    def _scene(self) -> Scene:
        return run_scene(self.graph, self.executor.metrics(), self._frontiers)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        if self._stepper.lifecycle.is_closed or self._stepper.lifecycle.is_foreign:
            return {"text/plain": repr(self)}
        return bundle_of(repr(self), self.to_svg(), f"a run of {self.graph.name}")
