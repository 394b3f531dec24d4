"""A folder of state: a checkpoint, and a log of each step since, in which a step is one frame.

Nothing counts before its frame is on the disk, for which there is one call of fsync. No two processes write to one
file: each that commits makes one of its own, under a name that must not exist yet; so of two that both believe to be
the owner, one is told that it is not. A frame that is not whole at the end of a file was being written by a process
that died. What no frame names was left by such a process, too, and is swept up by the next.

The file ``last`` says which commit was the last: one that is gone is missed, be it the last.

Why not SQLite (``python -m benchmarks step_log``): with a row a step both are as fast as the disk, but it writes 20
times the bytes; with 100,000 rows twice the bytes, and it takes 2 to 6 times as long. It has no checksums, so frames
would be in it all the same; its write-ahead log is not for network file systems, and a connection not for forks.
"""

from __future__ import annotations

import contextlib
import functools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tidemill.dataflow.fingerprint import difference, require_same_functions
from tidemill.dataflow.graph import Graph
from tidemill.errors import StateError
from tidemill.renderer.durable import frames
from tidemill.renderer.durable.last_commit import LastCommit
from tidemill.renderer.durable.lock import Lock
from tidemill.renderer.durable.log_reading import Base, Commit, Entry, Log, may_build_upon, segment_number, segment_path
from tidemill.renderer.durable.output_changes import OutputShapes
from tidemill.renderer.durable.segment import Segment
from tidemill.renderer.embedded.checkpoint import Checkpoint
from tidemill.renderer.embedded.state import Saved, read
from tidemill.renderer.runs.interrupts import deferred
from tidemill.renderer.runs.system_errors import advice

_CHECKPOINT: Final = re.compile(r"checkpoint-\d{10}-\w+|changes-\w{16}")
_UNFINISHED: Final = re.compile(r"\.(checkpoint|changes)-.*\.tmp")


