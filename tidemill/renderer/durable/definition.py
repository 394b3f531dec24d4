"""What the state in a folder is of: what each operator computes, what inputs and outputs look like, where these are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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
    titles: Mapping[str, str]
    """What people call those that hold anything."""
    functions: Mapping[str, Any]
    inputs: Mapping[str, InputDefinition]
    outputs: Mapping[str, tuple[str, Columns]]
    """Of each output its place and its columns."""

    @classmethod
    def of(cls, compiled: Compiled, prints: OperatorPrints) -> Self:
        """Return that of operators that were made."""
        seen: Counter[str] = Counter()
        keys, titles = dict[str, str](), dict[str, str]()
        for operator in sorted(operators_of(compiled.root), key=lambda o: o.place):
            part = _PARTS.get(operator.place - operator.node.id, "")
            key = part + prints.keys[operator.node]
            seen[key] += 1
            place = str(operator.place)
            keys[place] = f"{key} {seen[key]}" if seen[key] > 1 else key
            if operator.spines():
                titles[place] = part + _title(operator)
        inputs = {
            name: InputDefinition(str(node.id), _columns(node.schema), node.key, _place_of(compiled.holders.get(node)))
            for name, node in compiled.graph.inputs.items()
        }
        outputs = {name: (str(node.id), _columns(node.schema)) for name, node in compiled.graph.outputs.items()}
        return cls(keys, titles, prints.functions, inputs, outputs)

    @classmethod
    def listed(cls, listing: Mapping[str, Any]) -> Self:
        """Return what was written down."""
        inputs = {
            name: InputDefinition(one["place"], _listed(one["columns"]), tuple(one["key"]), one["holder"])
            for name, one in listing["inputs"].items()
        }
        outputs = {name: (place, _listed(columns)) for name, (place, columns) in listing["outputs"].items()}
        return cls(listing["keys"], listing["titles"], listing["functions"], inputs, outputs)

    def listing(self) -> dict[str, Any]:
        """Return what is to be written down."""
        return attrs.asdict(self)

    @property
    def kept(self) -> list[str]:
        """The inputs whose contents are held."""
        return [name for name, one in self.inputs.items() if one.holder is not None]

    def places_in(self, before: StateDefinition) -> dict[str, str]:
        """Return, for each operator that was there before, its place here and there."""
        there = {key: place for place, key in before.keys.items()}
        return {place: there[key] for place, key in self.keys.items() if key in there}


def _title(operator: Operator) -> str:
    said = operator.node.describe()
    return f"{operator.node.kind} {operator.node.name!r}" + (f" [{said}]" if said else "")


def _place_of(operator: Operator | None) -> str | None:
    return None if operator is None else str(operator.place)


def _columns(schema: Schema) -> Columns:
    return tuple((field.name, str(field.dtype), field.nullable) for field in schema)


def _listed(columns: Any) -> Columns:
    return tuple((name, dtype, nullable) for name, dtype, nullable in columns)
