"""Checksums over every byte of a file, block by block, so that a part of it can be checked that is read alone."""

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
"""Bytes of a block: a part of a page of a spilled file. There are four bytes of checksums for it in a checkpoint."""


class DamagedError(Exception):
    """Bytes that are not those that were written."""


@attrs.frozen(eq=False)
class Checksums:
    """The size of a file, and the CRC-32 of each block of it."""

    size: int
    text: str
    """The blocks' as they are written down: whoever opens a state has those of all its files, and looks at few."""

    @cached_property
    def blocks(self) -> Ints:
        """Those of the blocks."""
        return np.frombuffer(base64.b85decode(self.text), "<u4").astype(np.int64)

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return those of a file as it is now."""
        found, size = [], 0
        with deferred(), path.open("rb") as file, let_through():
            while block := file.read(BLOCK):
                found.append(zlib.crc32(block))
                size += len(block)
        return cls(size, base64.b85encode(np.array(found, "<u4").tobytes()).decode())

    @classmethod
    def listed(cls, listing: Any) -> Self:
        """Return what was written down."""
        size, text = listing
        return cls(size, text)

    def listing(self) -> list[Any]:
        """Return what is to be written down."""
        return [self.size, self.text]

    def check(self, content: memoryview, start: int = 0, stop: int | None = None) -> None:
        """Raise `DamagedError` where a file with this content is not what it was, from one byte to another."""
        if len(content) != self.size:
            msg = f"it has {len(content)} bytes, {self.size} were written"
            raise DamagedError(msg)
        stop = self.size if stop is None else stop
        for i in range(start // BLOCK, -(-stop // BLOCK)):
            if zlib.crc32(content[i * BLOCK : (i + 1) * BLOCK]) != self.blocks[i]:
                msg = f"the checksum of its bytes from {i * BLOCK} on is wrong"
                raise DamagedError(msg)

    def check_file(self, path: Path) -> None:
        """Raise `DamagedError` where a file is not what it was."""
        now = Checksums.of(path)
        if now.listing() != self.listing():
            msg = "its checksums are wrong"
            raise DamagedError(msg)
