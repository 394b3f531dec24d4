"""Sums and SQL's set operations of collections with the same columns, which go by name."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.collections.builder import Builder, either_nullable, same_schema
from tidemill.dataflow.composites import SetOperation
from tidemill.dataflow.nodes import Concat, Node
from tidemill.expressions.schema import Schema


def aligned(builder: Builder, node: Node, schema: Schema, what: str) -> Node:
    """Return the rows with columns in the order of a schema that must otherwise agree; ``what`` is for the error."""
    if node.schema.names != schema.names and set(node.schema.names) == set(schema.names):
        node = builder.pick(node, schema.names)
    same_schema(node.schema, schema, what)
    return node


def concat(builder: Builder, first: Node, others: Sequence[Node]) -> Node:
    """Return the sum of collections, in the first one's order of columns."""
    nodes = [first, *(aligned(builder, other, first.schema, "concat") for other in others)]
    schema = first.schema
    for node in nodes[1:]:
        schema = either_nullable(schema, node.schema)
    return builder.add(Concat, *nodes, schema=schema)


def set_operation(builder: Builder, operation: str, left: Node, right: Node) -> Node:
    """Return ``except_all``, ``except_distinct`` or ``intersect`` of two collections."""
    right = aligned(builder, right, left.schema, operation)
    schema = either_nullable(left.schema, right.schema) if operation == "except_all" else left.schema
    return builder.add(SetOperation, left, right, schema=schema, operation=operation)
