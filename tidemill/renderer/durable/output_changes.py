"""What outputs changed in a step, as it stands in the frame of the step: by value, for readers in any process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import int64_array, numbers_of
from tidemill.boundary.results import Updates, parts_of
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.frames import arrow_stream
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.kernels.updates import UpdateArray

Listing: TypeAlias = "Mapping[str, Sequence[Any]]"
"""For each output that changed its parts: from which frontier to which one, and how many updates."""


@attrs.frozen
class OutputShapes:
    """The coordinates of time and the outputs' columns, as a state says them to who does not have the dataflow."""

    coordinates: tuple[str, ...]
    schemas: Mapping[str, Schema]

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Return those of a dataflow."""
        return cls(tuple(graph.coordinates), {name: node.schema for name, node in graph.outputs.items()})

    def text(self) -> dict[str, Any]:
        """Return what is to be written down."""
        columns = {n: [[f.name, str(f.dtype), f.nullable] for f in schema] for n, schema in self.schemas.items()}
        return {"coordinates": self.coordinates, "schemas": columns}

    @classmethod
    def read(cls, text: Mapping[str, Any]) -> Self:
        """Return what was written down."""
        schemas = {
            name: Schema.of([(c, dtype if nullable else f"{dtype} not null") for c, dtype, nullable in columns])
            for name, columns in text["schemas"].items()
        }
        return cls(tuple(text["coordinates"]), schemas)

    def updates(self, output: str, array: Any, lower: Sequence[Any], upper: Sequence[Any]) -> Updates:
        """Return changes of an output that were packed."""
        schema, width = self.schemas[output], len(self.coordinates)
        with pa.ipc.open_stream(pa.py_buffer(array)) as reader:
            table = reader.read_all().combine_chunks()
        columns = [c.chunk(0) if c.num_chunks else pa.nulls(0, c.type) for c in table.columns]
        numbers = [numbers_of(c) for c in columns[len(schema) :]]
        times = np.array(numbers[:width], np.int64).reshape(width, len(table))
        frontiers = (Antichain(tuple(t) for t in f) for f in (lower, upper))
        return Updates(schema, self.coordinates, columns[: len(schema)], times, numbers[-1], *frontiers)


def packed(updates: Updates) -> Any:
    """Return changes as bytes, in Arrow's stream format: the columns, the times, the diffs."""
    table, times, diffs = parts_of(updates)
    columns = [*table.columns, *map(int64_array, times), int64_array(diffs)]
    return arrow_stream(pa.Table.from_arrays(columns, names=[str(i) for i in range(len(columns))]))


class StepChanges:
    """The changes of a run's outputs in the step at hand; in those of the first, what they held before it."""

    def __init__(self, executor: EmbeddedExecutor, *, is_begun: bool) -> None:
        self._executor = executor
        self._outputs = executor.graph.outputs
        self._at_start = {} if is_begun or not executor.compiled.eager else self._held()
        """What outputs hold before the first step, by their names; nothing once that is taken."""
        for operator in executor.compiled.outputs.values():
            operator.is_recorded = True

    def begin_with(self, blocks: Mapping[str, UpdateArray | None]) -> None:
        """Have what outputs changed by from one version of the dataflow to this one among those of the next step."""
        least = Antichain.minimum(len(self._executor.graph.coordinates))
        for name, block in blocks.items():
            if block is not None:
                node = self._outputs[name]
                upper = self._executor.compiled.outputs[node].frontier.upper
                self._at_start[name] = self._executor.updates(node.schema, block, least, upper)

    def of(self, name: str) -> list[Updates]:
        """Return those of an output, if there are any."""
        updates = self._executor.step_updates(self._outputs[name])
        return [part for part in (self._at_start.get(name), updates) if part is not None and len(part)]

    def record(self, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return those of some outputs for the frame of the step: what there is, and arrays."""
        parts = {name: found for name in names if (found := self.of(name))}
        listing = {n: [[p.lower.elements, p.upper.elements, len(p)] for p in found] for n, found in parts.items()}
        arrays = {array_name(n, i): packed(part) for n, found in parts.items() for i, part in enumerate(found)}
        return listing, arrays

    def frontiers(self) -> dict[str, Any]:
        """Return up to where outputs are complete once the step at hand is taken."""
        return {n: self._executor.compiled.outputs[o].frontier.upper.elements for n, o in self._outputs.items()}

    def committed(self) -> None:
        """Take note that the step was taken."""
        self._at_start = {}

    def _held(self) -> dict[str, Updates]:
        """Return all updates that outputs hold, by the outputs' names."""
        compiled, found = self._executor.compiled, dict[str, Updates]()
        least = Antichain.minimum(len(self._executor.graph.coordinates))
        for name, node in self._outputs.items():
            output = compiled.outputs[node]
            block = output.spine.all_updates()
            found[name] = self._executor.updates(node.schema, block, least, output.frontier.upper)
        return found


def array_name(output: str, part: int) -> str:
    """Return what the array of some changes is called in a frame."""
    return f"changes/{part}/{output}"
