"""The play: loads the history, plays the epochs, measures them, and computes everything anew now and then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs

import tidemill as tm
from tidemill.demo.check import Check, Contents
from tidemill.demo.data import Data
from tidemill.demo.history import rendered
from tidemill.demo.script import Epoch, FlightChange, Script
from tidemill.demo.sql import Warehouse
from tidemill.renderer.runs.run import Engine, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@attrs.frozen
class Played:
    """What one epoch did and what it cost.

    ``changed`` counts the updates of each output, ``longest`` has the rows of the longest chain afterwards. ``scratch``
    and ``duckdb`` are the seconds it took to compute everything anew, where that was done.
    """

    label: str
    inserted: int
    deleted: int
    changed: dict[str, int]
    longest: list[tuple[Any, ...]]
    seconds: float
    scratch: float | None = None
    duckdb: float | None = None


class Play:
    """A run of the demo's dataflow and, beside it, the same flights in DuckDB."""

    def __init__(self, flow: tm.Dataflow, data: Data, script: Script, engine: Engine | None, anew: int) -> None:
        self.check = Check()
        self.epochs = script.epochs()
        self.anew = {round((len(self.epochs) - 1) * (i + 1) / anew) for i in range(anew)}
        self._flow = flow
        self._dimensions = data.dimensions
        self._history = script.history
        self._run = flow.start(engine)
        self._warehouse = Warehouse({"flights": script.history, **data.dimensions})
        self._changes: list[FlightChange] = []
        self._updates: dict[str, Contents] = {name: Counter() for name in flow.graph.outputs}
        """The changes of each output that were reported, as diffs by row and time."""

    def load(self) -> Played:
        """Load the history as epoch 0."""
        start = time.perf_counter()
        _insert(self._run, self._dimensions)
        return self._advanced("history", FlightChange(self._history, self._history.slice(0, 0)), start)

    def play(self, played: Played, step: Callable[[str], None]) -> Iterable[Played]:
        """Play the epochs after the history; ``step`` is told of each, and of each recomputation, as it begins."""
        for number, epoch in enumerate(self.epochs):
            step(epoch.label)
            played = self._epoch(epoch, played)
            if number in self.anew:
                step("computing everything anew")
                scratch, duckdb = self._compute_anew(epoch.label)
                played = attrs.evolve(played, scratch=scratch, duckdb=duckdb)
            yield played

    @property
    def threads(self) -> int:
        """How many threads DuckDB computes with."""
        return self._warehouse.threads

    def check_changes(self) -> None:
        """Check that all changes reported since the beginning add up to the results."""
        sums: dict[str, Contents] = {name: Counter() for name in self._updates}
        for name, updates in self._updates.items():
            for (*row, _), diff in updates.items():
                sums[name][tuple(row)] += diff
        sums = {name: Counter({row: n for row, n in c.items() if n}) for name, c in sums.items()}
        self.check.compare("the sum of all changes", self._results(self._run), sums, "the last epoch")

    def check_history(self, spark: SparkSession) -> float:
        """Check that Spark, given the history and all epochs at once, finds the same changes; return its seconds."""
        start = time.perf_counter()
        there = rendered(self._flow, spark, self._dimensions, self._changes)
        seconds = time.perf_counter() - start
        self.check.compare("what Spark makes of all epochs at once", self._updates, there, "all epochs")
        return seconds

    def result(self, name: str) -> list[tuple[Any, ...]]:
        """Return the rows of an output as they are now."""
        return list(self._run.snapshot(name))

    def close(self) -> None:
        """Let go of the state."""
        self._run.close()
        self._warehouse.close()

    def _epoch(self, epoch: Epoch, before: Played) -> Played:
        change = epoch.change([row[:3] for row in before.longest])
        self._warehouse.apply(change)
        return self._advanced(epoch.label, change, time.perf_counter())

    def _advanced(self, label: str, change: FlightChange, start: float) -> Played:
        """Make the change, advance and read what came of it: this is what is timed as an epoch."""
        if len(change.deleted):
            self._run.delete("flights", change.deleted)
        self._run.insert("flights", change.inserted)
        self._run.advance()
        updates = {name: self._run.changes(name) for name in self._updates}
        seconds = time.perf_counter() - start
        self._changes.append(change)
        for name, known in self._updates.items():
            known.update({(*row, at): diff for row, at, diff in updates[name]})
        changed = {name: len(u) for name, u in updates.items()}
        return Played(label, len(change.inserted), len(change.deleted), changed, self.result("longest"), seconds)

    def _compute_anew(self, moment: str) -> tuple[float, float]:
        """Compute everything anew from the current flights, compare, and return the seconds that each way took."""
        tables = {**self._dimensions, "flights": self._warehouse.flights()}
        here = self._results(self._run)
        start = time.perf_counter()
        with self._flow.start() as run:
            _insert(run, tables)
            run.close_inputs()
            scratch = time.perf_counter() - start
            self.check.compare("a recomputation from scratch", here, self._results(run), moment)
        duckdb = self._warehouse.compute()
        self.check.compare("DuckDB", here, {name: self._warehouse.result(name) for name in here}, moment)
        return scratch, duckdb

    def _results(self, run: Run) -> dict[str, Contents]:
        return {name: Counter(run.snapshot(name).counts()) for name in self._updates}


def _insert(run: Run, tables: dict[str, Any]) -> None:
    for name, table in tables.items():
        run.insert(name, table)
