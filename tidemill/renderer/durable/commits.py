"""What a frame of a log says: how a run stands after one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs

from tidemill.renderer.durable.frames import Frame


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


@attrs.frozen
class Commit:
    """A step that was taken, a note of what changed beside it, or a base that the next ones build upon."""

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
    base: Base | None = None

    def text(self) -> dict[str, Any]:
        """Return what stands in the frame, which has the number itself."""
        return {
            "step": self.step,
            "sources": dict(self.sources),
            "changelogs": dict(self.changelogs),
            "shown": self.shown,
            "base": None if self.base is None else attrs.asdict(self.base),
        }

    @classmethod
    def of(cls, frame: Frame) -> Self:
        """Return what was written."""
        text = frame.text
        base = text["base"]
        if base is not None:
            base = Base(**{**base, "passes": tuple(base["passes"]), "graph": tuple(base["graph"])})
        shown = tuple((hidden, there) for hidden, there in text["shown"])
        return cls(frame.number, text["step"], text["sources"], text["changelogs"], shown, base)
