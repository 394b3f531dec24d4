"""Frames, what a log is made of: bytes that are whole or are not, each of which says what it follows.

A frame is a head of 64 bytes, a text in JSON, arrays, and the SHA-256 of all of that. The head has the frame's number,
the lengths, the digest of the frame before it, and a checksum of its own: so it is known how far a frame that is not
whole reaches, and whether others come after it; and none can be taken for another, of this log or of another one.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import attrs
import numpy as np
import pyarrow as pa

VERSION: Final = 8
"""8: checkpoints refer to files of those before them.

7: sorted files are files of pages; they were Parquet.

6: a base says what each operator computes, so that another version of the dataflow finds its state.

4: what is spilled without a key has the order of a column as `h`, by which its pages are found; it was 0."""
READ: Final = frozenset({5, 6, 7, VERSION})
"""Versions of frames that are read. In 5 a base does not say what operators compute."""
NOTHING: Final = bytes(hashlib.sha256().digest_size)
"""The digest before the first frame."""
_MAGIC: Final = b"TML"
_FIELDS: Final = struct.Struct("<3sBQQQ32s")
"""The magic, the version, the number, the length of the text and that of all there is, the digest before this one."""
_CHECKSUM: Final = struct.Struct("<I")
_HEAD: Final = _FIELDS.size + _CHECKSUM.size
_END_OF_STREAM: Final = struct.pack("<iI", -1, 0)
_FEW: Final = 1000
_ALIGNED: Final = 8
"""Arrays begin at multiples of this many bytes."""


class OtherVersionError(Exception):
    """A whole head, of another version of the format."""


@attrs.frozen(eq=False)
class LogFrame:
    """A frame that was read, and is whole."""

    number: int
    previous: bytes
    """The digest of the frame before it."""
    digest: bytes
    text: dict[str, Any]
    arrays: dict[str, Any]
    size: int
    """Bytes of it in the file."""


def encode(number: int, previous: bytes, text: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the bytes of a frame, and its digest, which the next one has to be given."""
    found = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    listing = [[name, array.dtype.str, array.shape] for name, array in found.items()]
    said = json.dumps({**text, "arrays": listing}).encode()
    pieces: list[Any] = [b"", said, _padding(len(said))]
    for array in found.values():
        pieces += [array.data, _padding(array.nbytes)]
    fields = _FIELDS.pack(_MAGIC, VERSION, number, len(said), sum(memoryview(p).nbytes for p in pieces), previous)
    pieces[0] = fields + _CHECKSUM.pack(zlib.crc32(fields))
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return b"".join([*pieces, digest.digest()]), digest.digest()


def columns_stream(columns: Sequence[pa.Array], names: Sequence[str]) -> Any:
    """Return columns as the bytes of Arrow's stream format; of few rows a table takes long to make."""
    made = pa.RecordBatch if not columns or len(columns[0]) <= _FEW else pa.Table
    return arrow_stream(made.from_arrays(columns, names=list(names)))


def arrow_stream(rows: pa.Table | pa.RecordBatch) -> Any:
    """Return rows as the bytes of Arrow's stream format; for few a writer takes longer than all else."""
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    pieces = [rows.schema.serialize(), *(batch.serialize() for batch in batches), _END_OF_STREAM]
    return np.frombuffer(b"".join(pieces), np.uint8)


def read(file: BinaryIO, at: int) -> LogFrame | None:
    """Return the frame that begins at a byte of a file; None where there is no whole one.

    `OtherVersionError` where it is one of another version.
    """
    file.seek(at)
    head = file.read(_HEAD)
    fields = _fields(head)
    if fields is None:
        return None
    version, number, said, length, previous = fields
    if version not in READ:
        raise OtherVersionError(version)
    content = file.read(length)
    digest = hashlib.sha256(head)
    digest.update(content)
    if len(content) < length or file.read(digest.digest_size) != digest.digest():
        return None
    text = json.loads(content[:said])
    arrays = _arrays(text.pop("arrays"), content, _up(said))
    return LogFrame(number, previous, digest.digest(), text, arrays, _HEAD + length + digest.digest_size)


def is_followed(file: BinaryIO, at: int) -> bool:
    """Return whether anything comes after the frame at this byte, which is not whole: then it is not one cut off."""
    file.seek(at)
    rest = file.read()
    fields = _fields(rest[:_HEAD])
    if fields is not None:
        return len(rest) > _HEAD + fields[3] + len(NOTHING)
    other = rest.find(_MAGIC, 1)
    while other >= 0:
        if _fields(rest[other : other + _HEAD]) is not None:
            return True
        other = rest.find(_MAGIC, other + 1)
    return False


def _fields(head: bytes) -> tuple[int, int, int, int, bytes] | None:
    """Return what a head says after its magic; None where it is none, or not whole."""
    if len(head) < _HEAD or head[:3] != _MAGIC or zlib.crc32(head[:-4]) != _CHECKSUM.unpack(head[-4:])[0]:
        return None
    _, version, number, said, length, previous = _FIELDS.unpack(head[:-4])
    return version, number, said, length, previous


def _arrays(listing: list[Any], content: bytes, at: int) -> dict[str, Any]:
    found = {}
    for name, dtype, shape in listing:
        array = np.frombuffer(content, dtype, int(np.prod(shape, dtype=np.int64)), at)
        found[name] = array.reshape(shape)
        at += _up(array.nbytes)
    return found


def _up(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _padding(size: int) -> bytes:
    return bytes(_up(size) - size)
