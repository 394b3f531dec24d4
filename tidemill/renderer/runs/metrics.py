"""Figures for each operator of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import attrs

__all__ = ["Metrics", "OperatorMetrics"]


@attrs.frozen
class OperatorMetrics:
    """What one operator has done since the run started, and what it holds now."""

    id: int
    kind: str
    name: str
    records_in: int
    """Updates that came to it; of what Spark's executors did, those that had to be counted there."""
    records_out: int
    state_rows: int
    """Updates held in its arrangements (an arrangement's rows count where it is, not where it is read)."""
    batches: int
    seconds: float
    waiting: int = 0
    """Updates and pending times that wait for a later step."""


class Metrics(Sequence[OperatorMetrics]):
    """The figures of all operators, in the order of the graph; prints as a table."""

    def __init__(self, operators: Sequence[OperatorMetrics]) -> None:
        self._operators = tuple(operators)

    @overload
    def __getitem__(self, index: int) -> OperatorMetrics: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[OperatorMetrics]: ...
    def __getitem__(self, index: int | slice) -> OperatorMetrics | Sequence[OperatorMetrics]:
        return self._operators[index]

    def __len__(self) -> int:
        return len(self._operators)

    def __iter__(self) -> Iterator[OperatorMetrics]:
        return iter(self._operators)

    @property
    def state_rows(self) -> int:
        """Updates held by all operators together: what the run's memory grows with."""
        return sum(o.state_rows for o in self._operators)

    def __repr__(self) -> str:
        head = f"{'operator':32} {'in':>10} {'out':>10} {'state':>10} {'batches':>8} {'waiting':>8} {'seconds':>9}"
        lines = [
            f"{f'#{o.id} {o.kind} {o.name}':32.32} {o.records_in:>10,} {o.records_out:>10,} {o.state_rows:>10,} "
            f"{o.batches:>8} {o.waiting:>8} {o.seconds:>9.4f}"
            for o in self._operators
        ]
        return "\n".join([head, *lines])
