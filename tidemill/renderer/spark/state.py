"""Traces: the batches of updates that stateful operators keep between rounds, each with the rounds it is from.

The driver knows the rounds, so they are noted beside the batches: all updates of a round are at its iteration of each
loop. Batches are merged geometrically, so that their number grows with the logarithm of the rounds.
"""

from __future__ import annotations

import attrs
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import less_equal
from tidemill.renderer.spark.frames import Frame, materialised, united

Round = tuple[int, ...]
_RATIO = 2
_MANY = 8


@attrs.frozen(eq=False)
class _Batch:
    frame: Frame
    rounds: frozenset[Round]


class Trace:
    """The batches of one collection, or of one operator's arrangements, in a loop."""

    def __init__(self, users: int, old: list[Frame] | None = None) -> None:
        self._users = users
        self._batches: list[_Batch] = []
        self._old = old or []
        """From earlier steps, of any round."""

    def append(self, frame: Frame, now: Round) -> None:
        """Add a materialised batch of a round."""
        self._batches.append(_Batch(frame, frozenset([now])))

    def compact(self) -> None:
        """Merge neighbours of similar size, where there are many batches. A merge costs a job, and saves later ones."""
        if len(self._batches) <= _MANY:
            return
        batches: list[_Batch] = []
        for batch in self._batches:
            run = [batch]
            while batches and _size(batches[-1]) <= _RATIO * sum(map(_size, run)):
                run.insert(0, batches.pop())
            batches.append(batch if len(run) == 1 else _merged(run))
        self._batches = batches

    def before(self, now: Round) -> list[Frame]:
        """Return the updates of earlier rounds that this one sees: those at or before it in every loop."""
        old = [self._filtered(f, now, visible=True) for f in self._old]
        return [*old, *(f for b in self._batches if (f := self._part(b, now, visible=True)) is not None)]

    def later(self, now: Round) -> list[Frame]:
        """Return the updates of earlier rounds that it does not: those at a later iteration of an inner loop."""
        old = [self._filtered(f, now, visible=False) for f in self._old if now]
        return [*old, *(f for b in self._batches if (f := self._part(b, now, visible=False)) is not None)]

    def everything(self) -> list[Frame]:
        """Return all updates of earlier rounds and steps."""
        return [*self._old, *(b.frame for b in self._batches)]

    def _part(self, batch: _Batch, now: Round, *, visible: bool) -> Frame | None:
        rounds = {r for r in batch.rounds if r != now and less_equal(r, now) == visible}
        if not rounds:
            return None
        if rounds == batch.rounds:
            return batch.frame
        return self._filtered(batch.frame, now, visible=visible)

    def _filtered(self, frame: Frame, now: Round, *, visible: bool) -> Frame:
        here = F.lit(True)
        for i, iteration in enumerate(now):
            here &= F.col(f"t{self._users + i}") <= iteration
        return frame.of(frame.data.filter(here if visible else ~here), cheap=True) if now else frame


def _size(batch: _Batch) -> int:
    return batch.frame.rows or 0


def _merged(batches: list[_Batch]) -> _Batch:
    frame = united([b.frame for b in batches])
    assert frame is not None
    merged = materialised(frame)
    assert merged is not None
    return _Batch(merged, frozenset().union(*(b.rounds for b in batches)))
