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
    line: str = ""
    """The user's line that it is of."""

    @property
    def title(self) -> str:
        """Its number, its kind and, where it has one of its own, its name."""
        return f"#{self.id} {self.kind}" + (f" {self.name!r}" if self.name != self.kind.lower() else "")


class Metrics(Sequence[OperatorMetrics]):
    """The figures of all operators, a sequence of `OperatorMetrics` in the order of the graph; prints as a table.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> flow.output("once", flow.input("x", {"i": "int64"}).distinct())
    >>> with flow.start() as run:
    ...     run.insert("x", [(1,), (1,)])
    ...     run.advance()
    ...     figures = run.metrics()
    >>> [(o.title, o.records_out) for o in figures]
    [("#0 Input 'x'", 1), ('#1 Threshold', 1), ("#2 Output 'once'", 1)]
    """

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
        head += "  line"
        lines = [
            f"{o.title:32.32} {o.records_in:>10,} {o.records_out:>10,} {o.state_rows:>10,} "
            f"{o.batches:>8} {o.waiting:>8} {o.seconds:>9.4f}  {o.line}".rstrip()
            for o in self._operators
        ]
        return "\n".join([head, *lines])
