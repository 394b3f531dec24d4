"""Which commit of a log was the last, beside it: so that one that is gone is missed, be it the last one."""

from __future__ import annotations

import contextlib
import os
import weakref
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidemill.renderer.durable.log_reading import Entry, gone, replaced

_NAME: Final = "last"
_LONGEST: Final = 200


class LastCommit:
    """A line with the number, the file and the digest of the last commit, written once that is on the disk.

    It may be older than the log, as after a crash in between; or be nothing, when it was cut off by one: nobody waits
    for it to reach the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        self.close = weakref.finalize(self, os.close, self._descriptor)
        """Let go of the file; more than once does no harm."""
        self._number, self._file, self._digest = self._read()

    def require(self, entries: Sequence[Entry]) -> None:
        """Raise `StateError` where what is there is not, or does not reach, what was committed last."""
        if self._number is None:
            return
        last = entries[-1].commit.number if entries else -1
        if last < self._number:
            instead = f", or remove {self._path} to go on without what is gone"
            raise gone(self._path.with_name(self._file), self._number, "was the last one", instead)
        for entry in entries:
            if entry.commit.number == self._number and entry.digest.hex() != self._digest:
                raise replaced(entry.path, self._number)

    def write(self, entry: Entry) -> None:
        """Say that this is the last one. Where that fails, it is what it was, or nothing."""
        said = f"{entry.commit.number:010} {entry.path.name} {entry.digest.hex()}"
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, f"{said} {zlib.crc32(said.encode()):08x}\n".encode(), 0)

    def _read(self) -> tuple[int | None, str, str]:
        return _parsed(os.pread(self._descriptor, _LONGEST, 0))


def last_said(folder: Path) -> tuple[int | None, str]:
    """Return the number of the last commit that its process knew to be on the disk, and its digest; or None."""
    with contextlib.suppress(FileNotFoundError):
        number, _, digest = _parsed((folder / _NAME).read_bytes())
        return number, digest
    return None, ""


def _parsed(content: bytes) -> tuple[int | None, str, str]:
    with contextlib.suppress(ValueError):  # it was cut off; where the disk fails nobody knows what it says
        said, _, checksum = content.decode("ascii").rpartition(" ")
        number, file, digest = said.split()
        if int(checksum, 16) == zlib.crc32(said.encode()):
            return int(number), file, digest
    return None, "", ""
