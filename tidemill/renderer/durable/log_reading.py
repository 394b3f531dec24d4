"""What a log holds: the frames of its files, in the order in which they follow each other, from the last base on.

Each process that commits has a file of its own, with a number in its name that must not be there yet; and so has each
base. What is not whole at the end of a file was being written when its process died: it does not count, and is never
looked at again. What is not whole before others was damaged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import attrs

from tidemill.errors import StateError
from tidemill.renderer.durable import frames
from tidemill.renderer.runs.interrupts import deferred, let_through
from tidemill.renderer.runs.system_errors import advice

_SEGMENT: Final = re.compile(r"log-(\d{10})")


@attrs.frozen
class Base:
    """What a log begins with, and begins with anew at every checkpoint: the commits after it are steps and notes."""

    id: str
    """What tells this state from all others."""
    keep: int
    passes: tuple[str, ...]
    """The passes that the graph went through."""
    graph: tuple[str, ...]
    """The description of the dataflow."""
    file: str | None
    """The checkpoint; None where nothing has been done."""
    checksum: str | None
    """That of the file."""
    functions: Mapping[str, Any] | None = None
    """What is known of the users' functions; None in a folder of before this was written down."""
    outputs: Mapping[str, Any] | None = None
    """The outputs' columns (`OutputShapes`); None in such a folder too."""
    kept: tuple[tuple[str, str, int], ...] = ()
    """Files of changes of before, which subscribers have not acknowledged: names, checksums, updates."""
    others: tuple[str, ...] = ()
    """Files of checkpoints of before to which this one refers."""
    definition: Mapping[str, Any] | None = None
    """What each operator computes, see `StateDefinition`; None likewise."""


@attrs.frozen
class Commit:
    """How a run stands after a step, after a note of what changed beside it, or at a base that the next build upon."""

    number: int
    """Commits before this one."""
    step: int
    """Steps taken so far."""
    sources: Mapping[str, int]
    """The last batch taken from each source."""
    changelogs: Mapping[str, list[str]]
    """The outputs that are written to each folder of changes."""
    shown: tuple[tuple[str, str], ...]
    """Files of changes: where each was, and where it has to be once this is committed.

    Those of this commit, and of others before it where the disk may not know of the move yet.
    """
    cursors: Mapping[str, tuple[str, Any]] = attrs.field(factory=dict)
    """Which output each subscriber with a name reads, and up to where it has acknowledged; None for not at all."""
    base: Base | None = None

    def text(self) -> dict[str, Any]:
        """Return what stands in the frame."""
        return {**attrs.asdict(self, recurse=False), "base": None if self.base is None else attrs.asdict(self.base)}

    @classmethod
    def of(cls, frame: frames.LogFrame) -> Self:
        """Return what was written."""
        text, base = frame.text, frame.text["base"]
        if base is not None:
            tuples = {"passes": tuple(base["passes"]), "graph": tuple(base["graph"])}
            tuples |= {"kept": tuple(map(tuple, base.get("kept", ()))), "others": tuple(base.get("others", ()))}
            base = Base(**{**base, **tuples})
        shown = tuple((hidden, there) for hidden, there in text["shown"])
        cursors = text.get("cursors", {})
        return cls(frame.number, text["step"], text["sources"], text["changelogs"], shown, cursors, base)


@attrs.frozen(eq=False)
class Entry:
    """A commit, and where its frame is."""

    commit: Commit
    digest: bytes
    path: Path
    start: int
    changes: Mapping[str, Any]
    """What there is in the frame of changes of outputs (`OutputChanges`)."""
    upto: Mapping[str, Any]
    """Up to where outputs are complete after the step."""

    @classmethod
    def of(cls, frame: frames.LogFrame, path: Path, start: int) -> Self:
        """Return the commit that a frame is."""
        record = frame.text["record"] or {}
        return cls(Commit.of(frame), frame.digest, path, start, record.get("changes", {}), record.get("upto", {}))

    def frame(self) -> frames.LogFrame:
        """Return the whole frame, with its arrays; `StateError` where it is not what it was."""
        try:
            with deferred(), self.path.open("rb") as file, let_through():
                found = frames.read(file, self.start)
        except OSError as error:
            raise _unreadable(self.path, error) from error
        if found is None or found.digest != self.digest:
            raise _damaged(self.path, self.start)
        return found


