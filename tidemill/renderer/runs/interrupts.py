"""Ctrl-C, which comes at any moment, held back where something has to be done whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Final


class _Deferral:
    """A stretch of the main thread in which Ctrl-C is noted, and raised behind it."""

    def __init__(self) -> None:
        self._came: tuple[Any, ...] | None = None
        self._handler: Any = None

    def hold(self) -> None:
        """Note interrupts from now on."""
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # else it is ignored, or ends the process
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)

    def release(self) -> None:
        """Have interrupts come as they do otherwise, the one that was noted first."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        came, self._came = self._came, None
        if came is not None:
            self._handler(*came)

    def _note(self, *given: Any) -> None:
        self._came = given


_deferrals: Final[list[_Deferral]] = []
"""Those of the main thread, each within the one before it: no other thread is interrupted."""


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Within the block Ctrl-C waits, for its end or for `let_through`: what is done is done whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferral = _Deferral()
    deferral.hold()
    _deferrals.append(deferral)
    try:
        yield
    finally:
        _deferrals.pop()
        deferral.release()


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """Within the block, in one of `deferred`, Ctrl-C comes at once: for what takes long and is undone if it fails."""
    if not _deferrals or threading.current_thread() is not threading.main_thread():
        yield
        return
    deferral = _deferrals[-1]
    try:
        deferral.release()
        yield
    finally:
        deferral.hold()
