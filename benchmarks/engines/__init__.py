"""The engines, each in its own module, imported only in the process that measures it."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from benchmarks.workload import Change, Row, Tables, Workload

ENGINES = {
    "tidemill": "benchmarks.engines.embedded",
    "duckdb": "benchmarks.engines.recomputed",
    "duckdb1": "benchmarks.engines.recomputed",
    "duckdb1_other": "benchmarks.engines.recomputed",
    "pathway": "benchmarks.engines.streamed",
}


class Engine(Protocol):
    """What is measured. `step` and `read` together are an epoch: the change is made, and its effect is in hand."""

    version: str

    def load(self, tables: Tables) -> None:
        """Take the tables, and bring the answer up to date where the engine keeps one."""

    def prepare(self, changes: list[Change]) -> None:
        """Do what a user's program would know already. Not measured."""

    def step(self, changes: list[Change]) -> None:
        """Make the changes, as one epoch."""

    def read(self) -> Any:
        """Return what the last step did to the answer, or the whole answer, as the engine has it."""

    def contents(self) -> list[Row]:
        """Return the answer as tuples, in any order."""

    def state_rows(self) -> int | None:
        """Return how many rows the engine keeps, where it says so."""

    def answer_rows(self) -> int | None:
        """Return how many of these are the answer, kept for whoever reads it."""

    def close(self) -> None:
        """Release everything."""


def engine_for(name: str, workload: Workload) -> Engine:
    """Return a fresh engine for a workload."""
    threads = {"threads": 1} if name.startswith("duckdb1") else {}
    found: Engine = import_module(ENGINES[name]).engine(workload, **threads)
    return found
