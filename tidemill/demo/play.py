"""The play: loads the history, plays the epochs, measures, and computes everything anew now and then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs

import tidemill as tm
from tidemill.demo.check import Check, Contents
from tidemill.demo.data import Data
from tidemill.demo.script import Change, Script
from tidemill.demo.sql import Warehouse
from tidemill.renderer.run import Engine, Run

__all__ = ["Longest", "Play", "Played"]


@attrs.frozen
class Longest:
    """The longest chain at some time: how many late departures, the aircraft, and the ids of its flights in order."""

    length: int = 0
    tailnum: str = ""
    flights: tuple[int, ...] = ()


@attrs.frozen
class Played:
    """What one epoch did and cost. ``changed`` counts the updates of each output; seconds are None where not measured."""

    label: str
    inserted: int
    deleted: int
    changed: dict[str, int]
    longest: Longest
    seconds: float
    scratch: float | None = None
    duckdb: float | None = None


class Play:
    """A run of the demo's dataflow and, beside it, the same flights in DuckDB."""

    def __init__(self, flow: tm.Dataflow, data: Data, script: Script, engine: Engine | None) -> None:
        self._flow = flow
        self._dimensions = data.dimensions
        self._script = script
        self._run = flow.start(engine)
        self._warehouse = Warehouse({"flights": script.history, **data.dimensions})
        self._sums: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in flow.graph.outputs}
        self.check = Check()

    def load(self) -> Played:
        """Load the history as epoch 0."""
        return self._epoch("history", Change(self._script.history, self._script.history.slice(0, 0)), first=True)

    def steps(self, times: int) -> int:
        """Return how many steps `play` will report."""
        epochs = sum(1 for _ in self._script.epochs())
        return epochs + len(_spread(times, epochs))

    def play(self, times: int, step: Callable[[str], None]) -> list[Played]:
        """Play the epochs, computing everything anew so many times, the last epoch included; ``step`` is told of each."""
        epochs = list(self._script.epochs())
        anew = _spread(times, len(epochs))
        played: list[Played] = []
        longest = self._longest()
        for number, epoch in enumerate(epochs):
            step(epoch.label)
            change = epoch.change(longest.flights)
            self._warehouse.apply(change)
            one = self._epoch(epoch.label, change)
            longest = one.longest
            if number in anew:
                step("recomputing everything")
                scratch, duckdb = self._anew(last=number == len(epochs) - 1)
                one = attrs.evolve(one, scratch=scratch, duckdb=duckdb)
            played.append(one)
        return played

    def result(self, name: str) -> list[tuple[Any, ...]]:
        """Return the rows of an output as they are now."""
        return list(self._run.snapshot(name))

    def close(self) -> None:
        """Let go of the state."""
        self._run.close()
        self._warehouse.close()

    def _epoch(self, label: str, change: Change, *, first: bool = False) -> Played:
        start = time.perf_counter()
        if first:
            _insert(self._run, self._dimensions)
        if len(change.deleted):
            self._run.delete("flights", change.deleted)
        self._run.insert("flights", change.inserted)
        self._run.advance()
        updates = {name: self._run.changes(name) for name in self._sums}
        seconds = time.perf_counter() - start
        for name, sums in self._sums.items():
            for row, _, diff in updates[name]:
                sums[row] += diff
        counts = {name: len(u) for name, u in updates.items()}
        return Played(label, len(change.inserted), len(change.deleted), counts, self._longest(), seconds)

    def _longest(self) -> Longest:
        ids = {row[0]: row for row in self._run.snapshot("longest")}
        return Longest() if not ids else Longest()

    def _anew(self, *, last: bool) -> tuple[float, float]:
        """Compute everything anew on the current flights, compare, and return the seconds of the dataflow and DuckDB."""
        tables = {**self._dimensions, "flights": self._warehouse.flights()}
        with self._flow.start() as run:
            start = time.perf_counter()
            _insert(run, tables)
            run.close_inputs()
            scratch = time.perf_counter() - start
            anew = {name: _contents(run, name) for name in self._sums}
        duckdb = self._warehouse.compute()
        here = {name: _contents(self._run, name) for name in self._sums}
        self.check.compare("a recomputation from scratch", here, anew, last=last)
        self.check.compare("DuckDB", here, {name: self._warehouse.result(name) for name in here}, last=last)
        if last:
            sums = {name: Counter({r: n for r, n in c.items() if n}) for name, c in self._sums.items()}
            self.check.compare("the sum of the changes", here, sums, last=last)
        return scratch, duckdb


def _insert(run: Run, tables: dict[str, Any]) -> None:
    for name, table in tables.items():
        run.insert(name, table)


def _contents(run: Run, name: str) -> Contents:
    return Counter(run.snapshot(name).counts())


def _spread(times: int, epochs: int) -> set[int]:
    """Return so many epochs, evenly spread, the last one always among them."""
    return {round((epochs - 1) * (i + 1) / times) for i in range(times)}
