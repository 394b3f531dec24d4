"""What outputs changed in a step, as it stands in the frame of the step: by value, for readers in any process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import int64_array, numbers_of
from tidemill.boundary.results import Updates
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.frames import columns_stream
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.kernels.codec import Interner, decode
from tidemill.renderer.embedded.kernels.updates import UpdateArray


@attrs.frozen
class OutputShapes:
    """The coordinates of time and the outputs' columns, as a state says them to who does not have the dataflow."""

    coordinates: tuple[str, ...]
    schemas: Mapping[str, Schema]
    changes: Mapping[str, bool | int] = attrs.field(factory=dict)
    """Which changes outputs keep, as the user said."""

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Return those of a dataflow."""
        outputs = graph.outputs
        schemas, changes = ({n: getattr(o, of) for n, o in outputs.items()} for of in ("schema", "changes"))
        return cls(tuple(graph.coordinates), schemas, changes)

    def text(self) -> dict[str, Any]:
        """Return what is to be written down."""
        columns = {n: [[f.name, str(f.dtype), f.nullable] for f in schema] for n, schema in self.schemas.items()}
        return {"coordinates": self.coordinates, "schemas": columns, "changes": dict(self.changes)}

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


def packed(schema: Schema, block: UpdateArray, interner: Interner) -> Any:
    """Return changes as bytes, in Arrow's stream format: the columns, the times, the diffs."""
    k = len(schema)
    columns = [*decode(schema, block[:k], interner), *map(int64_array, block[k:])]
    return columns_stream(columns, [str(i) for i in range(len(columns))])


Part: TypeAlias = tuple[Antichain, Antichain, UpdateArray]
"""Changes of an output, from one frontier to another."""


class StepChanges:
    """The changes of a run's outputs in the step at hand; in those of the first, what they held before it."""

    def __init__(self, executor: EmbeddedExecutor, *, is_begun: bool) -> None:
        self._executor = executor
        self._outputs = executor.graph.outputs
        self._at_start: dict[str, Part] = {}
        """What outputs hold before the first step, by their names; nothing once that is taken."""
        if executor.compiled.eager and not is_begun:
            held = {name: executor.compiled.outputs[node].spine for name, node in self._outputs.items()}
            self.begin_with({name: spine.all_updates() for name, spine in held.items()})
        for operator in executor.compiled.outputs.values():
            operator.is_recorded = True

    def begin_with(self, blocks: Mapping[str, UpdateArray | None]) -> None:
        """Have what outputs hold, or changed by from one version of the dataflow to this one, in the next step's."""
        least = Antichain.minimum(len(self._executor.graph.coordinates))
        for name, block in blocks.items():
            if block is not None:
                upper = self._executor.compiled.outputs[self._outputs[name]].frontier.upper
                self._at_start[name] = least, upper, block

    def of(self, name: str) -> list[Updates]:
        """Return those of an output, if there are any."""
        schema = self._outputs[name].schema
        return [self._executor.updates(schema, block, lower, upper) for lower, upper, block in self._parts(name)]

    def record(self, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return those of some outputs for the frame of the step: what there is, and arrays."""
        listing, arrays, interner = dict[str, Any](), dict[str, Any](), self._executor.compiled.interner
        for name in names:
            for lower, upper, block in self._parts(name):
                parts = listing.setdefault(name, [])
                arrays[array_name(name, len(parts))] = packed(self._outputs[name].schema, block, interner)
                parts.append([lower.elements, upper.elements, block.shape[1]])
        return listing, arrays

    def frontiers(self) -> dict[str, Any]:
        """Return up to where outputs are complete once the step at hand is taken."""
        return {n: self._executor.compiled.outputs[o].frontier.upper.elements for n, o in self._outputs.items()}

    def committed(self) -> None:
        """Take note that the step was taken."""
        self._at_start = {}

    def _parts(self, name: str) -> list[Part]:
        operator = self._executor.compiled.outputs[self._outputs[name]]
        step = operator.frontier.lower, operator.frontier.upper, operator.step_updates()
        return [part for part in (self._at_start.get(name), step) if part is not None and part[2].shape[1]]


def array_name(output: str, part: int) -> str:
    """Return what the array of some changes is called in a frame."""
    return f"changes/{part}/{output}"
