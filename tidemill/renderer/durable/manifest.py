"""Manifests: small files that say what a folder of state holds as of one commit.

Each has its number, the checksum of the file that it commits and that of the manifest before it: so none can be taken
for another, of this folder or of another one, nor a file for another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from tidemill.errors import StateError

__all__ = ["Manifest", "replaced"]

FORMAT: Final = "tidemill durable state"
VERSION: Final = 2


@attrs.frozen
class Manifest:
    """One commit: a step that was taken, a note of what changed beside it, or (a base) a checkpoint they build upon."""

    id: str
    """What tells this state from all others."""
    number: int
    """Commits before this one."""
    step: int
    """Steps taken so far."""
    base: int
    """The number of the base; the commits after it are steps, one after the other, up to this one."""
    file: str | None
    """The step's record, or the base's checkpoint; None where nothing has been done, and of notes."""
    checksum: str | None
    """That of the file."""
    previous: str | None
    """The checksum of the manifest before this one; None of the first."""
    keep: int
    passes: tuple[str, ...]
    """The passes that the graph went through."""
    fingerprint: str
    graph: tuple[str, ...]
    """The description of the dataflow, in bases alone."""
    sources: Mapping[str, int]
    """The last batch taken from each source."""
    changelogs: Mapping[str, list[str]]
    """The outputs that are written to each folder of changes."""
    shown: tuple[tuple[str, str], ...]
    """Files of changes with this commit: where each is, and where it has to be once this is committed."""

    @property
    def is_base(self) -> bool:
        return self.base == self.number

    def text(self) -> str:
        """Return what stands in the file."""
        body = self._body
        return json.dumps({"format": FORMAT, "version": VERSION, "sha256": _digest(body), "body": body})

    @property
    def _body(self) -> str:
        return json.dumps(attrs.asdict(self))

    @property
    def digest(self) -> str:
        """What the next manifest has to say of this one."""
        return _digest(self._body)

    @classmethod
    def read(cls, path: Path, number: int) -> Manifest:
        """Return the manifest in a file; `StateError` where it is none of ours, not whole, or of another number."""
        try:
            around: Any = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            msg = f"{path} is missing, which what was committed later builds upon: the folder was changed from outside"
            raise StateError(msg) from error
        except (OSError, ValueError) as error:
            raise _not_whole(path, str(error)) from error
        if not isinstance(around, dict) or around.get("format") != FORMAT:
            msg = f"{path} is not a manifest of tidemill's"
            raise StateError(msg)
        if around.get("version") != VERSION:
            found = around.get("version")
            msg = f"{path} has version {found} of the format, expected {VERSION}: open it with its tidemill"
            raise StateError(msg)
        body = around.get("body")
        if not isinstance(body, str) or _digest(body) != around.get("sha256"):
            raise _not_whole(path, "its checksum is wrong")
        fields = json.loads(body)
        fields |= {"graph": tuple(fields["graph"]), "passes": tuple(fields["passes"])}
        fields["shown"] = tuple((hidden, there) for hidden, there in fields["shown"])
        found = cls(**fields)
        if found.number != number:
            raise replaced(path)
        return found


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def replaced(path: Path) -> StateError:
    """Return what to say of a manifest that is whole, and not the one that was put there."""
    return StateError(
        f"{path} is not the manifest that was committed there: another was put in its place; restore it from a copy"
    )


def _not_whole(path: Path, why: str) -> StateError:
    return StateError(f"{path} is not a whole manifest ({why}): it was cut off or changed; restore it from a copy")
