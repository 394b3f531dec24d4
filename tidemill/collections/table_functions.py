"""Rows made from rows by table functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidemill.dataflow.nodes import FlatMap
from tidemill.expressions.schema import Schema
from tidemill.expressions.table_functions import TableCall, TableFunction

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["apply_table"]


def apply_table(
    collection: Collection, function: TableFunction, arguments: Sequence[str], *, keep: Iterable[str]
) -> Collection:
    """Return for each row the rows that a table function makes of some columns, beside the columns that are kept."""
    schema, builder = collection.schema, collection.builder
    call = TableCall(function, tuple(map(schema.index, arguments)), tuple(map(schema.index, keep)))
    kept = tuple(schema.fields[i] for i in call.kept)
    made = function.schema(Schema(tuple(schema.fields[i] for i in call.arguments)))
    node = builder.graph.add(
        FlatMap,
        scope=collection.node.scope,
        inputs=(collection.node,),
        schema=Schema((*kept, *made.fields)),
        function=call,
    )
    return builder.collection(node)
