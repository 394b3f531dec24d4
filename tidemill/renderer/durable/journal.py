"""What was put into a run since its last commit, by value; and what is to be queued again of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidemill.boundary.results import arrow_columns
from tidemill.boundary.rows import Batch
from tidemill.dataflow.nodes import Input
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.frames import arrow_stream, columns_stream
from tidemill.renderer.durable.large_changes import LargeChange
from tidemill.renderer.runs.writes import Change, Queued, Writes, keys_of

Event: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""A line, and its arrays by name: rows in Arrow's stream format; times, diffs and puts, unless all have the same."""


class Journal:
    """Events in their order."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    @property
    def rows(self) -> int:
        """How many rows the events have."""
        return sum([event["rows"] for event, _ in self._events])

    def queued(self, node: Input, change: Change) -> None:
        """Take down what was queued at an input. Rows are copied: the giver may change its memory afterwards."""
        if isinstance(change, LargeChange):  # is in files already
            self._events.append(({"kind": "large", "rows": change.rows, **change.listing()}, {}))
            return
        event: dict[str, Any] = {"input": node.name, "rows": len(change)}
        if isinstance(change, Writes):
            event["kind"] = "written"
            batches: dict[str, tuple[Schema, Batch]] = {
                "put": (node.schema, change.rows),
                "deleted": (keys_of(node), change.deleted),
            }
            of_rows: dict[str, Any] = {"times": change.times, "puts": change.kinds}
        else:
            assert isinstance(change, Queued)
            event["kind"] = "queued"
            batches = {"batch": (node.schema, change.batch)}
            of_rows = {"times": change.times, "diffs": change.diffs}
        arrays = {name: _packed(schema, batch) for name, (schema, batch) in batches.items() if len(batch)}
        for name, value in of_rows.items():  # for all rows, or a list of one for each
            if isinstance(value, list):
                arrays[name] = np.array(value, np.int64)
            else:
                event[name] = value
        self._events.append((event, arrays))

    def discarded(self) -> None:
        """Take down that all that was queued was forgotten."""
        self._events = [({"kind": "discarded", "rows": 0}, {})]

    def clear(self) -> None:
        """Begin anew: what was taken down is committed."""
        self._events = []

    def mark(self) -> list[Event]:
        """Return what is held now, to go back to."""
        return self._events[:]

    def rewind(self, mark: list[Event]) -> None:
        """Hold what was held then."""
        self._events = mark

    def record(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the events and their arrays, by the place of the event and their name."""
        named = {f"{i}/{name}": array for i, (_, of) in enumerate(self._events) for name, array in of.items()}
        return [event for event, _ in self._events], named


def replayed(
    events: Sequence[Mapping[str, Any]], arrays: Mapping[str, Any], inputs: Mapping[str, Input]
) -> Iterator[tuple[Input, Change] | None]:
    """Give what a journal held, to be queued again; None where all that was queued was forgotten."""
    of_event: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for key, array in arrays.items():
        number, _, name = key.partition("/")
        of_event[number][name] = array
    for i, event in enumerate(events):
        if event["kind"] == "discarded":
            yield None
        elif event["input"] not in inputs:  # of a version of the dataflow before this one
            continue
        elif event["kind"] == "large":
            yield inputs[event["input"]], LargeChange.of(event, inputs)
        else:
            node = inputs[event["input"]]
            yield node, _change(node, event, of_event[str(i)])


def _change(node: Input, event: Mapping[str, Any], arrays: Mapping[str, Any]) -> Queued | Writes:
    times = tuple(event["times"]) if "times" in event else [tuple(t) for t in arrays["times"].tolist()]
    if event["kind"] == "queued":
        diffs = event["diffs"] if "diffs" in event else arrays["diffs"].tolist()
        return Queued(_unpacked(node.schema, event["rows"], arrays["batch"]), times, diffs)
    rows = _unpacked(node.schema, 0, arrays["put"]) if "put" in arrays else []
    deleted = _unpacked(keys_of(node), 0, arrays["deleted"]) if "deleted" in arrays else []
    kinds = int(event["puts"]) if "puts" in event else arrays["puts"].tolist()
    return Writes(rows, deleted, kinds, times)


def _packed(schema: Schema, batch: Batch) -> Any:
    return (
        columns_stream(arrow_columns(schema, batch), schema.names) if isinstance(batch, list) else arrow_stream(batch)
    )


def _unpacked(schema: Schema, count: int, packed: Any) -> Batch:
    if not len(schema):
        return [()] * count  # a table without columns has no rows either
    with pa.ipc.open_stream(pa.py_buffer(packed)) as reader:
        table = reader.read_all().combine_chunks()
    if tuple(table.column_names) == schema.names:
        return table
    there = set(table.column_names)  # those of a version of the dataflow before this one: what is new is NULL
    columns = [
        table.column(f.name) if f.name in there else pa.nulls(len(table), f.dtype.arrow).cast(f.dtype.arrow)
        for f in schema
    ]
    return pa.table(columns, names=list(schema.names))
