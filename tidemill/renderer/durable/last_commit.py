"""Which commit of a folder was the last, beside the manifests: so that one that is gone is missed, be it the last."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Final

from tidemill.errors import StateError
from tidemill.renderer.durable.manifest import Manifest, replaced

__all__ = ["LastCommit"]

_NAME: Final = "last"


class LastCommit:
    """A line with the number and the checksum of the last manifest, written once that is on the disk.

    It may be older than the manifests, as after a crash in between; or be nothing, when it was cut off by one.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._number, self._digest = self._read()

    def require(self, number: int | None) -> None:
        """Raise `StateError` where the last manifest that is there, with this number, is not the last there was."""
        if self._number is not None and (number is None or number < self._number):
            msg = (
                f"{self._manifest} is missing, which was the last commit: the folder was changed from outside; restore "
                f"it from a copy, or remove {self._path} to go on without it"
            )
            raise StateError(msg)

    def require_same(self, manifest: Manifest) -> None:
        """Raise `StateError` where the last manifest is not the one that was put there."""
        if self._number == manifest.number and self._digest != manifest.digest:
            raise replaced(self._manifest)

    @property
    def _manifest(self) -> Path:
        return self._path.with_name(f"manifest-{self._number:010}.json")

    def write(self, manifest: Manifest) -> None:
        """Say that this is the last one. Where that fails, it is what it was, or nothing."""
        said = f"{manifest.number:010} {manifest.digest}"
        with contextlib.suppress(OSError):
            self._path.write_text(f"{said} {zlib.crc32(said.encode()):08x}\n", encoding="ascii")

    def _read(self) -> tuple[int | None, str]:
        with contextlib.suppress(OSError, ValueError):
            number, digest, checksum = self._path.read_text(encoding="ascii").split()
            if int(checksum, 16) == zlib.crc32(f"{number} {digest}".encode()):
                return int(number), digest
        return None, ""
