"""Ctrl-C, which comes at any moment, held back where something has to be done whole."""

from __future__ import annotations

import contextlib
import threading
from _signal import getsignal, signal  # type: ignore[import-not-found]  # without the enums of `signal`: 15 times faster
from collections.abc import Iterator
from signal import SIGINT
from typing import Any, Final


class _Deferral:
    """A stretch of the main thread in which Ctrl-C is noted, and raised behind it.

    One handler stands for the whole of it.
    """

    def __init__(self) -> None:
        self._came: tuple[Any, ...] | None = None
        self._at_once = False
        self._handler: Any = getsignal(SIGINT)
        if callable(self._handler):  # else it is ignored, ends the process, or belongs to a host that is not Python
            signal(SIGINT, self._note)

    def end(self) -> None:
        """Have the handler back that was there before, unless another has been set meanwhile; raise what was noted."""
        if callable(self._handler):
            there = signal(SIGINT, self._handler)
            if there != self._note:
                signal(SIGINT, there)
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


_deferrals: Final[list[_Deferral]] = []
"""Those of the main thread, each within the one before it: no other thread is interrupted."""


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Within the block Ctrl-C waits, for its end or for `let_through`: what is done is done whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferral = _Deferral()
    _deferrals.append(deferral)
    try:
        yield
    finally:
        _deferrals.pop()
        deferral.end()


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """Within the block, in one of `deferred`, Ctrl-C comes at once: for what takes long and is undone if it fails."""
    if not _deferrals or threading.current_thread() is not threading.main_thread():
        yield
        return
    deferral = _deferrals[-1]
    try:
        deferral.let_through()
        yield
    finally:
        deferral.hold()
