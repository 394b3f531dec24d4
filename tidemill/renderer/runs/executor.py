"""What a run is made of: an executor, and maybe a recorder of steps, a spill store, and DataFrames of an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs

from tidemill.boundary.results import Rows, Updates
from tidemill.boundary.update_tables import Names
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input, Output
from tidemill.renderer.runs.metrics import Memory, Metrics
from tidemill.renderer.runs.progress import OperatorProgress
from tidemill.renderer.runs.step_events import OperatorTrace
from tidemill.renderer.runs.writes import Change


class Executor(Protocol):
    """The operators of a graph at work, and their state.

    Made where no input has moved yet and outputs of constants alone are complete. What it is given was checked. A step
    is `step`, and then `commit` or `rollback`; where `step` raises, `rollback` follows.
    """

    def queue(self, node: Input, change: Change) -> None:
        """Take `Queued` updates at open times, `Writes` where the input has a key, or what `DataFrames` read."""

    def discard(self) -> None:
        """Forget all that is queued at the inputs."""

    def queued(self, node: Input | None = None) -> Any:
        """Return what is queued at the inputs, at one of them at least, to go back to with `requeue`."""

    def requeue(self, queued: Any) -> None:
        """Have queued what was queued then. Not once a step was taken."""

    def step(self, frontiers: Mapping[Input, Antichain]) -> None:
        """Work in what is queued at times not beyond these frontiers. `StepError` where the dataflow cannot."""

    @property
    def is_replayable(self) -> bool:
        """Whether the step at hand can be repeated in this process from what was queued for it."""

    def commit(self, since: Mapping[Output, Antichain]) -> None:
        """Make a step final. From these frontiers on outputs' times stay distinguishable."""

    def rollback(self) -> None:
        """Put everything back to where it was before the step, what was queued for it too."""

    def tidy(self) -> None:
        """Do what is better done between steps. Never raises for want of room."""

    def contents(self, node: Output, at: Time | None) -> Rows:
        """Return an output's accumulated rows at a complete time, or after all times."""

    def take_unread(self, node: Output, lower: Antichain, upper: Antichain) -> Updates:
        """Return, and forget, the updates kept since the last call."""

    def changed_since(self, node: Output, time: Time | None, since: Antichain, upper: Antichain) -> Updates:
        """Return the updates at complete times that are not at or before ``time``, told apart from ``since`` on."""

    def follow(self, node: Output, *, on: bool) -> None:
        """Begin or end keeping the updates of an output in each step for `step_updates`."""

    def step_updates(self, node: Output) -> Updates:
        """Return the updates of an output in the step at hand, which is not committed yet, where it is followed."""

    def metrics(self) -> Metrics:
        """Return figures for each operator."""

    def memory(self) -> Memory:
        """Return what the state takes, and where."""

    def progress(self) -> Sequence[OperatorProgress]:
        """Return what each operator has done so far. Called from another thread, in the middle of a step."""

    def trace(self, *, on: bool, rows: int) -> None:
        """Begin or end noting what operators do in each step, with the first ``rows`` updates that each emits.

        What is noted of a step that is rolled back is lost.
        """

    def take_traces(self) -> Mapping[int, OperatorTrace]:
        """Return, and forget, what was noted since the last call, by the ids of nodes."""

    def save(self, path: Path, header: Mapping[str, Any]) -> None:
        """Write the whole state to a file, with a header that says where the run is."""

    def compact(self) -> int:
        """Merge every arrangement into one batch; return how many updates were given up."""

    def close(self) -> None:
        """Release the state."""


@attrs.frozen
class Cursor:
    """What a subscriber of a name has acknowledged; with ``upto`` None not even its first snapshot."""

    output: str
    upto: Antichain | None


class Recorder(Protocol):
    """Writes each step of a run down before it counts as taken, with all that was queued before it.

    And keeps on the disk what outputs changed, for subscribers with a name.
    """

    def cursors(self) -> Mapping[str, Cursor]:
        """Return what subscribers have acknowledged, by their names."""

    def move_cursors(self, moves: Mapping[str, Cursor | None]) -> None:
        """Write down cursors by their names in one commit, or with None that there is none of a name any more."""

    def changes_since(self, output: str, frontier: Antichain, most: int) -> list[Updates]:
        """Return the first changes, step by step, that reach beyond a frontier: about so many updates."""

    def keep_for(self, readers: Callable[[], Mapping[str, Sequence[Antichain]]]) -> None:
        """Have checkpoints keep what these readers want: by output, from where on."""

    @property
    def folder(self) -> Path:
        """Where."""

    def queued(self, node: Input, change: Change) -> None:
        """Take down what was queued at an input."""

    def discarded(self) -> None:
        """Take down that all that was queued was forgotten."""

    def journal(self) -> Any:
        """Return what was taken down since the last step, to go back to with `rewind`."""

    def rewind(self, journal: Any) -> None:
        """Have taken down what was taken down then."""

    def commit(
        self, inputs: Mapping[Input, Antichain], sources: Mapping[str, int], *, replayable: bool, seconds: float
    ) -> None:
        """Write down the step at hand, which brings the inputs to these frontiers, or raise: then it is not there.

        It worked for so many processor seconds.

        With the last batch of each source; what was queued for it where it is replayable, and else the whole state.
        """

    def lost(self, steps: int) -> str | None:
        """Return why a run that took so many steps is not what is in the folder any more; None where it is."""

    def standing(self, steps: int) -> str:
        """Return what to say about the last step and its input when a run is closed."""

    def checkpoint(self) -> None:
        """Write the whole state, so that a run that goes on repeats no steps before."""

    def checkpoint_if_due(self) -> None:
        """Do so where there are many steps or rows to be repeated."""

    def checkpoint_at_the_end(self) -> None:
        """Do so where repeating the steps since the last one takes longer, opening by opening, than writing state."""

    def to_changelog(self, path: str | os.PathLike[str], outputs: Sequence[str], keep: int | None) -> None:
        """Write the updates of these outputs to files from now on; merge those before the last ``keep``, if said."""

    def close(self) -> None:
        """Let go of the folder."""


class Spilling(Protocol):
    """Bounds the updates that are held in memory: others are on the disk."""

    def make_room(self) -> None:
        """Spill where more is in memory than may be."""

    def spill(self) -> None:
        """Write all state that is in memory to the disk."""

    def merge(self) -> None:
        """Merge what is on the disk into one batch for each arrangement."""

    def sweep(self) -> None:
        """Remove the files to which nothing refers."""

    def close(self) -> None:
        """Remove what was in a temporary folder."""


class DataFrames(Protocol):
    """How DataFrames of an engine come in without passing through this process."""

    def reads(self, rows: Any) -> bool:
        """Return whether rows are such a DataFrame."""

    def read(self, node: Input, rows: Any, time: Time, sign: int) -> Change:
        """Return its rows, checked, to insert or delete at an open time."""

    def updates(self, node: Input, rows: Any, named: Names) -> Sequence[Change]:
        """Return the updates that it holds, checked, with columns of times and diffs of these names."""

    def feed(self, node: Input, rows: Any, op: str, time: Any) -> Sequence[Change]:
        """Return the writes of the change feed that it is, checked. See `checked_feed`."""

    def require_streams(self) -> None:
        """Raise `EngineError` where streams of the engine cannot call a function of this process."""
