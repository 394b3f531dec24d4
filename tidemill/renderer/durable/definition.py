"""What the state in a folder is of: what each operator computes, what inputs and outputs look like, where these are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import attrs

from tidemill.dataflow.operator_prints import OperatorPrints
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.schedule import Operator
from tidemill.renderer.embedded.state import operators_of

Columns = tuple[tuple[str, str, bool], ...]
"""The name, the type and whether it may be NULL, of each column."""
_PARTS = {0.25: "contents of ", 0.5: "check of "}
"""Operators that stand beside that of an input."""


@attrs.frozen
class InputDefinition:
    """What an input looks like, and where what it holds is found."""

    place: str
    columns: Columns
    key: tuple[int, ...]
    holder: str | None
    """The place of the operator that holds it; None where nothing does."""


@attrs.frozen
class StateDefinition:
    """Operators by their places, which are their names in saved state."""

    keys: Mapping[str, str]
    """The print of each: see `operator_prints`. Of several with one print, which hold the same, each has a number."""
    titles_by: Callable[[], Mapping[str, str]]
    """Gives what people call those that hold anything: some SQL is printed for that."""
    functions: Mapping[str, Any]
    inputs: Mapping[str, InputDefinition]
    outputs: Mapping[str, tuple[str, Columns]]
    """Of each output its place and its columns."""

    @classmethod
    def of(cls, compiled: Compiled, prints: OperatorPrints) -> Self:
        """Return that of operators that were made."""
        seen: Counter[str] = Counter()
        keys, operators = dict[str, str](), sorted(operators_of(compiled.root), key=lambda o: o.place)
        for operator in operators:
            key = _part(operator) + prints.keys[operator.node]
            seen[key] += 1
            keys[str(operator.place)] = f"{key} {seen[key]}" if seen[key] > 1 else key
        inputs = {
            name: InputDefinition(str(node.id), _columns(node.schema), node.key, _place_of(compiled.holders.get(node)))
            for name, node in compiled.graph.inputs.items()
        }
        outputs = {name: (str(node.id), _columns(node.schema)) for name, node in compiled.graph.outputs.items()}
        return cls(keys, partial(_titles, operators), prints.functions, inputs, outputs)

    @classmethod
    def listed(cls, listing: Mapping[str, Any]) -> Self:
        """Return what was written down."""
        inputs = {
            name: InputDefinition(one["place"], _listed(one["columns"]), tuple(one["key"]), one["holder"])
            for name, one in listing["inputs"].items()
        }
        outputs = {name: (place, _listed(columns)) for name, (place, columns) in listing["outputs"].items()}
        return cls(listing["keys"], lambda: listing["titles"], listing["functions"], inputs, outputs)

    def listing(self) -> dict[str, Any]:
        """Return what is to be written down."""
        listing = attrs.asdict(self)
        del listing["titles_by"]
        return {**listing, "titles": self.titles_by()}

    def is_same(self, other: StateDefinition) -> bool:
        """Return whether it is of the same operators at the same places, and looks the same from outside."""
        return (self.keys, self.inputs, self.outputs) == (other.keys, other.inputs, other.outputs)

    @property
    def kept(self) -> list[str]:
        """The inputs whose contents are held."""
        return [name for name, one in self.inputs.items() if one.holder is not None]

    def places_in(self, before: StateDefinition) -> dict[str, str]:
        """Return, for each operator that was there before, its place here and there."""
        there = {key: place for place, key in before.keys.items()}
        return {place: there[key] for place, key in self.keys.items() if key in there}


def _part(operator: Operator) -> str:
    return _PARTS.get(operator.place - operator.node.id, "")


def _titles(operators: Sequence[Operator]) -> dict[str, str]:
    holding = [(operator, operator.node) for operator in operators if operator.spines()]
    said = {operator: f" [{said}]" if (said := node.describe()) else "" for operator, node in holding}
    return {str(o.place): f"{_part(o)}{node.kind} {node.name!r}{said[o]}" for o, node in holding}


def _place_of(operator: Operator | None) -> str | None:
    return None if operator is None else str(operator.place)


def _columns(schema: Schema) -> Columns:
    return tuple((field.name, str(field.dtype), field.nullable) for field in schema)


def _listed(columns: Any) -> Columns:
    return tuple((name, dtype, nullable) for name, dtype, nullable in columns)
