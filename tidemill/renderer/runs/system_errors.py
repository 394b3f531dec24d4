"""What to do where the system does not open, read or write a file: that is no damage, and nothing is to be given up."""

from __future__ import annotations

import errno
from typing import Final

_PERMISSIONS: Final = "let this process read and write there, and try again"
_ROOM: Final = "make room on the disk, and try again"
_FILES: Final = "close some, or raise the limit (ulimit -n), and try again"
_ADVICE: Final = {
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EROFS: _PERMISSIONS,
    errno.ENOMEM: "leave it more memory, and try again",
    errno.EIO: "see to the disk, and try again",
}


def advice(error: OSError, otherwise: str = "mend what is wrong, and try again") -> str:
    """Return what to do about an error by its number; ``otherwise`` where that is none that says so."""
    return otherwise if error.errno is None else _ADVICE.get(error.errno, otherwise)
