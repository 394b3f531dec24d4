"""One file that holds named arrays, put in place atomically, with a version, a fingerprint and checksums. No pickle.

Some of its arrays may be in files beside it, of before: it says in which, with their checksums.

A zip of ``.npy`` members and a manifest, followed by the SHA-256 of all of that, which is checked before anything
else is looked at. It is written beside its place and moved there when it is whole and on the disk, so a crash leaves
what was there before.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import attrs
import numpy as np

from tidemill.errors import StateError
from tidemill.renderer.embedded.whole_file import put_in_place
from tidemill.renderer.runs.interrupts import deferred, let_through
from tidemill.renderer.runs.system_errors import advice

T = TypeVar("T")
FORMAT: Final = "tidemill state"
VERSION: Final = 6
_MANIFEST: Final = "manifest.json"
_DIGEST: Final = hashlib.sha256().digest_size
_CHUNK: Final = 1 << 20
_DAMAGED: Final = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)
"""Errors of a zip in which some byte is another one: its method of compression, its flag of encryption, ..."""


@attrs.frozen
class Member:
    """Where an array is: in which file, of which checksum, by which name; and how many columns it has."""

    file: str
    checksum: str
    name: str
    columns: int


class Arrays(Mapping[str, Any]):
    """The arrays of a file, each of which is read when it is asked for: nobody need hold them all at once."""

    def __init__(self, path: Path, checksum: str, file: IO[bytes], manifest: Mapping[str, Any]) -> None:
        self._path = path
        self._checksum = checksum
        found = manifest.get("elsewhere", {})
        self._elsewhere: dict[str, Member] = {name: Member(*member) for name, member in found.items()}
        self._names = dict.fromkeys([*manifest["arrays"], *self._elsewhere])
        self._columns: dict[str, int] = dict(
            zip(self._names, manifest.get("columns", ()), strict=False)
        )  # none in older files
        self._archive = zipfile.ZipFile(file)
        self._close_file = weakref.finalize(self, file.close)
        self._others: dict[str, Arrays] = {}

    def open_others(self) -> None:
        """Open the files beside this one in which some of the arrays are."""
        checksums = {member.file: member.checksum for member in self._elsewhere.values()}
        for name, checksum in checksums.items():
            self._others[name] = _opened(self._path.with_name(name), checksum, later=True)[1]

    def close(self) -> None:
        """Let go of the files; more than once does no harm."""
        self._close_file()
        for other in self._others.values():
            other.close()

    def member(self, name: str) -> Member:
        """Return where an array is."""
        return self._elsewhere.get(name) or Member(self._path.name, self._checksum, name, self.columns(name))

    def __getitem__(self, name: str) -> Any:
        if name in self._elsewhere:
            return self._others[self._elsewhere[name].file][self._elsewhere[name].name]
        if name not in self._names:
            raise KeyError(name)
        try:
            return _array(self._archive.read(f"{name}.npy"))
        except _DAMAGED as error:
            raise _unreadable(self._path, error) from error

    def columns(self, name: str) -> int:
        """Return how many columns a matrix has, without reading all of it."""
        if name in self._elsewhere:
            return self._elsewhere[name].columns
        if name in self._columns:
            return self._columns[name]
        try:
            with self._archive.open(f"{name}.npy") as member:
                np.lib.format.read_magic(member)
                shape, _, _ = np.lib.format.read_array_header_1_0(member)
        except _DAMAGED as error:
            raise _unreadable(self._path, error) from error
        return int(shape[-1])

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def write(
    path: Path,
    header: Mapping[str, Any],
    arrays: Iterable[tuple[str, Any]],
    elsewhere: Mapping[str, Member] | None = None,
) -> str:
    """Put a file with this header and these named arrays in place of what is there; return its checksum.

    It refers to those ``elsewhere`` by their names here, and has them too: that may grow while arrays are written.
    """

    def write_whole(file: IO[bytes]) -> str:
        _write_members(file, header, arrays, {} if elsewhere is None else elsewhere)
        digest = _digest(file, file.seek(0, os.SEEK_END))
        file.seek(0, os.SEEK_END)
        file.write(digest)
        return digest.hex()

    return put_in_place(path, write_whole)


def read(path: Path, checksum: str | None = None, *, later: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Return a file's header and arrays; `StateError` where it is not one of ours, not whole, or another than meant.

    With ``later`` each array is checked when it is read, by the checksum that it has in the zip, and not all before.
    """
    header, arrays = _opened(path, checksum, later=later)
    arrays.open_others()
    return header, arrays


