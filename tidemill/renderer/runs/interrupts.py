"""Ctrl-C while a step is being made final is raised when that is done: a step is taken or not, never half."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enumerations, which takes 7 us a step
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

__all__ = ["Interrupts"]

_SIGINT: Final = int(signal.SIGINT)


class Interrupts:
    """Within a ``with`` block of it, what Ctrl-C raises is held back from `hold` on, and raised as the block ends.

    Only the main thread is ever interrupted.
    """

    def __init__(self) -> None:
        self._before: Callable[[int, FrameType | None], Any] | None = None
        """Who handles it otherwise, while it is held back."""
        self._came = False

    def hold(self) -> None:
        """Have it raised later. Does nothing where it is held back already, or raises nothing."""
        if self._before is None and threading.current_thread() is threading.main_thread():
            before = _signal.getsignal(_SIGINT)
            if callable(before):
                self._before = before
                _signal.signal(_SIGINT, self._note)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        before = self._before
        if before is not None:
            self._before = None
            _signal.signal(_SIGINT, before)  # first: one that comes until now is noted, and not forgotten
            came, self._came = self._came, False
            if came:
                before(_SIGINT, None)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
