"""How much of a run's state is in memory, and where the rest is."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemill.dataflow.nodes import Output
from tidemill.renderer.durable.cold import Cold, ColdStore
from tidemill.renderer.embedded.run import EmbeddedRun
from tidemill.renderer.embedded.spine import Spine
from tidemill.renderer.embedded.state import spines_of

__all__ = ["Memory"]


class Memory:
    """Bounds the updates that a run's arrangements hold in memory, and those read from below them."""

    def __init__(self, run: EmbeddedRun, most: int, folder: Path | None) -> None:
        self._run = run
        self._most = most
        self._folder = folder
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._store: ColdStore | None = None
        self._spines = spines_of(run)

    @property
    def store(self) -> ColdStore:
        """What was spilled, in the run's folder; of a run without one in a temporary folder."""
        if self._store is None:
            if self._folder is None:
                self._scratch = tempfile.TemporaryDirectory(prefix="tidemill-")
            folder = self._folder or Path(self._scratch.name if self._scratch else "")
            self._store = ColdStore(folder / "cold", len(self._run.graph.coordinates), self._run.compiled.interner)
        return self._store

    @property
    def spines(self) -> dict[str, Spine]:
        """The run's arrangements, by name."""
        return {name: spine for name, (_, spine) in self._spines.items()}

    def cold(self, node: Output) -> Cold | None:
        """Return what of an output's contents is on the disk; None of nothing."""
        return None if self._store is None else self._store.colds.get(f"{node.id}/spine")

    @property
    def held(self) -> int:
        """How many updates the arrangements hold in memory, without those that were read from below."""
        return sum(spine.view.size for _, spine in self._spines.values())

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
            except OSError as error:
                warnings.warn(f"the state stays in memory: it could not be written ({error})", RuntimeWarning, 4)

    def spill(self, most: int = 0) -> None:
        """Write arrangements to the disk, the largest first, until no more updates than these are held."""
        held = self.held
        for name, (operator, spine) in sorted(self._spines.items(), key=lambda item: -item[1][1].view.size):
            if held <= most:
                return
            held -= spine.view.size
            self.store.spill(name, spine)
            operator.refilled()

    def listing(self) -> dict[str, Any]:
        """Return what is on the disk, for a checkpoint to refer to."""
        return {} if self._store is None else self._store.listing()

    def restore(self, listing: Mapping[str, Any]) -> None:
        """Have on the disk what a checkpoint referred to."""
        if listing:
            self.store.restore(listing, self.spines)

    def sweep(self) -> None:
        """Remove what nothing refers to."""
        if self._store is not None or (self._folder is not None and (self._folder / "cold").exists()):
            self.store.sweep()

    def close(self) -> None:
        """Remove what was in a temporary folder."""
        if self._scratch is not None:
            self._scratch.cleanup()
