"""A folder of state: a checkpoint and the record of each step since, each put there by one manifest.

Nothing counts before its manifest is there. A manifest is put in place at once and whole, under a name that must not
exist yet: of two processes that both believe to be the owner, one is told that it is not. What no manifest names was
left by a process that died, and is swept up by the next.
"""

from __future__ import annotations

import contextlib
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
from tidemill.renderer.durable.lock import Lock
from tidemill.renderer.durable.manifest import Manifest
from tidemill.renderer.embedded import array_file as container

__all__ = ["StepLog"]

_MANIFEST: Final = re.compile(r"manifest-(\d{10})\.json")
_OURS: Final = re.compile(r"manifest-\d{10}\.json|(step|checkpoint)-\d{10}-\w+|\..*\.tmp")


class StepLog:
    """The state of one dataflow in one folder, which this process owns until it is closed."""

    last: Manifest
    base: Manifest

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
        try:
            numbers = self._numbers()
            if numbers:
                self.last = Manifest.read(self._path(max(numbers)))
                self.base = self.last if self.last.is_base else Manifest.read(self._path(self.last.base))
                self.passes = self.base.passes
        except BaseException:
            self.close()
            raise

    def begin(self, graph: Graph, keep: int, passes: tuple[str, ...]) -> None:
        """Begin with nothing, or go on from what is there, if it is of this graph after these passes."""
        if self.passes is None:
            description = tuple(describe(graph))
            nothing = Manifest(
                uuid.uuid4().hex, 0, 0, 0, None, keep, passes, fingerprint(graph), description, {}, {}, ()
            )
            self.last = self.base = nothing
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

    @property
    def checkpoint_file(self) -> Path | None:
        """Where the base is saved; None where there is nothing."""
        return None if self.base.file is None else self._existing(self.base.file)

    def records(self) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
        """Give the number, header and arrays of each step since the base."""
        for number in range(self.base.number + 1, self.last.number + 1):
            manifest = Manifest.read(self._path(number))
            assert manifest.file is not None
            path = self._existing(manifest.file)
            header, arrays = container.read(path)
            if header.get("step") != manifest.step:
                msg = f"{path} is not the record of step {manifest.step}: the folder was changed from outside"
                raise StateError(msg)
            yield manifest.step, header, arrays

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
            container.write(self.folder / name, header, arrays)
            self._put(manifest)

        self._writing(f"step {step} was not taken and is queued still", write)

    def commit_state(self, save: Callable[[Path], None], **rest: Any) -> None:
        """Make a step permanent by having the state after it saved to a file."""
        step = self.last.step + 1
        self._save(save, f"step {step} was not taken and is queued still", step=step, **rest)

    def checkpoint(self, save: Callable[[Path], None]) -> None:
        """Have the state saved to a file, from which on there are no steps."""
        self._save(save, "the checkpoint was not made, all steps are there")

    def _save(self, save: Callable[[Path], None], failed: str, **rest: Any) -> None:
        number = self.last.number + 1
        name = self._name("checkpoint", number)
        manifest = attrs.evolve(self.last, number=number, base=number, file=name, graph=self.base.graph, **rest)

        def write() -> None:
            save(self.folder / name)
            self._put(manifest)

        self._writing(failed, write)
        self.base = self.last
        self.sweep()

    def sweep(self) -> None:
        """Remove what no manifest needs: what a process that died left behind, and what is before the base."""
        numbers = range(self.base.number, self.last.number + 1)
        needed = {self._path(n).name for n in numbers} | {Manifest.read(self._path(n)).file for n in numbers}
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
        path = self._path(manifest.number)
        beside = self.folder / f".{path.name}.{self._owner}.tmp"
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(manifest.text())
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(beside, path)
                self.last = manifest
            except BaseException:
                if path.exists() and path.samefile(beside):  # it was done, whatever was raised
                    self.lost = "its last commit was put in place, and that was not told"
                raise
            container.sync_folder(self.folder)
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
