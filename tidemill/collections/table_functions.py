"""Rows made from rows by table functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.rows import python_values
from tidemill.collections.collection import Collection
from tidemill.dataflow.nodes import FlatMap
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, TableCall, TableFunction, arrow_of

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection


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


def with_row_function(
    rows: Collection, function: Callable[..., Any], arguments: Sequence[str], result: Field
) -> Collection:
    """Return the rows with one more column: what a pure function returns for these columns."""
    return apply_table(rows, _RowFunction(function, result), arguments, keep=rows.schema.names)


@attrs.frozen
class _RowFunction(TableFunction):
    function: Callable[..., Any]
    result: Field

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__).strip("_")

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema((self.result,))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        return [(self.function(*arguments),)]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        made = list(map(self.function, *(python_values(arrow_of(a)) for a in arguments)))
        return np.arange(len(made)), [pa.array(made, self.result.dtype.arrow)]
