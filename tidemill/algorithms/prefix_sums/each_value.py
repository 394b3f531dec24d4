"""A Python function called for each row of a collection, and columns as Arrow or as Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.rows import python_values as arrow_values
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, ListColumn, TableFunction

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection


def each_value(rows: Collection, function: Callable[..., Any], arguments: Sequence[str], result: Field) -> Collection:
    """Return the rows with one more column: what a pure function returns for these columns."""
    return apply_table(rows, _Each(function, result), arguments, keep=rows.schema.names)


def arrow_of(column: Column) -> pa.Array:
    """Return a column as an Arrow array."""
    return column.to_arrow() if isinstance(column, ListColumn) else column


def python_values(column: Column) -> list[Any]:
    """Return the values of a column as Python's, lists as tuples."""
    return arrow_values(arrow_of(column))


@attrs.frozen
class _Each(TableFunction):
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
        made = list(map(self.function, *map(python_values, arguments)))
        return np.arange(len(made)), [pa.array(made, self.result.dtype.arrow)]
