"""Updates of outputs as Parquet files, one for each step and output that has any, each written exactly once.

A step's files are written before it is committed, under names that readers pass over, and moved to where they are seen
once it is. Where the process dies in between, the commit tells the next one what to move.

A file takes one call of fsync: it is a spare one that is written to, empty until then, whose name the disk knows. Of
these several are made at a time, with one call for the folder. That has moves reach the disk as well, which until then
each commit names again: should the machine fail, they are made anew.

What outputs hold before there was any step, such as constants, is in the files of the first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

import pyarrow as pa

from tidemill.boundary.results import Updates
from tidemill.errors import StateError
from tidemill.renderer.durable.changelog_files import merge_older
from tidemill.renderer.durable.output_changes import StepChanges
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.whole_file import put_in_place, sync_folder
from tidemill.renderer.runs.interrupts import deferred, let_through
from tidemill.renderer.runs.system_errors import advice

Moves: TypeAlias = "tuple[tuple[str, str], ...]"
"""Where files are, and where they have to be."""

_OWNER: Final = "_tidemill.json"
_MOST_SPARES: Final = 32
_MOST_UNSYNCED: Final = 64
"""Moves that a commit names again, at most, but for those of one step."""


class _Spares:
    """Empty files under names that readers pass over, which are on the disk: all it takes is their content.

    No name is there twice: the first step that they may be of is in it, whose they are, and a number. Where two
    processes take themselves for the owner, the one whose step is refused has not written to the other's files.
    """

    def __init__(self, synced: Callable[[Path], None]) -> None:
        self._synced = synced
        self._owner = uuid.uuid4().hex[:8]
        self._numbers = count()
        self._free: dict[Path, list[Path]] = {}
        self._made: dict[Path, int] = {}
        """How many were made last in each folder: twice as many the next time."""

    def take(self, folder: Path, step: int) -> Path:
        """Return a file that is nobody else's from now on."""
        free = self._free.setdefault(folder, [])
        if not free:
            made = min(2 * self._made.get(folder, 0) or 1, _MOST_SPARES)
            begin = f".step-{step:010}-{self._owner}"
            names = [folder / f"{begin}-{next(self._numbers)}.parquet.pending" for _ in range(made)]
            for path in names:
                path.touch()
            sync_folder(folder)
            self._synced(folder)
            self._made[folder] = made
            free += names[::-1]
        return free.pop()

    def remove(self) -> None:
        """Remove the files that nobody has taken."""
        for free in self._free.values():
            while free:
                with contextlib.suppress(OSError):
                    free.pop().unlink()


