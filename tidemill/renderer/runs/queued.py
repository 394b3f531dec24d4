"""Checked updates on their way to an input."""

from __future__ import annotations

from typing import Protocol

import attrs

from tidemill.boundary.rows import Batch
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Node
from tidemill.expressions.schema import Schema

__all__ = ["Change", "Queued", "schema_of"]


class Change(Protocol):
    """Something checked that is queued at an input: `Queued`, `Writes`, or what an engine has of its own."""

    def __len__(self) -> int: ...


@attrs.frozen
class Queued:
    """Checked updates to an input: one time and diff for all rows, or one for each."""

    batch: Batch
    times: Time | list[Time]
    diffs: int | list[int]

    def __len__(self) -> int:
        return len(self.batch)


def schema_of(node: Node) -> Schema:
    """Return a node's schema, typed: to the graph it is just something with names."""
    schema = node.schema
    assert isinstance(schema, Schema)
    return schema
