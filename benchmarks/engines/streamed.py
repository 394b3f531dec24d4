"""Pathway, streaming: a step sends a row through a Python connector, commits, and waits for the output's callback.

Measured from before the row is handed to the connector to when the callback has all changes of that epoch. Pathway
makes no call for an epoch that changes nothing, so a *tick* travels with the change: a row that is filtered off at the
input and joined to the output, and so arrives when the epoch is complete there. All tables share one connector, so
that an epoch is one commit (``autocommit_duration_ms=None``: no others), and are told apart by a filter. Loading goes
the same way, a row at a time. The callback keeps what it is given in a list. A row is deleted by a number of its own,
which is looked up beforehand, not measured.
"""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import count
from typing import Any

import pathway as pw
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workload import Change, Row, Tables, Workload, rows_of

_PYTHON_TYPES = {pa.int64(): int, pa.string(): str, pa.large_string(): str, pa.timestamp("us"): pw.DateTimeNaive}
_TICK = "tick"


class Subject(pw.io.python.ConnectorSubject):
    """An input fed from outside."""

    _deletions_enabled = True  # Pathway would look for deletions in `run`

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()

    def run(self) -> None:
        self.ended.wait()


class Streamed:
    version = pw.__version__

    def __init__(self, workload: Workload) -> None:
        logging.disable(logging.WARNING)
        self.workload = workload
        self.subject = Subject()
        self.inserted: dict[tuple[str, Row], list[int]] = defaultdict(list)
        self.deleted: set[int] = set()
        self.awaited = self.ticked = 0
        self.seen: list[tuple[dict[str, Any], bool]] = []
        self.arrived = threading.Event()

    def load(self, tables: Tables) -> None:
        self.columns = {name: table.column_names for name, table in tables.items()}
        self.blank = {f.name: None for table in tables.values() for f in table.schema}
        self._subscribe(tables)
        level = pw.MonitoringLevel.NONE
        self.thread = threading.Thread(target=pw.run, kwargs={"monitoring_level": level}, daemon=True)
        self.thread.start()
        self.loaded: dict[str, tuple[pa.Table, int]] = {}
        first = 1
        for name, table in tables.items():
            self.loaded[name] = table, first
            self._send(name, zip(count(first), _tuples(table), strict=False), self.subject.next)
            first += len(table)
        self.numbers = count(first)
        self._commit()

    def _subscribe(self, tables: Tables) -> None:
        types = {f.name: _PYTHON_TYPES[f.type] | None for table in tables.values() for f in table.schema}
        columns = {"id_": pw.column_definition(primary_key=True, dtype=int), "table_": pw.column_definition(dtype=str)}
        columns |= {name: pw.column_definition(dtype=dtype) for name, dtype in types.items()}
        source = pw.io.python.read(self.subject, schema=pw.schema_builder(columns), autocommit_duration_ms=None)
        sources = {}
        for name in tables:
            rows = source.filter(pw.this.table_ == name)
            sources[name] = rows.select(**{c: pw.unwrap(rows[c]) for c in self.columns[name]})
        answer = self.workload.pathway(pw, sources)
        self.answered = answer.column_names()
        ticks = source.filter(pw.this.table_ == _TICK).select(**dict.fromkeys(self.answered), tick=pw.this.id_)
        parts = [t.update_id_type(pw.Pointer) for t in (answer.with_columns(tick=0), ticks)]
        pw.universes.promise_are_pairwise_disjoint(*parts)
        pw.io.subscribe(parts[0].concat(parts[1]), on_change=self._on_change, on_time_end=self._on_time_end)

    def _on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002
        if row["tick"]:
            self.ticked = row["tick"]
        else:
            self.seen.append((row, is_addition))

    def _on_time_end(self, time: int) -> None:  # noqa: ARG002
        if self.ticked == self.awaited:
            self.arrived.set()

    def _send(self, table: str, rows: Iterable[tuple[int, Row]], put: Any) -> None:
        names = self.columns[table]
        for number, row in rows:
            put(**{**self.blank, "id_": number, "table_": table, **dict(zip(names, row, strict=True))})

    def _commit(self) -> None:
        self.arrived.clear()
        self.awaited -= 1
        self.subject.next(**{**self.blank, "id_": self.awaited, "table_": _TICK})
        self.subject.commit()
        self.arrived.wait()

    def prepare(self, changes: list[Change]) -> None:
        """Give the rows their numbers: new ones to those that come, their own to those that go."""
        self.sending = []
        for change in changes:
            number = self._new if change.sign > 0 else self._old
            put = self.subject.next if change.sign > 0 else self.subject.delete
            self.sending.append((change.table, [(number(change.table, row), row) for row in change.rows], put))

    def _new(self, table: str, row: Row) -> int:
        number = next(self.numbers)
        self.inserted[table, row].append(number)
        return number

    def _old(self, table: str, row: Row) -> int:
        if self.inserted[table, row]:
            return self.inserted[table, row].pop()
        loaded, first = self.loaded[table]
        same = reduce(pc.and_, (pc.equal(column, value) for column, value in zip(loaded.columns, row, strict=True)))
        places = pc.indices_nonzero(same).to_pylist()
        number = next(first + place for place in places if first + place not in self.deleted)
        self.deleted.add(number)
        return number

    def step(self, changes: list[Change]) -> None:  # noqa: ARG002 - they are prepared
        for table, rows, put in self.sending:
            self._send(table, rows, put)
        self._commit()

    def read(self) -> None:
        """Do nothing: the callback has been given the changes already."""

    def contents(self) -> list[Row]:
        counts: Counter[Row] = Counter()
        for row, is_addition in self.seen:
            counts[tuple(row[c] for c in self.answered)] += 1 if is_addition else -1
        return list(counts.elements())

    def state_rows(self) -> None:
        return None

    def answer_rows(self) -> None:
        return None

    def close(self) -> None:
        self.subject.ended.set()
        self.thread.join(timeout=10)


def _tuples(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table, not all in memory at once."""
    for batch in table.to_batches(max_chunksize=10_000):
        yield from rows_of(batch)


engine = Streamed
