"""What a workload is: tables to load, one-row changes to them, and one question in the words of each engine."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

SEED = 20240229

Tables = Mapping[str, pa.Table]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """Rows put into a table (sign +1) or taken from it (-1): tuples where they are few, else an Arrow table."""

    table: str
    rows: list[Row] | pa.Table
    sign: int


class NotSupportedError(Exception):
    """Raised where an engine, in this version, cannot say what the workload asks."""


class Workload(abc.ABC):
    """Data and changes from fixed seeds, so that every engine, in whatever process, sees the same."""

    name: ClassVar[str]
    title: ClassVar[str]
    inputs: ClassVar[Mapping[str, Mapping[str, str]]]
    """The columns of the tables, with their types."""
    query: ClassVar[str]
    """The question in SQL, as DuckDB answers it fastest: the alternatives tried are named in the workload's file."""
    queries: ClassVar[Mapping[str, str]] = {}
    """The questions by output, where there are several."""
    threads: ClassVar[int] = 2
    """How many DuckDB may use."""
    on_one_thread_too: ClassVar[bool] = False
    """Whether DuckDB is measured with one thread as well, as ``duckdb1``."""
    unique: ClassVar[Mapping[str, str]] = {}
    """Columns of tables by which DuckDB finds rows to delete: all rows with a value go that one of them has."""
    key: ClassVar[str | None] = None
    """The key of the table, where rows that come replace those of their key."""
    watermark: ClassVar[Any] = None
    without_pathway: ClassVar[str] = "measured against DuckDB alone"
    """Why it is not measured with Pathway, where it is not."""

    def __init__(self, scale: float = 1) -> None:
        self.scale = scale

    @property
    def asked(self) -> Mapping[str, str]:
        """The questions in SQL, by output."""
        return self.queries or {"answer": self.query}

    @abc.abstractmethod
    def tables(self) -> Tables:
        """Return what is loaded before the epochs."""

    @abc.abstractmethod
    def changes(self, tables: Tables) -> Iterator[Change]:
        """Yield changes of one row each, one an epoch, without end."""

    def steps(self, tables: Tables) -> Iterator[list[Change]]:
        """Yield the changes of each epoch."""
        return ([change] for change in self.changes(tables))

    def tidemill(self, tm: Any) -> Any:
        """Return the question as a dataflow, with an input for each table and an output for each question."""
        flow = tm.Dataflow(self.name)
        given = {
            name: flow.input(name, columns, key=self.key, watermark=self.watermark)
            for name, columns in self.inputs.items()
        }
        found = self.answer(tm, **given)
        for name, rows in (found if self.queries else {"answer": found}).items():
            flow.output(name, rows)
        return flow

    @abc.abstractmethod
    def answer(self, tm: Any, **tables: Any) -> Any:
        """Return the answer as a collection, or the answers by output."""

    def pathway(self, pw: Any, tables: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Return the question as a Pathway table with the columns of the answer and no others."""
        raise NotSupportedError(self.without_pathway)


def rows_of(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """Return a table as tuples."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
