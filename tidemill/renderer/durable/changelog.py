"""Updates of outputs as Parquet files, one for each step and output that has any, each written exactly once.

A step's files are written before it is committed, under names that readers pass over, and moved to where they are seen
once it is. Their names follow from the step. Where the process dies in between, the commit tells the next one what to
move.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from tidemill.boundary.results import Updates
from tidemill.errors import StateError
from tidemill.renderer.durable.folder_names import folder_names
from tidemill.renderer.embedded.array_file import sync_folder
from tidemill.renderer.embedded.executor import EmbeddedExecutor

__all__ = ["Changelog", "Changelogs"]

Moves: TypeAlias = "tuple[tuple[str, str], ...]"
"""Where files are, and where they have to be."""

_OWNER: Final = "_tidemill.json"


@attrs.frozen
class Changelog:
    """A folder with one for each of some outputs, in which there is a file for each step that changed the output."""

    folder: Path
    outputs: Mapping[str, str]
    """The names of their folders."""

    def claim(self, state: str) -> None:
        """Make the folders, or go on in those of the same state; `StateError` where they are another's."""
        owner = self.folder / _OWNER
        try:
            for output in self.outputs:
                self._of(output).mkdir(parents=True, exist_ok=True)
            if not owner.exists():
                owner.write_text(json.dumps({"state": state}), encoding="utf-8")
            found = json.loads(owner.read_text(encoding="utf-8")).get("state")
        except (OSError, ValueError) as error:
            msg = (
                f"{self.folder} cannot be used for changes ({error}): expected a folder to write in, new or this run's"
            )
            raise StateError(msg) from error
        if found != state:
            msg = f"{self.folder} holds the changes of another run's state: give this one another folder"
            raise StateError(msg)

    def write(self, step: int, updates: Mapping[str, Updates]) -> Moves:
        """Write a step's updates where nobody sees them yet; return where they are to go."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        moves = []
        for output in self.outputs:
            if not len(updates[output]):
                continue
            shown = self._of(output) / f"step-{step:010}.parquet"
            hidden = shown.with_name(f".{shown.name}.pending")
            with hidden.open("wb") as file:
                pq.write_table(updates[output].to_arrow(), file)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(hidden.parent)
            moves.append((str(hidden), str(shown)))
        return tuple(moves)

    def sweep(self) -> None:
        """Remove what a process left that died before it could commit it."""
        for output in self.outputs:
            with contextlib.suppress(OSError):
                for hidden in self._of(output).glob(".step-*.parquet.pending"):
                    hidden.unlink()

    def _of(self, output: str) -> Path:
        return self.folder / self.outputs[output]


class Changelogs:
    """All folders of changes of a run."""

    def __init__(self, executor: EmbeddedExecutor, state: str) -> None:
        self._executor = executor
        self._state = state
        """What tells the run's state from all others."""
        self._outputs = executor.graph.outputs
        self._folders = folder_names(self._outputs)
        self._changelogs: dict[str, Changelog] = {}
        self._unpublished: Moves = ()
        """Files that are committed, and are not where they are seen."""

    def restore(self, listing: Mapping[str, Sequence[str]], shown: Moves) -> None:
        """Go on with what a commit names, and publish what was committed with it."""
        _publish(shown)
        self.follow(listing)
        for changelog in self._changelogs.values():
            changelog.claim(self._state)
            changelog.sweep()

    def follow(self, listing: Mapping[str, Sequence[str]]) -> None:
        """Write what a commit names from now on, and nothing else."""
        self._changelogs = {path: self._changelog(path, outputs) for path, outputs in listing.items() if outputs}
        followed = {name for c in self._changelogs.values() for name in c.outputs}
        for output, operator in self._executor.compiled.outputs.items():
            operator.has_followers = output.name in followed

    def _changelog(self, path: str, outputs: Sequence[str]) -> Changelog:
        return Changelog(Path(path), {name: self._folders[name] for name in outputs})

    def write_to(self, path: str | os.PathLike[str], outputs: Sequence[str]) -> None:
        """Write the updates of these outputs to a folder from now on; where there are none, no more."""
        for name in outputs:
            self._executor.step_updates(self._outputs[name]).to_arrow()  # columns that clash are told at once
        key = str(Path(path).resolve())
        if outputs:
            self._changelog(key, outputs).claim(self._state)
        self.follow({**self.listing(), key: outputs})

    def listing(self) -> dict[str, list[str]]:
        """Return what a commit names."""
        return {path: list(c.outputs) for path, c in self._changelogs.items()}

    def write(self, step: int) -> Moves:
        """Write the updates of the step at hand where nobody sees them yet; return where they are to go."""
        self.publish()  # what could not be published before: readers see the steps in their order
        names = [name for c in self._changelogs.values() for name in c.outputs]
        updates = {name: self._executor.step_updates(self._outputs[name]) for name in names}
        return tuple(move for c in self._changelogs.values() for move in c.write(step, updates))

    def committed(self, moves: Moves) -> None:
        """Take note that files are committed, which are to be published."""
        self._unpublished = moves

    def publish(self) -> None:
        """Move files that are committed to where they are seen; ``OSError`` where that fails, to be tried again."""
        _publish(self._unpublished)
        self._unpublished = ()


def _publish(moves: Iterable[tuple[str, str]]) -> None:
    for hidden, shown in moves:
        with contextlib.suppress(FileNotFoundError):  # it was moved before
            Path(hidden).replace(shown)
            sync_folder(Path(shown).parent)
