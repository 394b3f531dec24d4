"""Transactions: the changes of a step, committed or rolled back as one."""

from __future__ import annotations

from typing import Any, Protocol


class Participant(Protocol):
    """State that a step changes. It joins the transaction before its first change, with what it goes back to."""

    def commit(self) -> None:
        """Take note that the changes are final."""

    def rollback(self, state: Any) -> None:
        """Go back to the state that it joined with."""


class Transaction:
    """The participants of the current step, each with its state before the step.

    State is immutable, or copied where it is not, so putting it back is an assignment. A transaction costs what the
    step touches, not what there is.
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: dict[Participant, Any] = {}

    def __contains__(self, participant: Participant) -> bool:
        return participant in self._before

    def join(self, participant: Participant, state: Any) -> None:
        """Have a participant committed or rolled back with the step; the state it first joined with counts."""
        self._before.setdefault(participant, state)

    def leave(self, participant: Participant) -> None:
        """Have a participant stay as it is whatever becomes of the step."""
        self._before.pop(participant, None)

    def commit(self) -> None:
        """Make all changes final."""
        before, self._before = self._before, {}
        for participant in before:
            participant.commit()

    def rollback(self) -> None:
        """Put all participants back, the latest first."""
        for participant, state in reversed(self._before.items()):
            participant.rollback(state)
        self._before = {}
