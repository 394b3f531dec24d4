"""One owner for a folder: a lock that dies with its process."""

from __future__ import annotations

import gc
import os
import socket
import weakref
from pathlib import Path
from typing import Final

from tidemill.errors import StateError

_NAME: Final = "lock"


class Lock:
    """Held from when it is made until it is released, or its process is gone. `StateError` where another has it."""

    def __init__(self, folder: Path) -> None:
        try:
            import fcntl  # noqa: PLC0415 - not on every system
        except ImportError as error:
            msg = f"{folder}: durable state needs locks of files as POSIX systems have them"
            raise StateError(msg) from error
        self._descriptor = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
        own, exclusive = f"process {os.getpid()} on {socket.gethostname()}", fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            try:
                fcntl.flock(self._descriptor, exclusive)
            except BlockingIOError:
                if self._holder() != own:
                    raise
                gc.collect()  # it may be a run's that nobody has any more, as where Ctrl-C came before it was given
                fcntl.flock(self._descriptor, exclusive)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, own.encode(), 0)
        except OSError as error:
            holder = self._holder() or "another process"
            os.close(self._descriptor)
            if not isinstance(error, BlockingIOError):
                raise
            msg = f"{folder} is in use by a run of {holder}: close that one first, or give each run a folder of its own"
            raise StateError(msg) from None
        self.release = weakref.finalize(self, os.close, self._descriptor)
        """Let go of it; more than once does no harm."""
        _held.add(self)

    def _holder(self) -> str:
        return os.pread(self._descriptor, 200, 0).decode(errors="replace")

    def _forget_in_child(self) -> None:
        """Let go of a copy of the lock: a forked child would hold it for as long as it lives."""
        if self.release.alive:
            self.release()


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_held):
        lock._forget_in_child()  # noqa: SLF001 - the same module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
