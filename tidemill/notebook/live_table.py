"""An output as a table in a notebook that stays up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tidemill.errors import TimeError

if TYPE_CHECKING:
    from tidemill.boundary.results import Rows
    from tidemill.dataflow.graph import Graph


class Readable(Protocol):
    """What a table is kept up to date from: a run."""

    graph: Graph

    def snapshot(self, name: str) -> Rows:
        """Return an output's contents."""

    def on_step(self, callback: Callable[[Any], object]) -> Callable[[], None]:
        """Call a function after each step; return what ends this."""


class Live:
    """A table of an output's contents, displayed where it was made and again by `show`, refreshed after each step.

    Refreshing reads the whole output. `stop` ends it; the table stays as it is.
    """

    def __init__(self, run: Readable, name: str, limit: int) -> None:
        try:
            from IPython.display import display  # noqa: PLC0415 - only for those who have it
        except ImportError:
            msg = "run.live() displays through IPython, which is not installed: pip install 'tidemill[notebook]'"
            raise ModuleNotFoundError(msg, name="IPython") from None
        if len(run.graph.coordinates) > 1:
            msg = f"run.live({name!r}) is for times of one coordinate, here they are {run.graph.coordinates}"
            raise TimeError(msg + f": look at run.snapshot({name!r}, at=...)")
        self._run, self._name, self._limit = run, name, limit
        self._display: Any = display
        self._handles: list[Any] = []
        self.show()
        self._stop = run.on_step(lambda _: self.refresh())

    def show(self) -> None:
        """Display the table here too."""
        handle = self._display(self._view(), display_id=True)
        if handle is not None:  # outside of IPython it is printed once
            self._handles.append(handle)

    def refresh(self) -> None:
        """Bring the table up to date, as every step does."""
        if self._handles:
            view = self._view()
            for handle in self._handles:
                handle.update(view)

    def stop(self) -> None:
        """Refresh no more."""
        self._stop()

    def _view(self) -> _View:
        return _View(self._run.snapshot(self._name), self._limit)

    def _ipython_display_(self) -> None:
        """Display nothing: `run.live` at the end of a cell has done so."""


class _View:
    """What is displayed: the rows at the last complete time."""

    def __init__(self, rows: Rows, limit: int) -> None:
        self._rows, self._limit = rows, limit

    def _repr_html_(self) -> str:
        return self._rows.to_html(limit=self._limit)

    def __repr__(self) -> str:
        return repr(self._rows)