class Changelogs:
    """All folders of changes of a run: in each there is one for each of some outputs."""

    def __init__(self, executor: EmbeddedExecutor, state: str, changes: StepChanges) -> None:
        self._executor = executor
        self._changes = changes
        self._state = state
        """What tells the run's state from all others."""
        self._outputs = executor.graph.outputs
        self._names = folder_names(self._outputs)
        self._listing: dict[str, list[str]] = {}
        """The outputs that are written to each folder."""
        self._unpublished: Moves = ()
        """Files that are committed, and are not where they are seen."""
        self._unsynced: Moves = ()
        """Files that are where they are seen, and may not be after a failure of the machine."""
        self._spares = _Spares(self._synced)
        self._keep: dict[str, int | None] = {}
        """Files of how many steps stay apart in each folder; None for all."""
        self._written_files: dict[Path, int] = {}
        """How many files were written to each output's folder since it was looked there for older ones to merge."""

    def require_known(self, updates: Mapping[str, UpdateArray | None]) -> None:
        """`StateError` where what an output that is written to a folder changed by is not known."""
        for name in self._followed() & updates.keys():
            if updates[name] is None:
                msg = (
                    f"{self._outputs[name].where} is written to a changelog and has other columns now, or its state is "
                    "that of an earlier tidemill, so that what it held cannot be taken back: start once with the flow "
                    f"as it was, for run.to_changelog(folder, outputs=[...]) without {name!r}"
                )
                raise StateError(msg)

    def restore(self, listing: Mapping[str, Sequence[str]], shown: Moves) -> None:
        """Go on with what a commit names, and publish what was committed with it."""
        _publish(shown)
        _sync_folders(shown)
        self.follow(listing)
        for path, outputs in self._listing.items():
            self._claim(path, outputs)
            for folder in self._folders(path, outputs):  # what a process left that died before it could commit it
                with contextlib.suppress(OSError):
                    for hidden in folder.glob(".step-*.parquet.pending"):
                        hidden.unlink()

    def follow(self, listing: Mapping[str, Sequence[str]]) -> None:
        """Write what a commit names from now on, and nothing else."""
        before = self._followed()
        there = {path: [name for name in outputs if name in self._outputs] for path, outputs in listing.items()}
        self._listing = {path: outputs for path, outputs in there.items() if outputs}
        followed = self._followed()
        for name in before ^ followed:
            self._executor.follow(self._outputs[name], on=name in followed)

    def _followed(self) -> set[str]:
        return {name for outputs in self._listing.values() for name in outputs}

    def _folders(self, path: str, outputs: Sequence[str]) -> list[Path]:
        return [Path(path) / self._names[name] for name in outputs]

    def write_to(self, path: str | os.PathLike[str], outputs: Sequence[str], keep: int | None) -> None:
        """Write the updates of these outputs to a folder from now on; where there are none, no more.

        Files of steps before the last ``keep`` are merged, where that is said.
        """
        for name in outputs:
            _as_table(self._executor.step_updates(self._outputs[name]))  # columns that clash are told at once
        key = str(Path(path).resolve())
        if outputs:
            self._claim(key, outputs)
            if self._keep.get(key) != keep:
                self._write_owner(Path(key), keep)
        self.follow({**self._listing, key: outputs})

    def merge_older(self) -> None:
        """Merge files of older steps, where so many are to be kept apart; ``OSError`` where that fails."""
        for path, keep in self._keep.items():
            if keep is not None and path in self._listing:
                for name, folder in zip(self._listing[path], self._folders(path, self._listing[path]), strict=True):
                    if self._written_files.get(folder, keep + 1) > keep:  # not looked at yet, or it may be time
                        merge_older(folder, keep, self._outputs[name].schema, self._executor.graph.coordinates)
                        self._written_files[folder] = 0

    def _write_owner(self, folder: Path, keep: int | None, *, new: bool = False) -> None:
        said = json.dumps({"state": self._state, "keep": keep}).encode()
        put_in_place(folder / _OWNER, lambda file: file.write(said), new=new)
        self._keep[str(folder)] = keep

    def _claim(self, path: str, outputs: Sequence[str]) -> None:
        """Make the folders, or go on in those of the same state; `StateError` where they are another's."""
        folder = Path(path)
        owner = folder / _OWNER
        try:
            for inner in self._folders(path, outputs):
                inner.mkdir(parents=True, exist_ok=True)
            if owner.exists() and not owner.stat().st_size:  # of a machine that failed once it was made
                owner.unlink()
            if not owner.exists():
                self._write_owner(folder, None, new=True)
            sync_folder(folder)  # each time: who made what is in it may have died before that
            sync_folder(folder.parent)
            said = json.loads(owner.read_text(encoding="utf-8"))
            found = said.get("state")
            self._keep[path] = said.get("keep")
        except (OSError, ValueError) as error:
            expected = "expected a folder to write in, new or this run's"
            to_do = advice(error, expected) if isinstance(error, OSError) else expected
            msg = f"{folder} cannot be used for changes ({error}): {to_do}"
            raise StateError(msg) from error
        if found != self._state:
            msg = f"{folder} holds the changes of another run's state: give this one another folder"
            raise StateError(msg)

    def listing(self) -> dict[str, list[str]]:
        """Return what a commit names."""
        return self._listing

    def write(self, step: int) -> Moves:
        """Write the updates of the step at hand where nobody sees them yet; return where they are to go."""
        self.publish()  # what could not be published before: readers see the steps in their order
        updates = {name: self._changes.of(name) for name in self._followed()}
        moves = [
            self._written(step, folder, updates[name])
            for path, outputs in self._listing.items()
            for name, folder in zip(outputs, self._folders(path, outputs), strict=True)
            if updates[name]
        ]
        if len(self._unsynced) > _MOST_UNSYNCED:
            _sync_folders(self._unsynced)
            self._unsynced = ()
        return (*self._unsynced, *moves)

    def _written(self, step: int, folder: Path, updates: Sequence[Updates]) -> tuple[str, str]:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        hidden = self._spares.take(folder, step)
        with deferred(), hidden.open("wb") as file, let_through():
            pq.write_table(pa.concat_tables([_as_table(part) for part in updates]), file)
            file.flush()
            os.fsync(file.fileno())
        if folder in self._written_files:
            self._written_files[folder] += 1
        return str(hidden), str(folder / f"step-{step:010}.parquet")

    def committed(self, moves: Moves) -> None:
        """Take note that files are committed, which are to be published."""
        self._unpublished = moves[len(self._unsynced) :]

    def _synced(self, folder: Path) -> None:
        """Take note that the disk knows of all moves in a folder."""
        self._unsynced = tuple(move for move in self._unsynced if Path(move[1]).parent != folder)

    def close(self) -> None:
        """Leave nothing behind that is not needed."""
        self._spares.remove()

    def publish(self) -> None:
        """Move files that are committed to where they are seen; ``OSError`` where that fails, to be tried again."""
        _publish(self._unpublished)
        self._unsynced += self._unpublished
        self._unpublished = ()


