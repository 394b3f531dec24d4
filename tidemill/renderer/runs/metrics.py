"""Figures for each operator of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import attrs

from tidemill.renderer.runs.prometheus import prometheus_text


@attrs.frozen
class OperatorMetrics:
    """What one operator has done since the run started, and what it holds now.

    What it did in steps that were not taken counts as time alone.
    """

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
    bytes: int = 0
    """Memory that its state takes, without interned values."""
    late: int = 0
    """Rows, and deletions of rows, that came when a watermark had passed them: a SortBuffer has dropped them."""

    @property
    def title(self) -> str:
        """Its number, its kind and, where it has one of its own, its name."""
        return f"#{self.id} {self.kind}" + (f" {self.name!r}" if self.name != self.kind.lower() else "")


@attrs.frozen
class Memory:
    """What a run's state takes, about, in this process and on the disk."""

    interned: int = 0
    """Strings, bytes, long decimals and lists, each held once. Those that nothing refers to go by themselves."""
    interned_bytes: int = 0
    unread: Mapping[str, int] = attrs.field(factory=dict)
    """Updates of outputs that nobody has read yet, where there are any."""
    unread_bytes: int = 0
    """What these take. Those of a large step are what the output holds, and so in ``held_bytes``, too."""
    held_bytes: int = 0
    """Arrangements in memory, with what was read of those on the disk."""
    spilled_bytes: int = 0
    """Files of arrangements on the disk."""

    def __str__(self) -> str:
        unread = sum(self.unread.values())
        return (
            f"interned {self.interned:,} ({shown_bytes(self.interned_bytes)}), unread changes {unread:,} "
            f"({shown_bytes(self.unread_bytes)}), held {shown_bytes(self.held_bytes)}, "
            f"on the disk {shown_bytes(self.spilled_bytes)}"
        )


class Metrics(tuple[OperatorMetrics, ...]):  # noqa: SLOT001 - it has a memory beside
    """The figures of all operators, a sequence of `OperatorMetrics` in the order of the graph.

    Prints as a table of the twenty that took most time, the longest first, and the rest together in a line.

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

    memory: Memory

    def __new__(cls, operators: Iterable[OperatorMetrics], memory: Memory | None = None) -> Self:
        """Return the figures of these operators."""
        made = super().__new__(cls, operators)
        made.memory = Memory() if memory is None else memory
        return made

    @property
    def state_rows(self) -> int:
        """Updates held by all operators together: what the run's memory grows with."""
        return sum(o.state_rows for o in self)

    def __repr__(self) -> str:
        names = ("in", "out", "state")
        head = f"{'operator':32} " + " ".join(f"{name:>10}" for name in names)
        head += f" {'batches':>8} {'waiting':>8} {'seconds':>9} {'memory':>9}  line"
        slowest = sorted(self, key=lambda o: -o.seconds)
        lines = [_line(o.title, o.line + (f", {o.late:,} late" if o.late else ""), [o]) for o in slowest[:_SHOWN]]
        if others := slowest[_SHOWN:]:
            lines.append(_line(f"and {len(others):,} others", "", others))
        return "\n".join([head, *lines, str(self.memory)])

    def to_prometheus(self, **labels: Any) -> str:
        """Return the figures in Prometheus' text format, for a page that it scrapes; ``labels`` go with each of them.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("once", flow.input("x", {"i": "int64"}).distinct())
        >>> with flow.start() as run:
        ...     print(run.metrics().to_prometheus(flow="shop"))  # doctest: +ELLIPSIS
        # HELP tidemill_operator_records_in_total Updates that came to an operator.
        # TYPE tidemill_operator_records_in_total counter
        tidemill_operator_records_in_total{flow="shop",operator="0",kind="Input",name="x"} 0
        ...
        """
        return prometheus_text(self, self.memory, labels)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a line for each operator."""
        import pandas as pd  # noqa: PLC0415 - only for those who have it

        return pd.DataFrame([attrs.asdict(o) for o in self], columns=[a.name for a in _FIELDS])


_FIELDS: Final = attrs.fields(OperatorMetrics)
_SHOWN: Final = 20


def _line(title: str, end: str, of: list[OperatorMetrics]) -> str:
    """Return the line of a table with the figures of operators together."""
    records_in, records_out, state_rows, batches, waiting, size, seconds = (
        sum(getattr(o, name) for o in of)
        for name in ("records_in", "records_out", "state_rows", "batches", "waiting", "bytes", "seconds")
    )
    return (
        f"{title:32.32} {records_in:>10,} {records_out:>10,} {state_rows:>10,} "
        f"{batches:>8} {waiting:>8} {seconds:>9.4f} {shown_bytes(size):>9}  {end}"
    ).rstrip()


def shown_bytes(count: int) -> str:
    """Return a number of bytes for people.

    >>> shown_bytes(800), shown_bytes(87_000_000)
    ('800 B', '87.0 MB')
    """
    if count < _KILO:
        return f"{count} B"
    amount, unit = float(count), "B"
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007 - the last one is meant
        amount /= _KILO
        if amount < _KILO:
            break
    return f"{amount:.1f} {unit}"


_KILO: Final = 1000
