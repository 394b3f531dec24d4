"""How much of a run's state is in memory, and where the rest is."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tidemill.dataflow.nodes import Output
from tidemill.errors import StateError
from tidemill.renderer.durable.spilled import SpilledSpine, SpillFolder
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.state import spines_of
from tidemill.renderer.embedded.trace.spine import Spine

_REPLACED: Final = 64
"""Files that were replaced by others from which on they are removed."""


class SpillStore:
    """Bounds the updates that a run's arrangements hold in memory, and those read from below them."""

    def __init__(self, executor: EmbeddedExecutor, most: int, folder: Path | None) -> None:
        self._executor = executor
        self._most = most
        self._folder = folder
        self._scratch: Path | None = None
        """The temporary folder of a run without one, which goes with it."""
        self._remove_scratch: Callable[[], object] | None = None
        self._store: SpillFolder | None = None
        self._spines = spines_of(executor.compiled)
        self.may_sweep = folder is None
        """Whether files may be removed as soon as nothing refers to them; not while a log is still being repeated."""

    @property
    def store(self) -> SpillFolder:
        """What was spilled, in the run's folder; of a run without one in a temporary folder."""
        if self._store is None:
            if self._folder is None:
                self._scratch = Path(tempfile.mkdtemp(prefix="tidemill-"))
                self._remove_scratch = weakref.finalize(self, _remove, self._scratch, os.getpid())
            folder = self._folder or self._scratch
            assert folder is not None
            users, interner = len(self._executor.graph.coordinates), self._executor.compiled.interner
            self._store = SpillFolder(folder / "cold", users, interner, durable=self._folder is not None)
        return self._store

    @property
    def base(self) -> set[str]:
        """The files that the last checkpoint refers to, and any that may be the last."""
        return set() if self._store is None else self._store.base

    @base.setter
    def base(self, names: set[str]) -> None:
        if self._store is not None:
            self._store.base = names

    @property
    def spines(self) -> dict[str, Spine]:
        """The run's arrangements, by name."""
        return {name: spine for name, (_, spine) in self._spines.items()}

    def spilled(self, node: Output) -> SpilledSpine | None:
        """Return what of an output's contents is on the disk; None of nothing."""
        return None if self._store is None else self._store.spilled.get(f"{node.id}/spine")

    @property
    def held(self) -> int:
        """How many updates the arrangements hold in memory, without those that were read from below."""
        return sum(spine.held for _, spine in self._spines.values())

    def make_room(self) -> None:
        """Spill where more is in memory than may be: what was read goes first, then the largest arrangements.

        Where that fails for want of room on the disk, all stays in memory.
        """
        held = self.held
        if held + (0 if self._store is None else self._store.in_memory) <= self._most:
            return
        if self._store is not None:
            self._store.forget()
        if held > self._most // 2:
            try:
                self.spill(self._most // 2)
            except (OSError, StateError) as error:
                warnings.warn(f"the state stays in memory: it could not be written ({error})", RuntimeWarning, 4)
        if self.store.replaced > _REPLACED:
            self.sweep()

    def merge(self) -> None:
        """Merge what is on the disk into one batch for each arrangement."""
        if self._store is not None:
            for spilled in self._store.spilled.values():
                spilled.settle(1)
            self.sweep()

    def tidy(self) -> None:
        """Merge what is on the disk and has become similar in size, where there is room for that."""
        for spilled in [] if self._store is None else list(self._store.spilled.values()):
            with contextlib.suppress(OSError):
                spilled.settle()

    def spill(self, most: int = 0) -> None:
        """Write arrangements to the disk, the largest first, until no more updates than these are held."""
        held = self.held
        for name, (operator, spine) in sorted(self._spines.items(), key=lambda item: -item[1][1].held):
            if held <= most:
                return
            held -= spine.held
            operator.drop_derived()
            self.store.spill(name, spine)

    @property
    def doubtful(self) -> set[str]:
        """Files that may not be on the disk."""
        return set() if self._store is None else self._store.doubtful

    def flushed(self) -> None:
        """Return when all that was written is on the disk."""
        if self._store is not None:
            self._store.flushed()

    def listing(self) -> dict[str, Any]:
        """Return what is on the disk, for a checkpoint to refer to."""
        return {} if self._store is None else self._store.listing()

    def restore(self, listing: Mapping[str, Any]) -> None:
        """Have on the disk what a checkpoint referred to."""
        if listing:
            self.store.restore(listing, self.spines)

    def checkpointed(self) -> None:
        """Take note that what was listed last is in a checkpoint, and remove what nothing else needs.

        By now batches may have been merged into others, which a checkpoint does not know of.
        """
        if self._store is not None and self._folder is not None:
            self._store.base = self._store.listed
        self.sweep()

    def sweep(self) -> None:
        """Remove what nothing refers to."""
        if not self.may_sweep:
            return
        if self._store is not None or (self._folder is not None and (self._folder / "cold").exists()):
            self.store.sweep()

    def drop_derived(self) -> None:
        """Have operators forget what they worked out of arrangements that others wrote to, or that were spilled."""
        for operator, _ in self._spines.values():
            operator.drop_derived()

    def close(self) -> None:
        """Remove what was in a temporary folder."""
        try:
            if self._store is not None:
                self._store.close()
        finally:
            if self._remove_scratch is not None:
                self._remove_scratch()


def _remove(folder: Path, process: int) -> None:
    """Remove a process's temporary folder, unless this is a child of it: the folder is not the child's."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