def _publish(moves: Iterable[tuple[str, str]]) -> None:
    for hidden, shown in moves:
        with contextlib.suppress(FileNotFoundError):  # it was moved before
            Path(hidden).replace(shown)


def _sync_folders(moves: Iterable[tuple[str, str]]) -> None:
    """Have moves reach the disk."""
    for folder in {Path(shown).parent for _, shown in moves}:
        if folder.exists():
            sync_folder(folder)


_LONGEST: Final = 150
_TAGGED: Final = re.compile(r".*-[0-9a-f]{16}")


def _as_table(updates: Updates) -> pa.Table:
    """Return updates with columns ``time`` and ``diff``, with underscores before where the output has such."""
    time, diff = "time", "diff"
    while time in updates.schema.names:
        time = f"_{time}"
    while diff in updates.schema.names:
        diff = f"_{diff}"
    return updates.to_arrow(time=time if time != "time" else None, diff=diff)


def folder_names(names: Iterable[str]) -> Mapping[str, str]:
    """Return a folder's name for each: itself, with what is not plain in percent codes.

    Behind it is a digest where it would be hidden, is long, differs from another in nothing but case, or has one.

    >>> list(folder_names(["by origin", "a/b", "..", "N", "n"]).values())
    ['by origin', 'a%2Fb', '%2E.-5ec1f7e700f37c3d', 'N-8ce86a6ae65d3692', 'n-1b16b1df538ba12d']
    """
    quoted = {name: quote(name, safe=" ", errors="surrogatepass") for name in names}
    alike = Counter(text.lower() for text in quoted.values())
    return {name: _tagged(name, q) if alike[q.lower()] > 1 or _is_odd(q) else q for name, q in quoted.items()}


def _is_odd(quoted: str) -> bool:
    return not quoted.strip(" ") or quoted[0] in "._ " or len(quoted) > _LONGEST or bool(_TAGGED.fullmatch(quoted))


def _tagged(name: str, quoted: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    visible = f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in {".", "_"} else quoted
    return f"{visible[:_LONGEST]}-{digest}"
