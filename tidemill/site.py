"""Where in the user's code something was written, so that errors and pictures can point there."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Final

import attrs

__all__ = ["Site"]

_PACKAGE: Final = f"{Path(__file__).absolute().parents[0]}{os.sep}"
_BLOCKS: Final = contextlib.__file__
"""Through which the end of a `with` comes to us."""


@attrs.frozen
class Site:
    """A file and a line of the user's."""

    file: str
    line: int

    @classmethod
    def here(cls) -> Site:
        """Return the innermost place on the stack that lies outside tidemill."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads every source file; this is 1000x cheaper
        while frame is not None and _inside(frame.f_code.co_filename):
            frame = frame.f_back
        return cls("<unknown>", 0) if frame is None else cls(frame.f_code.co_filename, frame.f_lineno)

    @property
    def source(self) -> str:
        """The text of the line, or an empty string where it cannot be had."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"

    @property
    def is_file(self) -> bool:
        """Whether there is a file that a reader could open, rather than a prompt."""
        return not self.file.startswith("<")

    @property
    def location(self) -> str:
        """The whole path and the line, as terminals and editors make links of it."""
        return f"{self.file}:{self.line}"


def _inside(filename: str) -> bool:
    return filename.startswith((_PACKAGE, _BLOCKS, "<attrs generated", "<frozen"))
