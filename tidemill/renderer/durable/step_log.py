"""A folder of state: a checkpoint and the record of each step since, each put there by one manifest.

Nothing counts before its manifest is there. A manifest is put in place at once and whole, under a name that must not
exist yet: of two processes that both believe to be the owner, one is told that it is not. What no manifest names was
left by a process that died, and is swept up by the next.

The file ``last`` says which commit was the last: a manifest that is gone is missed, be it the last one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tidemill.dataflow.fingerprint import describe, difference, fingerprint
from tidemill.dataflow.graph import Graph
from tidemill.errors import StateError
from tidemill.renderer.durable.last_commit import LastCommit
from tidemill.renderer.durable.lock import Lock
from tidemill.renderer.durable.manifest import Manifest, replaced
from tidemill.renderer.embedded import array_file as container
from tidemill.renderer.embedded.state import Saved, read

__all__ = ["StepLog"]

_MANIFEST: Final = re.compile(r"manifest-(\d{10})\.json")
_COMMITTED: Final = re.compile(r"(step|checkpoint)-\d{10}-\w+")
_OURS: Final = re.compile(r"manifest-\d{10}\.json|(step|checkpoint)-\d{10}-\w+|\..*\.tmp")


class StepLog:
    """The state of one dataflow in one folder, which this process owns until it is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passes: tuple[str, ...] | None = None
        """The passes of the graph whose state is there; None where there is none."""
        self._owner = uuid.uuid4().hex[:8]
        self.lost: str | None = None
        """Why this process is not the owner any more, or not sure whether the last commit is there."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(folder)
        except OSError as error:
            msg = f"{folder} cannot be used for state ({error}): expected a folder in which this process may write"
            raise StateError(msg) from error
        self._said = LastCommit(folder)
        self._commits: list[Manifest] = []
        """The base, and what was committed since."""
        try:
            self._read_manifests()
        except BaseException:
            self.close()
            raise

    def _read_manifests(self) -> None:
        numbers = self._numbers()
        self._said.require(max(numbers, default=None))
        if not numbers:
            left = [path for path in self.folder.iterdir() if _COMMITTED.fullmatch(path.name)]
            if left:
                msg = f"{left[0]} is there, and no manifest that says what of it counts: restore those from a copy"
                raise StateError(msg)
            return
        last = Manifest.read(self._path(max(numbers)), max(numbers))
        found = [last] if last.is_base else [self._manifest(n) for n in range(last.base, last.number)] + [last]
        for before, after in itertools.pairwise(found):
            if after.previous != before.digest or not before.number >= after.base == found[0].number:
                raise replaced(self._path(before.number))
        if not found[0].is_base:
            raise replaced(self._path(found[0].number))
        self._said.require_same(last)
        self._commits = found
        self.passes = self.base.passes

    @property
    def last(self) -> Manifest:
        """The last commit."""
        return self._commits[-1]

    @property
    def base(self) -> Manifest:
        """The checkpoint that the commits after it build upon."""
        return self._commits[0]

    def _manifest(self, number: int) -> Manifest:
        return Manifest.read(self._path(number), number)

    def begin(self, graph: Graph, keep: int, passes: tuple[str, ...]) -> None:
        """Begin with nothing, or go on from what is there, if it is of this graph after these passes."""
        if self.passes is None:
            description = tuple(describe(graph))
            nothing = Manifest(
                id=uuid.uuid4().hex,
                number=0,
                step=0,
                base=0,
                file=None,
                checksum=None,
                previous=None,
                keep=keep,
                passes=passes,
                fingerprint=fingerprint(graph),
                graph=description,
                sources={},
                changelogs={},
                shown=(),
            )
            self._commits = [nothing]
            self._writing("nothing was begun", lambda: self._put(nothing))
            return
        if passes != self.passes:
            msg = (
                f"{self.folder} holds the state of the graph as the passes {', '.join(self.passes) or '(none)'} leave "
                "it: start it with these, or without passes="
            )
            raise StateError(msg)
        different = difference(self.base.graph, graph)
        if different is not None:
            msg = (
                f"{self.folder} holds the state of another dataflow: {different}; start it with the flow it was "
                "made with, or give this one another folder"
            )
            raise StateError(msg)
        if self.last.keep != keep:
            msg = (
                f"{self.folder} holds the state of a run with keep={self.last.keep}: start it so, not with keep={keep}"
            )
            raise StateError(msg)
        self.sweep()

    # -- reading ----------------------------------------------------------------------------------------------------

    def checkpoint_content(self) -> Saved | None:
        """Return what the base saved; None where there is nothing."""
        return None if self.base.file is None else read(self._existing(self.base.file), self.base.checksum)

    def records(self) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
        """Give the number, header and arrays of each step since the base."""
        for manifest in self._commits[1:]:
            if manifest.file is not None:
                yield manifest.step, *container.read(self._existing(manifest.file), manifest.checksum)

    # -- writing ----------------------------------------------------------------------------------------------------

    def commit(
        self,
        events: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, Any],
        frontiers: Mapping[str, Any],
        **rest: Any,
    ) -> None:
        """Make a step permanent, or raise `StateError` and leave things as they were. ``rest`` is of its manifest."""
        number, step = self.last.number + 1, self.last.step + 1
        name = self._name("step", number)
        header = {"step": step, "frontiers": frontiers, "events": list(events)}
        manifest = attrs.evolve(self.last, number=number, step=step, file=name, graph=(), **rest)

        def write() -> None:
            self._put(attrs.evolve(manifest, checksum=container.write(self.folder / name, header, arrays)))

        self._writing(f"step {step} was not taken and is queued still", write)

    def note(self, failed: str, **rest: Any) -> None:
        """Make permanent what is no step: ``rest`` is of the manifest. ``failed`` says what is not done otherwise."""
        number = self.last.number + 1
        manifest = attrs.evolve(self.last, number=number, file=None, checksum=None, graph=(), **rest)
        self._writing(failed, lambda: self._put(manifest))

    def commit_state(self, save: Callable[[Path], str], **rest: Any) -> None:
        """Make a step permanent by having the state after it saved to a file."""
        step = self.last.step + 1
        self._save(save, f"step {step} was not taken and is queued still", step=step, **rest)

    def checkpoint(self, save: Callable[[Path], str]) -> None:
        """Have the state saved to a file, from which on there are no steps."""
        self._save(save, "the checkpoint was not made, all steps are there")

    def _save(self, save: Callable[[Path], str], failed: str, **rest: Any) -> None:
        number = self.last.number + 1
        name = self._name("checkpoint", number)
        manifest = attrs.evolve(self.last, number=number, base=number, file=name, graph=self.base.graph, **rest)

        def write() -> None:
            self._put(attrs.evolve(manifest, checksum=save(self.folder / name)))

        self._writing(failed, write)
        self._commits = [self.last]
        self.sweep()

    def sweep(self) -> None:
        """Remove what no manifest needs: what a process that died left behind, and what is before the base."""
        needed = {self._path(m.number).name for m in self._commits} | {m.file for m in self._commits}
        with contextlib.suppress(OSError):  # there will be another opportunity
            for path in self.folder.iterdir():
                if _OURS.fullmatch(path.name) and path.name not in needed:
                    path.unlink()

    def close(self) -> None:
        """Let go of the folder."""
        if hasattr(self, "_lock"):
            self._lock.release()

    def _put(self, manifest: Manifest) -> None:
        """Put a manifest in place, which must not be there."""
        manifest = attrs.evolve(manifest, previous=self.last.digest if manifest.number else None)
        path = self._path(manifest.number)
        beside = self.folder / f".{path.name}.{self._owner}.tmp"
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(manifest.text())
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(beside, path)
                self._commits = [*self._commits, manifest] if manifest.number else [manifest]
            except BaseException:
                if path.exists() and path.samefile(beside):  # it was done, whatever was raised
                    self.lost = "its last commit was put in place, and that was not told"
                raise
            container.sync_folder(self.folder)
            self._said.write(manifest)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()

    def _writing(self, what: str, write: Callable[[], None]) -> None:
        if self.lost is not None:
            msg = f"{self.folder}: {self.lost}"
            raise StateError(msg)
        try:
            write()
        except FileExistsError as error:
            self.lost = (
                f"another process committed to it after step {self.last.step}, this run is not its owner any more"
            )
            msg = f"{self.folder}: {self.lost}; {what}"
            raise StateError(msg) from error
        except OSError as error:
            msg = f"{self.folder} could not be written ({error}): {what}; make room or mend what is wrong, and go on"
            raise StateError(msg) from error

    # -- names ------------------------------------------------------------------------------------------------------

    def _numbers(self) -> list[int]:
        found = (_MANIFEST.fullmatch(path.name) for path in self.folder.iterdir())
        return [int(match[1]) for match in found if match is not None]

    def _path(self, number: int) -> Path:
        return self.folder / f"manifest-{number:010}.json"

    def _name(self, kind: str, number: int) -> str:
        return f"{kind}-{number:010}-{self._owner}"

    def _existing(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            msg = f"{path} is missing, which was committed: the folder was changed from outside; restore it from a copy"
            raise StateError(msg)
        return path