@attrs.frozen(eq=False)
class Log:
    """What was found in a folder."""

    entries: list[Entry]
    """The base, and what was committed since; nothing in a folder without a log."""
    segments: int
    """The number of the last file, 0 where there is none."""
    tail: int
    """Bytes of whole frames in that."""

    @classmethod
    def read(cls, folder: Path) -> Log:
        """Return what is in a folder; `StateError` where something of it is damaged or gone."""
        entries: list[Entry] = []
        numbers = sorted(n for path in folder.iterdir() if (n := segment_number(path.name)) is not None)
        segments = _from_last_base([segment_path(folder, number) for number in numbers])
        for path, found in segments:
            for i, (start, frame) in enumerate(found):
                entry = Entry.of(frame, path, start)
                if entry.commit.base is not None:
                    entries = [entry]
                    continue
                if i == 0:  # what was written there later is of a process that was not the owner any more
                    entries = [e for e in entries if e.commit.number < frame.number]
                _require_following(entries, entry, frame)
                entries.append(entry)
        last = segments[-1][1] if segments else []
        tail = last[-1][0] + last[-1][1].size if last else 0
        return cls(entries, max(numbers, default=0), tail)

    def has_grown(self, folder: Path) -> bool:
        """Return whether there are commits by now that were not there then."""
        if not self.segments:
            return False
        with deferred(), segment_path(folder, self.segments).open("rb") as file, let_through():
            return frames.read(file, self.tail) is not None

    def grown(self, folder: Path) -> Log:
        """Return it with what was appended to its last file since; that is of no other base."""
        path, entries, tail = segment_path(folder, self.segments), list(self.entries), self.tail
        try:
            with deferred(), path.open("rb") as file, let_through():
                while (frame := _frame(path, file, tail)) is not None:
                    entries.append(Entry.of(attrs.evolve(frame, arrays={}), path, tail))
                    tail += frame.size
        except OSError as error:
            raise _unreadable(path, error) from error
        return Log(entries, self.segments, tail)


def segment_path(folder: Path, number: int) -> Path:
    """Return where a file of the log is."""
    return folder / f"log-{number:010}"


def segment_number(name: str) -> int | None:
    """Return which file of the log has this name; None where none has."""
    match = _SEGMENT.fullmatch(name)
    return None if match is None else int(match[1])


def may_build_upon(another: Path, number: int) -> bool:
    """Return whether who made another file, where there is one, may have read the commit of this number before it."""
    try:
        with deferred(), another.open("rb") as file, let_through():
            first = frames.read(file, 0)
    except FileNotFoundError:
        return False
    except (OSError, frames.OtherVersionError):
        return True
    return first is None or first.number > number


def gone(path: Path, number: int, needed: str, else_do: str = "") -> StateError:
    """Return what to say of a commit that is not there, where it has to be, for what it is needed."""
    what = "was cut off or changed" if path.exists() else "is missing"
    return StateError(
        f"{path} {what}: commit {number} is not there, which {needed}; restore the folder from a copy{else_do}"
    )


def replaced(path: Path, number: int) -> StateError:
    """Return what to say of a commit that is whole, and not the one that was put there."""
    return StateError(
        f"{path}: commit {number} is not the one that was committed there: another was put in its place; restore the "
        "folder from a copy"
    )


def _from_last_base(paths: list[Path]) -> list[tuple[Path, list[tuple[int, frames.LogFrame]]]]:
    """Return the frames of the files from the last on that begins with a base: some before it may be gone, not all."""
    found = []
    for path in reversed(paths):
        found.append((path, _read(path)))
        if found[-1][1] and found[-1][1][0][1].text["base"] is not None:
            break
    return found[::-1]


def _read(path: Path) -> list[tuple[int, frames.LogFrame]]:
    """Return the frames of a file, without their arrays, and where each begins."""
    found: list[tuple[int, frames.LogFrame]] = []
    try:
        with deferred(), path.open("rb") as file, let_through():
            size = file.seek(0, 2)
            at = 0
            while at < size and (frame := _frame(path, file, at)) is not None:
                found.append((at, attrs.evolve(frame, arrays={})))
                at += frame.size
            if at < size and frames.is_followed(file, at):
                raise _damaged(path, at)
    except OSError as error:
        raise _unreadable(path, error) from error
    return found


def _frame(path: Path, file: BinaryIO, at: int) -> frames.LogFrame | None:
    try:
        return frames.read(file, at)
    except frames.OtherVersionError as error:
        *older, newest = sorted(frames.READ)
        known = f"{', '.join(map(str, older))} or {newest}"
        msg = (
            f"{path} has version {error} of the format, expected {known}: go on with the tidemill that made "
            "it, or give this run another folder"
        )
        raise StateError(msg) from None


def _require_following(before: list[Entry], entry: Entry, frame: frames.LogFrame) -> None:
    if not before or before[-1].commit.number + 1 < frame.number:
        raise gone(entry.path.with_name(frame.text["follows"]), frame.number - 1, f"{entry.path.name} builds upon")
    if before[-1].digest != frame.previous or before[-1].commit.number + 1 != frame.number:
        raise replaced(before[-1].path, before[-1].commit.number)


def _unreadable(path: Path, error: OSError) -> StateError:
    return StateError(f"{path} could not be read ({error}): {advice(error)}")


def _damaged(path: Path, at: int) -> StateError:
    return StateError(
        f"{path} is not a whole log: from byte {at} on it was changed, and there are commits after that; restore the "
        "folder from a copy"
    )
