"""What was put into a run since its last commit, by value; and what is to be queued again of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.results import arrow_table
from tidemill.boundary.rows import Batch
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.large_changes import LargeChange
from tidemill.renderer.runs.writes import Change, Queued, Writes, keys_of


class Journal:
    """Events in their order, each a line and some arrays: rows in Arrow's stream format, times and diffs as numbers."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.arrays: list[dict[str, Any]] = []
        self.rows = 0

    def queued(self, node: Input, change: Change) -> None:
        """Take down what was queued at an input. Rows are copied: the giver may change its memory afterwards."""
        if isinstance(change, LargeChange):  # is in files already
            self._add({"kind": "large", "rows": change.rows, **change.listing()}, {})
        elif isinstance(change, Writes):
            self._written(node, change)
        else:
            assert isinstance(change, Queued)
            self._updated(node, change)

    def _updated(self, node: Input, queued: Queued) -> None:
        event: dict[str, Any] = {"kind": "queued", "input": node.name, "rows": len(queued.batch)}
        arrays = {"batch": _packed(node.schema, queued.batch)}
        self._add(event, arrays, times=queued.times, diffs=queued.diffs)

    def _written(self, node: Input, writes: Writes) -> None:
        event: dict[str, Any] = {"kind": "written", "input": node.name, "rows": len(writes)}
        arrays = {}
        if len(writes.rows):
            arrays["put"] = _packed(node.schema, writes.rows)
        if len(writes.deleted):
            arrays["deleted"] = _packed(keys_of(node), writes.deleted)
        self._add(event, arrays, times=writes.times, puts=writes.puts)

    def discarded(self) -> None:
        """Take down that all that was queued was forgotten."""
        self.clear()
        self._add({"kind": "discarded", "rows": 0}, {})

    def clear(self) -> None:
        """Begin anew: what was taken down is committed."""
        self.rewind(Mark([], []))

    def mark(self) -> Mark:
        """Return what is held now, to go back to."""
        return Mark(self.events[:], self.arrays[:])

    def rewind(self, mark: Mark) -> None:
        """Hold what was held then."""
        self.events, self.arrays = mark.events, mark.arrays
        self.rows = sum(event["rows"] for event in self.events)

    def record(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the events and their arrays, by the place of the event and their name."""
        named = {f"{i}/{name}": array for i, arrays in enumerate(self.arrays) for name, array in arrays.items()}
        return self.events, named

    def _add(self, event: dict[str, Any], arrays: dict[str, Any], **given: Any) -> None:
        """Take down an event, with what is given for all rows, or as a list for each."""
        for name, value in given.items():
            if isinstance(value, list):
                arrays[name] = np.array(value, np.int64)
            else:
                event[name] = value
        self.events.append(event)
        self.arrays.append(arrays)
        self.rows += event["rows"]


@attrs.frozen
class Mark:
    """A moment of a journal."""

    events: list[dict[str, Any]]
    arrays: list[dict[str, Any]]


def replayed(
    events: Sequence[Mapping[str, Any]], arrays: Mapping[str, Any], inputs: Mapping[str, Input]
) -> Iterator[tuple[Input, Change] | None]:
    """Give what a journal held, to be queued again; None where all that was queued was forgotten."""
    for i, event in enumerate(events):
        if event["kind"] == "discarded":
            yield None
            continue
        node, of_event = inputs[event["input"]], _Arrays(arrays, i)
        if event["kind"] == "large":
            yield node, LargeChange.of(event, inputs)
        elif event["kind"] == "queued":
            yield node, _queued(node.schema, event, of_event)
        else:
            yield node, _writes(node, event, of_event)


@attrs.frozen
class _Arrays:
    """The arrays of one event."""

    arrays: Mapping[str, Any]
    number: int

    def __getitem__(self, name: str) -> Any:
        return self.arrays[f"{self.number}/{name}"]

    def __contains__(self, name: str) -> bool:
        return f"{self.number}/{name}" in self.arrays


def _queued(schema: Schema, event: Mapping[str, Any], arrays: _Arrays) -> Queued:
    diffs: int | list[int] = event["diffs"] if "diffs" in event else arrays["diffs"].tolist()
    return Queued(_unpacked(schema, event["rows"], arrays["batch"]), _times(event, arrays), diffs)


def _writes(node: Input, event: Mapping[str, Any], arrays: _Arrays) -> Writes:
    rows: Batch = _unpacked(node.schema, 0, arrays["put"]) if "put" in arrays else []
    deleted: Batch = _unpacked(keys_of(node), 0, arrays["deleted"]) if "deleted" in arrays else []
    puts: bool | list[bool] = event["puts"] if "puts" in event else arrays["puts"].astype(np.bool_).tolist()
    return Writes(rows, deleted, puts, _times(event, arrays))


def _times(event: Mapping[str, Any], arrays: _Arrays) -> Time | list[Time]:
    return tuple(event["times"]) if "times" in event else [tuple(t) for t in arrays["times"].tolist()]


def _packed(schema: Schema, batch: Batch) -> Any:
    table = arrow_table(schema, batch) if isinstance(batch, list) else batch
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _unpacked(schema: Schema, count: int, packed: Any) -> Batch:
    if not len(schema):
        return [()] * count  # a table without columns has no rows either
    with pa.ipc.open_stream(pa.py_buffer(packed)) as reader:
        return reader.read_all().combine_chunks()
