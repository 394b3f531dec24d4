"""State of operators beside arrangements: timers, which hold rows until a value is reached, and single numbers.

Both are ports that nothing is sent to, so they are saved, restored and rolled back as pending updates are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.schedule import Port
from tidemill.renderer.embedded.trace.pending import Alike, PendingState

if TYPE_CHECKING:
    from tidemill.renderer.embedded.schedule import Operator


class Timers(Port):
    """Updates held until a limit exceeds a number of theirs, which stands where others have their time."""

    __slots__ = ()

    def hold(self, updates: UpdateArray) -> None:
        """Hold updates from now on."""
        if updates.shape[1]:
            self._join()
            self.pending.add(updates)

    def take_below(self, limit: int) -> UpdateArray | None:
        """Return the updates with a number less than a limit, which are held no longer; None where there are none."""
        if not self.pending:
            return None
        self._join()
        due = self.pending.take_due(Antichain([(limit,)]))
        assert not isinstance(due, list)  # as what an input queues may be
        return due

    def _join(self) -> None:
        transaction = self.operator.schedule.transaction
        if self not in transaction:
            transaction.join(self, self.pending.state)

    # No step lets go of what is held by itself.

    def release(self) -> None:
        """Nothing: a step's frontier says nothing of what is held."""

    def defer(self, updates: UpdateArray | Alike) -> None:
        self.pending.add(updates)

    def rollback(self, state: PendingState) -> None:
        self.pending.state = state


class Numbers(Timers):
    """A few numbers that an operator goes on from."""

    __slots__ = ("_at_first", "_known")

    def __init__(self, operator: Operator, at_first: list[int]) -> None:
        super().__init__(operator, 1, 1)
        self._at_first = at_first
        self._known: list[int] | None = None
        """The values held, once they were looked up, which each step does."""

    @property
    def waiting(self) -> int:
        return 0

    @property
    def now(self) -> list[int]:
        """The numbers."""
        if self._known is None:
            held = self.pending.arrays()
            self._known = held[0][0].tolist() if held else self._at_first
        return self._known.copy()

    def become(self, numbers: list[int]) -> None:
        """Have other numbers."""
        self._join()
        self.pending.clear()
        self.pending.add(np.array([numbers, [0] * len(numbers), [1] * len(numbers)], np.int64))
        self._known = numbers.copy()

    def refill(self, updates: UpdateArray | None) -> None:
        super().refill(updates)
        self._known = None

    def defer(self, updates: UpdateArray | Alike) -> None:
        super().defer(updates)
        self._known = None

    def rollback(self, state: PendingState) -> None:
        super().rollback(state)
        self._known = None
