"""Whether a run may be used: it is whole between changes, and given up where one of them was cut off."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from tidemill.errors import ClosedRunError

__all__ = ["Lifecycle"]

_OPEN: Final = "open"
_CHANGING: Final = "changing"
_CLOSED: Final = "closed"


class Lifecycle:
    """A ``with lifecycle.changing(...)`` block is a change of the run, which is done whole or not at all.

    A change that ends, or is `undone` before it raises, leaves the run open. One that is cut off in between, as by
    Ctrl-C while it is made final, closes the run: nobody could say what it holds. The doubt comes first and goes last,
    so there is no moment at which an interrupt leaves an open run half changed.
    """

    def __init__(self, name: str, go_on: str, release: Callable[[], None]) -> None:
        self._name = name
        self._go_on = go_on
        """What to do with a run that is of no use any more."""
        self._release = release
        self._state = _OPEN
        self._change = self._reason = ""

    @property
    def is_closed(self) -> bool:
        return self._state is _CLOSED

    def check(self) -> None:
        """Raise `ClosedRunError` where the run may not be used now."""
        if self._state is _OPEN:
            return
        if self._state is _CHANGING:
            msg = f"this run of {self._name!r} is in the middle of a step: a function in the dataflow may not use it"
        else:
            msg = f"this run of {self._name!r} {self._reason}: {self._go_on}"
        raise ClosedRunError(msg)

    def changing(self, change: str) -> Self:
        """Return the ``with`` block of a change, which says what was going on where it is cut off."""
        self._change = change
        return self

    def __enter__(self) -> None:
        self._state = _CHANGING

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._state is _CHANGING:
            if kind is None:
                self._state = _OPEN
            else:
                self.give_up(f"was interrupted while {self._change}")

    def undone(self) -> None:
        """Take note that all is as it was before the change."""
        self._state = _OPEN

    def give_up(self, reason: str) -> None:
        """Close the run for a reason, which all who use it afterwards are told."""
        self._state, self._reason = _CLOSED, reason
        self._release()

    def close(self) -> None:
        """Close the run, unless it is; `ClosedRunError` in the middle of a change."""
        if not self.is_closed:
            self.check()
            self.give_up("is closed")