def _opened(path: Path, checksum: str | None, *, later: bool) -> tuple[dict[str, Any], Arrays]:
    """Return a file's header and arrays, without the files beside it in which some of them are."""
    try:
        with contextlib.ExitStack() as stack:
            with deferred():  # interrupted, it has to be known that is to be closed
                file = stack.enter_context(path.open("rb"))
            size = max(0, file.seek(0, os.SEEK_END) - _DIGEST)
            digest = _digest(file, 0 if later else size)
            file.seek(size)
            said = file.read()
            if later and said.hex() == checksum:
                digest = said
            if said != digest:
                raise _not_whole(path, file)
            if checksum is not None and digest.hex() != checksum:
                msg = f"{path} is not the file that was committed: another was put in its place; restore it from a copy"
                raise StateError(msg)
            with zipfile.ZipFile(file) as archive:
                manifest = json.loads(archive.read(_MANIFEST))
            _check_version(path, manifest)
            arrays = Arrays(path, digest.hex(), file, manifest)
            stack.pop_all()  # it stays open for these
            return manifest["header"], arrays
    except FileNotFoundError:
        raise
    except _DAMAGED as error:  # the disk; or a file that ends like one of ours
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> StateError:
    """Return the message for a file that the system does not read, or that is not what it seems to be."""
    to_do = advice(error) if isinstance(error, OSError) and error.errno is not None else "use an earlier save"
    return StateError(f"{path} could not be read as a saved state ({error}): {to_do}")


def _write_members(
    file: Any, header: Mapping[str, Any], arrays: Iterable[tuple[str, Any]], elsewhere: Mapping[str, Member]
) -> None:
    columns: dict[str, int] = {}
    # Interrupted in a member, the zip would raise something else as it is closed: Ctrl-C comes between them.
    with deferred(), zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, given in _between(arrays):
            array = np.ascontiguousarray(given)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, np.lib.format.header_data_from_array_1_0(array))
                member.write(array.data)
            columns[name] = array.shape[-1]
        lists = {"arrays": [*columns], "columns": [*columns.values()]}
        if elsewhere:
            lists["elsewhere"] = {name: attrs.astuple(member) for name, member in elsewhere.items()}
        manifest = {"format": FORMAT, "version": VERSION, "header": header, **lists}
        archive.writestr(_MANIFEST, json.dumps(manifest))


def _between(items: Iterable[T]) -> Iterator[T]:
    """Give items, for each of which an interrupt is let through."""
    each = iter(items)
    while True:
        with let_through():
            item = next(each, None)
        if item is None:
            return
        yield item


def _digest(file: Any, size: int) -> bytes:
    """Return the digest of the file's first ``size`` bytes, and leave its position after them."""
    file.seek(0)
    digest = hashlib.sha256()
    while size:
        chunk = file.read(min(size, _CHUNK))
        if not chunk:
            break
        digest.update(chunk)
        size -= len(chunk)
    return digest.digest()


def _not_whole(path: Path, file: Any) -> StateError:
    """Return the message for a file whose checksum is wrong; or, if that is so, that it is of another version."""
    manifest = None
    with contextlib.suppress(Exception), zipfile.ZipFile(file) as archive:  # whatever a damaged zip brings about
        manifest = json.loads(archive.read(_MANIFEST))
    if manifest is None:
        return StateError(f"{path} is not a whole saved state: it was cut off or changed; use an earlier save")
    try:
        _check_version(path, manifest)
    except StateError as error:
        return error
    return StateError(f"{path}: its checksum is wrong: it was cut off or changed; use an earlier save")


def _check_version(path: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        msg = f"{path} is not a saved state of tidemill"
        raise StateError(msg)
    if manifest.get("version") != VERSION:
        msg = (
            f"{path} has version {manifest.get('version')} of the format, expected {VERSION}: load it with its tidemill"
        )
        raise StateError(msg)


def _array(content: bytes) -> Any:
    """Return the array of an ``.npy`` member, as a view of its bytes."""
    file = io.BytesIO(content)
    np.lib.format.read_magic(file)
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape, order="F" if is_fortran else "C")
