"""Ctrl-C, which comes at any moment, held back where something has to be done whole."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal.signal makes an enum of each handler, 14 microseconds in 3.11
import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final


class _Deferral:
    """A stretch of the main thread in which Ctrl-C is noted, and raised behind it.

    One handler stands for the whole of it: even that is one call more in each small step.
    """

    def __enter__(self) -> None:
        self._came: tuple[Any, ...] | None = None
        self._at_once = False
        self._handler: Any = _signal.signal(signal.SIGINT, self._note)
        if not callable(self._handler):  # it is ignored, or ends the process
            _signal.signal(signal.SIGINT, self._handler)
        _deferrals.append(self)

    def __exit__(self, *_failed: object) -> None:
        """Have the handler back that was there before, unless another has been set meanwhile; raise what was noted."""
        _deferrals.pop()
        if callable(self._handler):
            there = _signal.signal(signal.SIGINT, self._handler)
            if there != self._note:
                _signal.signal(signal.SIGINT, there)
        self._raise_noted()

    def let_through(self) -> None:
        """Have interrupts come at once, the one that was noted first."""
        self._at_once = True
        self._raise_noted()

    def hold(self) -> None:
        """Note interrupts from now on."""
        self._at_once = False

    def _raise_noted(self) -> None:
        came, self._came = self._came, None
        if came is not None:
            self._handler(*came)

    def _note(self, *given: Any) -> None:
        if self._at_once:
            self._at_once = False  # what is done about this one is done whole
            self._handler(*given)
            self._at_once = True
        else:
            self._came = given


class _Gap:
    """A stretch within a deferral in which Ctrl-C comes at once."""

    def __init__(self, deferral: _Deferral) -> None:
        self._deferral = deferral

    def __enter__(self) -> None:
        try:
            self._deferral.let_through()
        except BaseException:
            self._deferral.hold()
            raise

    def __exit__(self, *_failed: object) -> None:
        self._deferral.hold()


_deferrals: Final[list[_Deferral]] = []
"""Those of the main thread, each within the one before it: no other thread is interrupted."""


def deferred() -> AbstractContextManager[None]:
    """Within the block Ctrl-C waits, for its end or for `let_through`: what is done is done whole."""
    return _Deferral() if threading.current_thread() is threading.main_thread() else nullcontext()


def let_through() -> AbstractContextManager[None]:
    """Within the block, in one of `deferred`, Ctrl-C comes at once: for what takes long and is undone if it fails."""
    if not _deferrals or threading.current_thread() is not threading.main_thread():
        return nullcontext()
    return _Gap(_deferrals[-1])
