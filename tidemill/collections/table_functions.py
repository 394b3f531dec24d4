"""Rows made from rows by table functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemill.collections.collection import Collection
from tidemill.dataflow.nodes import FlatMap
from tidemill.expressions.schema import Schema
from tidemill.expressions.table_functions import TableCall, TableFunction


def apply_table(
    collection: Collection, function: TableFunction, arguments: Sequence[str], *, keep: Iterable[str]
) -> Collection:
    """Return for each row the rows that a table function makes of some columns, beside the columns that are kept."""
    schema = collection.schema
    call = TableCall(function, tuple(map(schema.index, arguments)), tuple(map(schema.index, keep)))
    kept = tuple(schema.fields[i] for i in call.kept)
    made = function.schema(Schema(tuple(schema.fields[i] for i in call.arguments)))
    rows = Schema((*kept, *made.fields))
    return Collection(collection.builder, collection.builder.add(FlatMap, collection.node, schema=rows, function=call))
