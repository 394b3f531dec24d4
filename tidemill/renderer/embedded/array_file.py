"""One file that holds named arrays, put in place atomically, with a version, a fingerprint and checksums. No pickle.

A zip of ``.npy`` members and a manifest. It is written beside its place and moved there when it is whole and on the
disk, so a crash leaves what was there before.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tidemill.errors import StateError

__all__ = ["read", "sync_folder", "write"]

FORMAT: Final = "tidemill state"
VERSION: Final = 3
_MANIFEST: Final = "manifest.json"
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, KeyError, EOFError, ValueError, RuntimeError)
"""What reading a zip raises where some byte of it is not what it was."""


def write(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Put a file with this header and these arrays in place of what is there."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("xb") as file:
            _write_members(file, header, arrays)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a file's header and arrays; `StateError` where it is not one of ours, or not whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
            _check_manifest(path, manifest)
            return manifest["header"], {
                name: _array(path, name, archive.read(f"{name}.npy"), digest)
                for name, digest in manifest["arrays"].items()
            }
    except _DAMAGED as error:
        msg = f"{path} is not a whole saved state ({error}): it was cut off or changed; use an earlier save"
        raise StateError(msg) from error


def _write_members(file: Any, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    digests = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
            content = buffer.getbuffer()
            digests[name] = hashlib.sha256(content).hexdigest()
            archive.writestr(f"{name}.npy", content)
        manifest = {"format": FORMAT, "version": VERSION, "header": header, "arrays": digests}
        archive.writestr(_MANIFEST, json.dumps(manifest))


def _check_manifest(path: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        msg = f"{path} is not a saved state of tidemill"
        raise StateError(msg)
    if manifest.get("version") != VERSION:
        msg = (
            f"{path} has version {manifest.get('version')} of the format, expected {VERSION}: load it with its tidemill"
        )
        raise StateError(msg)


def _array(path: Path, name: str, content: bytes, digest: str) -> Any:
    if hashlib.sha256(content).hexdigest() != digest:
        msg = f"{path}: the checksum of {name!r} is wrong: the file was changed or damaged; use an earlier save"
        raise StateError(msg)
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def sync_folder(folder: Path) -> None:
    """Have the move itself reach the disk, where the system lets us."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
