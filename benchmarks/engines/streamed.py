"""Pathway, streaming: a step sends rows through Python connectors, commits, and waits for the output's callback.

Measured from before the row is handed to the connector to when the callback has all changes of that epoch. Pathway makes
no call for an epoch that changes nothing, so a *tick* travels with the change: a row that is filtered off at the input
and joined to the output, and so arrives when the epoch is complete there. All inputs commit each epoch, as Pathway's
frontier waits for each; none commits by itself (``autocommit_duration_ms=None``). Loading goes through the same
connectors, a row at a time.
"""

import logging
import threading
from collections import Counter, defaultdict
from itertools import count
from typing import Any

import pathway as pw
import pyarrow as pa

from benchmarks.workload import Change, Row, Tables, Workload, rows_of

_PYTHON_TYPES = {pa.int64(): int, pa.string(): str, pa.large_string(): str}


class Subject(pw.io.python.ConnectorSubject):
    """An input fed from outside: by default Pathway looks into `run` for whether rows are ever deleted."""

    _deletions_enabled = True

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
        self.subjects: dict[str, Subject] = {}
        self.identities: dict[str, dict[Row, list[int]]] = {}
        self.numbers, self.ticks = count(1), count(1)
        self.seen: list[tuple[dict[str, Any], bool]] = []
        self.arrived = threading.Event()

    def load(self, tables: Tables) -> None:
        self.columns = {name: table.column_names for name, table in tables.items()}
        self._start(tables)
        for name, table in tables.items():
            self._insert(name, rows_of(table))
        self._commit(next(iter(tables)))

    def _start(self, tables: Tables) -> None:
        sources, ticks = {}, []
        for name, table in tables.items():
            self.subjects[name], self.identities[name] = Subject(), defaultdict(list)
            columns = {f.name: pw.column_definition(dtype=_PYTHON_TYPES[f.type] | None) for f in table.schema}
            identity = {"id_": pw.column_definition(primary_key=True, dtype=int)}
            schema = pw.schema_builder({**identity, **columns})
            source = pw.io.python.read(self.subjects[name], schema=schema, autocommit_duration_ms=None)
            ticks.append(source.filter(pw.this.id_ < 0))
            rows = source.filter(pw.this.id_ > 0)
            sources[name] = rows.select(**{c: pw.unwrap(rows[c]) for c in columns})
        answer = self.workload.pathway(pw, sources)
        self.answered = answer.column_names()
        blank = dict.fromkeys(self.answered)
        parts = [answer.with_columns(tick=0), *(t.select(**blank, tick=pw.this.id_) for t in ticks)]
        pw.universes.promise_are_pairwise_disjoint(*parts)
        pw.io.subscribe(parts[0].concat(*parts[1:]), on_change=self._on_change, on_time_end=self._on_time_end)
        level = pw.MonitoringLevel.NONE
        self.thread = threading.Thread(target=pw.run, kwargs={"monitoring_level": level}, daemon=True)
        self.thread.start()

    def _on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002
        if row["tick"]:
            self.ticked = row["tick"]
        else:
            self.seen.append((row, is_addition))

    def _on_time_end(self, time: int) -> None:  # noqa: ARG002
        if self.ticked == self.awaited:
            self.arrived.set()

    def _insert(self, name: str, rows: list[Row]) -> None:
        put, names, identities = self.subjects[name].next, self.columns[name], self.identities[name]
        for row, number in zip(rows, self.numbers, strict=False):
            identities[row].append(number)
            put(id_=number, **dict(zip(names, row, strict=True)))

    def _commit(self, ticking: str) -> None:
        self.arrived.clear()
        self.ticked, self.awaited = 0, -next(self.ticks)
        self.subjects[ticking].next(id_=self.awaited, **dict.fromkeys(self.columns[ticking]))
        for subject in self.subjects.values():
            subject.commit()
        self.arrived.wait()

    def prepare(self, changes: list[Change]) -> None:
        pass

    def step(self, changes: list[Change]) -> None:
        for change in changes:
            if change.sign > 0:
                self._insert(change.table, change.rows)
                continue
            for row in change.rows:
                number = self.identities[change.table][row].pop()
                self.subjects[change.table].delete(id_=number, **dict(zip(self.columns[change.table], row, strict=True)))
        self._commit(changes[0].table)

    def read(self) -> None:
        """The callback has been given the changes already."""

    def contents(self) -> list[Row]:
        counts: Counter[Row] = Counter()
        for row, is_addition in self.seen:
            counts[tuple(row[c] for c in self.answered)] += 1 if is_addition else -1
        return list(counts.elements())

    def state_rows(self) -> None:
        return None

    def close(self) -> None:
        for subject in self.subjects.values():
            subject.ended.set()
        self.thread.join(timeout=10)


engine = Streamed
