"""What was put into a run since its last commit, by value; and putting it in again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np
import pyarrow as pa

from tidemill.collections.results import arrow_table
from tidemill.collections.schema import Schema
from tidemill.collections.validation import Batch, python_rows
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input
from tidemill.renderer.durable.putdown import PutDown
from tidemill.renderer.run import Queued, schema_of
from tidemill.renderer.upserts import Upserts

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Journal", "JournalledUpserts", "Replayed", "replay"]

Row = tuple[Any, ...]
Write = tuple[Time, Row, Row | None]


class Replayed(Protocol):
    """What puts in again what a journal holds."""

    def again_queued(self, name: str, queued: Queued) -> None: ...

    def again_written(self, name: str, writes: list[Write]) -> None: ...

    def again_put_down(self, change: PutDown) -> None: ...

    def again_discarded(self) -> None: ...


class Journal:
    """Events in their order, each a line and some arrays: rows in Arrow's stream format, times and diffs as numbers."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.arrays: list[dict[str, Any]] = []
        self.rows = 0

    def queued(self, node: Input, queued: Queued) -> None:
        """Take down updates to an input. The rows are copied: the giver may change its memory afterwards."""
        event: dict[str, Any] = {"kind": "queued", "input": node.name, "rows": len(queued.batch)}
        arrays = {"batch": _packed(schema_of(node), queued.batch)}
        given: dict[str, Any] = {"times": queued.times, "diffs": queued.diffs}
        for name, value in given.items():
            if isinstance(value, list):
                arrays[name] = np.array(value, np.int64)
            else:
                event[name] = value
        self._add(event, arrays)

    def written(self, upserts: Upserts, name: str, writes: Sequence[Write]) -> None:
        """Take down writes to an input with a key."""
        event = {"kind": "written", "input": name, "rows": len(writes)}
        values = [row for _, _, row in writes if row is not None]
        arrays = {
            "times": np.array([time[0] for time, _, _ in writes], np.int64),
            "keys": _packed(upserts.keys, [key for _, key, _ in writes]),
            "kept": np.array([row is not None for _, _, row in writes], np.bool_),
            "values": _packed(upserts.schema, values),
        }
        self._add(event, arrays)

    def put_down(self, change: PutDown) -> None:
        """Take down a large change, which is in files already."""
        self._add({"kind": "put down", "rows": change.rows, **change.listing()}, {})

    def discarded(self) -> None:
        """Take down that all that waits was forgotten."""
        self.clear()
        self._add({"kind": "discarded", "rows": 0}, {})

    def clear(self) -> None:
        """Begin anew: what was taken down is committed."""
        self.put_back(Mark([], []))

    def mark(self) -> Mark:
        """Return what is held now, to go back to."""
        return Mark(self.events[:], self.arrays[:])

    def put_back(self, mark: Mark) -> None:
        """Hold what was held then."""
        self.events, self.arrays = mark.events, mark.arrays
        self.rows = sum(event["rows"] for event in self.events)

    def record(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the events and their arrays, by the place of the event and their name."""
        named = {f"{i}/{name}": array for i, arrays in enumerate(self.arrays) for name, array in arrays.items()}
        return self.events, named

    def _add(self, event: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.events.append(event)
        self.arrays.append(arrays)
        self.rows += event["rows"]


@attrs.frozen
class Mark:
    """A moment of a journal."""

    events: list[dict[str, Any]]
    arrays: list[dict[str, Any]]


class JournalledUpserts(Upserts):
    """Upserts that are taken down."""

    def __init__(self, node: Input, journal: Journal) -> None:
        super().__init__(node)
        self._name = node.name
        self._journal = journal

    def write(self, writes: list[Write]) -> None:
        super().write(writes)
        if writes:
            self._journal.written(self, self._name, writes)


def replay(
    events: Sequence[Mapping[str, Any]], arrays: Mapping[str, Any], inputs: Mapping[str, Input], into: Replayed
) -> None:
    """Put in again what a journal held."""
    for i, event in enumerate(events):
        if event["kind"] == "discarded":
            into.again_discarded()
            continue
        if event["kind"] == "put down":
            into.again_put_down(PutDown.of(event, inputs))
            continue
        node, of_event = inputs[event["input"]], _Arrays(arrays, i)
        schema: Schema = schema_of(node)
        if event["kind"] == "queued":
            into.again_queued(node.name, _queued(schema, event, of_event))
        else:
            into.again_written(node.name, list(_writes(schema, node, event["rows"], of_event)))


@attrs.frozen
class _Arrays:
    """The arrays of one event."""

    arrays: Mapping[str, Any]
    number: int

    def __getitem__(self, name: str) -> Any:
        return self.arrays[f"{self.number}/{name}"]


def _queued(schema: Schema, event: Mapping[str, Any], arrays: _Arrays) -> Queued:
    times: Time | list[Time]
    times = tuple(event["times"]) if "times" in event else [tuple(t) for t in arrays["times"].tolist()]
    diffs: int | list[int] = event["diffs"] if "diffs" in event else arrays["diffs"].tolist()
    return Queued(_unpacked(schema, event["rows"], arrays["batch"]), times, diffs)


def _writes(schema: Schema, node: Input, count: int, arrays: _Arrays) -> Iterator[Write]:
    kept = arrays["kept"].tolist()
    values = iter(python_rows(_unpacked(schema, sum(kept), arrays["values"])))
    keys = python_rows(_unpacked(schema.project([schema.names[i] for i in node.key]), count, arrays["keys"]))
    for time, key, is_kept in zip(arrays["times"].tolist(), keys, kept, strict=True):
        yield (time,), key, next(values) if is_kept else None


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
