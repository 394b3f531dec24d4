"""Whether a run may be used: it is whole between changes, and closed where one of them was cut off."""

from __future__ import annotations

import os
from collections.abc import Callable

from tidemill.errors import ClosedRunError, ReentrantUseError
from tidemill.renderer.runs.interrupts import deferred


class Lifecycle:
    """Sees to it that a run is changed whole or not at all.

    A change that ends, or is `undone` before it raises, leaves the run open. Ctrl-C waits for its end, but for parts
    that can be undone (`let_through`). One that is cut off in between all the same, as by an error where none was
    expected, closes the run: nobody could say what it holds. The doubt comes first and goes last, so there is no moment
    at which an open run is left half changed.
    """

    def __init__(
        self, name: str, go_on: str, release: Callable[[], None], standing: Callable[[], str], *, has_files: bool
    ) -> None:
        self._name = name
        self._go_on = go_on
        """What to do with a run that is of no use any more."""
        self._release = release
        self._standing = standing
        """What to say of where a run stands whose change was cut off."""
        self._process = os.getpid() if has_files else None
        """The process whose run it is, where it has files that no two processes may write."""
        self._change: str | None = None
        """What is going on."""
        self._closed: str | None = None
        """Why the run is closed."""

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def is_foreign(self) -> bool:
        """Whether this is a child, forked from the process whose run it is."""
        return self._process is not None and os.getpid() != self._process

    def check_process(self) -> None:
        """Raise `ClosedRunError` where the run is another process's: what this one did to it would be lost."""
        if self._process is not None and self.is_foreign:
            msg = (
                f"this run of {self._name!r} belongs to process {self._process}, which opened it, and this is process "
                f"{os.getpid()}, forked from it: use the run there, or {self._go_on} once that has closed it"
            )
            raise ClosedRunError(msg)

    def check(self) -> None:
        """Raise `ClosedRunError` where the run is closed, `ReentrantUseError` where it is being changed.

        Other threads wait for the end of a change: whoever asks during one was called by it.
        """
        if self._closed is not None:
            msg = f"this run of {self._name!r} {self._closed}: {self._go_on}"
            raise ClosedRunError(msg)
        if self._change is not None:
            msg = (
                f"this run of {self._name!r} is in the middle of a step: what the step calls, such as a function in "
                "the dataflow, may not use it; use it after the step, as in run.on_step(...)"
            )
            raise ReentrantUseError(msg)

    def change(self, what: str, do: Callable[[], None]) -> None:
        """Do something whole; ``what`` says what was going on where it is cut off."""
        with deferred():
            try:
                self._change = what
                do()
                self._change = None
            finally:
                if self._change is not None:
                    self.give_up(f"was interrupted while {what}{self._standing()}")

    def undone(self) -> None:
        """Take note that all is as it was before the change."""
        self._change = None

    def give_up(self, reason: str) -> None:
        """Close the run for a reason, which all who use it afterwards are told."""
        self._closed, self._change = reason, None
        self._release()

    def close(self) -> None:
        """Close the run, unless it is, or is another process's; `ReentrantUseError` in the middle of a change."""
        if self._closed is None and not self.is_foreign:
            self.check()
            with deferred():
                self.give_up("is closed")