class StepLog:
    """The state of one dataflow in one folder, which this process owns until it is closed.

    Or which it only reads, if it is not ``owned``: another process may go on writing there.
    """

    def __init__(self, folder: Path, *, owned: bool = True) -> None:
        self.folder = folder
        self.passes: tuple[str, ...] | None = None
        """The passes of the graph whose state is there; None where there is none."""
        self._owner = uuid.uuid4().hex[:8]
        self.lost: str | None = None
        """Why this process is not the owner any more, or not sure whether the last commit is there."""
        self._segment: Segment | None = None
        """The file that this process writes to; None before it commits."""
        self._base: Callable[[], Base] | None = None
        """Gives what the next base is of; None before it has begun."""
        self.is_told = False
        """Whether what the base says of the users' functions, and of what outputs keep, is what they are now."""
        self.carry: Callable[[Base], tuple[tuple[str, str, int], ...]] = lambda base: base.kept
        """What writes changes of outputs that are still wanted to files, and returns all of these for the next base."""
        try:
            if owned:
                with deferred():  # interrupted, the lock has to be known that is to be released
                    folder.mkdir(parents=True, exist_ok=True)
                    self._lock = Lock(folder)
                    self._said = LastCommit(folder)
            self._found = _read(folder)
            if owned:
                self._said.require(self._found.entries)
            self._entries = self._found.entries
            """The base, and what was committed since."""
            self._segments = self._found.segments
            """The number of the last file of the log."""
            self._another = segment_path(folder, self._segments + 1)
            """The file that another process would make."""
            if self._entries:
                self.passes = self.base.passes
            else:
                _require_nothing(folder)
        except OSError as error:
            self.close()
            expected = advice(error, "expected a folder in which this process may write")
            msg = f"{folder} cannot be used for state ({error}): {expected}"
            raise StateError(msg) from error
        except BaseException:
            self.close()
            raise

    @property
    def last(self) -> Commit:
        """The last commit."""
        return self._entries[-1].commit

    @property
    def base(self) -> Base:
        """What the commits since the last checkpoint build upon."""
        found = self._entries[0].commit.base
        assert found is not None
        return found

    @property
    def entries(self) -> Sequence[Entry]:
        """The base, and what was committed since."""
        return self._entries

    @property
    def steps_since_base(self) -> int:
        """How many steps there are in the log."""
        return self.last.step - self._entries[0].commit.step

    @property
    def openings_since_base(self) -> int:
        """How many processes have written to the log since the last checkpoint, that of the checkpoint too."""
        return len({entry.path for entry in self._entries})

    @property
    def is_checkpointed(self) -> bool:
        """Whether there is nothing in the log since the last checkpoint."""
        return len(self._entries) == 1

    def begin(
        self,
        graph: Graph,
        description: Callable[[], tuple[str, ...]],
        keep: int,
        passes: tuple[str, ...],
        definition: Callable[[], Mapping[str, Any]],
        *,
        changes: bool | None,
    ) -> None:
        """Begin with nothing, or go on from what is there, if it is of this graph after these passes, or ``changes``.

        What is written from then on is of this graph. ``changes`` is None where it is to be found out here whether the
        graph differs. What describes the graph is asked for when it is needed: to print expressions takes time.
        """
        outputs = OutputShapes.of(graph).text()
        if self.passes is None:
            functions = require_same_functions(None, graph, str(self.folder), "")
            self.is_told = True
            id_, said = uuid.uuid4().hex, description()
            base = Base(id_, keep, passes, said, None, None, functions, outputs, definition=definition())
            self._base = lambda: base
            nothing = Commit(number=0, step=0, sources={}, changelogs={}, shown=(), base=base)
            self._writing("nothing was begun", lambda: self._put(nothing))
            return
        if passes != self.passes:
            msg = (
                f"{self.folder} holds the state of the graph as the passes {', '.join(self.passes) or '(none)'} leave "
                "it: start it with these, or without passes="
            )
            raise StateError(msg)
        different = difference(self.base.graph, description()) if changes is None else None
        if different is not None:
            msg = (
                f"{self.folder} holds the state of another dataflow: {different}; start it with the flow it was "
                "made with (and with why=True if it was then), or give this one another folder, and load that anew"
            )
            raise StateError(msg)
        if self.base.keep != keep:
            msg = (
                f"{self.folder} holds the state of a run with keep={self.base.keep}: start it so, not with keep={keep}"
            )
            raise StateError(msg)
        else_do = "give this one another folder, and load that anew"
        before = None if changes else self.base.functions
        functions = require_same_functions(before, graph, str(self.folder), else_do)
        told = (self.base.functions or {}, (self.base.outputs or {}).get("changes"))
        self.is_told = told == (functions, outputs["changes"])
        now = attrs.evolve(self.base, passes=passes, functions=functions, outputs=outputs)
        self._base = functools.cache(lambda: attrs.evolve(now, graph=description(), definition=definition()))
        self.sweep()

    # -- reading ----------------------------------------------------------------------------------------------------

    def checkpoint_content(self) -> Saved | None:
        """Return what the base saved; None where there is nothing."""
        if self.base.file is None:
            return None
        for name in (*self.base.others, self.base.file):
            path = self.folder / name
            if not path.exists():
                reason = "which was committed: the folder was changed from outside; restore it from a copy"
                msg = f"{path} is missing, {reason}"
                raise StateError(msg)
        return read(path, self.base.checksum, later=True)

    def records(self) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
        """Give the number, header and arrays of each step since the base."""
        for entry in self._entries[1:]:
            frame = entry.frame()
            if frame.text["record"] is not None:
                yield entry.commit.step, frame.text["record"], frame.arrays

    # -- writing ----------------------------------------------------------------------------------------------------

    def commit(
        self,
        events: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, Any],
        frontiers: Mapping[str, Any],
        changes: Mapping[str, Any],
        **rest: Any,
    ) -> None:
        """Make a step permanent, or raise `StateError` and leave things as they were. ``rest`` is of its `Commit`.

        ``changes`` says what outputs changed in it, for readers.
        """
        step = self.last.step + 1
        record = {"frontiers": frontiers, "events": list(events), **changes}
        commit = self._next(step=step, **rest)
        self._writing(f"step {step} was not taken and is queued still", lambda: self._put(commit, record, arrays))

    def note(self, failed: str, **rest: Any) -> None:
        """Make permanent what is no step: ``rest`` is of the `Commit`. ``failed`` says what is not done otherwise."""
        commit = self._next(**rest)
        self._writing(failed, lambda: self._put(commit))

    def commit_state(self, save: Callable[[Path], Checkpoint], **rest: Any) -> None:
        """Make a step permanent by having the state after it saved to a file."""
        step = self.last.step + 1
        self._save(save, f"step {step} was not taken and is queued still", step=step, **rest)

    def checkpoint(self, save: Callable[[Path], Checkpoint]) -> None:
        """Have the state saved to a file, from which on there are no steps."""
        self._save(save, "the checkpoint was not made, all steps are there")

    def _next(self, **rest: Any) -> Commit:
        return attrs.evolve(self.last, number=self.last.number + 1, base=None, **rest)

    def _save(self, save: Callable[[Path], Checkpoint], failed: str, **rest: Any) -> None:
        commit = self._next(**rest)
        name = f"checkpoint-{commit.number:010}-{self._owner}"

        def write() -> None:
            made = save(self.folder / name)
            assert self._base is not None  # it has begun
            base = attrs.evolve(self._base(), file=name, checksum=made.checksum, others=tuple(made.others))
            self._put(attrs.evolve(commit, base=attrs.evolve(base, kept=self.carry(self.base))))

        self._writing(failed, write)
        self.sweep()

    def sweep(self) -> None:
        """Remove what no commit needs: what a process that died left behind, and what is before the base."""
        first = segment_number(self._entries[0].path.name)
        assert first is not None
        needed = {self.base.file, *self.base.others, *(name for name, _, _ in self.base.kept)}
        with contextlib.suppress(OSError):  # there will be another opportunity
            for path in self.folder.iterdir():
                number = segment_number(path.name)
                is_checkpoint = _CHECKPOINT.fullmatch(path.name) and path.name not in needed
                if is_checkpoint or _UNFINISHED.fullmatch(path.name) or (number is not None and number < first):
                    path.unlink()

    def close(self) -> None:
        """Let go of the folder."""
        for held in (self._segment, getattr(self, "_said", None)):
            if held is not None:
                held.close()
        if hasattr(self, "_lock"):
            self._lock.release()

    def _put(
        self, commit: Commit, record: Mapping[str, Any] | None = None, arrays: Mapping[str, Any] | None = None
    ) -> None:
        """Have a commit on the disk, behind the others; a base in a file of its own."""
        previous, follows = frames.NOTHING, None
        if self._entries:
            previous, follows = self._entries[-1].digest, self._entries[-1].path.name
        text = {**commit.text(), "record": record, "follows": follows}
        frame, digest = frames.encode(commit.number, previous, text, arrays or {})
        segment = self._segment
        if segment is None or (commit.base is not None and segment.end):
            segment = self._new_segment()
        start, before = segment.end, self._entries
        said = record or {}
        entry = Entry(commit, digest, segment.path, start, said.get("changes", {}), said.get("upto", {}))
        self.lost = "its last commit was being written, and may be there or not"
        try:
            segment.append(frame)
            if self._another.exists():
                raise FileExistsError  # noqa: TRY301 - another process's, which may not have seen what was written
            self._entries = [entry] if commit.base is not None else [*before, entry]
        except BaseException:
            if self._entries is before:
                if may_build_upon(self._another, commit.number):
                    raise
                segment.cut(start)
            self.lost = None
            raise
        self.lost = None
        self._said.write(entry)

    def _new_segment(self) -> Segment:
        """Make the next file of the log, and write to that from now on."""
        segment = Segment(segment_path(self.folder, self._segments + 1))
        try:
            if self._segment is None and self._found.has_grown(self.folder):
                raise FileExistsError  # noqa: TRY301 - another process's
        except BaseException:  # else it would be taken for another process's, the next time
            segment.remove()
            raise
        if self._segment is not None:
            self._segment.close()
        self._segment, self._segments = segment, self._segments + 1
        self._another = segment_path(self.folder, self._segments + 1)
        return segment

    def _writing(self, what: str, write: Callable[[], None]) -> None:
        if self.lost is not None:
            msg = f"{self.folder}: {self.lost}"
            raise StateError(msg)
        try:
            write()
        except FileExistsError as error:
            after = f" after step {self.last.step}" if self._entries else ""
            unsure = self.lost
            self.lost = f"another process committed to it{after}, this run is not its owner any more"
            msg = f"{self.folder}: {self.lost}; {unsure or what}"
            raise StateError(msg) from error
        except OSError as error:
            outcome = self.lost or f"{what}; {advice(error, 'make room or mend what is wrong, and go on')}"
            msg = f"{self.folder} could not be written ({error}): {outcome}"
            raise StateError(msg) from error


def _read(folder: Path) -> Log:
    try:
        return Log.read(folder)
    except OSError as error:
        msg = f"{folder} could not be read ({error}): {advice(error)}"
        raise StateError(msg) from error


def _require_nothing(folder: Path) -> None:
    """Raise `StateError` where there is a checkpoint, in a folder without a log."""
    for path in folder.iterdir():
        if _CHECKPOINT.fullmatch(path.name):
            msg = f"{path} is there, and no log that says what of it counts: restore that from a copy"
            raise StateError(msg)
