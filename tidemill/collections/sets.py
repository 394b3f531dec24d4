"""Sums and SQL's set operations of collections with the same columns, which go by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from tidemill.collections.builder import Builder, either_nullable
from tidemill.dataflow.composites import SetOperation
from tidemill.dataflow.nodes import Concat, Node
from tidemill.errors import SchemaError
from tidemill.expressions.expr import col
from tidemill.expressions.functions.registry import common_type, keeps_all, lossless_type
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import FLOAT64, NULL, DType


def aligned(builder: Builder, node: Node, schema: Schema, what: str) -> Node:
    """Return the rows with the columns of a schema, in its order and cast where that loses nothing.

    ``what`` is for the error.
    """
    _same_names(node.schema, schema, what)
    given = {f.name: f.dtype for f in node.schema}
    for f in schema:
        if not keeps_all(given[f.name], f.dtype):
            _refuse(what, f.name, given[f.name], f.dtype)
    if node.schema.names == schema.names and node.schema.dtypes == schema.dtypes:
        return node
    named = [(f.name, col(f.name) if f.dtype == given[f.name] else col(f.name).cast(f.dtype)) for f in schema]
    return builder.compute(node, named)


def _alike(builder: Builder, nodes: Sequence[Node], what: str) -> tuple[list[Node], Schema]:
    """Return collections with the first one's columns, each cast to what loses nothing of any, and their schema."""
    schema = nodes[0].schema
    for node in nodes[1:]:
        _same_names(node.schema, schema, what)
    fields = []
    for f in schema:
        wide = f.dtype
        for given in (node.schema.field(f.name).dtype for node in nodes[1:]):
            wide = lossless_type([wide, given]) or _refuse(what, f.name, given, wide)
        fields.append(Field(f.name, wide, f.nullable))
    wanted = Schema(tuple(fields))
    made = [aligned(builder, node, wanted, what) for node in nodes]
    return made, wanted


def concat(builder: Builder, first: Node, others: Sequence[Node]) -> Node:
    """Return the sum of collections, in the first one's order of columns."""
    nodes, schema = _alike(builder, [first, *others], "concat")
    for node in nodes[1:]:
        schema = either_nullable(schema, node.schema)
    return builder.add(Concat, *nodes, schema=schema)


def set_operation(builder: Builder, operation: str, left: Node, right: Node) -> Node:
    """Return ``except_all``, ``except_distinct`` or ``intersect`` of two collections."""
    (left, right), schema = _alike(builder, [left, right], operation)
    schema = either_nullable(left.schema, right.schema) if operation == "except_all" else schema
    return builder.add(SetOperation, left, right, schema=schema, operation=operation)


def _same_names(found: Schema, wanted: Schema, what: str) -> None:
    if set(found.names) != set(wanted.names):
        msg = f"{what}: the columns are {found}, expected {wanted}; select or rename them to fit"
        raise SchemaError(msg)


def _refuse(what: str, name: str, found: DType, wanted: DType) -> Never:
    """Say that a column is not cast by itself, and what to cast."""
    if wanted == NULL:
        msg = f"{what}: column {name!r} is {found} and began as NULL, which has no type: begin with "
        msg += f"lit(None).cast('{found}')"
        raise SchemaError(msg)
    common = common_type([found, wanted])
    cast = f"cast one, as in col({name!r}).cast('{common or wanted}')"
    decimals = {found, wanted} & {FLOAT64} and (found.is_decimal or wanted.is_decimal)
    hint = "; in SQL text 0.1 is a decimal, and 0.1e0 a float64" if decimals else ""
    msg = f"{what}: column {name!r} is {found}, expected {wanted}, and a cast might lose something: {cast}{hint}"
    raise SchemaError(msg)
