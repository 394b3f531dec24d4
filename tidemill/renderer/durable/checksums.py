"""Checksums over every byte of a file, block by block; or of its end, where that has those of the rest."""

from __future__ import annotations

import base64
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import attrs
import numpy as np

from tidemill.renderer.embedded.kernels.updates import Ints
from tidemill.renderer.runs.interrupts import deferred, let_through

BLOCK: Final = 1 << 14
"""Bytes of a block. There are four bytes of checksums for it in a checkpoint."""


class DamagedError(Exception):
    """Bytes that are not those that were written."""


@attrs.frozen(eq=False)
class Checksums:
    """The size of a file, and the CRC-32 of each block of it."""

    size: int
    text: str
    """The blocks' as they are written down: whoever opens a state has those of all its files, and looks at few."""
    begin: int = 0
    """Where the first block begins: what is before it has checksums of its own, which are in a block."""

    @cached_property
    def blocks(self) -> Ints:
        """Those of the blocks."""
        return np.frombuffer(base64.b85decode(self.text), "<u4").astype(np.int64)

    @classmethod
    def of(cls, path: Path, begin: int = 0) -> Self:
        """Return those of a file as it is now."""
        found, size = [], begin
        with deferred(), path.open("rb") as file, let_through():
            file.seek(begin)
            while block := file.read(BLOCK):
                found.append(zlib.crc32(block))
                size += len(block)
        return cls(size, base64.b85encode(np.array(found, "<u4").tobytes()).decode(), begin)

    @classmethod
    def listed(cls, listing: Any) -> Self:
        """Return what was written down."""
        return cls(*listing)

    def listing(self) -> list[Any]:
        """Return what is to be written down."""
        return [self.size, self.text, self.begin] if self.begin else [self.size, self.text]

    def check(self, content: memoryview) -> None:
        """Raise `DamagedError` where a file with this content is not what it was."""
        if len(content) != self.size:
            msg = f"it has {len(content)} bytes, {self.size} were written"
            raise DamagedError(msg)
        for i, start in enumerate(range(self.begin, self.size, BLOCK)):
            if zlib.crc32(content[start : start + BLOCK]) != self.blocks[i]:
                msg = f"the checksum of its bytes from {start} on is wrong"
                raise DamagedError(msg)

    def check_file(self, path: Path) -> None:
        """Raise `DamagedError` where a file is not what it was."""
        now = Checksums.of(path, self.begin)
        if now.listing() != self.listing():
            msg = "its checksums are wrong"
            raise DamagedError(msg)
