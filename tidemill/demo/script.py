"""What happens to the flights: a history, then days as they come, and corrections of what was already known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tidemill.demo.data import DAYS, Data, DemoError, date_of

CORRECTED: Final = 200
"""How many flights each correction is about; fewer where the history has fewer than ten times as many."""
MOST_ADDED: Final = 120
"""Minutes by which a correction changes a delay at most."""

Longest: TypeAlias = Sequence[tuple[int, int, int]]
"""The flights of the longest chains so far: each flight's id, the chain it is of, and its place in that."""


@attrs.frozen
class FlightChange:
    """What one epoch does to the flights."""

    inserted: pa.Table
    deleted: pa.Table


@attrs.frozen
class Epoch:
    """A step of the play. Its change is made when its turn comes: one of them depends on the longest chain so far."""

    label: str
    change: Callable[[Longest], FlightChange]


class Script:
    """The play: which flights are loaded as history, and the epochs that follow.

    Corrections are drawn by seed. In this order: some flights of the history, withheld from it, are reported late; some
    get other delays, among them the middle one of the longest chain, which is said to have left on time; some are
    cancelled; and in the end those last two corrections are withdrawn, so that what remains is the year as published.
    """

    def __init__(self, data: Data, *, start: int, history: int, days: int, seed: int) -> None:
        self.first, self.start, self.last = max(1, start - history), start, start + days - 1
        if self.last > DAYS:
            msg = f"there are no {days} days from {date_of(start)} on: {DAYS - start + 1} are left of the year"
            raise DemoError(msg)
        known = data.of_days(self.first, start - 1)
        if not len(known):
            msg = f"no flights before {date_of(start)} to begin with: start later, or with more --history"
            raise DemoError(msg)
        self._data = data
        self._random = random.Random(seed)  # noqa: S311 - a play, not a secret
        size = min(CORRECTED, len(known) // 10)
        drawn = self._random.sample(known["id"].to_pylist(), 3 * size)
        self._late, self._changed, self._cancelled = drawn[:size], drawn[size : 2 * size], drawn[2 * size :]
        self._applied: list[FlightChange] = []
        self.history = known.filter(pa.array(~np.isin(known["id"].to_numpy(), self._late)))

    def epochs(self) -> list[Epoch]:
        """Return the days, with the four corrections spread among them."""
        corrections = {
            "late reports": self._late_reports,
            "other delays": self._other_delays,
            "cancelled": self._cancel,
            "withdrawn": self._withdraw,
        }
        days = range(self.start, self.last + 1)
        turns = [round(len(days) * (i + 1) / len(corrections)) for i in range(len(corrections))]
        epochs: list[Epoch] = []
        for number, day in enumerate(days, 1):
            epochs.append(Epoch(f"{date_of(day):%a %d %b}", self._day(day)))
            due = zip(turns, corrections.items(), strict=True)
            epochs += [Epoch(label, change) for turn, (label, change) in due if max(turn, 1) == number]
        return epochs

    def _day(self, day: int) -> Callable[[Longest], FlightChange]:
        return lambda _: self._change(self._data.of_days(day, day))

    def _late_reports(self, _: Longest) -> FlightChange:
        return self._change(self._rows(self._late))

    def _other_delays(self, longest: Longest) -> FlightChange:
        chain = [flight for flight, chain, _ in sorted(longest, key=lambda row: row[1:]) if chain == longest[0][1]]
        on_time = chain[len(chain) // 2 :][:1]
        self._changed = [*(i for i in self._changed if i not in on_time), *on_time]
        rows = self._rows(self._changed)
        added = [self._random.randint(-MOST_ADDED, MOST_ADDED) for _ in self._changed]

        def other(delays: Any) -> list[int | None]:
            """Add to the delays, not to those that are NULL; the flight said to be on time has none."""
            pairs = zip(delays.to_pylist(), added, self._changed, strict=True)
            return [None if d is None else 0 if i in on_time else d + a for d, a, i in pairs]

        return self._correct(rows, other(rows["dep_delay"]), other(rows["arr_delay"]))

    def _cancel(self, _: Longest) -> FlightChange:
        ids = [i for i in self._cancelled if i not in self._changed]
        return self._correct(self._rows(ids), [None] * len(ids), [None] * len(ids))

    def _withdraw(self, _: Longest) -> FlightChange:
        return FlightChange(
            inserted=pa.concat_tables([c.deleted for c in self._applied]),
            deleted=pa.concat_tables([c.inserted for c in self._applied]),
        )

    def _correct(self, rows: pa.Table, departure: list[int | None], arrival: list[int | None]) -> FlightChange:
        corrected = rows
        for name, values in (("dep_delay", departure), ("arr_delay", arrival)):
            corrected = corrected.set_column(rows.column_names.index(name), name, pa.array(values, pa.int64()))
        self._applied.append(FlightChange(inserted=corrected, deleted=rows))
        return self._applied[-1]

    def _change(self, inserted: pa.Table) -> FlightChange:
        return FlightChange(inserted=inserted, deleted=self._data.flights.slice(0, 0))

    def _rows(self, ids: Sequence[int]) -> pa.Table:
        return self._data.flights.take(pa.array(ids, pa.int64()))
