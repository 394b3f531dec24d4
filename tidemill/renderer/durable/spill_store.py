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
from tidemill.renderer.durable.spill_files import SpillFile
from tidemill.renderer.durable.spilled import SpilledSpine, SpillFolder
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.state import spines_of
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs.interrupts import deferred

_REPLACED: Final = 64
"""Files that were replaced by others from which on they are removed."""


class SpillStore:
    """Bounds the updates that a run's arrangements hold in memory, and those read from below them."""

    def __init__(self, executor: EmbeddedExecutor, most: int, folder: Path | None) -> None:
        self._most = most
        self._is_durable = folder is not None
        self._remove_scratch: Callable[[], object] | None = None
        if folder is None:
            with deferred():  # interrupted, it has to be known that is to be removed
                folder = Path(tempfile.mkdtemp(prefix="tidemill-"))
                self._remove_scratch = weakref.finalize(self, _remove, folder, os.getpid())
        users, interner = len(executor.graph.coordinates), executor.compiled.interner
        self.store = SpillFolder(folder / "cold", users, interner, durable=self._is_durable)
        """What was spilled, in the run's folder; of a run without one in a temporary folder, which goes with it."""
        self._spines = spines_of(executor.compiled)
        self.may_sweep = not self._is_durable
        """Whether files may be removed as soon as nothing refers to them; not while a log is still being repeated."""

    @property
    def spines(self) -> dict[str, Spine]:
        """The run's arrangements, by name."""
        return {name: spine for name, (_, spine) in self._spines.items()}

    def restore(self, listing: Mapping[str, Any], name_here: Callable[[str], str | None] = str) -> None:
        """Have below arrangements what was written down of those of these names; what has none now is dropped."""
        found = {name: batches for was, batches in listing.items() if (name := name_here(was)) is not None}
        self.store.restore(found, self.spines)
        files = [file for batches in listing.values() for of in batches for file in of]
        self.store.base = {SpillFile.listed(file).name for file in files}

    def spilled(self, node: Output) -> SpilledSpine | None:
        """Return what of an output's contents is on the disk; None of nothing."""
        return self.store.spilled.get(f"{node.id}/spine")

    @property
    def held(self) -> int:
        """How many updates the arrangements hold in memory, without those that were read from below."""
        return sum(spine.held for _, spine in self._spines.values())

    def make_room(self) -> None:
        """Spill where more is in memory than may be: what was read goes first, then the largest arrangements.

        Where that fails for want of room on the disk, all stays in memory.
        """
        held = self.held
        if held + self.store.in_memory <= self._most:
            return
        self.store.forget()
        if held > self._most // 2:
            try:
                self.spill(self._most // 2)
            except (OSError, StateError) as error:
                warnings.warn(f"the state stays in memory: it could not be written ({error})", RuntimeWarning, 4)
        if self.store.replaced > _REPLACED:
            self.sweep()

    def merge(self) -> None:
        """Merge what is on the disk into one batch for each arrangement."""
        for spilled in self.store.spilled.values():
            spilled.settle(1)
        self.sweep()

    def tidy(self) -> None:
        """Merge what is on the disk and has become similar in size, where there is room for that."""
        for spilled in list(self.store.spilled.values()):
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

    def checkpointed(self) -> None:
        """Take note that what was listed last is in a checkpoint, and remove what nothing else needs.

        By now batches may have been merged into others, which a checkpoint does not know of.
        """
        if self._is_durable:
            self.store.base = self.store.listed
        self.sweep()

    def sweep(self) -> None:
        """Remove what nothing refers to."""
        if self.may_sweep:
            self.store.sweep()

    def drop_derived(self) -> None:
        """Have operators forget what they worked out of arrangements that others wrote to, or that were spilled."""
        for operator, _ in self._spines.values():
            operator.drop_derived()

    def close(self) -> None:
        """Remove what was in a temporary folder."""
        try:
            self.store.close()
        finally:
            if self._remove_scratch is not None:
                self._remove_scratch()


def _remove(folder: Path, process: int) -> None:
    """Remove a process's temporary folder, unless this is a child of it: the folder is not the child's."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
