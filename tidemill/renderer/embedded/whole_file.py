"""Atomic files, which are there whole or not at all, and names of files that are on the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, TypeVar

from tidemill.renderer.runs.interrupts import deferred, let_through

T = TypeVar("T")
_NOT_FOR_FOLDERS: Final = {
    errno.EACCES,
    errno.EPERM,
    errno.EINVAL,
    errno.EBADF,
    errno.EISDIR,
    errno.ENOTSUP,
    errno.ENOSYS,
}


def put_in_place(path: Path, write: Callable[[IO[bytes]], T], *, new: bool = False) -> T:
    """Have a file written, and put it in place of what is there once it is on the disk; leave none if that fails.

    Where it is to be ``new`` and another came there meanwhile, that stays, on file systems that have links.
    """
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")  # processes of one number may write to one place
    try:
        with deferred(), beside.open("w+b") as file, let_through():
            result = write(file)
            file.flush()
            os.fsync(file.fileno())
        if not (new and _linked(beside, path)):
            beside.replace(path)
        sync_folder(path.parent)
        return result
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def _linked(beside: Path, path: Path) -> bool:
    """Link a file to a place, or keep what is there; return False if the file system has no links."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return True
    except OSError:  # not every file system has links
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Have the move itself reach the disk, where the system lets us.

    Some have no such call for folders: Windows does not open them, and some file systems of networks say that they
    cannot. Then moves reach the disk when the system likes. That the disk itself fails is another thing, and an error.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise
