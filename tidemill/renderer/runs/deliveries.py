"""Numbered batches of sources that deliver again what may have got lost."""

from __future__ import annotations

from collections.abc import Mapping


class Deliveries:
    """The last batch of each source that a step committed, and the one that is being delivered."""

    def __init__(self, committed: Mapping[str, int]) -> None:
        self.is_putting = False
        """Whether a batch is being put in: not the time for a step."""
        self.committed = dict(committed)
        """The last batch of each source."""
        self._current: tuple[str, int] | None = None

    def has(self, source: str, batch: int) -> bool:
        """Return whether this batch of a source, or a later one, was committed."""
        return batch <= self.committed.get(source, -1)

    def begin(self, source: str, batch: int) -> None:
        """Have the next step commit this batch, which is put in now."""
        self._current, self.is_putting = (source, int(batch)), True

    def end(self) -> None:
        """Deliver nothing more, whether or not it was committed."""
        self._current, self.is_putting = None, False

    def after_step(self) -> dict[str, int]:
        """Return what is committed once the step at hand is."""
        return self.committed if self._current is None else self.committed | dict([self._current])

    def commit(self) -> None:
        """Take note that the step was taken."""
        self.committed = self.after_step()
