"""A file of a log that this process appends to, and nobody else ever."""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

from tidemill.renderer.embedded.whole_file import sync_folder


class Segment:
    """A new file, made here: ``FileExistsError`` where there is one of that name, as another process made it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0
        """Bytes of whole frames."""
        self._is_in_folder = False
        """Whether the folder says on the disk that the file is there."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(path, flags, 0o644)
        self.close = weakref.finalize(self, os.close, self._descriptor)
        """Let go of it; more than once does no harm."""

    def append(self, frame: bytes) -> None:
        """Have a frame on the disk, by one call of fsync. Where this raises, some of it may be there: `cut` it off."""
        at, rest = self.end, memoryview(frame)
        while rest:
            written = os.pwrite(self._descriptor, rest, at)
            at, rest = at + written, rest[written:]
        os.fsync(self._descriptor)
        if not self._is_in_folder:
            sync_folder(self.path.parent)
            self._is_in_folder = True
        self.end = at

    def cut(self, end: int) -> None:
        """Have nothing from this byte on."""
        os.ftruncate(self._descriptor, end)
        self.end = end
        with contextlib.suppress(OSError):  # so that it does not come back when the power fails either
            os.fsync(self._descriptor)

    def remove(self) -> None:
        """Take the file away, in which nothing is."""
        self.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
